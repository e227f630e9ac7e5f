//! A Harbor that keeps robots, projects and repositories in memory, and answers as the real one does.
//!
//! Names are checked more strictly than Wardroom checks its own, a robot's secret is shown once, a new secret does not
//! move a robot's expiry, and an update replaces the whole robot, fields left out included.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fault::{
    Clock, Faults, Snapshot,
    control::{self, Controlled},
    lock,
    serve::{Front, Server},
};

mod access;
pub mod program;
mod registry;
mod reply;
mod robots;
mod routes;
mod state;

use reply::Refusal;
use state::State;

/// The path below which the API is.
const BASE: &str = "/api/v2.0";

/// How the fake is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens; port 0 for any.
    pub listen: SocketAddr,
    /// The name of the administrator.
    pub username: String,
    /// The administrator's password.
    pub password: String,
    /// The prefix of robots' names.
    pub prefix: String,
    /// A file that keeps the state; only memory when absent.
    pub state: Option<PathBuf>,
    /// Whether images can be pushed; otherwise only logins are answered.
    pub is_registry: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            username: "admin".to_owned(),
            password: "Harbor12345".to_owned(),
            prefix: "robot$".to_owned(),
            state: None,
            is_registry: false,
        }
    }
}

/// A fake Harbor, until it is dropped.
#[derive(Debug)]
pub struct Harbor {
    shared: Arc<Shared>,
    address: SocketAddr,
    _server: Server,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    state: Mutex<State>,
    snapshot: Snapshot,
    faults: Faults,
    clock: Clock,
}

impl Harbor {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot listen, or the state cannot be read.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let snapshot = Snapshot(options.state.clone());
        let state = Mutex::new(snapshot.load(State::new)?);
        let faults = Faults::default();
        let shared = Arc::new(Shared { options, state, snapshot, faults, clock: Clock::default() });
        let routes = routes::all(&shared).merge(registry::routes(&shared)).merge(control::routes(&shared));
        let mut server = Server::default();
        server.tcp(listener, Front { fake: Arc::clone(&shared), routes, call, refuse });
        Ok(Self { shared, address, _server: server })
    }

    /// Returns the address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
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
}

impl Shared {
    /// Changes the state; a success is counted as an effect and saved.
    fn change<T>(
        &self,
        effect: &str,
        change: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut state = lock(&self.state);
        let result = change(&mut state)?;
        self.snapshot.save(&*state);
        self.faults.applied(effect);
        Ok(result)
    }
}

impl Controlled for Shared {
    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn state(&self) -> Value {
        json!(*lock(&self.state))
    }
}

/// Returns the name of a call, such as `POST /robots`; none for a request outside Harbor's API.
fn call(request: &Request<Incoming>) -> Option<String> {
    let path = request.uri().path().strip_prefix(BASE)?;
    Some(format!("{} {path}", request.method()))
}

fn refuse(status: u16) -> Response {
    Refusal::ordered(status).into_response()
}
