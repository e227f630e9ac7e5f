//! The console: the API with a face.
//!
//! A page gets its data by calling the router of the API inside this process, as the caller of its session; a form is
//! turned into the request of an action that the server itself offers (`act.rs`). So no page knows a rule, and none can do
//! or show more than the token of its session.

use std::sync::Arc;

use axum::{Router, routing};
use wardroom_console::face::Face;

use crate::platform::{
    app::App,
    http::{
        access::{Allow, Class, Route, route},
        router,
    },
    identity,
    kind::Kind,
    liveness as watch,
};

mod act;
pub(crate) mod answer;
mod bulk;
mod detail;
mod document;
mod history;
pub(crate) mod inside;
mod lifecycles;
mod list;
mod live;
mod liveness;
mod login;
mod overview;
pub(crate) mod session;
pub(crate) mod visit;

use Allow::{Anyone, Session};

/// The routes of the console.
#[rustfmt::skip]
pub const ACCESS: &[Route] = &[
    route("GET",  "/",                                  "", Anyone,  Class::Read),
    route("GET",  "/console",                           "", Session, Class::Read),
    route("GET",  "/console/assets/{name}",             "", Anyone,  Class::Read),
    route("GET",  "/console/login",                     "", Anyone,  Class::Read),
    route("POST", "/console/login",                     "", Anyone,  Class::Write),
    route("POST", "/console/logout",                    "", Session, Class::Write),
    route("POST", "/console/theme",                     "", Session, Class::Write),
    route("GET",  "/console/attention",                 "", Session, Class::Read),
    route("GET",  "/console/history",                   "", Session, Class::Read),
    route("GET",  "/console/liveness",                  "", Session, Class::Read),
    route("GET",  "/console/find",                      "", Session, Class::Read),
    route("GET",  "/console/lifecycles",                "", Session, Class::Read),
    route("GET",  "/console/lifecycles/{name}",         "", Session, Class::Read),
    route("GET",  "/console/live",                      "", Session, Class::Read),
    route("GET",  "/console/bulk/{section}",            "", Session, Class::Read),
    route("POST", "/console/bulk/{section}",            "", Session, Class::Write),
    route("GET",  "/console/{section}",                 "", Session, Class::Read),
    route("GET",  "/console/{section}/{id}",            "", Session, Class::Read),
    route("GET",  "/console/{section}/{id}/{tab}",      "", Session, Class::Read),
    route("GET",  "/console/{section}/{id}/act/{key}",  "", Session, Class::Read),
    route("POST", "/console/{section}/{id}/act/{key}",  "", Session, Class::Write),
];

/// What the handlers of pages share.
#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) app: App,
    /// The API, for calls from inside.
    api: Router,
    fields: Arc<document::Fields>,
}

impl Console {
    /// The faces of the kinds.
    fn faces(&self) -> impl Iterator<Item = &'static Face> {
        faces(self.app.kinds)
    }

    fn face(&self, segment: &str) -> Option<&'static Face> {
        self.faces().find(|face| face.segment == segment)
    }
}

/// The faces of every kind of member, and those of shared resources such as tokens.
fn faces(kinds: &'static [&'static Kind]) -> impl Iterator<Item = &'static Face> {
    let own = [&watch::face::FACE, &identity::face::FACE];
    kinds.iter().flat_map(|kind| kind.faces).copied().chain(own)
}

/// The pages, over an API.
pub(crate) fn routes(app: &App, api: Router) -> Router<App> {
    // A document that cannot be written as JSON is a bug that a test finds.
    let document = serde_json::to_value(router::openapi(app.kinds)).unwrap_or_default();
    let console = Console { app: app.clone(), api, fields: Arc::new(document::Fields::of(&document)) };
    Router::new()
        .route("/", routing::get(login::root))
        .route("/console", routing::get(overview::overview))
        .route("/console/assets/{name}", routing::get(answer::asset))
        .route("/console/login", routing::get(login::page).post(login::log_in))
        .route("/console/logout", routing::post(login::log_out))
        .route("/console/theme", routing::post(login::theme))
        .route("/console/attention", routing::get(overview::attention))
        .route("/console/history", routing::get(history::history))
        .route("/console/liveness", routing::get(liveness::liveness))
        .route("/console/find", routing::get(list::find))
        .route("/console/lifecycles", routing::get(lifecycles::all))
        .route("/console/lifecycles/{name}", routing::get(lifecycles::one))
        .route("/console/live", routing::get(live::live))
        .route("/console/bulk/{section}", routing::get(bulk::tried).post(bulk::run))
        .route("/console/{section}", routing::get(list::list))
        .route("/console/{section}/{id}", routing::get(detail::now))
        .route("/console/{section}/{id}/{tab}", routing::get(detail::tab))
        .route("/console/{section}/{id}/act/{key}", routing::get(act::form).post(act::act))
        .with_state(console)
}
