//! Passes images of a satellite's groups through from the groups' registries.
//!
//! What must stay true: a satellite gets only repositories that one of its groups names, from registries that
//! an administrator listed, and never sees their credentials. Nothing is stored; concurrent streams are
//! bounded in number and time.

use std::collections::BTreeSet;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, Method, Uri, header},
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use wardroom_store::Resource;
use wardroom_upstream::{Failure, registry::pull::Part};

use super::{
    artifact,
    document::Document,
    group::{self, GROUPS},
    registry::{self, DIGEST, VERSION},
    settings::{Settings, pull::address},
};
use crate::platform::{
    app::App,
    http::{error::Error, path::Path},
    identity::auth::Caller,
};

mod sources;
mod stream;

pub(crate) use sources::Sources;
use stream::Limits;

/// How long a registry may pause within an answer, and how long a satellite may read nothing of it.
const STALL: std::time::Duration = std::time::Duration::from_secs(60);

/// The part of a repository that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted<'a> {
    Part(Part<'a>),
    Tags,
    Referrers(&'a str),
}

/// An artifact of a group, for one repository.
struct Named {
    group: String,
    /// Its registry, in the one form of addresses.
    registry: String,
    tags: BTreeSet<String>,
}

/// Serves a part of an image, the tags of a repository, or its referrers; the path has any number of
/// segments.
pub(crate) async fn pull(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let satellite = registry::satellite(&app, &caller).await?;
    let (repository, wanted) = wanted(&path).ok_or(Error::NoRoute)?;
    if let Wanted::Referrers(digest) = wanted
        && artifact::readable(&app, &satellite, repository).await?.is_some()
    {
        return referrers(digest);
    }
    let named = named(&app, &satellite, repository).await?;
    if named.is_empty() {
        return Err(Error::not_found("repository", repository));
    }
    let part = match wanted {
        Wanted::Tags => return Ok(tags(repository, &named, &uri)),
        Wanted::Referrers(digest) => return referrers(digest),
        Wanted::Part(part) => part,
    };
    let (kind, reference) = match part {
        Part::Manifest(reference) => ("manifest", reference),
        Part::Blob(digest) => ("blob", digest),
    };
    let has_it =
        |named: &&Named| is_digest(reference) || (kind == "manifest" && named.tags.contains(reference));
    let from: Vec<_> = named.iter().filter(has_it).collect();
    if from.is_empty() {
        return Err(Error::not_found(kind, reference));
    }
    pass_on(&app, &from, repository, part, method, &headers)
        .await?
        .ok_or_else(|| Error::not_found(kind, reference))
}

/// Reads `REPOSITORY/manifests/REFERENCE` and its like.
fn wanted(path: &str) -> Option<(&str, Wanted<'_>)> {
    if let Some(repository) = path.strip_suffix("/tags/list") {
        return Some((repository, Wanted::Tags));
    }
    let (rest, reference) = path.rsplit_once('/')?;
    let (repository, what) = rest.rsplit_once('/')?;
    let wanted = match what {
        "manifests" => Wanted::Part(Part::Manifest(reference)),
        "blobs" => Wanted::Part(Part::Blob(reference)),
        "referrers" => Wanted::Referrers(reference),
        _ => return None,
    };
    (!reference.is_empty()).then_some((repository, wanted))
}

/// Returns the artifacts of a satellite's groups that name a repository.
async fn named(app: &App, satellite: &Resource, repository: &str) -> Result<Vec<Named>, Error> {
    let mut all = Vec::new();
    for name in Document::of(satellite)?.groups {
        let Some(group) = GROUPS.find(app, &name).await? else { continue };
        let group::Document { registry, artifacts } = group::Document::of(&group)?;
        let here = artifacts.into_iter().filter(|one| !one.deleted && one.repository == repository);
        let tags: BTreeSet<_> = here.flat_map(|one| one.tag).collect();
        if !tags.is_empty() {
            let registry = address(&registry).unwrap_or(registry);
            all.push(Named { group: name, registry, tags });
        }
    }
    Ok(all)
}

/// The tags that groups name; the registry may have more.
fn tags(repository: &str, named: &[Named], uri: &Uri) -> Response {
    let all: BTreeSet<_> = named.iter().flat_map(|named| &named.tags).map(String::as_str).collect();
    let tags = registry::page(all, uri);
    Json(json!({"name": repository, "tags": tags})).into_response()
}

/// An empty index: groups name images, and no referrers.
fn referrers(digest: &str) -> Result<Response, Error> {
    if !is_digest(digest) {
        return Err(Error::invalid("digest", "must be sha256: and 64 hexadecimal digits"));
    }
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []});
    let mut response = Json(index).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(INDEX));
    Ok(response)
}

