//! A connection of a device for one request: TLS with its certificate, HTTP/1.1, and the end.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustls::{
    ClientConfig, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
};
use tokio_rustls::TlsConnector;

/// An answer takes at most this long, from the beginning of the connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer.
const MOST_BYTES: u64 = 4 << 20;

/// Where the server is, and how its certificate is checked.
pub(super) struct Place {
    address: SocketAddr,
    host: ServerName<'static>,
    name: String,
    provider: Arc<CryptoProvider>,
    verifier: Arc<WebPkiServerVerifier>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Place {
    pub(super) async fn find(called: &str, roots: RootCertStore) -> anyhow::Result<Self> {
        let mut found =
            tokio::net::lookup_host(called).await.with_context(|| format!("--agents {called}"))?;
        let address = found.next().with_context(|| format!("--agents {called}: there is no such host"))?;
        let host = called.rsplit_once(':').map_or(called, |(host, _)| host).trim_matches(['[', ']']);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
        let host = ServerName::try_from(host.to_owned())?;
        Ok(Self { address, host, name: called.to_owned(), provider, verifier })
    }

    /// How a device connects: with its certificate, or without one. Keep it: it remembers sessions.
    pub(super) fn identity(
        &self,
        own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> anyhow::Result<TlsConnector> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .with_webpki_verifier(Arc::clone(&self.verifier));
        let config = match own {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
            None => builder.with_no_client_auth(),
        };
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// Sends a request over a connection of its own.
    pub(super) async fn send(
        &self,
        identity: &TlsConnector,
        from: Option<IpAddr>,
        request: Request<'_>,
    ) -> anyhow::Result<Answer> {
        tokio::time::timeout(PATIENCE, self.exchange(identity, from, request)).await?
    }

    async fn exchange(
        &self,
        identity: &TlsConnector,
        from: Option<IpAddr>,
        Request { method, path, bearer, body }: Request<'_>,
    ) -> anyhow::Result<Answer> {
        let socket = if self.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(from) = from {
            socket.bind(SocketAddr::new(from, 0))?;
        }
        socket.set_nodelay(true)?;
        let stream = socket.connect(self.address).await?;
        let mut stream = identity.connect(self.host.clone(), stream).await?;
        let mut head =
            format!("{method} /api/v1/{path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.name);
        if let Some(bearer) = bearer {
            head += &format!("Authorization: Bearer {bearer}\r\n");
        }
        if let Some(body) = body {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        let sent = head + "\r\n" + body.unwrap_or_default();
        stream.write_all(sent.as_bytes()).await?;
        let mut answer = Vec::new();
        // The server closes the connection after its answer; some do so without the alert of TLS.
        match (&mut stream).take(MOST_BYTES).read_to_end(&mut answer).await {
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
        read(&answer)
    }
}

/// A request below `/api/v1/`.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) bearer: Option<&'a str>,
    pub(super) body: Option<&'a str>,
}

/// Reads an answer, which is there as a whole.
fn read(answer: &[u8]) -> anyhow::Result<Answer> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").context("the answer was cut off")?;
    let head = std::str::from_utf8(&answer[..end])?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = answer[end + 4..].to_vec();
    if length.is_some_and(|length| length != body.len()) {
        bail!("the body of the answer was cut off");
    }
    Ok(Answer { status: status.context("not an answer of HTTP/1.1")?, body })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let answer = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, &*answer.body), (200, &b"{}"[..]));
        assert_eq!(read(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().status, 204);
        for cut in
            ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}", "nonsense\r\n\r\n"]
        {
            assert!(read(cut.as_bytes()).is_err(), "{cut:?}");
        }
    }
}
