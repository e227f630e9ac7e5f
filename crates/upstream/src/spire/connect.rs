//! Ways to a SPIRE server: its private socket, or TCP with certificates on both sides.
//!
//! The certificates of SPIRE name an identity, not a host, and live for about an hour: the peer is checked by
//! its identity, and the files are read again for each connection.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    server::ParsedCertificate,
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, UnixTime,
    pem::{Error as PemError, PemObject as _},
};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Channel, Uri};
use tower::service_fn;

use super::Id;
use crate::Failure;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Its private socket; any process that can open it is an administrator.
    Socket(PathBuf),
    /// TCP; the certificate is that of an administrator.
    Tcp(Box<Tls>),
}

/// A way over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Host and port.
    pub address: String,
    /// The identity of the server, by custom `spiffe://<trust domain>/spire/server`.
    pub server: Id,
    /// The roots of its trust domain, as a PEM file.
    pub bundle: PathBuf,
    /// Our certificate and its chain, as a PEM file.
    pub certificate: PathBuf,
    /// Its key, as a PEM file.
    pub key: PathBuf,
}

impl Endpoint {
    /// A channel that connects when it is needed.
    pub(super) fn channel(&self) -> Result<Channel, Failure> {
        // The name goes into the requests and nowhere else: the connectors below know where to go.
        let endpoint = Channel::from_static("http://spire-server");
        Ok(match self {
            Self::Socket(path) => {
                let path = path.clone();
                endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
                    let path = path.clone();
                    async move { in_time(UnixStream::connect(path)).await.map(TokioIo::new) }
                }))
            }
            Self::Tcp(tls) => {
                if !tls.address.contains(':') {
                    return Err(Failure::Setup("the address of SPIRE needs a port".to_owned()));
                }
                let tls = tls.clone();
                endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
                    let tls = tls.clone();
                    async move { in_time(tls.connect()).await.map(TokioIo::new) }
                }))
            }
        })
    }
}

/// A connection that takes too long was not made: nothing was sent over it.
async fn in_time<T>(connect: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(CONNECT, connect).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

impl Tls {
    async fn connect(&self) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config()?;
        let stream = TcpStream::connect(&self.address).await?;
        // A socket without the option still works.
        let _ = stream.set_nodelay(true);
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.bundle)? {
            roots.add(root).map_err(io::Error::other)?;
        }
        let verifier = Verifier { server: self.server.to_string(), roots, provider: Arc::clone(&provider) };
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unreadable(&self.key, &error))?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(chain, key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, &error))?;
    if found.is_empty() { Err(unreadable(path, &PemError::NoItemsFound)) } else { Ok(found) }
}

fn unreadable(path: &Path, error: &PemError) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Accepts one identity of one trust domain, wherever it runs.
#[derive(Debug)]
struct Verifier {
    server: String,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        let certificate = webpki::EndEntityCert::try_from(end_entity)
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        // A certificate with two identities is valid for neither.
        let mut names = certificate.valid_uri_names();
        match (names.next(), names.next()) {
            (Some(name), None) if name == self.server => Ok(ServerCertVerified::assertion()),
            _ => Err(rustls::Error::General(format!("the server is not {}", self.server))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