fn is_digest(text: &str) -> bool {
    let hex = |hex: &str, length| {
        hex.len() == length && hex.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
    };
    text.strip_prefix("sha256:").is_some_and(|rest| hex(rest, 64))
        || text.strip_prefix("sha512:").is_some_and(|rest| hex(rest, 128))
}

/// Request headers that are passed to the registry.
const ASKED: &[&str] = &["accept", "range", "if-none-match"];

/// Answer headers that are passed to the satellite.
const TOLD: &[&str] = &["content-type", "content-length", "content-range", "accept-ranges", "etag", DIGEST];

/// Returns the answer of the first registry that has the part.
async fn pass_on(
    app: &App,
    from: &[&Named],
    repository: &str,
    part: Part<'_>,
    method: Method,
    headers: &HeaderMap,
) -> Result<Option<Response>, Error> {
    let settings = &Settings::of(&app.config).pull;
    let sources = Sources::of(app);
    let place = sources.place().ok_or(Error::TooMany(5))?;
    let asked = only(headers, ASKED);
    let mut failed = None;
    for Named { group, registry, .. } in from {
        if !settings.registries.contains(registry) {
            failed = Some(Error::Forbidden(unlisted(group, registry)));
            continue;
        }
        match sources.ask(app, registry, (repository, part), method.clone(), asked.clone()).await {
            Ok(pulled) => {
                let told = only(pulled.headers(), TOLD);
                let status =
                    axum::http::StatusCode::from_u16(pulled.status()).map_err(|_| Error::Internal)?;
                let until = tokio::time::Instant::from_std(app.clock.instant()) + settings.longest;
                let limits = Limits { stall: STALL, until };
                let mut response = (status, stream::body(pulled.into_body(), place, limits)).into_response();
                response.headers_mut().extend(told);
                response.headers_mut().insert(VERSION, HeaderValue::from_static("registry/2.0"));
                return Ok(Some(response));
            }
            Err(Failure::NotFound) => {}
            Err(_) => {
                failed = Some(Error::Unavailable(
                    "the server cannot pull from the registry of the group now: retry; `why` of the satellite gives the reason",
                ));
            }
        }
    }
    failed.map_or(Ok(None), Err)
}

fn only(headers: &HeaderMap, names: &[&'static str]) -> HeaderMap {
    let mut some = HeaderMap::new();
    for name in names {
        for value in headers.get_all(*name) {
            some.append(*name, value.clone());
        }
    }
    some
}

/// Returns why no image of a group can be pulled through this server.
pub(crate) fn unlisted(group: &str, registry: &str) -> String {
    format!(
        "this server does not pull from {registry}, the registry of the group {group}: an administrator has to list it in \
         pull.registries (WARDROOM_PULL_REGISTRIES), or to set registry.url"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_from_its_end() {
        let manifest = |reference| Wanted::Part(Part::Manifest(reference));
        for (path, expected) in [
            ("library/nginx/manifests/1.27", Some(("library/nginx", manifest("1.27")))),
            ("a/b/manifests/manifests/x", Some(("a/b/manifests", manifest("x")))),
            ("a/b/blobs/sha256:1", Some(("a/b", Wanted::Part(Part::Blob("sha256:1"))))),
            ("a/b/c/tags/list", Some(("a/b/c", Wanted::Tags))),
            ("a/b/referrers/sha256:1", Some(("a/b", Wanted::Referrers("sha256:1")))),
            ("a/b/uploads/1", None),
            ("a/b/manifests/", None),
            ("manifests/x", None),
            ("x", None),
        ] {
            assert_eq!(wanted(path), expected, "{path}");
        }
    }

    #[test]
    fn a_digest_is_no_tag() {
        let (sha256, sha512) = ("a1".repeat(32), "0f".repeat(64));
        assert!(is_digest(&format!("sha256:{sha256}")) && is_digest(&format!("sha512:{sha512}")));
        for other in
            ["latest", "sha256:", &format!("sha256:{sha512}"), &format!("sha256:{}", "A1".repeat(32))]
        {
            assert!(!is_digest(other), "{other}");
        }
    }
}
