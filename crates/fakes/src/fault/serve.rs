//! Serving a router with faults in front, over TCP, TLS or a Unix socket. When the server is dropped, so are its connections.

use std::{future::Future, io, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::JoinSet,
};
use tower::ServiceExt as _;

use super::{Cut, control::Controlled};

/// A fake that is being served.
#[derive(Debug, Default)]
pub(crate) struct Server(JoinSet<()>);

/// How a fake answers: its routes, the name of a call, and a refusal in its own format.
pub(crate) struct Front<F> {
    pub(crate) fake: Arc<F>,
    pub(crate) routes: Router,
    pub(crate) call: fn(&Request<Incoming>) -> Option<String>,
    pub(crate) refuse: fn(u16) -> Response,
}

impl<F> Clone for Front<F> {
    fn clone(&self) -> Self {
        let Self { fake, routes, call, refuse } = self;
        Self { fake: Arc::clone(fake), routes: routes.clone(), call: *call, refuse: *refuse }
    }
}

impl<F: Controlled> Front<F> {
    async fn answer(self, request: Request<Incoming>) -> Result<Response, Cut> {
        let call = (self.call)(&request);
        let routes = self.routes.clone();
        let apply = async move {
            match routes.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        };
        match call {
            None => Ok(apply.await),
            Some(call) => self.fake.faults().through(&call, apply, self.refuse).await,
        }
    }
}

impl Server {
    pub(crate) fn tcp<F: Controlled>(&mut self, listener: TcpListener, front: Front<F>) {
        let listener = Arc::new(listener);
        self.accept(front, move || {
            let listener = Arc::clone(&listener);
            async move { Ok(listener.accept().await?.0) }
        });
    }

    #[cfg(feature = "spire")]
    pub(crate) fn tls<F: Controlled>(
        &mut self,
        listener: TcpListener,
        tls: tokio_rustls::TlsAcceptor,
        front: Front<F>,
    ) {
        let listener = Arc::new(listener);
        self.accept(front, move || {
            let (listener, tls) = (Arc::clone(&listener), tls.clone());
            async move { tls.accept(listener.accept().await?.0).await }
        });
    }

    #[cfg(feature = "spire")]
    pub(crate) fn unix<F: Controlled>(&mut self, listener: tokio::net::UnixListener, front: Front<F>) {
        let listener = Arc::new(listener);
        self.accept(front, move || {
            let listener = Arc::clone(&listener);
            async move { Ok(listener.accept().await?.0) }
        });
    }

    fn accept<F, S, A>(&mut self, front: Front<F>, next: impl Fn() -> A + Send + 'static)
    where
        F: Controlled,
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        A: Future<Output = io::Result<S>> + Send,
    {
        self.0.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok(stream) = next().await else {
                    // A failed handshake concerns the client only; too many open files need time.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                let front = front.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| front.clone().answer(request));
                    // The end of a connection concerns the client only, or was ordered.
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
                while connections.try_join_next().is_some() {}
            }
        });
    }
}

/// Waits for a signal to stop.
pub(crate) async fn until_told() {
    let mut term = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(term) => term,
        Err(error) => panic!("signals cannot be waited for: {error}"),
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
