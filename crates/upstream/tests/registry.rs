//! The registry client against a real registry where there is one, and against answers that no good registry gives.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use wardroom_upstream::{
    Failure, Repeat, Secret,
    registry::{
        Credentials, Deleted, Options, Registry,
        artifact::{Artifact, FILE, digest},
        state::About,
    },
};

fn document() -> Value {
    json!({"states": ["https://h/satellite/group-state/eu/state:latest"], "config": "https://h/c"})
}

fn registry(url: &str, credentials: Option<(&str, &str)>) -> Registry {
    let credentials = credentials.map(|(username, password)| Credentials {
        username: username.to_owned(),
        password: Secret::new(password),
    });
    Registry::new(Options { url: url.to_owned(), credentials, certificates: None, timeout: None }).unwrap()
}

async fn push(client: &Registry, repository: &str, image: &Artifact, time: i64) -> Result<(), Failure> {
    client.upload(repository, image).await?.tag(time).await
}

#[test]
fn the_bytes_of_an_image_never_change() {
    let image = Artifact::of(&document());
    let other: Value = serde_json::from_str(
        r#"{"config":"https://h/c","states":["https://h/satellite/group-state/eu/state:latest"]}"#,
    )
    .unwrap();
    assert_eq!(Artifact::of(&other), image, "the order of keys does not matter");
    for blob in [&image.layer, &image.config, &image.manifest] {
        assert_eq!(blob.digest, digest(&blob.bytes));
    }
    assert_eq!(image.blob(&image.layer.digest), Some(&image.layer));
    assert_eq!(image.blob(&image.manifest.digest), None);
    // Two versions of Wardroom that serve one satellite must agree: change these only with a reason for it.
    assert_eq!(image.layer.digest, "sha256:6861e2e2efd817be815af3922c785e110085efaec597f44a163c668233a024d1");
    assert_eq!(
        image.manifest.digest,
        "sha256:58ec91dea7f3a76f46536147cf4201caf274b6da4a9acecbb889b54366a5e94f"
    );
}

#[test]
fn the_layer_is_an_archive_with_the_document_at_its_top() {
    for size in [0, 1, 400, 511, 512, 513, 70_000, 200_000] {
        let document = json!({"config": "x".repeat(size)});
        let image = Artifact::of(&document);
        assert_eq!(tar(&["-tz"], &image.layer.bytes), format!("{FILE}\n").as_bytes());
        let content = tar(&["-xzO", FILE], &image.layer.bytes);
        assert_eq!(serde_json::from_slice::<Value>(&content).unwrap(), document);

        let manifest: Value = serde_json::from_slice(&image.manifest.bytes).unwrap();
        assert_eq!(manifest["layers"][0]["digest"], image.layer.digest);
        assert_eq!(manifest["layers"][0]["size"], image.layer.bytes.len());
        assert_eq!(manifest["config"]["digest"], image.config.digest);
        assert_eq!(manifest["mediaType"], image.manifest.media_type);
    }
}

fn tar(arguments: &[&str], archive: &[u8]) -> Vec<u8> {
    let mut child = Command::new("tar")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let archive = archive.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&archive));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A real registry in a folder of its own, until it is dropped.
