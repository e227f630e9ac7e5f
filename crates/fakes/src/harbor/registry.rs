//! The registry of Harbor, as far as images are pushed to it: blobs are remembered by their digests only.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, Query, State as Extract},
    http::{HeaderMap, Method, Response, StatusCode},
    routing::{any, get},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Refusal, Shared, access::Caller};
use crate::fault::lock;

/// A repository and what is in it.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Images {
    /// The digest of each tag.
    tags: BTreeMap<String, String>,
    /// The type and text of each manifest, by its digest.
    manifests: BTreeMap<String, (String, String)>,
    blobs: BTreeSet<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Upload {
    #[serde(default)]
    digest: String,
}

type Fake = Extract<Arc<Shared>>;
type Answer = Result<Response<Body>, Refusal>;

pub(super) fn routes(shared: &Arc<Shared>) -> Router {
    let logins = Router::new().route("/v2/", get(log_in));
    let all = if shared.options.is_registry { logins.route("/v2/{*path}", any(call)) } else { logins };
    all.with_state(Arc::clone(shared))
}

/// Checks credentials.
async fn log_in(Extract(fake): Fake, headers: HeaderMap) -> Result<(), Refusal> {
    fake.caller(&headers).map(drop)
}

async fn call(
    Extract(fake): Fake,
    method: Method,
    headers: HeaderMap,
    Path(path): Path<String>,
    Query(upload): Query<Upload>,
    body: Bytes,
) -> Answer {
    let caller = fake.caller(&headers)?;
    let reads = matches!(method, Method::GET | Method::HEAD);
    // Robots of satellites pull; only the administrator pushes.
    if !reads && caller != Caller::Admin {
        return Err(Refusal::forbidden());
    }
    let type_ = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let parts = |word: &str| path.rsplit_once(word).map(|(repository, rest)| (repository.to_owned(), rest));
    if let Some((repository, _)) = parts("/blobs/uploads/") {
        return push_blob(&fake, &method, &repository, &upload.digest, &body);
    }
    if let Some((repository, digest)) = parts("/blobs/") {
        let state = lock(&fake.state);
        let images = state.images.get(&repository);
        let is_there = images.is_some_and(|images| images.blobs.contains(digest));
        return if is_there { answer(200, digest, Body::empty()) } else { Err(Refusal::not_found(digest)) };
    }
    if let Some((repository, reference)) = parts("/manifests/") {
        return manifest(&fake, &method, &repository, reference, (type_, &body));
    }
    let Some((repository, _)) = parts("/tags/list") else { return Err(Refusal::not_found(path)) };
    let state = lock(&fake.state);
    let images = state.images.get(&repository).ok_or_else(|| Refusal::not_found(&repository))?;
    let tags: Vec<_> = images.tags.keys().collect();
    let list = Json(json!({"name": repository, "tags": tags})).0.to_string();
    answer(200, "", Body::from(list))
}

/// An upload in two steps.
fn push_blob(fake: &Shared, method: &Method, repository: &str, digest: &str, body: &[u8]) -> Answer {
    if method == Method::POST {
        let mut begun = answer(202, "", Body::empty())?;
        let location = format!("/v2/{repository}/blobs/uploads/one");
        let location = location.parse().map_err(|_| Refusal::bad("repository"))?;
        begun.headers_mut().insert("location", location);
        return Ok(begun);
    }
    if digest_of(body) != digest {
        return Err(Refusal::bad("the digest is not that of the blob"));
    }
    fake.change("blob.push", |state| {
        state.images.entry(repository.to_owned()).or_default().blobs.insert(digest.to_owned());
        Ok(())
    })?;
    answer(201, digest, Body::empty())
}

fn manifest(
    fake: &Shared,
    method: &Method,
    repository: &str,
    reference: &str,
    (type_, body): (&str, &[u8]),
) -> Answer {
    match *method {
        Method::PUT => {
            let text = String::from_utf8(body.to_vec()).map_err(|_| Refusal::bad("no manifest"))?;
            let digest = digest_of(body);
            fake.change("manifest.push", |state| {
                state.repositories.insert(repository.to_owned());
                let images = state.images.entry(repository.to_owned()).or_default();
                images.tags.insert(reference.to_owned(), digest.clone());
                images.manifests.insert(digest.clone(), (type_.to_owned(), text));
                Ok(())
            })?;
            answer(201, &digest, Body::empty())
        }
        Method::DELETE => {
            fake.change("manifest.delete", |state| {
                let images = state.images.entry(repository.to_owned()).or_default();
                images.tags.retain(|_, digest| digest != reference);
                let was_there = images.manifests.remove(reference).is_some();
                if was_there { Ok(()) } else { Err(Refusal::not_found(reference)) }
            })?;
            answer(202, reference, Body::empty())
        }
        _ => {
            let state = lock(&fake.state);
            let images = state.images.get(repository).ok_or_else(|| Refusal::not_found(repository))?;
            let digest = images.tags.get(reference).map_or(reference, String::as_str);
            let (type_, text) = images.manifests.get(digest).ok_or_else(|| Refusal::not_found(reference))?;
            let mut found = answer(200, digest, Body::from(text.clone()))?;
            let type_ = type_.parse().map_err(|_| Refusal::bad("content-type"))?;
            found.headers_mut().insert("content-type", type_);
            Ok(found)
        }
    }
}

fn answer(status: u16, digest: &str, body: Body) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if !digest.is_empty() {
        let digest = digest.parse().map_err(|_| Refusal::bad("digest"))?;
        response.headers_mut().insert("docker-content-digest", digest);
    }
    Ok(response)
}

fn digest_of(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
