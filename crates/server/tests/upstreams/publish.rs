//! States pushed to a real registry, where there is one on the machine.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    extract::Request,
    http::{StatusCode, header},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{net, sync::Semaphore, task::JoinHandle};
use wardroom_upstream::registry::artifact::Artifact;

use crate::site::{Backend, DATABASE, Site, eventually, on_both};

on_both! {
    states_follow_their_records_into_the_registry,
    a_state_outlives_the_late_removal_of_the_one_before,
    a_registry_that_came_later_gets_earlier_states,
    lost_states_are_published_again,
    outstanding_states_are_shown,
    secrets_are_not_pushed_to_a_public_registry,
    published_states_name_no_single_server,
}

/// A registry with a folder of its own, until it is dropped.
struct Registry {
    process: Child,
    url: String,
    http: reqwest::Client,
    dir: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    /// Nothing where there is none to start.
    async fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        // A port that was free a moment ago.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings = json!({
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": dir.path().join("data")}, "delete": {"enabled": true}},
            "http": {"addr": address.to_string()},
        });
        let file = dir.path().join("registry.yml");
        std::fs::write(&file, settings.to_string()).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().ok()?;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let registry = Self { process, url: format!("http://{address}"), http, dir };
        let ping = format!("{}/v2/", registry.url);
        eventually("the registry", async || registry.http.get(&ping).send().await.ok().map(drop)).await;
        Some(registry)
    }

    /// The digest of a repository's latest tag.
    async fn digest(&self, repository: &str) -> Option<String> {
        let url = format!("{}/v2/{repository}/manifests/latest", self.url);
        let accept = "application/vnd.docker.distribution.manifest.v2+json";
        let response = self.http.get(url).header("accept", accept).send().await.unwrap();
        let digest = response.headers().get("docker-content-digest").cloned();
        (response.status() == 200).then(|| digest.unwrap().to_str().unwrap().to_owned())
    }

    /// Waits until it has these.
    async fn has(&self, repositories: &[&str]) {
        for repository in repositories {
            eventually(repository, async || self.digest(repository).await).await;
        }
    }

    /// Loses everything, as with a replaced disk.
    fn lose(&self) {
        std::fs::remove_dir_all(self.dir.path().join("data")).unwrap();
    }

    /// The server's settings for it. The server's own address is part of the built-in config, so it stays the
    /// same.
    fn section(&self) -> String {
        format!("public_url = \"http://wardroom.example\"\n[registry]\nurl = {:?}\n", self.url)
    }

    async fn tags(&self, repository: &str) -> usize {
        let url = format!("{}/v2/{repository}/tags/list", self.url);
        let bytes = self.http.get(url).send().await.unwrap().bytes().await.unwrap();
        let list: Value = serde_json::from_slice(&bytes).unwrap();
        list["tags"].as_array().map_or(0, Vec::len)
    }
}

#[expect(clippy::print_stdout, reason = "the reader of the test's output needs to know what was left out")]
async fn states_follow_their_records_into_the_registry() {
    let Some(registry) = Registry::start().await else {
        println!("there is no docker-registry here: nothing is pushed");
        return;
    };
    let site = Site::start(&format!("[registry]\nurl = {:?}\n", registry.url)).await;
    site.group("g", &["library/x"]).await;
    let token = site.create("edge", &["g"]).await;
    let edge = site.register(&token).await;
    assert!(edge.state.starts_with(&registry.url), "{}", edge.state);
    site.settled("edge", &[]).await;
    let state = "satellite/satellite-state/edge/state";
    let before = registry.digest(state).await.unwrap();
    assert!(
        registry.digest("satellite/config-state/default/state").await.is_some(),
        "what it names is there"
    );
    let group = "satellite/group-state/g/state";
    let first = eventually("the group", async || registry.digest(group).await).await;
    let tags = registry.tags(state).await;

    site.group("g", &["library/y"]).await;
    eventually("the new group", async || registry.digest(group).await.filter(|digest| *digest != first))
        .await;
    let leave = json!({"satellite": "edge", "group": "g"});
    site.ask(Method::DELETE, "/api/groups/satellite", Some(leave)).await.expect(200);
    site.settled("edge", &[]).await;
    assert_ne!(registry.digest(state).await.unwrap(), before, "the last group really goes");
    assert!(registry.digest("satellite/group-state/default/state").await.is_some());

    // A change that changes nothing of the state pushes nothing.
    let same = registry.digest(state).await;
    let pushed = registry.tags(state).await;
    assert_eq!((tags, pushed), (2, 2), "what was said before is gone");
    site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    site.settled("edge", &[]).await;
    assert_eq!((registry.digest(state).await, registry.tags(state).await), (same, pushed));

    site.ask(Method::DELETE, "/api/groups/g", None).await.expect(200);
    site.ask(Method::DELETE, "/api/satellites/edge", None).await.expect(200);
    for repository in [state, group] {
        eventually("the state to go", async || registry.digest(repository).await.is_none().then_some(()))
            .await;
    }
}