struct Real {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `alice`, whose password is `pass:word`.
const HTPASSWD: &str = "alice:$2a$04$jSIw6RHABPbYcIahgcuWTe1GjBNYDORhwNacpzX.CKb9sTjJUU1vC\n";
const ALICE: Option<(&str, &str)> = Some(("alice", "pass:word"));

impl Real {
    /// Starts it with one user; nothing when the program is not on this machine.
    fn start(deletes: bool) -> Option<Self> {
        let program = program()?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("htpasswd"), HTPASSWD).unwrap();
        let config = json!({
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": at("data")}, "delete": {"enabled": deletes}},
            "auth": {"htpasswd": {"realm": "test", "path": at("htpasswd")}},
            "http": {"addr": "127.0.0.1:0", "secret": "of one test"},
        });
        std::fs::write(at("config.yml"), config.to_string()).unwrap();
        let mut child = Command::new(program)
            .arg("serve")
            .arg(at("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let start = said.len();
            assert_ne!(log.read_line(&mut said).unwrap(), 0, "the registry ended: {said}");
            if let Some((_, rest)) = said[start..].split_once("listening on ") {
                break rest.split('"').next().unwrap().to_owned();
            }
        };
        // It goes on talking, and must not wait for a reader.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Some(Self { child, url: format!("http://{address}"), _folder: folder })
    }
}

/// `./dev test` says where it is; elsewhere it may be on the path.
fn program() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("WARDROOM_TEST_REGISTRY") {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("docker-registry")).find(|it| it.is_file());
    if found.is_none() {
        println!("there is no docker-registry here: nothing is pushed");
    }
    found
}

async fn fetch(real: &Real, path: &str) -> (u16, Vec<u8>) {
    let (user, password) = ALICE.unwrap();
    let request = reqwest::Client::new()
        .get(format!("{}/v2/{path}", real.url))
        .basic_auth(user, Some(password))
        .header("accept", "application/vnd.docker.distribution.manifest.v2+json");
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
}

#[tokio::test]
async fn a_real_registry_takes_the_image_and_gives_it_back() {
    let Some(real) = Real::start(true) else { return };
    let client = registry(&real.url, ALICE);
    let repository = format!("satellite/{}", About::Satellite("edge-01").repository());
    let image = Artifact::of(&document());
    push(&client, &repository, &image, 1_800_000_000).await.unwrap();
    push(&client, &repository, &image, 1_800_000_000).await.unwrap();

    // As a satellite reads it: the manifest by its tag, then the layer.
    let (status, manifest) = fetch(&real, &format!("{repository}/manifests/latest")).await;
    assert_eq!((status, &manifest), (200, &image.manifest.bytes));
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let (status, layer) = fetch(&real, &format!("{repository}/blobs/{layer}")).await;
    assert_eq!(status, 200);
    assert_eq!(serde_json::from_slice::<Value>(&tar(&["-xzO", FILE], &layer)).unwrap(), document());

    let later = Artifact::of(&json!({"states": [], "config": ""}));
    push(&client, &repository, &later, 1_800_000_060).await.unwrap();
    let tagged = async |tag: &str| client.digest(&repository, tag).await.unwrap();
    assert_eq!(tagged("latest").await, Some(later.manifest.digest.clone()));
    assert_eq!(tagged("1800000000").await, Some(image.manifest.digest.clone()));
    assert_eq!(tagged("1800000061").await, None);

    assert_eq!(client.is_public(&repository).await, Ok(false));
    assert_eq!(client.is_public("satellite/never/there").await, Ok(false));

    // Earlier images are removed, also repeated ones; images that others tagged stay.
    push(&client, &repository, &image, 1_800_000_120).await.unwrap();
    push(&client, &repository, &later, 1_800_000_180).await.unwrap();
    let other = Artifact::of(&json!({"states": ["other"], "config": ""}));
    push(&client, &repository, &other, 1_800_000_200).await.unwrap();
    assert_eq!(client.prune(&repository, &other.manifest.digest).await, Ok(Deleted::All(2)));
    assert_eq!(tagged("latest").await, Some(other.manifest.digest.clone()));
    assert_eq!(tagged("1800000200").await, Some(other.manifest.digest.clone()));
    for gone in ["1800000000", "1800000060", "1800000120", "1800000180"] {
        assert_eq!(tagged(gone).await, None);
    }
    assert_eq!(client.prune(&repository, &other.manifest.digest).await, Ok(Deleted::All(0)));
    assert_eq!(client.prune("satellite/never/there", "sha256:0").await, Ok(Deleted::All(0)));
    push(&client, &repository, &image, 1_800_000_260).await.unwrap();

    assert_eq!(client.delete(&repository).await, Ok(Deleted::All(2)));
    assert_eq!(tagged("latest").await, None);
    assert_eq!(client.delete(&repository).await, Ok(Deleted::All(0)));
    assert_eq!(client.delete("satellite/never/there").await, Ok(Deleted::All(0)));
}

