//! A server without sockets, its engine at a fast pace, and an agent for each node that enrols.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tower::ServiceExt as _;
use wardroom_core::table::Role;
use wardroom_fakes::maas::{Config as MaasConfig, Fake as Maas, Pace, Seed};
use wardroom_store::{Location, Store};
use wardroom_workflow::{Engine, Settings as EngineSettings};

use crate::{
    kinds::gpu_node::{
        secret,
        site::{BootDisk, Settings},
        stages::Workers,
        work,
    },
    platform::http::router,
    platform::{
        app::{App, by_system},
        clock::Clock,
        config::{Sources, resolve},
        identity::{auth::TokenDocument, secret as keys, token},
        testing,
    },
};

pub(super) const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The database that a test runs on.
#[derive(Clone, Copy)]
pub(super) enum On {
    Sqlite,
    Postgres,
}

thread_local! {
    static ON: Cell<On> = const { Cell::new(On::Sqlite) };
}

/// Has the rigs of this test run on a database.
pub(super) fn on(database: On) {
    ON.set(database);
}

/// Whether a few cases will do, because all of them are tried on the other database: what is decided does not depend on it.
/// With `WARDROOM_FAULT_ROUNDS` set, all of them are tried on both.
pub(super) fn tries_few() -> bool {
    matches!(ON.get(), On::Postgres) && std::env::var_os("WARDROOM_FAULT_ROUNDS").is_none()
}

