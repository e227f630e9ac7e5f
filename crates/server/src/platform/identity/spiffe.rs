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
};

use jiff::Timestamp;
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::CertifiedKey,
};
use rustls_pki_types::pem::PemObject as _;
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use super::certificate::{Asks, ClientCertificate, Trust, provider};

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

/// SPIRE backdates certificates a little, for clocks that differ.
const BACKDATED: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// Whether a certificate is void because only later ones are accepted.
pub(crate) fn is_void(from: Timestamp, after: Option<Timestamp>) -> bool {
    after.is_some_and(|after| from < after - BACKDATED)
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
pub(crate) fn identity(leaf: &[u8], trust_domain: &str) -> Result<ClientCertificate, NotAnSvid> {
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
    ClientCertificate::of(id, &certificate).ok_or(NotAnSvid::Unreadable)
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

/// The trust in the callers of this listener. Without a bundle file every caller is refused until the roots are set.
pub(crate) fn trust(settings: &Settings) -> Result<Trust, String> {
    let trust = trust_of(&settings.trust_domain, certified(&settings.certificate, &settings.key)?);
    if let Some(bundle) = &settings.bundle {
        trust.set_roots(roots(bundle)?)?;
    }
    Ok(trust)
}

fn trust_of(trust_domain: &str, own: CertifiedKey) -> Trust {
    let trust_domain = trust_domain.to_owned();
    let read = move |leaf: &[u8]| identity(leaf, &trust_domain).map_err(|error| error.to_string());
    Trust::new(Asks::Always, read, own)
}

/// Reads the files again. If one is wrong, the one before stays in force.
pub(crate) fn reload(trust: &Trust, settings: &Settings) -> Result<(), String> {
    trust.set_own(certified(&settings.certificate, &settings.key)?);
    settings.bundle.as_ref().map_or(Ok(()), |bundle| trust.set_roots(roots(bundle)?))
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