/// Another user tags a published image to keep it. Deleting an image deletes all its tags, so it stays.
#[tokio::test]
async fn images_with_foreign_tags_are_not_pruned() {
    let Some(real) = Real::start(true) else { return };
    let (client, repository) = (registry(&real.url, ALICE), "satellite/a/state");
    let [first, second, third] = [1, 2, 3].map(|number| Artifact::of(&json!({"number": number})));
    push(&client, repository, &first, 1_800_000_000).await.unwrap();
    push(&client, repository, &second, 1_800_000_060).await.unwrap();
    let (user, password) = ALICE.unwrap();
    let kept = reqwest::Client::new()
        .put(format!("{}/v2/{repository}/manifests/before-the-audit", real.url))
        .basic_auth(user, Some(password))
        .header("content-type", first.manifest.media_type)
        .body(first.manifest.bytes.clone());
    assert_eq!(kept.send().await.unwrap().status(), 201);
    push(&client, repository, &third, 1_800_000_120).await.unwrap();
    assert_eq!(client.prune(repository, &third.manifest.digest).await, Ok(Deleted::All(1)));
    let tagged = async |tag: &str| client.digest(repository, tag).await.unwrap();
    let is_first = Some(first.manifest.digest.clone());
    assert_eq!((tagged("before-the-audit").await, tagged("1800000000").await), (is_first.clone(), is_first));
    assert_eq!(tagged("1800000060").await, None);
    assert_eq!(tagged("latest").await, Some(third.manifest.digest.clone()));
}