pub(super) struct Rig {
    pub(super) app: App,
    pub(super) maas: Arc<Maas>,
    pub(super) workers: Workers,
    router: router::Front,
    admin: String,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    silent: Arc<Mutex<BTreeSet<String>>>,
    /// Held while an agent speaks.
    speaking: Arc<tokio::sync::Mutex<()>>,
    /// How long a stage may take, if not as long as usual.
    pub(super) stage_limit: Option<Duration>,
    /// How long a run rests after its first failure; ten times as long at most.
    pub(super) backoff: SignedDuration,
    /// How long an agent rests between two heartbeats, at least.
    pub(super) beat: Duration,
    _database: Option<testing::Database>,
    dir: tempfile::TempDir,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Reply {
    pub(super) fn ok(self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.body
    }

    pub(super) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

pub(super) fn quick() -> MaasConfig {
    MaasConfig {
        pace: Pace::all(Duration::from_millis(100)),
        sync_interval: Duration::from_secs(2),
        ..MaasConfig::default()
    }
}

impl Rig {
    pub(super) async fn new() -> Self {
        Self::with(quick(), |_| {}).await
    }

    pub(super) async fn with(maas: MaasConfig, change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = match ON.get() {
            On::Sqlite => None,
            On::Postgres => Some(testing::database().await),
        };
        let location = match &database {
            None => Location::Sqlite { dir: dir.path().join("data") },
            Some(database) => Location::Postgres { url: database.url.clone() },
        };
        let store = Store::open(&location).await.unwrap();
        let file =
            "[limits]\nanonymous = 0\n[gpu_nodes]\ntask_lease_seconds = 600\nallow_local_addresses = true\n"
                .to_owned();
        let mut config =
            resolve(&Sources { file: Some(file), ..Sources::default() }, crate::kinds::KINDS).unwrap();
        config.location = location;
        config.secrets.directory = dir.path().join("secrets");
        std::fs::create_dir_all(config.secrets.directory.join("bmc")).unwrap();
        std::fs::write(config.secrets.directory.join("maas"), "consumer:token:secret\n").unwrap();
        let key = keys::Key::create(&dir.path().join("server.key")).unwrap();
        let app = App::new(store, config, key, crate::kinds::KINDS);
        app.liveness.listened_always();
        let maas = Arc::new(Maas::start(maas, LOOPBACK).await.unwrap());
        let mut settings = Settings {
            url: maas.url(),
            key: "file:maas".to_owned(),
            provisioning_subnet: "provisioning".to_owned(),
            boot_disk: BootDisk { model: Some("BOSS".to_owned()), serial: None },
            requests_per_second: 10_000.0,
            deploys_per_minute: 10_000.0,
            poll_millis: 100,
            sweep_millis: 100,
            bmc_insecure: true,
            bmc_networks: vec!["127.0.0.0/8".to_owned(), "10.0.0.0/24".to_owned()],
            bmc_credentials: vec!["file:bmc/*".to_owned()],
            hardware_sync: false,
            ..Settings::default()
        };
        change(&mut settings);
        let admin = keys::new_token();
        let expires_at = app.now() + SignedDuration::from_hours(1);
        let (role, group_id, adapter) = (Role::Admin, None, None);
        let document = TokenDocument { role, kinds: Vec::new(), group_id, adapter, expires_at };
        let content = token::content(&app.key, "admin", &document, &admin).unwrap();
        app.create(content, by_system(&app, "registered", Value::Null)).await.unwrap();
        let workers = Workers::new(app.clone());
        let router = router::api(app.clone());
        let (stop, _) = watch::channel(false);
        let rig = Self {
            app,
            maas,
            workers,
            router,
            admin,
            stop,
            tasks: JoinSet::new(),
            silent: Arc::default(),
            speaking: Arc::default(),
            stage_limit: None,
            backoff: SignedDuration::from_millis(20),
            beat: Duration::ZERO,
            _database: database,
            dir,
        };
        rig.site("berlin", &settings).await;
        rig
    }

    /// Another server on the same database, as it is after its start.
    pub(super) async fn another(&self) -> App {
        let key = keys::Key::load(&self.dir.path().join("server.key")).unwrap().unwrap();
        let (store, config) = (self.app.store.clone(), self.app.config.clone());
        let app = App::new(store, config, key, crate::kinds::KINDS);
        crate::platform::liveness::Driver::start(&app).await.unwrap();
        app
    }

    pub(super) fn secret(&self, reference: &str) -> std::path::PathBuf {
        self.app.config.secrets.directory.join(reference.strip_prefix("file:").unwrap())
    }

    pub(super) async fn site(&self, name: &str, settings: &Settings) {
        self.post("/api/v1/sites", json!({"name": name, "settings": settings})).await.ok();
    }

    /// Starts the engine and the poller.
    pub(super) fn work(&mut self) {
        self.work_with(self.workers.clone());
    }

    /// The same with other stages.
    pub(super) fn work_with<S: wardroom_workflow::Stages>(&mut self, stages: S) {
        let mut settings = EngineSettings::new("test".to_owned());
        settings.first_backoff = self.backoff;
        settings.longest_backoff = self.backoff * 10;
        settings.poll = Duration::from_millis(50);
        settings.limits = self.workers.limits.clone();
        settings.stage_limit = self.stage_limit.unwrap_or(settings.stage_limit);
        let engine = Engine::new(self.app.store.clone(), stages, settings, || Clock.now());
        self.tasks.spawn(Arc::new(engine).run(self.stop.subscribe()));
        let polling = work::polling(self.workers.clone());
        self.tasks.spawn(polling.run(self.app.clone(), self.stop.subscribe()));
    }

    /// Starts what looks for drift.
    pub(super) fn sweep(&mut self) {
        let sweeping = work::sweeping(self.workers.clone(), "test".to_owned());
        self.tasks.spawn(sweeping.run(self.app.clone(), self.stop.subscribe()));
    }

    /// Lets an agent speak for every node that has a token: it enrols, beats, and does what it is asked.
    pub(super) fn agents(&mut self) {
        let (app, router, mut stop) = (self.app.clone(), self.router.clone(), self.stop.subscribe());
        let (silent, speaking) = (Arc::clone(&self.silent), Arc::clone(&self.speaking));
        let beat = self.beat;
        self.tasks.spawn(async move {
            let (mut agents, mut spoke) = (BTreeMap::new(), BTreeMap::<String, Instant>::new());
            while !*stop.borrow() {
                let list =
                    wardroom_store::List { kind: "gpu-node".to_owned(), limit: 1000, ..Default::default() };
                for node in app.store.list(&list).await.unwrap().items {
                    let _speaking = speaking.lock().await;
                    let id = &node.content.id;
                    let rests = spoke.get(id).is_some_and(|spoke| spoke.elapsed() < beat);
                    if rests || silent.lock().unwrap().contains(id) {
                        continue;
                    }
                    spoke.insert(id.clone(), Instant::now());
                    speak(&app, &router, &node, &mut agents).await;
                }
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(50)) => {}
                    _ = stop.changed() => {}
                }
            }
        });
    }

    /// The host of a node is dead from now on.
    pub(super) fn silence(&self, id: &str) {
        self.silent.lock().unwrap().insert(id.to_owned());
    }

    /// The host of a node is dead, and what its agent was saying is heard.
    pub(super) async fn fall_silent(&self, id: &str) {
        self.silence(id);
        drop(self.speaking.lock().await);
    }

