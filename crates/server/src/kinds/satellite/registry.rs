//! The OCI distribution API, as far as satellites need it: they pull the images of their states here, and those that
//! their groups name in [`super::pull`].
//!
//! It is read-only. A satellite reads its own state, those of its groups and its config; any other state is answered as if
//! it did not exist.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use wardroom_core::satellite::Reply;
use wardroom_store::Resource;
use wardroom_upstream::registry::artifact::{Artifact, Blob};

use crate::kinds::satellite::identity::Identities;
use crate::kinds::satellite::identity::SatelliteIdentity;
use crate::{
    kinds::{
        satellite::artifact::{self, LATEST, PROJECT},
        satellite::document::KIND,
    },
    platform::{
        app::App,
        http::{error::Error, path::Path, problems::RegistryRefusals},
        identity::auth::Caller,
    },
};

pub(super) const DIGEST: &str = "docker-content-digest";
pub(super) const VERSION: &str = "docker-distribution-api-version";

/// Answers that this is a registry, to permitted callers.
#[utoipa::path(get, path = "/v2/", operation_id = "registry", responses((status = 200, description = "This is a registry"), RegistryRefusals))]
pub(crate) async fn version() -> Response {
    ([(VERSION, "registry/2.0")], Json(json!({}))).into_response()
}

/// The manifest of a state, by tag or digest.
#[utoipa::path(get, path = "/v2/satellite/{family}/{name}/state/manifests/{reference}", operation_id = "get_manifest", params(("family" = String, Path), ("name" = String, Path), ("reference" = String, Path)), responses((status = 200, description = "The manifest"), RegistryRefusals))]
pub(crate) async fn manifest(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((family, name, reference)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let repository = format!("{PROJECT}/{family}/{name}/state");
    let current = readable(&app, &caller, &repository).await?;
    let is_it = |image: &Arc<Artifact>| reference == LATEST || image.manifest.digest == reference;
    let found = Some(current).filter(is_it);
    let found = found.or_else(|| artifact::Cache::of(&app).with(&repository, &reference).filter(is_it));
    let image = found.ok_or_else(|| Error::not_found("manifest", &reference))?;
    Ok(serve(&image.manifest, &headers))
}

/// A part of a state's image.
#[utoipa::path(get, path = "/v2/satellite/{family}/{name}/state/blobs/{digest}", operation_id = "get_blob", params(("family" = String, Path), ("name" = String, Path), ("digest" = String, Path)), responses((status = 200, description = "The bytes"), RegistryRefusals))]
pub(crate) async fn blob(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((family, name, digest)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let repository = format!("{PROJECT}/{family}/{name}/state");
    let current = readable(&app, &caller, &repository).await?;
    // A satellite that read the manifest before the record changed still gets its blobs.
    let before = || artifact::Cache::of(&app).with(&repository, &digest);
    let image = if current.blob(&digest).is_some() { Some(current) } else { before() };
    let blob = image.as_ref().and_then(|image| image.blob(&digest));
    let mut response = serve(blob.ok_or_else(|| Error::not_found("blob", &digest))?, &headers);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

/// The tags of a state.
#[utoipa::path(get, path = "/v2/satellite/{family}/{name}/state/tags/list", operation_id = "list_tags", params(("family" = String, Path), ("name" = String, Path)), responses((status = 200, description = "The tags"), RegistryRefusals))]
pub(crate) async fn tags(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((family, name)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, Error> {
    let repository = format!("{PROJECT}/{family}/{name}/state");
    readable(&app, &caller, &repository).await?;
    Ok(Json(json!({"name": repository, "tags": page([LATEST], &uri)})).into_response())
}

/// Returns the requested page of tags: at most `n`, after `last`.
pub(super) fn page<'a>(tags: impl IntoIterator<Item = &'a str>, uri: &Uri) -> Vec<&'a str> {
    let pairs = || uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let given = |name: &str| pairs().find(|(key, _)| *key == name).map(|(_, value)| value);
    let count = given("n").and_then(|count| count.parse().ok()).unwrap_or(usize::MAX);
    let (tags, last) = (tags.into_iter(), given("last"));
    tags.filter(|tag| last.is_none_or(|last| last < *tag)).take(count).collect()
}

async fn readable(app: &App, caller: &Caller, repository: &str) -> Result<Arc<Artifact>, Error> {
    let satellite = satellite(app, caller).await?;
    let image = artifact::readable(app, &satellite, repository).await?;
    image.ok_or_else(|| Error::not_found("repository", repository))
}

pub(super) async fn satellite(app: &App, caller: &Caller) -> Result<Resource, Error> {
    let identity = caller.member::<SatelliteIdentity>().ok_or(Error::Internal)?;
    if Identities::of(app).standing(app, identity).await?.reply == Reply::Refresh {
        return Err(Error::Basic("the satellite was re-enabled: exchange the credential first"));
    }
    let found = app.store.get(KIND, &identity.id).await?.filter(|found| !found.content.deleted);
    found.ok_or(Error::Basic("the credential is void: the satellite was deleted"))
}

/// Answers with bytes that are named by their digest, so that a client that has them need not fetch them
/// again.
fn serve(blob: &Blob, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", blob.digest);
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag));
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, blob.media_type)], Body::from(blob.bytes.clone())).into_response()
    };
    for (name, value) in [(DIGEST, &blob.digest), ("etag", &tag)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response.headers_mut().insert(VERSION, HeaderValue::from_static("registry/2.0"));
    response
}

