//! Images that satellites pull through the server, from a registry that wants credentials and keeps blobs elsewhere.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::stream;
use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Answer, Credential, Site, eventually, on_both, send};

on_both! {
    an_image_of_a_group_is_pulled_through_the_server,
    only_repositories_that_groups_name_are_pulled,
    a_registry_that_is_not_listed_is_not_asked_and_why_says_so,
    a_config_that_lacks_something_is_warned_about,
    refusals_fit_clients_of_registries,
    why_says_that_a_satellite_replicates_nothing,
}

/// The basic credentials of the registry, and the token that they are exchanged for.
const PASSWORD: &str = "hunter2-of-the-registry";
const TOKEN: &str = "a-token-of-the-registry";

/// A blob that no buffer of ours holds whole.
const LARGE: usize = 24 << 20;

/// Requests to a registry: host, path and `Authorization`.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// A registry and the place where it keeps its blobs.
struct Upstream {
    url: String,
    seen: Seen,
    stored: Seen,
    manifest: String,
}

#[derive(Clone)]
struct Shared {
    seen: Seen,
    url: String,
    storage: String,
    manifest: String,
}

async fn listen() -> (tokio::net::TcpListener, String) {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    (socket, url)
}

fn digest_of(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

impl Upstream {
    async fn start() -> Self {
        let (seen, stored): (Seen, Seen) = (Arc::default(), Arc::default());
        let manifest =
            json!({"schemaVersion": 2, "layers": [{"digest": digest_of("b"), "size": LARGE}]}).to_string();
        let (storage_socket, storage) = listen().await;
        let (socket, url) = listen().await;
        let kept = Router::new().fallback(blob).with_state(Arc::clone(&stored));
        tokio::spawn(async move { axum::serve(storage_socket, kept).await.unwrap() });
        let shared =
            Shared { seen: Arc::clone(&seen), url: url.clone(), storage, manifest: manifest.clone() };
        let routes = Router::new().route("/token", get(token)).fallback(registry).with_state(shared);
        tokio::spawn(async move { axum::serve(socket, routes).await.unwrap() });
        Self { url, seen, stored, manifest }
    }

    fn paths(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

fn note(seen: &Seen, request: &Request) -> String {
    let shown = request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    let shown = shown.unwrap_or_default();
    seen.lock().unwrap().push((request.uri().to_string(), shown.clone()));
    shown
}

async fn token(State(shared): State<Shared>, request: Request) -> Response {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("puller:{PASSWORD}")));
    if note(&shared.seen, &request) != expected {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    axum::Json(json!({"token": TOKEN})).into_response()
}

async fn registry(State(shared): State<Shared>, request: Request) -> Response {
    if note(&shared.seen, &request) != format!("Bearer {TOKEN}") {
        let challenge = format!("Bearer realm=\"{}/token\",service=\"s\"", shared.url);
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)], PASSWORD).into_response();
    }
    let path = request.uri().path();
    match path.strip_prefix("/v2/library/app/") {
        Some(manifest)
            if manifest == "manifests/1.0" || manifest == format!("manifests/{}", digest_of("a")) =>
        {
            let headers = [
                (header::CONTENT_TYPE, "application/vnd.oci.image.manifest.v1+json".to_owned()),
                (header::HeaderName::from_static("docker-content-digest"), digest_of("a")),
                (header::SET_COOKIE, "session=secret".to_owned()),
            ];
            (headers, shared.manifest).into_response()
        }
        Some(blob) if blob.starts_with("blobs/") => {
            let place = format!("{}/{blob}?signature=x", shared.storage);
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response()
        }
        _ => (StatusCode::NOT_FOUND, PASSWORD).into_response(),
    }
}

async fn blob(State(seen): State<Seen>, request: Request) -> Response {
    note(&seen, &request);
    if request.headers().get(header::RANGE).is_some_and(|range| range == "bytes=0-3") {
        let headers = [(header::CONTENT_RANGE, format!("bytes 0-3/{LARGE}"))];
        return (StatusCode::PARTIAL_CONTENT, headers, "xxxx").into_response();
    }
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    let chunks = (0..LARGE >> 20).map(move |_| Ok::<_, std::io::Error>(chunk.clone()));
    ([(header::CONTENT_LENGTH, LARGE.to_string())], Body::from_stream(stream::iter(chunks))).into_response()
}