    /// The host of a node is dead, and has been for so long that it is known to be.
    pub(super) async fn long_silence(&self, id: &str) {
        self.silence(id);
        let _nobody = self.speaking.lock().await;
        self.age(id, SignedDuration::from_hours(1)).await;
    }

    /// What the agent of a node said last was said some time ago.
    pub(super) async fn age(&self, id: &str, ago: SignedDuration) {
        let received_at = self.app.now() - ago;
        let seen = self.app.store.observations("gpu-node", id).await.unwrap();
        let said = seen.into_iter().find(|seen| seen.source == "agent").unwrap();
        let old = wardroom_store::Observation { version: said.version + 1, received_at, ..said };
        self.app.store.observe(&old).await.unwrap();
        self.app.store.forget_seen("gpu-node", id).await.unwrap();
        self.app.liveness.forget("gpu-node", id);
    }

    /// It lives again.
    pub(super) fn hear(&self, id: &str) {
        self.silent.lock().unwrap().remove(id);
    }

    /// Waits until the run of a node is at a stage, or the node in a state.
    pub(super) async fn until_stage_or(&self, id: &str, stage: &str, state: &str) {
        for _ in 0..1500 {
            if self.lifecycle(id).await["run"]["stage"] == stage || self.state(id).await == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{id} is never at {stage}: {:#}", self.lifecycle(id).await);
    }

    pub(super) async fn call(&self, method: Method, path: &str, body: Value) -> Reply {
        call(&self.router, method, path, Some(&self.admin), body).await
    }

    /// Reads. A busy machine may answer 503 and ask to repeat; a client repeats, and so does this.
    pub(super) async fn get(&self, path: &str) -> Value {
        for _ in 0..20 {
            let reply = self.call(Method::GET, path, Value::Null).await;
            if reply.status != StatusCode::SERVICE_UNAVAILABLE {
                return reply.ok();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.call(Method::GET, path, Value::Null).await.ok()
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.call(Method::POST, path, body).await
    }

    pub(super) async fn as_agent(&self, credential: &str, path: &str, body: Value) -> Reply {
        call(&self.router, Method::POST, path, Some(credential), body).await
    }

    /// A node that is active, of a machine that MAAS can power.
    pub(super) async fn active(&mut self, number: u32) -> String {
        let _ = self.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() });
        self.work();
        self.agents();
        let id = self.onboard(number).await;
        self.until(&id, "active").await;
        id
    }

    /// Registers a node that a site manages; answers its id.
    pub(super) async fn onboard(&self, number: u32) -> String {
        let body = json!({"hostname": format!("gpu-{number}"), "site": "berlin", "macs": [mac(number)]});
        let made = self.post("/api/v1/gpu-nodes", body).await.ok();
        made["data"]["id"].as_str().unwrap().to_owned()
    }

    /// A node that was bootstrapped by hand, and its token.
    pub(super) async fn by_hand(&self, number: u32) -> (String, String) {
        let made = self.post("/api/v1/gpu-nodes", json!({"hostname": format!("gpu-{number}")})).await.ok();
        let text = |name: &str| made["data"][name].as_str().unwrap().to_owned();
        (text("id"), text("token"))
    }

    /// Sends the request of an action as it is offered.
    pub(super) async fn take(&self, action: &Value) -> Reply {
        let text = |field: &str| action[field].as_str().unwrap_or_else(|| panic!("{action:#}"));
        let body = if action["body"].is_null() { json!({}) } else { action["body"].clone() };
        self.call(text("method").parse().unwrap(), text("path"), body).await
    }

    pub(super) async fn act(&self, id: &str, action: &str, body: Value) -> Reply {
        self.post(&format!("/api/v1/gpu-nodes/{id}/actions/{action}"), body).await
    }

    /// Recovers a node from quarantine once its agent has proven it healthy.
    pub(super) async fn recover(&self, id: &str) {
        for _ in 0..1500 {
            assert_eq!(self.state(id).await, "quarantined", "its agent beats, and that is not enough");
            if self.act(id, "recover", json!({})).await.status.is_success() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{id} is not proven healthy: {:#}", self.lifecycle(id).await);
    }

    pub(super) async fn state(&self, id: &str) -> String {
        self.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"]["status"].as_str().unwrap().to_owned()
    }

    pub(super) async fn lifecycle(&self, id: &str) -> Value {
        self.get(&format!("/api/v1/gpu-nodes/{id}/lifecycle")).await["data"].clone()
    }

    /// Waits until a node is in a state; says what its run does when it never is.
    pub(super) async fn until(&self, id: &str, state: &str) {
        for _ in 0..1500 {
            if self.state(id).await == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{id} is not {state}: {:#}", self.lifecycle(id).await);
    }

    /// Waits until the run of a node is in a state, and answers the run.
    pub(super) async fn until_run(&self, id: &str, state: &str) -> Value {
        for _ in 0..1500 {
            let run = self.lifecycle(id).await["run"].clone();
            if run["status"] == state {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the run of {id} is not {state}: {:#}", self.lifecycle(id).await);
    }

    /// MAAS's id of a node's machine, if it has one.
    pub(super) async fn system_of(&self, id: &str) -> Option<String> {
        let node = self.get(&format!("/api/v1/gpu-nodes/{id}")).await;
        node["data"]["system_id"].as_str().map(str::to_owned)
    }

    /// MAAS's id of a node's machine, once it has one.
    pub(super) async fn system_id(&self, id: &str) -> String {
        for _ in 0..500 {
            if let Some(system_id) = self.system_of(id).await {
                return system_id;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{id} never had a machine: {:#}", self.lifecycle(id).await);
    }

    /// How often MAAS did something to a machine.
    pub(super) fn did(&self, system_id: &str, op: &str) -> u64 {
        self.maas.effects().get(system_id).and_then(|ops| ops.get(op)).copied().unwrap_or(0)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

pub(super) fn mac(number: u32) -> String {
    format!("52:54:00:00:{:02x}:{:02x}", number >> 8 & 255, number & 255)
}

pub(super) async fn call(
    router: &router::Front,
    method: Method,
    path: &str,
    token: Option<&str>,
    body: Value,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path).header("host", "wardroom");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let request = request.header("content-type", "application/json").body(body).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Reply { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
}

/// One look of all agents at one node.
async fn speak(
    app: &App,
    router: &router::Front,
    node: &wardroom_store::Resource,
    agents: &mut BTreeMap<String, (u32, String)>,
) {
    let id = &node.content.id;
    let document = super::super::document::Document::of(node).unwrap();
    let deployed = node.content.state != "bootstrap_issued";
    if let Some(token) = document.enrollment.as_ref().filter(|_| deployed) {
        // As the deployed system would: only once MAAS calls it deployed.
        let seen = super::super::proof::latest(app, id).await.unwrap().maas;
        let up = document.site.is_none()
            || seen.is_some_and(|sight| {
                sight.seen.status == Some(wardroom_core::gpu_node::maas::Status::Deployed)
            });
        if up {
            let token = secret::token(&app.key, id, &token.run, token.round);
            let reply =
                call(router, Method::POST, "/api/v1/gpu-nodes/enroll", None, json!({"token": token})).await;
            if reply.status.is_success() {
                let credential = reply.body["credential"].as_str().unwrap().to_owned();
                agents.insert(id.clone(), (0, credential));
            }
        }
    }
    let Some((_, credential)) = agents.get(id) else { return };
    let path = format!("/api/v1/gpu-nodes/{id}/heartbeat");
    let beat = call(router, Method::POST, &path, Some(credential), json!({"checks": []})).await;
    if beat.body["has_tasks"] != true {
        return;
    }
    let path = format!("/api/v1/gpu-nodes/{id}/tasks/claim");
    let claimed = call(router, Method::POST, &path, Some(credential), json!({"holder": "a"})).await;
    let Some(task) = claimed.body["task"]["id"].as_str() else { return };
    let path = format!("/api/v1/gpu-nodes/{id}/tasks/{task}/result");
    let result = json!({"epoch": claimed.body["task"]["epoch"], "outcome": "succeeded", "output": "done"});
    call(router, Method::POST, &path, Some(credential), result).await;
}

/// The request of an action in one line; panics where there is none.
pub(super) fn line(action: &Value) -> String {
    let text = |field: &str| action[field].as_str().unwrap_or_else(|| panic!("no {field}: {action:#}"));
    let body = if action["body"].is_null() { String::new() } else { format!(" {}", action["body"]) };
    format!("{} {}{body}", text("method"), text("path"))
}

/// What some actions do, in a word each.
pub(super) fn verbs(actions: &Value) -> Value {
    actions.as_array().unwrap().iter().map(|action| action["action"].clone()).collect()
}
