//! A Kubernetes API server that keeps its objects in memory, with the controllers that matter to a client.
//!
//! Server-side apply, field ownership, finalizers, watches and refusals are those of a real server. There are no pods:
//! Deployments and Jobs end as ordered, and lists that a schema does not describe are replaced as a whole.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use crate::fault::{
    Clock, Faults, Snapshot,
    control::{self as common, Controlled},
    lock,
    serve::{Front, Server},
};

mod control;
mod controllers;
mod defaults;
mod discovery;
mod fields;
mod kinds;
mod owners;
mod patch;
pub mod program;
mod reply;
mod route;
mod rules;
mod schema;
mod selector;
mod state;
mod table;
mod watch;
mod write;

pub use control::Watches;
pub use controllers::{Order, Outcome};

use reply::Refusal;
use state::State;

/// How the fake is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens; port 0 for any.
    pub listen: SocketAddr,
    /// The only bearer token that is accepted; any caller is when absent.
    pub token: Option<String>,
    /// A file that keeps the state; only memory when absent.
    pub state: Option<PathBuf>,
    /// How often the controllers look; only by [`Kubernetes::reconcile`] when absent.
    pub controllers: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: None,
            state: None,
            controllers: Some(Duration::from_millis(20)),
        }
    }
}

/// A fake Kubernetes, until it is dropped.
#[derive(Debug)]
pub struct Kubernetes {
    shared: Arc<Shared>,
    address: SocketAddr,
    _server: Server,
    _controllers: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    state: Mutex<State>,
    snapshot: Snapshot,
    faults: Faults,
    clock: Clock,
    /// Moves with every change, for watches.
    changed: tokio::sync::watch::Sender<u64>,
    watches: Mutex<Controls>,
}

/// Orders to the open watches.
#[derive(Debug, Clone, Copy, Default)]
struct Controls {
    cuts: u64,
    is_silent: bool,
}

impl Kubernetes {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot listen, or the state cannot be read.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let snapshot = Snapshot(options.state.clone());
        let clock = Clock::default();
        let mut state = snapshot.load(|| State::new(clock.now()))?;
        if state.log.is_empty() {
            // The log is not kept over a restart: watches from before have to list again.
            state.expire();
        }
        let shared = Arc::new(Shared {
            options,
            state: Mutex::new(state),
            snapshot,
            faults: Faults::default(),
            clock,
            changed: tokio::sync::watch::Sender::new(0),
            watches: Mutex::default(),
        });
        let api = Router::new().fallback(route::answer).with_state(Arc::clone(&shared));
        let routes = api.merge(common::routes(&shared)).merge(control::routes(&shared));
        let mut server = Server::default();
        server.tcp(listener, Front { fake: Arc::clone(&shared), routes, call, refuse });
        let mut controllers = JoinSet::new();
        if let Some(pause) = shared.options.controllers {
            let shared = Arc::clone(&shared);
            controllers.spawn(async move {
                loop {
                    shared.reconcile();
                    tokio::time::sleep(pause).await;
                }
            });
        }
        Ok(Self { shared, address, _server: server, _controllers: controllers })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a kubeconfig for it, in JSON, which is YAML.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        let user = self.shared.options.token.as_ref().map_or(json!({}), |token| json!({"token": token}));
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url()}}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}]});
        config.to_string()
    }

    /// Returns its faults and the count of its effects.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Returns its whole state.
    #[must_use]
    pub fn state(&self) -> Value {
        Controlled::state(&*self.shared)
    }

    /// Sets its clock forward.
    pub fn advance(&self, seconds: i64) {
        self.shared.clock.advance(seconds);
    }

    /// Orders how the work on some objects ends. Without an order it succeeds at once.
    pub fn order(&self, order: Order) {
        self.shared.order(order);
    }

    /// Orders what happens to the open watches.
    pub fn watches(&self, order: Watches) {
        self.shared.order_watches(order);
    }

    /// Lets the controllers look until nothing changes any more.
    pub fn reconcile(&self) {
        while self.reconcile_once() {}
    }

    /// Lets every controller look at every object once. Returns whether anything changed.
    pub fn reconcile_once(&self) -> bool {
        self.shared.reconcile()
    }
}

impl Shared {
    fn reconcile(&self) -> bool {
        let mut state = lock(&self.state);
        let is_changed = state.reconcile(self.clock.now());
        if is_changed {
            self.tell(&state);
        }
        is_changed
    }

    /// Saves the state and wakes the watches.
    fn tell(&self, state: &State) {
        self.snapshot.save(state);
        self.changed.send_modify(|count| *count += 1);
    }
}

/// Returns the name of a call, such as `PATCH /apis/apps/v1/namespaces/t/deployments/c`, or `WATCH /api/v1/namespaces`;
/// none for a control.
fn call(request: &Request<Incoming>) -> Option<String> {
    let path = request.uri().path();
    if path.starts_with("/_") {
        return None;
    }
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|pair| matches!(pair, "watch=1" | "watch=true"));
    let method = if is_watch { "WATCH" } else { request.method().as_str() };
    Some(format!("{method} {path}"))
}

fn refuse(status: u16) -> Response {
    Refusal::ordered(status).into_response()
}