/// A server that pulls from this registry, whose credentials are in a folder.
async fn start(upstream: &Upstream) -> (Site, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let name = upstream.url.strip_prefix("http://").unwrap().replace(':', "_");
    std::fs::write(folder.path().join(name), format!("puller:{PASSWORD}\n")).unwrap();
    let section =
        format!("[pull]\nregistries = [{:?}]\ncredentials_directory = {:?}\n", upstream.url, folder.path());
    (Site::start(&section).await, folder)
}

async fn group(site: &Site, name: &str, registry: &str, repository: &str) -> reqwest::Response {
    let artifacts = json!([{"repository": repository, "tag": ["1.0", "0.9"]}]);
    let body = json!({"group": name, "registry": registry, "artifacts": artifacts});
    let request = site.http.post(format!("{}/api/groups/sync", site.url)).bearer_auth(site.token());
    request.json(&body).send().await.unwrap()
}

async fn ask(site: &Site, who: &Credential, path: &str) -> reqwest::Response {
    who.sign(site.http.get(format!("{}{path}", site.url))).send().await.unwrap()
}

async fn refused(site: &Site, who: &Credential, path: &str) -> (u16, String, String) {
    let Answer { status, body } = send(who.sign(site.http.get(format!("{}{path}", site.url)))).await;
    let text = |field: &str| body["errors"][0][field].as_str().unwrap_or_default().to_owned();
    assert!(!body.to_string().contains(PASSWORD) && !body.to_string().contains(TOKEN), "{body}");
    (status, text("code"), text("message"))
}

