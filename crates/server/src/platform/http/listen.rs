//! Listeners: accepting connections, TLS, and an end that lets requests finish.

use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request},
    response::Response,
};
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use ipnet::IpNet;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::platform::app::App;
use crate::platform::http::{host::Loopback, router::Front, wire::Wire};
use crate::platform::identity::certificate::{ClientCertificate, Trust};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    /// The names it answers to; nothing for any name.
    pub(crate) loopback: Option<Loopback>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// The authorities that client certificates must come from; nothing where none are asked for.
    pub(crate) trust: Option<Arc<Trust>>,
    /// Networks that may connect; nothing for all.
    pub(crate) networks: Option<Vec<IpNet>>,
    pub(crate) router: Front,
    /// For listeners of heartbeats: told when members cannot connect.
    pub(crate) members: Option<MemberListener>,
}

/// Receives whether members can connect to a listener.
pub(crate) struct MemberListener {
    app: App,
    refuses: AtomicBool,
}

impl MemberListener {
    pub(crate) fn of(app: &App) -> Self {
        Self { app: app.clone(), refuses: AtomicBool::new(false) }
    }
}

/// Connections that one listener holds at once.
const MOST_CONNECTIONS: usize = 16 * 1024;

type Place = OwnedSemaphorePermit;

/// A client must send its headers within this time.
const HEADERS: Duration = Duration::from_secs(15);

/// A client must finish its TLS handshake within this time.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Listener {
    /// Serves until `stop` changes, then lets requests under way finish for a while.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>, grace: Duration) {
        let ending = watch::Sender::new(());
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&places) => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok((stream, peer, place)) => self.spawn_connection(stream, peer, place, &ending),
                Err(error) => {
                    // Out of file descriptors, most likely: give connections time to end.
                    tracing::warn!(%error, "connection not accepted");
                    self.accepts(false);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.socket);
        ending.send_replace(());
        // Each connection listens until it ends.
        if tokio::time::timeout(grace, ending.closed()).await.is_err() {
            tracing::warn!("some requests did not finish in time and were cut off");
        }
    }

    /// The next connection, once there is a place for it; until then it waits in the system's queue.
    async fn accept(&self, places: &Arc<Semaphore>) -> std::io::Result<(TcpStream, SocketAddr, Place)> {
        let place = match Arc::clone(places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                self.accepts(false);
                Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?
            }
        };
        let (stream, peer) = self.socket.accept().await?;
        self.accepts(true);
        Ok((stream, peer, place))
    }

    /// Members that cannot connect are not silent.
    fn accepts(&self, accepts: bool) {
        // Costs nothing while they can.
        if let Some(door) = &self.members
            && door.refuses.swap(!accepts, Relaxed) == accepts
        {
            door.app.liveness.listener_accepts(accepts);
        }
    }

    fn spawn_connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        place: Place,
        ending: &watch::Sender<()>,
    ) {
        let ip = peer.ip().to_canonical();
        if self
            .networks
            .as_ref()
            .is_some_and(|networks| !networks.iter().any(|network| network.contains(&ip)))
        {
            tracing::debug!(%peer, "connection from outside boot.networks closed");
            return;
        }
        // Send small answers at once; a socket without this option still works.
        let _ = stream.set_nodelay(true);
        let loopback = self.loopback.clone();
        let mut caller =
            Connection { router: self.router.clone(), peer: Peer(peer), loopback, identity: None };
        let (tls, trust, ending) = (self.tls.clone(), self.trust.clone(), ending.subscribe());
        tokio::spawn(async move {
            let _place = place;
            match tls {
                None => serve(stream, caller, ending).await,
                Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        if let Some(trust) = trust {
                            match trust.identity(stream.get_ref().1.peer_certificates()) {
                                Ok(identity) => caller.identity = identity,
                                Err(error) => {
                                    tracing::debug!(%peer, error, "a certificate is not one of this listener");
                                    return;
                                }
                            }
                        }
                        serve(stream, caller, ending).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                    Err(_) => tracing::debug!(%peer, "TLS handshake timed out; connection closed"),
                },
            }
        });
    }
}

/// Passes requests to the router, with the address and certificate of their connection.
struct Connection {
    router: Front,
    peer: Peer,
    loopback: Option<Loopback>,
    identity: Option<ClientCertificate>,
}

impl hyper::service::Service<Request<Incoming>> for Connection {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        if let Some(loopback) = &self.loopback {
            request.extensions_mut().insert(loopback.clone());
        }
        if let Some(identity) = &self.identity {
            request.extensions_mut().insert(identity.clone());
        }
        // A router is always ready.
        tower::Service::call(&mut self.router.clone(), request)
    }
}

async fn serve<S>(stream: S, caller: Connection, mut ending: watch::Receiver<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(64 << 10);
    let mut wire = Wire::new(stream);
    let ended = {
        let mut connection = pin!(builder.serve_connection(TokioIo::new(&mut wire), caller));
        tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            _ = ending.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection failed");
        wire.explain(&error).await;
    }
}

/// TLS from PEM files.
pub(crate) fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let read = |path: &Path| fs::read(path).map_err(|error| wrong(path, &error));
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(certificate, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
