//! Every route, in one place. The callers that may use them are in [`crate::platform::http::access`].

use std::{
    collections::BTreeSet,
    convert::Infallible,
    task::{Context, Poll},
};

use axum::{
    Extension, Json, Router,
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

use super::{document, error::Error, health, metrics, request, vocabulary};
use crate::platform::{
    app::App,
    bulk::{self, Single},
    console,
    feed::{attention, events, find, history, lifecycle, summary, why},
    identity::{own, token},
    kind::Kind,
    liveness::view as guard,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Wardroom", description = "A fleet lifecycle control plane."),
    // Pages of history refer to it, which does not bring it along.
    components(schemas(wardroom_api::history::Row)),
    modifiers(&Bearer),
    security(("token" = []))
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        components.add_security_scheme("basic", SecurityScheme::Http(Http::new(HttpAuthScheme::Basic)));
    }
}

/// Every route, for people and integrators.
pub(crate) fn api(app: App) -> Front {
    let document = Json(openapi(app.kinds));
    let (single, _) = routes(app.kinds).split_for_parts();
    // A verb on many members calls the routes of single members from inside.
    let (many, _) = bulk::routes().split_for_parts();
    let many = many.layer(Extension(Single(admitted(single.clone(), &app))));
    let router = single.merge(many);
    let router =
        router.route("/openapi.json", axum::routing::get(|| async move { document.into_response() }));
    // Pages call the same routes from inside, through the same layer.
    let inside = admitted(router.clone(), &app);
    let router = router.merge(console::routes(&app, inside));
    finish(router, app)
}

/// Some routes of a kind, for a separate listener.
pub(crate) fn part(app: App, routes: OpenApiRouter<App>) -> Front {
    let (router, _) = routes.split_for_parts();
    finish(router, app)
}

fn describe(openapi: &mut utoipa::openapi::OpenApi, kinds: &[&'static Kind]) {
    vocabulary::write(openapi, kinds);
    document::complete(openapi, kinds);
}

/// The OpenAPI document of everything that is served.
#[must_use]
pub fn openapi(kinds: &[&'static Kind]) -> utoipa::openapi::OpenApi {
    let mut document = routes(kinds).merge(bulk::routes()).into_openapi();
    describe(&mut document, kinds);
    document
}

/// The paths whose GET reads parameters of a query, as the document says.
pub(crate) fn queries(kinds: &[&Kind]) -> BTreeSet<String> {
    let asks = |operation: &Operation| {
        let mut parameters = operation.parameters.iter().flatten();
        parameters.any(|one| matches!(one, RefOr::T(one) if one.parameter_in == ParameterIn::Query))
    };
    let paths = routes(kinds).into_openapi().paths.paths.into_iter();
    paths.filter(|(_, item)| item.get.as_ref().is_some_and(asks)).map(|(path, _)| path).collect()
}

/// The shared routes, and those of the kinds.
fn routes(kinds: &[&Kind]) -> OpenApiRouter<App> {
    let shared = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(lifecycle::list))
        .routes(routes!(summary::summary))
        .routes(routes!(attention::attention))
        .routes(routes!(history::list))
        .routes(routes!(events::events))
        .routes(routes!(find::find))
        .routes(routes!(why::why))
        .routes(routes!(guard::liveness))
        .routes(routes!(guard::incidents))
        .routes(routes!(guard::get_incident))
        .routes(routes!(metrics::metrics))
        .routes(routes!(token::list, token::create))
        .routes(routes!(token::revoke))
        .routes(routes!(own::whoami))
        .routes(routes!(own::login_link));
    kinds.iter().fold(shared, |router, kind| router.merge((kind.routes)()))
}

fn finish(router: Router<App>, app: App) -> Front {
    Front { router: admitted(router, &app), app }
}

/// The routes behind the layer that decides which caller may use them.
fn admitted(router: Router<App>, app: &App) -> Router {
    router
        .fallback(|| async { Error::NoRoute })
        .method_not_allowed_fallback(|| async { Error::Method })
        .route_layer(middleware::from_fn_with_state(app.clone(), request::admit))
        .with_state(app.clone())
}

/// The routes and the layers around them. A layer of the router would be cloned for every request.
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