/// Whether refusals of a path are in the words of registries.
pub(crate) fn is_path(path: &str) -> bool {
    path == "/v2" || path.starts_with("/v2/")
}

/// A refusal in the format of registries.
pub(crate) fn refuse(error: &Error, mut problem: Response) -> Response {
    let code = match error {
        Error::Unauthenticated(_) | Error::Basic(_) => "UNAUTHORIZED",
        Error::Forbidden(_) | Error::Revoked => "DENIED",
        Error::NotFound { kind: "manifest", .. } => "MANIFEST_UNKNOWN",
        Error::NotFound { kind: "blob", .. } => "BLOB_UNKNOWN",
        Error::NotFound { .. } => "NAME_UNKNOWN",
        Error::TooMany(_) | Error::TooManyStreams(_) => "TOOMANYREQUESTS",
        Error::Unavailable(_) | Error::Contended(_) | Error::ReadOnly | Error::NotConfigured(_) => {
            "UNAVAILABLE"
        }
        Error::Internal => "UNKNOWN",
        Error::Invalid(errors) if errors.iter().any(|error| error.field == "digest") => "DIGEST_INVALID",
        Error::NoRoute
        | Error::Method
        | Error::Invalid(_)
        | Error::Head { .. }
        | Error::ContentType
        | Error::TooLarge(_)
        | Error::BodyLate
        | Error::Conflict { .. }
        | Error::Precondition
        | Error::KeyReused
        | Error::TokenUnknown => "UNSUPPORTED",
    };
    let body = json!({"errors": [{"code": code, "message": message(error), "detail": null}]});
    *problem.body_mut() = Body::from(body.to_string());
    let headers = problem.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(VERSION, HeaderValue::from_static("registry/2.0"));
    if matches!(error, Error::Unauthenticated(_) | Error::Basic(_)) {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"wardroom\""));
    }
    problem
}

/// The text of a refusal, adapted for clients of registries.
fn message(error: &Error) -> String {
    if let Error::NotFound { kind: "repository", id } = error {
        return format!("no group of this satellite names the repository {id:?}");
    }
    if let Error::NotFound { kind: "manifest", id } = error {
        return format!("no group of this satellite names {id:?}, or its registry does not have it");
    }
    if matches!(error, Error::Unauthenticated(_)) {
        return "log in with the user and the password of a satellite's registration, as Basic credentials"
            .to_owned();
    }
    if matches!(error, Error::NoRoute) {
        return "a repository under /v2/ has manifests, blobs, tags/list and referrers".to_owned();
    }
    if matches!(error, Error::Method) {
        return "this registry is read-only: push to the registry that the satellite's group names"
            .to_owned();
    }
    error.to_string()
}
