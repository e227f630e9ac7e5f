//! A SPIRE server that keeps join tokens, entries and agents in memory and speaks the official protocol.
//!
//! Nodes do not really join: a control call stands for that, under the rules for tokens, bans and identities.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use axum::{Router, extract::Request, response::Response};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;
use tonic::{Code, Status, body::Body, service::Routes};
use wardroom_spire_proto::{
    agent::agent_server::AgentServer, bundle::bundle_server::BundleServer, entry::entry_server::EntryServer,
};

use crate::fault::{
    Clock, Faults, Snapshot,
    control::{self, Controlled},
    lock,
    serve::{Front, Server},
};

mod agents;
mod attest;
mod bundles;
mod entries;
pub mod program;
mod state;
mod tls;

pub use attest::{Attestation, Refused};
use state::State;
pub use tls::Tls;

/// How the fake is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its trust domain.
    pub trust_domain: String,
    /// The private socket.
    pub socket: Option<PathBuf>,
    /// TCP with mutual TLS; port 0 chooses a free one.
    pub tcp: Option<(SocketAddr, Tls)>,
    /// The address for control calls; port 0 chooses a free one.
    pub control: SocketAddr,
    /// The roots of the trust domain, as DER.
    pub roots: Vec<Vec<u8>>,
    /// A file that keeps the state; only memory when absent.
    pub state: Option<PathBuf>,
    /// The most that a page of a list holds.
    pub page: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            trust_domain: "example.org".to_owned(),
            socket: None,
            tcp: None,
            control: SocketAddr::from(([127, 0, 0, 1], 0)),
            roots: Vec::new(),
            state: None,
            page: 1000,
        }
    }
}

/// A fake SPIRE server, until it is dropped.
#[derive(Debug)]
pub struct Spire {
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    control: SocketAddr,
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

/// The services of the protocol.
#[derive(Debug, Clone)]
struct Service(Arc<Shared>);

impl Spire {
    /// Starts it. A socket that an earlier one left behind is replaced.
    ///
    /// # Errors
    /// When it cannot listen, or a file cannot be read.
    pub async fn start(options: Options) -> io::Result<Self> {
        let snapshot = Snapshot(options.state.clone());
        let state = Mutex::new(snapshot.load(State::default)?);
        let (faults, clock) = (Faults::default(), Clock::default());
        let shared = Arc::new(Shared { options, state, snapshot, faults, clock });
        let mut server = Server::default();
        let front = |routes: Router| Front { fake: Arc::clone(&shared), routes, call, refuse };
        let service = Service(Arc::clone(&shared));
        let routes = Routes::new(AgentServer::new(service.clone()))
            .add_service(EntryServer::new(service.clone()))
            .add_service(BundleServer::new(service))
            .into_axum_router();

        let control = TcpListener::bind(shared.options.control).await?;
        let control_address = control.local_addr()?;
        server.tcp(control, front(control::routes(&shared).merge(attest::routes(&shared))));
        if let Some(path) = &shared.options.socket {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => server.unix(UnixListener::bind(path)?, front(routes.clone())),
            }
        }
        let mut address = None;
        if let Some((listen, tls)) = &shared.options.tcp {
            let listener = TcpListener::bind(listen).await?;
            address = Some(listener.local_addr()?);
            server.tls(listener, TlsAcceptor::from(Arc::new(tls.config()?)), front(routes));
        }
        Ok(Self { shared, address, control: control_address, _server: server })
    }

    /// Where it listens over TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the address for control calls.
    #[must_use]
    pub fn control(&self) -> SocketAddr {
        self.control
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

    /// Lets a node join.
    ///
    /// # Errors
    /// When it may not.
    pub fn attest(&self, attestation: &Attestation) -> Result<String, Refused> {
        self.shared.attest(attestation)
    }
}

impl Shared {
    /// Changes the state; a success is counted as an effect and saved.
    fn change<T, E>(&self, effect: &str, change: impl FnOnce(&mut State) -> Result<T, E>) -> Result<T, E> {
        let mut state = lock(&self.state);
        let result = change(&mut state)?;
        self.snapshot.save(&*state);
        self.faults.applied(effect);
        Ok(result)
    }

    /// An identity of this trust domain.
    fn id(&self, path: &str) -> String {
        format!("spiffe://{}{path}", self.options.trust_domain)
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

/// `BatchCreateEntry` and so on; nothing for control calls.
fn call(request: &Request<Incoming>) -> Option<String> {
    let (service, method) = request.uri().path().rsplit_once('/')?;
    service.starts_with("/spire.").then(|| method.to_owned())
}

/// The gRPC code that stands for an ordered HTTP status.
fn refuse(status: u16) -> Response {
    let code = match status {
        400 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        409 => Code::Aborted,
        429 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        _ => Code::Internal,
    };
    Status::new(code, "ordered by a test").into_http::<Body>().map(axum::body::Body::new)
}

/// One page of a list, and the token of the next.
fn page<T: Clone>(all: &[T], size: i32, token: &str, most: usize) -> Result<(Vec<T>, String), Status> {
    let start: usize = match token {
        "" => 0,
        token => token.parse().map_err(|_| Status::invalid_argument("unknown page token"))?,
    };
    let size = usize::try_from(size).ok().filter(|&size| size > 0).map_or(most, |size| size.min(most));
    let found: Vec<T> = all.iter().skip(start).take(size).cloned().collect();
    let next = start + found.len();
    Ok((found, if next < all.len() { next.to_string() } else { String::new() }))
}

/// Refuses a call that Wardroom does not use.
fn beyond() -> Status {
    Status::unimplemented("the fake does not have this call")
}
