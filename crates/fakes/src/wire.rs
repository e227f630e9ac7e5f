//! Connections of the fakes: below a web framework, because a fake must be able to hang up without an answer.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Response,
    body::{Bytes, Incoming},
    header::HeaderMap,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// A request, read to its end.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    #[cfg_attr(not(feature = "maas"), expect(dead_code, reason = "BMCs are asked without parameters"))]
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) received: Instant,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// The outcome of a request.
pub(crate) enum Reply {
    Answer(Response<Full<Bytes>>),
    /// The connection ends without an answer.
    HangUp,
    /// The connection stays open without an answer.
    Silence,
}

/// An answer with a body.
pub(crate) fn answer(status: u16, kind: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert("content-type", kind);
    }
    response
}

/// The same with a header more.
pub(crate) fn with(
    mut response: Response<Full<Bytes>>,
    name: &'static str,
    value: &str,
) -> Response<Full<Bytes>> {
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
    response
}

/// A listener that serves until it is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    task: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `handle` on an address, without TLS.
pub(crate) async fn spawn<H, F>(address: SocketAddr, handle: H) -> io::Result<Listener>
where
    H: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send,
{
    spawn_with(address, handle, |stream| async { Some(stream) }).await
}

/// Serves `handle` on an address; `wrap` may put TLS around a connection.
pub(crate) async fn spawn_with<H, F, W, G, S>(address: SocketAddr, handle: H, wrap: W) -> io::Result<Listener>
where
    H: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send,
    W: Fn(TcpStream) -> G + Send + Sync + 'static,
    G: Future<Output = Option<S>> + Send,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket = TcpListener::bind(address).await?;
    let address = socket.local_addr()?;
    let (handle, wrap) = (Arc::new(handle), Arc::new(wrap));
    let task = tokio::spawn(async move {
        // Dropped with this task, and the connections with it.
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = socket.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let (handle, wrap) = (Arc::clone(&handle), Arc::clone(&wrap));
            connections.spawn(async move {
                if let Some(stream) = wrap(stream).await {
                    connection(stream, handle).await;
                }
            });
        }
    });
    Ok(Listener { address, task: task.abort_handle() })
}

/// Why a connection ends early.
#[derive(Debug)]
struct HungUp;

impl std::fmt::Display for HungUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hung up as ordered")
    }
}

impl std::error::Error for HungUp {}

async fn connection<S, H, F>(stream: S, handle: Arc<H>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Reply> + Send,
{
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let handle = Arc::clone(&handle);
        async move {
            let Ok(request) = read(request).await else { return Err(HungUp) };
            match handle(request).await {
                Reply::Answer(response) => Ok(response),
                Reply::HangUp => Err(HungUp),
                Reply::Silence => match std::future::pending::<Infallible>().await {},
            }
        }
    });
    // However it ends, the next one is served.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn read(request: hyper::Request<Incoming>) -> Result<Request, HungUp> {
    const MOST: usize = 16 << 20;
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MOST).collect().await.map_err(|_| HungUp)?.to_bytes();
    Ok(Request {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
        received: now(),
    })
}

/// Returns the time of the monotonic clock; the only reader of it in these fakes.
#[expect(clippy::disallowed_methods, reason = "this is the clock of the fakes")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Prints the URL of the program for clients.
pub(crate) fn announce(url: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut out = io::stdout().lock();
    writeln!(out, "{url}")?;
    out.flush()
}