/// A registry behind a door that lets removals wait.
struct Slow {
    url: String,
    /// Removals that came.
    came: Arc<Semaphore>,
    /// Removals that may pass.
    may_pass: Arc<Semaphore>,
    /// Removals that were carried out.
    passed: Arc<Semaphore>,
    /// Whether they are dropped.
    is_mute: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Slow {
    async fn before(registry: &Registry) -> Self {
        let [came, may_pass, passed] = std::array::from_fn(|_| Arc::new(Semaphore::new(0)));
        let (gates, is_mute) =
            ([&came, &may_pass, &passed].map(Arc::clone), Arc::new(AtomicBool::new(false)));
        let mute = Arc::clone(&is_mute);
        let (http, url) = (registry.http.clone(), registry.url.clone());
        let pass = async move |request: Request| {
            let [came, may_pass, passed] = &gates;
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let is_removal = head.method == Method::DELETE;
            if is_removal {
                came.add_permits(1);
                may_pass.acquire().await.unwrap().forget();
            }
            let through = http.request(head.method, format!("{url}{}", head.uri)).headers(head.headers);
            let answer = through.body(body).send().await.unwrap();
            passed.add_permits(usize::from(is_removal));
            let (mut status, mut headers) = (answer.status(), answer.headers().clone());
            if is_removal && mute.load(Ordering::SeqCst) {
                status = StatusCode::BAD_GATEWAY;
            }
            headers.remove(header::TRANSFER_ENCODING);
            (status, headers, answer.bytes().await.unwrap())
        };
        let listener = net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(pass);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, came, may_pass, passed, is_mute, task }
    }
}

/// The registry is slow to remove the state of a deleted satellite; meanwhile another satellite has its name.
#[expect(clippy::print_stdout, reason = "the reader of the test's output needs to know what was left out")]
async fn a_state_outlives_the_late_removal_of_the_one_before() {
    let Some(registry) = Registry::start().await else {
        println!("there is no docker-registry here: nothing is pushed");
        return;
    };
    let slow = Slow::before(&registry).await;
    let site = Site::start(&format!("[registry]\nurl = {:?}\n", slow.url)).await;
    let state = "satellite/satellite-state/edge/state";
    let published = async |what: &str| eventually(what, async || registry.digest(state).await).await;
    site.create("edge", &[]).await;
    site.settled("edge", &[]).await;
    let first = published("the state of the first").await;
    // The second time the registry does not even say that it removed something.
    for is_mute in [false, true] {
        slow.is_mute.store(is_mute, Ordering::SeqCst);
        site.ask(Method::DELETE, "/api/satellites/edge", None).await.expect(200);
        slow.came.acquire().await.unwrap().forget();
        site.create("edge", &[]).await;
        site.settled("edge", &[]).await;
        assert_eq!(published("the state of the next").await, first, "they say the same");
        slow.may_pass.add_permits(1);
        slow.passed.acquire().await.unwrap().forget();
        published("the state to be there again").await;
        site.settled("edge", &[]).await;
        assert!(registry.digest(state).await.is_some());
    }
}

const GROUP: &str = "satellite/group-state/g/state";
const CONFIG: &str = "satellite/config-state/c/state";
const EDGE: &str = "satellite/satellite-state/edge/state";
const BARE: &str = "satellite/satellite-state/bare/state";
const BUILT_IN: [&str; 2] = ["satellite/group-state/default/state", "satellite/config-state/default/state"];

