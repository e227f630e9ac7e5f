//! Every route, in one place. Who may use them is in [`crate::access`].

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::LazyLock,
    task::{Context, Poll},
};

use axum::{
    Json, Router,
    extract::Request,
    middleware,
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use tower::Service;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        RefOr,
        path::{Operation, ParameterIn},
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    access::Route,
    app::App,
    boot, bulk,
    error::Error,
    events, gpu_node, group, health, history, lifecycle,
    liveness::view as guard,
    metrics, node, registry, report, request, run,
    satellite::{create, delete, patch, reenable, refresh, revoke, spiffe, svid, sync, view, ztr},
    satellite_config, satellite_group, site, summary, token, vocabulary, why, workflow,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Wardroom", description = "A fleet lifecycle control plane."),
    modifiers(&Bearer),
    security(("token" = []))
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        components.add_security_scheme("robot", SecurityScheme::Http(Http::new(HttpAuthScheme::Basic)));
    }
}

/// What people and integrators use.
pub(crate) fn api(app: App) -> Front {
    let (router, mut document) = routes().split_for_parts();
    vocabulary::write(&mut document);
    let document = Json(document);
    let router =
        router.route("/openapi.json", axum::routing::get(|| async move { document.into_response() }));
    finish(router, app)
}

/// What machines use while they boot and install.
pub(crate) fn boot(app: App) -> Front {
    let (router, _) = machine_routes().split_for_parts();
    finish(router, app)
}

/// What satellites with an X.509-SVID use.
pub(crate) fn spiffe(app: App) -> Front {
    let (router, _) = satellite_routes().split_for_parts();
    finish(router, app)
}

/// The OpenAPI document of everything that is served.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = routes().into_openapi();
    vocabulary::write(&mut document);
    document
}

/// Whether a route reads parameters of a query, as the document says.
pub(crate) fn reads_a_query(route: &Route) -> bool {
    static PATHS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let asks = |operation: &Operation| {
            let mut parameters = operation.parameters.iter().flatten();
            parameters.any(|one| matches!(one, RefOr::T(one) if one.parameter_in == ParameterIn::Query))
        };
        let paths = routes().into_openapi().paths.paths.into_iter();
        paths.filter(|(_, item)| item.get.as_ref().is_some_and(asks)).map(|(path, _)| path).collect()
    });
    route.method == "GET" && PATHS.contains(route.path)
}

fn machine_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(boot::script))
        .routes(routes!(report::report))
        .routes(routes!(report::installation_status))
}

fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(lifecycle::list))
        .routes(routes!(summary::summary))
        .routes(routes!(history::list))
        .routes(routes!(events::events))
        .routes(routes!(why::why))
        .routes(routes!(guard::liveness))
        .routes(routes!(guard::incidents))
        .routes(routes!(guard::get_incident))
        .routes(routes!(metrics::metrics))
        .routes(routes!(token::list, token::create))
        .routes(routes!(token::revoke))
        .routes(routes!(node::list, node::create))
        .routes(routes!(node::get, node::patch, node::delete))
        .routes(routes!(node::transition))
        .routes(routes!(bulk::transition))
        .routes(routes!(node::transitions))
        .routes(routes!(workflow::list, workflow::create))
        .routes(routes!(workflow::get, workflow::replace, workflow::delete))
        .routes(routes!(group::list, group::create))
        .routes(routes!(group::get, group::replace, group::delete))
        .routes(routes!(gpu_node::list, gpu_node::create))
        .routes(routes!(gpu_node::enroll::enroll))
        .routes(routes!(gpu_node::get, gpu_node::patch::patch))
        .routes(routes!(gpu_node::lifecycle::lifecycle))
        .routes(routes!(gpu_node::onboard))
        .routes(routes!(gpu_node::decommission))
        .routes(routes!(gpu_node::action::act))
        .routes(routes!(gpu_node::heartbeat::heartbeat))
        .routes(routes!(gpu_node::task::claim))
        .routes(routes!(gpu_node::task::result))
        .routes(routes!(site::list, site::create))
        .routes(routes!(site::get, site::replace, site::delete))
        .routes(routes!(run::list))
        .routes(routes!(run::get))
        .routes(routes!(run::act_on))
        .routes(routes!(view::list, create::create))
        .routes(routes!(view::active))
        .routes(routes!(view::stale))
        .routes(routes!(spiffe::register_alias))
        .routes(routes!(spiffe::join_token))
        .routes(routes!(view::get, patch::patch, delete::delete))
        .routes(routes!(view::effects))
        .routes(routes!(revoke::revoke))
        .routes(routes!(reenable::reenable))
        .routes(routes!(ztr::by_path))
        .routes(routes!(ztr::by_body))
        .merge(satellite_routes())
        .routes(routes!(satellite_group::list))
        .routes(routes!(satellite_group::sync))
        .routes(routes!(satellite_group::assign, satellite_group::unassign))
        .routes(routes!(satellite_group::get, satellite_group::delete))
        .routes(routes!(satellite_group::satellites))
        .routes(routes!(satellite_group::effects))
        .routes(routes!(satellite_config::list, satellite_config::create))
        .routes(routes!(satellite_config::assign))
        .routes(routes!(satellite_config::get, satellite_config::patch, satellite_config::delete))
        .routes(routes!(satellite_config::effects))
        .merge(machine_routes())
}

/// What registered satellites use: on the listener of everybody, and on that for SVIDs.
fn satellite_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(svid::register))
        .routes(routes!(sync::sync))
        .routes(routes!(refresh::refresh))
        .routes(routes!(registry::version))
        .routes(routes!(registry::manifest))
        .routes(routes!(registry::blob))
        .routes(routes!(registry::tags))
}

fn finish(router: Router<App>, app: App) -> Front {
    let router = router
        .fallback(|| async { Error::NoRoute })
        .method_not_allowed_fallback(|| async { Error::Method })
        .route_layer(middleware::from_fn_with_state(app.clone(), request::admit))
        .with_state(app.clone());
    Front { app, router }
}

/// The routes, and what goes around all of them. A layer of the router would be copied for every request.
#[derive(Clone)]
pub(crate) struct Front {
    app: App,
    router: Router,
}

impl Service<Request> for Front {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Self { app, router } = self.clone();
        Box::pin(async move { Ok(request::answer(app, request, router).await) })
    }
}