/// A foreign tag may be on another page than ours; where there are very many, nothing is looked through.
#[tokio::test]
async fn tags_of_others_are_looked_for_on_every_page() {
    for (others, removed) in [(1, 2), (101, 0)] {
        let (url, seen) = scripted(move |_, head| {
            let path = head.split(' ').nth(1).unwrap();
            match head.split(' ').next().unwrap() {
                "GET" if !path.contains("last=") => {
                    reply("200 OK", "link: </v2/more>; rel=\"next\"\r\n", r#"{"tags":["1","2","3","4"]}"#)
                }
                "GET" => {
                    let tags: Vec<_> = (0..others).map(|number| format!("mine-{number:03}")).collect();
                    reply("200 OK", "", &json!({"tags": tags}).to_string())
                }
                "HEAD" => {
                    let tag = path.rsplit('/').next().unwrap();
                    let digest = if tag == "mine-000" { "2" } else { tag };
                    reply("200 OK", &format!("docker-content-digest: sha256:{digest}\r\n"), "")
                }
                _ => reply("202 Accepted", "", ""),
            }
        })
        .await;
        assert_eq!(registry(&url, None).prune("a/b", "sha256:4").await, Ok(Deleted::All(removed)));
        let heads = seen.lock().unwrap();
        let gone: Vec<_> = heads.iter().filter(|head| head.starts_with("DELETE")).collect();
        assert_eq!(gone.len(), removed);
        assert!(
            gone.iter().all(|head| !head.contains("sha256:2 ") && !head.contains("sha256:4 ")),
            "{gone:?}"
        );
    }
}

#[tokio::test]
async fn a_real_registry_takes_every_name_of_a_satellite() {
    let Some(real) = Real::start(true) else { return };
    let client = registry(&real.url, ALICE);
    for name in ["a", "a--b", "a.", "a..b", "0_", "x-a", &"long-".repeat(51)] {
        let repository = format!("satellite/{}", About::Satellite(name).repository());
        push(&client, &repository, &Artifact::of(&document()), 1).await.unwrap();
    }
}

#[tokio::test]
async fn a_real_registry_refuses_strangers_and_may_refuse_to_forget() {
    let Some(real) = Real::start(false) else { return };
    let image = Artifact::of(&document());
    for credentials in [None, Some(("alice", "guessed-it")), Some(("bob", "pass:word"))] {
        let failure = push(&registry(&real.url, credentials), "a/b", &image, 1).await.unwrap_err();
        assert!(failure.is_denied(), "{failure:?}");
        assert!(!format!("{failure:?}").contains("guessed-it"));
    }
    let client = registry(&real.url, ALICE);
    push(&client, "a/b", &image, 1).await.unwrap();
    assert_eq!(client.delete("a/b").await, Ok(Deleted::Unsupported));
    let odd = push(&client, "A//b", &image, 1).await.unwrap_err();
    assert_eq!(odd.repeat(), Repeat::Useless, "{odd:?}");
}

/// Heads of requests that came in.
type Seen = Arc<Mutex<Vec<String>>>;

/// Answers each request with `answer` of its head, and records the heads.
async fn scripted(answer: impl Fn(&str, &str) -> String + Send + 'static) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen, base) = (Seen::default(), url.clone());
    let heads = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut buffer = [0; 4096];
                match stream.read(&mut buffer).await {
                    Ok(count) if count > 0 => head.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let reply = answer(&base, &head);
            heads.lock().unwrap().push(head);
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    (url, seen)
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

/// The answer of a registry on success.
fn content(head: &str) -> String {
    match head.split(' ').next().unwrap() {
        "HEAD" => reply("404 Not Found", "", ""),
        "POST" => reply("202 Accepted", "location: /v2/a/b/blobs/uploads/7?_state=s\r\n", ""),
        _ => reply("201 Created", "", ""),
    }
}

#[tokio::test]
async fn a_token_is_fetched_where_the_registry_says() {
    let (url, seen) = scripted(|base, head| {
        if head.starts_with("GET /token?") {
            let (granted, denied) =
                (r#"{"token":"tok"}"#, r#"{"errors":[{"code":"X","message":"pass:word"}]}"#);
            // alice and pass:word
            return match head.contains("YWxpY2U6cGFzczp3b3Jk") {
                true => reply("200 OK", "", granted),
                false => reply("403 Forbidden", "", denied),
            };
        }
        if head.to_lowercase().contains("authorization: bearer tok") {
            return content(head);
        }
        let challenge =
            format!("www-authenticate: Bearer realm=\"{base}/token\",service=\"reg\",scope=\"s\"\r\n");
        reply("401 Unauthorized", &challenge, "")
    })
    .await;
    let image = Artifact::of(&document());
    push(&registry(&url, ALICE), "a/b", &image, 1).await.unwrap();
    let heads = seen.lock().unwrap().clone();
    let asked: Vec<_> = heads.iter().filter(|head| head.starts_with("GET /token")).collect();
    assert_eq!(asked.len(), 1, "one token does for everything");
    assert!(asked[0].contains("service=reg&scope=repository%3Aa%2Fb%3Apull%2Cpush%2Cdelete"), "{}", asked[0]);
    let put =
        heads.iter().find(|head| head.starts_with("PUT /v2/a/b/blobs/uploads/7?_state=s&digest=sha256"));
    assert!(put.is_some(), "the state of the upload is kept: {heads:?}");

    let failure = push(&registry(&url, Some(("alice", "wrong"))), "a/b", &image, 1).await.unwrap_err();
    assert!(failure.is_denied(), "{failure:?}");
}

#[tokio::test]
async fn credentials_go_nowhere_else() {
    let (elsewhere, seen) = scripted(|_, _| reply("201 Created", "", "")).await;
    let (url, _) = scripted(move |_, head| {
        if !head.to_lowercase().contains("authorization: basic") {
            return reply("401 Unauthorized", "www-authenticate: Basic realm=\"r\"\r\n", "");
        }
        match head.split(' ').next().unwrap() {
            "POST" => reply("202 Accepted", &format!("location: {elsewhere}/upload\r\n"), ""),
            _ => content(head),
        }
    })
    .await;
    push(&registry(&url, ALICE), "a/b", &Artifact::of(&document()), 1).await.unwrap();
    let heads = seen.lock().unwrap().clone();
    assert_eq!(heads.len(), 2);
    assert!(heads.iter().all(|head| !head.to_lowercase().contains("authorization")), "{heads:?}");
}

/// What was removed counts before the next page is asked for, however many there are.
#[tokio::test]
async fn a_repository_with_many_tags_is_removed_page_by_page() {
    const TAGS: usize = 300;
    let (url, seen) = scripted(move |_, head| {
        let path = head.split(' ').nth(1).unwrap();
        match head.split(' ').next().unwrap() {
            "GET" => {
                let after = path.split("last=").nth(1).map_or(0, |last| last.parse::<usize>().unwrap() - 999);
                let end = (after + 100).min(TAGS);
                let tags: Vec<_> = (after..end).map(|number| (1000 + number).to_string()).collect();
                let more = if end < TAGS { "link: </v2/more>; rel=\"next\"\r\n" } else { "" };
                reply("200 OK", more, &json!({"tags": tags}).to_string())
            }
            // Few of them stand for an image of their own.
            "HEAD" if path.ends_with("00") => {
                let tag = path.rsplit('/').next().unwrap();
                reply("200 OK", &format!("docker-content-digest: sha256:{tag}\r\n"), "")
            }
            "HEAD" => reply("404 Not Found", "", ""),
            _ => reply("202 Accepted", "", ""),
        }
    })
    .await;
    assert_eq!(registry(&url, None).delete("a/b").await, Ok(Deleted::All(3)));
    let heads = seen.lock().unwrap();
    let methods = heads.iter().filter_map(|head| head.split(' ').next());
    let methods: Vec<_> = methods.filter(|method| *method != "HEAD").collect();
    assert_eq!(methods, ["GET", "DELETE"].repeat(3));
}

/// Returns the answer to the head of a request.
type Answer = fn(&str) -> String;

#[tokio::test]
async fn odd_answers_have_a_class() {
    let image = Artifact::of(&document());
    let cases: [(&str, Answer, Repeat); 6] = [
        ("failed", |_| reply("500 Oops", "", ""), Repeat::AfterLook),
        ("busy", |_| reply("429 Slow down", "retry-after: 7\r\n", ""), Repeat::Safe),
        ("cut", |_| "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n".to_owned(), Repeat::AfterLook),
        ("silent", |_| String::new(), Repeat::AfterLook),
        (
            "another digest",
            |head| match head.starts_with("PUT") {
                true => reply("201 Created", "docker-content-digest: sha256:0\r\n", ""),
                false => content(head),
            },
            Repeat::AfterLook,
        ),
        (
            "nowhere",
            |head| match head.starts_with("POST") {
                true => reply("202 Accepted", "location: ftp://h/x\r\n", ""),
                false => content(head),
            },
            Repeat::AfterLook,
        ),
    ];
    for (name, answer, repeat) in cases {
        let (url, _) = scripted(move |_, head| answer(head)).await;
        let failure = push(&registry(&url, None), "a/b", &image, 1).await.unwrap_err();
        assert_eq!(failure.repeat(), repeat, "{name}: {failure:?}");
        if name == "busy" {
            assert_eq!(failure, Failure::Busy { after: Some(Duration::from_secs(7)) });
        }
    }
}

#[tokio::test]
async fn an_endless_answer_is_not_read() {
    let (url, _) = scripted(|_, _| {
        let body = " ".repeat(5 << 20);
        reply("200 OK", "content-type: application/json\r\n", &body)
    })
    .await;
    let failure = registry(&url, None).delete("a/b").await.unwrap_err();
    assert!(matches!(failure, Failure::Unexpected(_)), "{failure:?}");
}
