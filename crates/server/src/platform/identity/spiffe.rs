//! Client certificates of satellites (X.509-SVIDs): checks them and reads their SPIFFE ID.
//!
//! What must stay true: an identity is the whole SPIFFE ID of a leaf that chains to the trust bundle of one
//! trust domain. It is read once per connection, after the handshake, and its expiry is checked on every
//! request. TLS sessions are not resumed, because a resumed session would skip the check against the current
//! bundle.

use std::{
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use jiff::Timestamp;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
};
use rustls_pki_types::pem::PemObject as _;
use tokio_rustls::TlsAcceptor;
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

/// The listener for callers with an X.509-SVID.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The URL under which satellites reach it; nothing for the address it listens on.
    pub url: Option<String>,
    /// Whether that was set; else it is the address of this server alone.
    pub url_is_set: bool,
    /// The trust domain of satellites.
    pub trust_domain: String,
    /// The trust bundle; nothing to ask SPIRE for it.
    pub bundle: Option<PathBuf>,
    /// The certificate chain that is presented.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// The identity in the certificate of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpiffeId {
    /// The whole ID, such as `spiffe://example.org/satellite/region/eu/edge-01`.
    pub(crate) id: String,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

/// SPIRE backdates certificates a little, for clocks that differ.
const BACKDATED: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// Whether a certificate is void because only later ones are accepted.
pub(crate) fn is_void(from: Timestamp, after: Option<Timestamp>) -> bool {
    after.is_some_and(|after| from < after - BACKDATED)
}

impl SpiffeId {
    /// Whether it is void because only certificates from after this time are accepted.
    pub(crate) fn is_void(&self, after: Option<Timestamp>) -> bool {
        is_void(self.from, after)
    }
}

/// What is wrong with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAnSvid {
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the certificate must have exactly one URI, its SPIFFE ID")]
    Uris,
    #[error("the URI of the certificate is not a SPIFFE ID of a workload")]
    Id,
    #[error("the certificate is of another trust domain")]
    TrustDomain,
    #[error("the certificate is that of a certificate authority")]
    Authority,
    #[error("the certificate must be for digital signatures, and not for signing certificates")]
    KeyUsage,
}

/// Reads the identity out of a leaf whose chain was verified.
pub(crate) fn identity(leaf: &[u8], trust_domain: &str) -> Result<SpiffeId, NotAnSvid> {
    let (rest, certificate) = X509Certificate::from_der(leaf).map_err(|_| NotAnSvid::Unreadable)?;
    if !rest.is_empty() {
        return Err(NotAnSvid::Unreadable);
    }
    let constraints = certificate.basic_constraints().map_err(|_| NotAnSvid::Unreadable)?;
    if constraints.is_some_and(|constraints| constraints.value.ca) {
        return Err(NotAnSvid::Authority);
    }
    let usage = certificate.key_usage().map_err(|_| NotAnSvid::Unreadable)?.ok_or(NotAnSvid::KeyUsage)?.value;
    if !usage.digital_signature() || usage.key_cert_sign() || usage.crl_sign() {
        return Err(NotAnSvid::KeyUsage);
    }
    let names = certificate.subject_alternative_name().map_err(|_| NotAnSvid::Unreadable)?;
    let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let uris =
        names.iter().filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None });
    let [id] = uris.collect::<Vec<_>>()[..] else { return Err(NotAnSvid::Uris) };
    check_id(id, trust_domain)?;
    let time = |at: x509_parser::time::ASN1Time| {
        Timestamp::from_second(at.timestamp()).map_err(|_| NotAnSvid::Unreadable)
    };
    let validity = certificate.validity();
    Ok(SpiffeId { id: id.to_owned(), from: time(validity.not_before)?, until: time(validity.not_after)? })
}

/// A SPIFFE ID has no port, user, query, fragment or encoded character, and here it has a path: an ID
/// without one names the trust domain itself.
fn check_id(id: &str, trust_domain: &str) -> Result<(), NotAnSvid> {
    const LONGEST: usize = 2048;
    let rest = id.strip_prefix("spiffe://").filter(|_| id.len() <= LONGEST).ok_or(NotAnSvid::Id)?;
    let (domain, path) = rest.split_once('/').ok_or(NotAnSvid::Id)?;
    let decent = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let segment = |part: &str| !part.is_empty() && part != "." && part != ".." && part.bytes().all(decent);
    if !path.split('/').all(segment) {
        return Err(NotAnSvid::Id);
    }
    if domain == trust_domain { Ok(()) } else { Err(NotAnSvid::TrustDomain) }
}

/// The current trust bundle and the server's certificate; both can be replaced at run time.
pub(crate) struct Trust {
    trust_domain: String,
    verifier: RwLock<Option<Arc<dyn ClientCertVerifier>>>,
    own: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("trust_domain", &self.trust_domain).finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads the files; without a bundle file every caller is refused until [`set_roots`](Self::set_roots) is
    /// called.
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let own = RwLock::new(Arc::new(certified(&settings.certificate, &settings.key)?));
        let trust = Self { trust_domain: settings.trust_domain.clone(), verifier: RwLock::new(None), own };
        if let Some(bundle) = &settings.bundle {
            trust.set_roots(roots(bundle)?)?;
        }
        Ok(trust)
    }

    /// Reads the files again. If one is wrong, the one before stays in force.
    pub(crate) fn reload(&self, settings: &Settings) -> Result<(), String> {
        let own = Arc::new(certified(&settings.certificate, &settings.key)?);
        *self.own.write().unwrap_or_else(PoisonError::into_inner) = own;
        match &settings.bundle {
            Some(bundle) => self.set_roots(roots(bundle)?),
            None => Ok(()),
        }
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
        config.send_tls13_tickets = 0;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The identity of an open connection.
    pub(crate) fn identity(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<SpiffeId> {
        identity(chain?.first()?, &self.trust_domain).ok()
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
    /// Hints are optional, and the bundle may change.
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
        identity(leaf, &self.trust_domain).map_err(|error| rustls::Error::General(error.to_string()))?;
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

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn certified(certificate: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let wrong = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let read = |path: &Path| fs::read(path).map_err(|error| wrong(path, &error));
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(certificate, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| wrong(key, &error))?;
    CertifiedKey::from_der(chain, private, &provider()).map_err(|error| wrong(certificate, &error))
}

fn roots(bundle: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error: &dyn fmt::Display| format!("{}: {error}", bundle.display());
    let text = fs::read(bundle).map_err(|error| wrong(&error))?;
    CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests;
