//! A kind as it plugs into the platform: one row, which the kind's own folder fills in.
//!
//! Shared code asks the row, never for a name. A new kind writes such a row, and the server adds it to its list.

use axum::response::Response;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use wardroom_console::face::Face;
use wardroom_core::why::Why;
use wardroom_store::{Held, Marker, Resource};

use super::{
    app::App,
    config::{Config, Resolving},
    feed::reconcile::Reconciling,
    http::{
        access::Route,
        error::{Class, Error},
        vocabulary::Words,
    },
    liveness::kinds::Beating,
    parts::Parts,
    work::schedule::Job,
};

/// One kind of members with all that belongs to it.
#[derive(Debug)]
pub struct Kind {
    /// The name of the kind's room.
    pub name: &'static str,
    /// Reads the kind's sections of the configuration.
    pub settings: fn(&mut Resolving<'_>),
    /// Makes what the kind keeps in memory: see `App::part`.
    pub parts: fn(&mut Parts, &Config),
    /// The kind's routes, and the callers that may use each.
    pub access: &'static [Route],
    /// The handlers of these routes.
    pub routes: fn() -> OpenApiRouter<App>,
    /// The stored resources that belong to the kind, itself among them.
    pub stores: &'static [Stored],
    /// How its members send heartbeats; none for a kind without them.
    pub beats: Option<&'static Beating>,
    /// What happens without a request.
    pub(crate) jobs: fn(&App) -> Vec<Job>,
    /// The words of its schemas and parameters in the OpenAPI document.
    pub words: &'static Words,
    /// How its resources look in the console.
    pub faces: &'static [&'static Face],
    /// The problems that only this kind has.
    pub problems: &'static [Class],
    /// How clients of a foreign protocol are refused; none if the kind answers with our own problems only.
    pub dialect: Option<Dialect>,
}

/// A sort of resource in the store.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    /// Its kind in the store, in history, and in scopes of tokens.
    pub kind: &'static str,
    /// Explains why a resource is in its state.
    pub why: Option<Explain>,
    /// Answers a repeated request whose first answer was lost.
    pub again: Option<Again>,
    /// Holds the resource that a new token is about to join.
    pub joined: Option<Join>,
    /// The filterable fields by which people name it beside its id, with the value that a text stands for.
    pub called: fn(&str) -> Vec<(&'static str, String)>,
    /// What people call it, if not by its name in the store.
    pub title: Option<Title>,
    /// Lists what is not stored itself but derived, with its states.
    pub derived: Option<Derive>,
    /// How adapters are told of it.
    pub(crate) told: Option<&'static Reconciling>,
}

impl Stored {
    /// A stored resource type without an explanation or other hooks.
    pub const fn of(kind: &'static str) -> Self {
        Self {
            kind,
            why: None,
            again: None,
            joined: None,
            called: |_| Vec::new(),
            title: None,
            derived: None,
            told: None,
        }
    }
}

impl Stored {
    /// What people call a resource of this sort.
    pub(crate) async fn title(&self, app: &App, resource: &Resource) -> Result<String, Error> {
        match self.title {
            Some(title) => title(app, resource).await,
            None => Ok(resource.content.name.clone()),
        }
    }
}

/// Explains the state of a resource, found by name or id, and of the work on it.
pub type Explain = for<'a> fn(&'a App, &'a str) -> BoxFuture<'a, Result<Vec<Why>, Error>>;

/// Returns what people call a resource.
pub type Title = for<'a> fn(&'a App, &'a Resource) -> BoxFuture<'a, Result<String, Error>>;

/// Lists derived members as they are now.
pub type Derive = for<'a> fn(&'a App) -> BoxFuture<'a, Result<Vec<Derived>, Error>>;

/// A member that is not stored: its state follows from others.
#[derive(Debug, Clone)]
pub struct Derived {
    /// Its name, which is its id.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Since when; none if unknown.
    pub since: Option<Timestamp>,
}

/// Shows a resource as the answer to the request that changed it; hides secrets from callers without
/// credentials.
pub type Again = for<'a> fn(&'a App, &'a Resource, Repeat<'a>) -> BoxFuture<'a, Result<Response, Error>>;

/// Holds the resource of this id, for a token that refers to it.
pub type Join = for<'a> fn(&'a App, &'a str) -> BoxFuture<'a, Result<Held, Error>>;

/// A request that was carried out before.
#[derive(Debug, Clone, Copy)]
pub struct Repeat<'a> {
    /// Whether the caller has no credentials.
    pub is_stranger: bool,
    /// The change that was made.
    pub marker: &'a Marker,
}

/// A protocol with refusals of its own.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// Whether a path belongs to it.
    pub speaks: fn(&str) -> bool,
    /// Puts a refusal into its words.
    pub refuse: fn(&Error, Response) -> Response,
}