async fn an_image_of_a_group_is_pulled_through_the_server() {
    let upstream = Upstream::start().await;
    let (site, _folder) = start(&upstream).await;
    let made = group(&site, "g", &format!("{}/", upstream.url), "library/app").await;
    assert_eq!((made.status().as_u16(), made.headers().get("warning")), (200, None));
    let edge = site.register(&site.create("edge", &["g"]).await).await;

    let manifest = ask(&site, &edge, "/v2/library/app/manifests/1.0").await;
    assert_eq!(manifest.status(), 200);
    assert_eq!(manifest.headers()["docker-content-digest"].to_str().unwrap(), digest_of("a"));
    assert_eq!(manifest.headers()["content-type"], "application/vnd.oci.image.manifest.v1+json");
    assert!(!manifest.headers().contains_key("set-cookie"));
    assert_eq!(manifest.text().await.unwrap(), upstream.manifest);
    let by_digest = ask(&site, &edge, &format!("/v2/library/app/manifests/{}", digest_of("a"))).await;
    assert_eq!(by_digest.status(), 200);

    let path = format!("/v2/library/app/blobs/{}", digest_of("b"));
    let head = edge.sign(site.http.head(format!("{}{path}", site.url))).send().await.unwrap();
    assert_eq!(
        (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
        (200, &*LARGE.to_string())
    );
    let layer = ask(&site, &edge, &path).await.bytes().await.unwrap();
    assert!(layer.len() == LARGE && layer.iter().all(|byte| *byte == b'x'));
    let part = edge.sign(site.http.get(format!("{}{path}", site.url))).header("range", "bytes=0-3");
    let part = part.send().await.unwrap();
    assert_eq!((part.status().as_u16(), part.text().await.unwrap()), (206, "xxxx".to_owned()));

    let tags: Value = serde_json::from_slice(
        &ask(&site, &edge, "/v2/library/app/tags/list?n=1").await.bytes().await.unwrap(),
    )
    .unwrap();
    assert_eq!(tags, json!({"name": "library/app", "tags": ["0.9"]}));
    // The registry's credentials stay between the server and the registry; the satellite's never leave the server.
    let asked = upstream.seen.lock().unwrap().clone();
    let scope = "scope=repository%3Alibrary%2Fapp%3Apull";
    assert!(asked.iter().any(|(path, _)| path.starts_with("/token") && path.ends_with(scope)), "{asked:?}");
    assert!(upstream.stored.lock().unwrap().iter().all(|(_, shown)| shown.is_empty()));
    assert!(
        asked
            .iter()
            .all(|(_, shown)| shown.is_empty() || shown.contains(TOKEN) || shown.starts_with("Basic "))
    );
}

async fn only_repositories_that_groups_name_are_pulled() {
    let upstream = Upstream::start().await;
    let (site, folder) = start(&upstream).await;
    group(&site, "g", &upstream.url, "library/app").await;
    group(&site, "h", &upstream.url, "library/other").await;
    let edge = site.register(&site.create("edge", &["g"]).await).await;
    let (a, b) = (digest_of("a"), digest_of("b"));
    for (path, status, code) in [
        ("/v2/library/other/manifests/1.0".to_owned(), 404, "NAME_UNKNOWN"),
        (format!("/v2/library/other/blobs/{b}"), 404, "NAME_UNKNOWN"),
        ("/v2/library/other/tags/list".to_owned(), 404, "NAME_UNKNOWN"),
        ("/v2/library/app/manifests/latest".to_owned(), 404, "MANIFEST_UNKNOWN"),
        ("/v2/library/app/blobs/1.0".to_owned(), 404, "BLOB_UNKNOWN"),
        ("/v2/library/app/manifests/..%2f..%2ftoken".to_owned(), 404, ""),
        ("/v2/library/../other/manifests/1.0".to_owned(), 404, "NAME_UNKNOWN"),
        ("/v2/satellite/satellite-state/other/state/tags/list".to_owned(), 404, "NAME_UNKNOWN"),
    ] {
        let (got, said, message) = refused(&site, &edge, &path).await;
        assert!(got == status && (code.is_empty() || said == code), "{path}: {got} {said} {message}");
    }
    assert!(upstream.paths().is_empty(), "{:?}", upstream.paths());
    // A registry that has it not, and one whose credentials are void.
    let missing = refused(&site, &edge, "/v2/library/app/manifests/0.9").await;
    assert_eq!((missing.0, &*missing.1), (404, "MANIFEST_UNKNOWN"));
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(file, "puller:wrong").unwrap();
    let failed = refused(&site, &edge, "/v2/library/app/manifests/1.0").await;
    assert_eq!((failed.0, &*failed.1), (503, "UNAVAILABLE"));
    let why = site.get("/api/v1/resources/satellite/edge/why").await;
    let what = why["data"][0]["blockers"][0]["what"].as_str().unwrap();
    assert!(
        what.contains(&upstream.url) && what.contains("refused with 401") && !what.contains(PASSWORD),
        "{what}"
    );

    // A revoked satellite pulls nothing more, also by a digest that it knows.
    site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    let revoked = refused(&site, &edge, &format!("/v2/library/app/manifests/{a}")).await;
    assert_eq!((revoked.0, &*revoked.1), (403, "DENIED"));
    let nobody = send(site.http.get(format!("{}/v2/library/app/manifests/1.0", site.url))).await;
    assert_eq!((nobody.status, &nobody.body["errors"][0]["code"]), (401, &json!("UNAUTHORIZED")));
    let person = site.ask(Method::GET, "/v2/library/app/manifests/1.0", None).await;
    assert_eq!(person.status, 401, "an API token is not a satellite's");
}

async fn a_registry_that_is_not_listed_is_not_asked_and_why_says_so() {
    let upstream = Upstream::start().await;
    let site = Site::start("").await;
    let made = group(&site, "g", &upstream.url, "library/app").await;
    let warning = made.headers()["warning"].to_str().unwrap().to_owned();
    assert!(warning.contains(&upstream.url) && warning.contains("pull.registries"), "{warning}");
    let edge = site.register(&site.create("edge", &["g"]).await).await;
    let (status, code, message) = refused(&site, &edge, "/v2/library/app/manifests/1.0").await;
    assert_eq!((status, &*code), (403, "DENIED"));
    assert!(message.contains("pull.registries"), "{message}");
    assert!(upstream.paths().is_empty());
    let why = site.get("/api/v1/resources/satellite/edge/why").await;
    assert_eq!(why["data"][0]["next"]["do"], "mend", "{why}");
    let what = why["data"][0]["blockers"][0]["what"].as_str().unwrap();
    assert!(what.contains(&upstream.url) && what.contains("pull.registries"), "{what}");
}

async fn a_config_that_lacks_something_is_warned_about() {
    let site = Site::start(
        "[liveness]\ngrace_seconds = 1\nflush_seconds_shared = 1\ndefault_interval_seconds = 1\n",
    )
    .await;
    let send = async |method: Method, path: &str, body: Value| {
        let request = site.http.request(method, format!("{}{path}", site.url)).bearer_auth(site.token());
        let answer = request.json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
        answer.headers().get("warning").map(|text| text.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let config = json!({"config_name": "c", "config": {"app_config": {"log_level": "debug"}}});
    let warning = send(Method::POST, "/api/configs", config).await;
    for setting in ["ground_control_url", "use_unsecure", "bring_own_registry"] {
        assert!(warning.contains(&format!("config.app_config.{setting}: is missing")), "{warning}");
    }
    // A satellite that is silent with such a config may be silent because of it.
    let edge = json!({"name": "edge", "config_name": "c", "heartbeat_interval": "@every 1s"});
    let made = site.post("/api/satellites", edge).await.expect(200);
    site.register(made["token"].as_str().unwrap()).await;
    let is_stale = async || site.get("/api/satellites/edge").await["data"]["status"] == "stale";
    eventually("it to be stale", async || is_stale().await.then_some(())).await;
    let why = site.get("/api/v1/resources/satellite/edge/why").await["data"][0].clone();
    assert!(why["blockers"][0]["what"].as_str().unwrap().contains("its config c does not say"), "{why}");
    assert_eq!(
        (&why["next"]["do"], &why["next"]["path"]),
        (&json!("call"), &json!("/api/configs/c")),
        "{why}"
    );

    let whole = json!({"config": {"zot_config": {"http": {}}, "app_config": {"ground_control_url": site.url, "use_unsecure": true}}});
    assert_eq!(send(Method::PATCH, "/api/configs/c", whole).await, "");
}

async fn refusals_fit_clients_of_registries() {
    let upstream = Upstream::start().await;
    let (site, _folder) = start(&upstream).await;
    group(&site, "g", &upstream.url, "library/app").await;
    let edge = site.register(&site.create("edge", &["g"]).await).await;
    let digest = digest_of("a");
    for repository in ["library/app", "satellite/satellite-state/edge/state"] {
        let index = ask(&site, &edge, &format!("/v2/{repository}/referrers/{digest}")).await;
        assert_eq!(index.status(), 200, "{repository}");
        assert_eq!(index.headers()["content-type"], "application/vnd.oci.image.index.v1+json");
        let index: Value = serde_json::from_slice(&index.bytes().await.unwrap()).unwrap();
        assert_eq!((&index["schemaVersion"], &index["manifests"]), (&json!(2), &json!([])));
    }
    let (status, code, _) = refused(&site, &edge, &format!("/v2/library/other/referrers/{digest}")).await;
    assert_eq!((status, &*code), (404, "NAME_UNKNOWN"));
    let (status, code, _) = refused(&site, &edge, "/v2/library/app/referrers/x").await;
    assert_eq!((status, &*code), (400, "DIGEST_INVALID"));
    let upload = edge.sign(site.http.post(format!("{}/v2/library/app/blobs/uploads/", site.url)));
    let upload = send(upload).await;
    assert_eq!((upload.status, &upload.body["errors"][0]["code"]), (405, &json!("UNSUPPORTED")));
    let wrong = Credential { password: "wrong".to_owned(), ..edge.clone() };
    for (who, path) in
        [(&edge, "/v2/library/app/uploads/1"), (&wrong, "/v2/"), (&edge, "/v2/x/y/manifests/1")]
    {
        let (status, _, message) = refused(&site, who, path).await;
        assert!(
            status >= 400 && !message.contains("openapi") && !message.contains("Bearer"),
            "{path}: {message}"
        );
    }
}

async fn why_says_that_a_satellite_replicates_nothing() {
    let upstream = Upstream::start().await;
    let (site, _folder) = start(&upstream).await;
    group(&site, "g", &upstream.url, "library/app").await;
    let edge = site.register(&site.create("edge", &["g"]).await).await;
    let beat = site.http.post(format!("{}/satellites/sync", site.url));
    let beat = edge.sign(beat).json(&json!({"image_count": 0, "last_sync_duration_ms": 1200}));
    assert_eq!(send(beat).await.status, 200);
    let why = site.get("/api/v1/resources/satellite/edge/why").await;
    let meaning = why["data"][0]["meaning"].as_str().unwrap();
    assert!(meaning.contains("Its groups name 1 artifact; it says that it holds 0 images."), "{meaning}");
    assert_eq!(why["data"][0]["blockers"], json!([]), "it has some time after it came online");
    let shown = site.get("/api/satellites/edge").await;
    assert_eq!(shown["data"]["reported"]["image_count"], 0);
    assert_eq!(shown["data"]["reported"]["last_sync_duration_ms"], 1200);
    let alone = site.register(&site.create("alone", &[]).await).await;
    assert_eq!(site.beat(&alone).await, 200);
    let why = site.get("/api/v1/resources/satellite/alone/why").await;
    assert!(why["data"][0]["meaning"].as_str().unwrap().contains("It is in no group"), "{why}");
    assert_eq!(why["data"][0]["next"]["do"], "nothing");
}