/// A group and a config, a satellite with both, and one with neither.
async fn furnish(site: &Site) {
    site.group("g", &["library/x"]).await;
    let config = json!({"config_name": "c", "config": {"app_config": {"log_level": "debug"}}});
    site.post("/api/configs", config).await.expect(201);
    let edge = json!({"name": "edge", "groups": ["g"], "config_name": "c"});
    site.post("/api/satellites", edge).await.expect(200);
    site.create("bare", &[]).await;
}

/// Nothing is changed in between: it is the server that notices where things are not.
#[expect(clippy::print_stdout, reason = "the reader of the test's output needs to know what was left out")]
async fn a_registry_that_came_later_gets_earlier_states() {
    let (Some(first), Some(second)) = (Registry::start().await, Registry::start().await) else {
        println!("there is no docker-registry here: nothing is pushed");
        return;
    };
    let site = Site::start("").await;
    furnish(&site).await;
    let site = site.restart(&first.section()).await;
    first.has(&[GROUP, CONFIG, EDGE, BARE]).await;
    first.has(&BUILT_IN).await;
    for name in ["edge", "bare"] {
        site.settled(name, &[]).await;
    }
    let site = site.restart(&second.section()).await;
    second.has(&[GROUP, CONFIG, EDGE, BARE]).await;
    second.has(&BUILT_IN).await;
    let states = [(GROUP, true), (EDGE, false)];
    for (repository, is_same) in states {
        let (before, after) = (first.digest(repository).await, second.digest(repository).await);
        assert_eq!(before == after, is_same, "{repository}: a satellite's state says where the others are");
    }

    // Existing states are not published again at further starts.
    let asked = async |site: &Site| {
        let history = site.get("/api/v1/history?limit=100").await;
        let rows = history["data"].as_array().unwrap().iter();
        rows.filter(|row| row["type"] == "effect").count()
    };
    let before = asked(&site).await;
    let site = site.restart(&second.section()).await;
    site.group("late", &["library/x"]).await;
    second.has(&["satellite/group-state/late/state"]).await;
    assert_eq!(asked(&site).await, before);
}

#[expect(clippy::print_stdout, reason = "the reader of the test's output needs to know what was left out")]
async fn lost_states_are_published_again() {
    let Some(registry) = Registry::start().await else {
        println!("there is no docker-registry here: nothing is pushed");
        return;
    };
    let site = Site::start(&registry.section()).await;
    furnish(&site).await;
    registry.has(&[GROUP, CONFIG, EDGE, BARE]).await;
    for name in ["edge", "bare"] {
        site.settled(name, &[]).await;
    }

    // A repeated change publishes a missing state.
    registry.lose();
    site.group("g", &["library/x"]).await;
    registry.has(&[GROUP]).await;
    site.ask(Method::PATCH, "/api/configs/c", Some(json!({}))).await.expect(200);
    registry.has(&[CONFIG]).await;

    // It is not needed.
    registry.lose();
    let site = site.restart(&registry.section()).await;
    registry.has(&[GROUP, CONFIG, EDGE, BARE]).await;
    registry.has(&BUILT_IN).await;

    // A part that many satellites read is missed although their own states are there.
    site.settled("bare", &[]).await;
    std::fs::remove_dir_all(
        registry.dir.path().join("data/docker/registry/v2/repositories").join(BUILT_IN[1]),
    )
    .unwrap();
    let site = site.restart(&registry.section()).await;
    registry.has(&BUILT_IN).await;
    drop(site.end().await);
}

/// No registry listens there, so that everything waits.
async fn outstanding_states_are_shown() {
    let site = Site::start("[registry]\nurl = \"http://127.0.0.1:1\"\n").await;
    furnish(&site).await;
    let waits = async |path: &str| {
        eventually(path, async || {
            let effects = site.get(path).await;
            let effect = &effects["data"][0];
            assert_eq!((&effect["type"], &effect["done_at"]), (&json!("publish_state"), &Value::Null));
            let error = effect["last_error"].as_str()?;
            assert!(error.starts_with("the registry "), "{error}");
            Some(())
        })
        .await;
    };
    waits("/api/groups/g/effects").await;
    waits("/api/configs/c/effects").await;
    let why = site.get("/api/v1/resources/satellite/edge/why").await.to_string();
    for named in ["of the satellite group g, publish_state", "of the satellite config c, publish_state"] {
        assert!(why.contains(named), "{why}");
    }
    let why = site.get("/api/v1/resources/satellite/bare/why").await.to_string();
    assert!(!why.contains("of the satellite"), "{why}");
    // Pending effects of the removal are shown too.
    site.ask(Method::DELETE, "/api/groups/g", None).await.expect(200);
    waits("/api/groups/g/effects").await;
    for path in ["/api/groups/never/effects", "/api/configs/never/effects"] {
        site.ask(Method::GET, path, None).await.expect(404);
    }
}

