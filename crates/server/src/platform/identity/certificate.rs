//! Callers with a client certificate: whom a listener lets in, and who they are.
//!
//! A kind says which certificates are its own and reads the identity in one; its listener has the rest from here.
//!
//! What must stay true: an identity is read once per connection, where the handshake proved it, and its end is looked at on
//! every request: a connection outlives no certificate. A listener resumes sessions only if the kind looks at the record
//! behind the certificate on every request, since a resumed session is let in without a look at the authorities of today.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use jiff::Timestamp;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;
use x509_parser::certificate::X509Certificate;

/// Whose certificate a connection was opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The name in it, such as `spiffe://example.org/satellite/region/eu/edge-01`.
    pub(crate) id: String,
    /// Its serial number, in lower-case hexadecimal digits.
    pub(crate) serial: String,
    /// When the certificate begins.
    pub(crate) from: Timestamp,
    /// When the certificate ends.
    pub(crate) until: Timestamp,
}

impl ClientCertificate {
    /// The facts of a certificate with this name in it; nothing when its times are out of range.
    pub(crate) fn of(id: &str, certificate: &X509Certificate<'_>) -> Option<Self> {
        let time = |at: x509_parser::time::ASN1Time| Timestamp::from_second(at.timestamp()).ok();
        let validity = certificate.validity();
        let serial = certificate.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect();
        let (from, until) = (time(validity.not_before)?, time(validity.not_after)?);
        Some(Self { id: id.to_owned(), serial, from, until })
    }
}

/// Which callers have to show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Every caller, and no session is resumed.
    Always,
    /// Callers that have one; the others prove themselves otherwise. Sessions are resumed.
    Perhaps,
}

/// Reads the identity in a leaf whose chain was verified.
type Read = Box<dyn Fn(&[u8]) -> Result<ClientCertificate, String> + Send + Sync>;

/// The authorities of today, and the server's own certificate: both are replaced while connections come and go.
pub(crate) struct Trust {
    asks: Asks,
    read: Read,
    verifier: RwLock<Option<Arc<dyn ClientCertVerifier>>>,
    own: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("asks", &self.asks).finish_non_exhaustive()
    }
}

impl Trust {
    /// Trusts no authority yet.
    pub(crate) fn new(
        asks: Asks,
        read: impl Fn(&[u8]) -> Result<ClientCertificate, String> + Send + Sync + 'static,
        own: CertifiedKey,
    ) -> Self {
        Self { asks, read: Box::new(read), verifier: RwLock::new(None), own: RwLock::new(Arc::new(own)) }
    }

    /// Shows this certificate from now on.
    pub(crate) fn set_own(&self, own: CertifiedKey) {
        *self.own.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(own);
    }

    /// Trusts these authorities from now on, and no others.
    pub(crate) fn set_roots(&self, roots: Vec<CertificateDer<'static>>) -> Result<(), String> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root).map_err(|error| format!("an authority of the trust bundle: {error}"))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider())
            .build()
            .map_err(|error| format!("the trust bundle: {error}"))?;
        *self.verifier.write().unwrap_or_else(PoisonError::into_inner) = Some(verifier);
        Ok(())
    }

    /// What accepts connections.
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, String> {
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(Arc::clone(self) as Arc<dyn ClientCertVerifier>)
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match self.asks {
            Asks::Always => config.send_tls13_tickets = 0,
            // The client keeps its session, sealed: a server with many clients keeps none.
            Asks::Perhaps => {
                config.ticketer =
                    rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| error.to_string())?;
                config.send_tls13_tickets = 1;
            }
        }
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The identity of an open connection; nothing for one without a certificate where none is needed.
    pub(crate) fn identity(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
    ) -> Result<Option<ClientCertificate>, String> {
        match chain.and_then(<[_]>::first) {
            Some(leaf) => (self.read)(leaf).map(Some),
            None if self.asks == Asks::Perhaps => Ok(None),
            None => Err("there is no client certificate".to_owned()),
        }
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let verifier = self.verifier.read().unwrap_or_else(PoisonError::into_inner).clone();
        verifier.ok_or_else(|| rustls::Error::General("there is no trust bundle yet".to_owned()))
    }
}

impl ResolvesServerCert for Trust {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.own.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl ClientCertVerifier for Trust {
    fn client_auth_mandatory(&self) -> bool {
        self.asks == Asks::Always
    }

    /// Names of authorities would be a hint only, and the bundle may change under them.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.verifier()?.verify_client_cert(leaf, chain, now)?;
        (self.read)(leaf).map_err(rustls::Error::General)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier()?.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier()?.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The cryptography of every listener.
pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