#[expect(clippy::print_stdout, reason = "the reader of the test's output needs to know what was left out")]
async fn secrets_are_not_pushed_to_a_public_registry() {
    let Some(registry) = Registry::start().await else {
        println!("there is no docker-registry here: nothing is pushed");
        return;
    };
    let section = format!("[registry]\nurl = {:?}\n", registry.url);
    let site = Site::start(&section).await;
    furnish(&site).await;
    let secret = json!({"config_name": "s", "config": {"app_config": {"password": "hunter2"}}});
    site.post("/api/configs", secret).await.expect(201);
    registry.has(&[CONFIG]).await;
    let error = eventually("a refusal", async || {
        let effects = site.get("/api/configs/s/effects").await;
        effects["data"][0]["last_error"].as_str().map(str::to_owned)
    })
    .await;
    assert!(error.contains("is public") && error.contains("registry.allow_public"), "{error}");
    let state = "satellite/config-state/s/state";
    assert_eq!(registry.digest(state).await, None);
    let site = site.restart(&format!("{section}allow_public = true\n")).await;
    registry.has(&[state]).await;
    drop(site.end().await);
}

/// Each of several servers listens on another address, and all of them publish the same built-in config.
#[expect(clippy::print_stdout, reason = "the reader of the test's output needs to know what was left out")]
async fn published_states_name_no_single_server() {
    let Some(registry) = Registry::start().await else {
        println!("there is no docker-registry here: nothing is pushed");
        return;
    };
    let site = Site::start(&format!("[registry]\nurl = {:?}\n", registry.url)).await;
    site.create("edge", &[]).await;
    site.settled("edge", &[]).await;
    let says = match DATABASE.get() {
        Backend::Sqlite => json!({"app_config": {"ground_control_url": site.url, "use_unsecure": true}}),
        Backend::Postgres => json!({"app_config": {}}),
    };
    let digest = Artifact::of(&says).manifest.digest;
    assert_eq!(registry.digest(BUILT_IN[1]).await, Some(digest));
}

/// Two servers of one database have different registries: the settings of the one that started last are in
/// force, without alternating.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_other_settings_do_not_take_turns() {
    let (Some(first), Some(second)) = (Registry::start().await, Registry::start().await) else {
        println!("there is no docker-registry here: nothing is pushed");
        return;
    };
    DATABASE
        .scope(Backend::Postgres, async {
            let older = Site::start(&first.section()).await;
            furnish(&older).await;
            first.has(&[GROUP, CONFIG, EDGE, BARE]).await;
            let newer = older.beside_with(&first.url, &second.url).await;
            let is_overruled = async |site: &Site| {
                let request = site.http.get(format!("{}/metrics", site.url)).bearer_auth(site.token());
                let metrics = request.send().await.unwrap().text().await.unwrap();
                metrics.lines().any(|line| line == "wardroom_registry_overruled 1")
            };
            eventually("the older one to notice", async || is_overruled(&older).await.then_some(())).await;
            assert!(!is_overruled(&newer).await);
            for number in 0..10 {
                older.create(&format!("late-{number}"), &[]).await;
            }
            for number in 0..10 {
                newer.settled(&format!("late-{number}"), &[]).await;
                let state = format!("satellite/satellite-state/late-{number}/state");
                assert_eq!((first.digest(&state).await, second.digest(&state).await.is_some()), (None, true));
            }
            // Earlier states follow once the older server has released its lease.
            second.has(&[GROUP, CONFIG, EDGE, BARE]).await;
            drop(newer.end().await);
            drop(older.end().await);
        })
        .await;
}
