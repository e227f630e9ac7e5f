//! The authority of devices: it signs their certificates, and that of the listener where they connect.
//!
//! What must stay true: a certificate has nothing from the request but its public key; its name follows from that key, its
//! serial number is kept in the record of the device, and it cannot sign others. Servers that share a database share
//! the authority: its key is in the database too, sealed under the server's key.

use std::{fs, path::Path, sync::OnceLock};

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber, SubjectPublicKeyInfo,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use wardroom_store::{Content, Document, Error as StoreError, Resource};
use x509_parser::time::ASN1Time;

use super::{csr::PublicKey, settings::Settings};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
    identity::{
        seal::Seal,
        secret::{self, write_private},
    },
    work::jobs,
};

/// Its files in the folder of the server.
const CERTIFICATE: &str = "device-ca.pem";
const KEY: &str = "device-ca.key";

/// The record of an authority that the server made itself.
const RECORD: &str = "device-ca";

/// How long an authority is valid.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365 * 20);

/// How long the certificate of the listener is valid; a new one is made with every start and every day.
const OWN_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 90);

/// Certificates begin a little before they are issued, for clocks that differ.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// The authority, once it was loaded.
#[derive(Debug, Default)]
pub(super) struct Place(OnceLock<Authority>);

/// Signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub(super) pem: String,
    pub(super) der: CertificateDer<'static>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// A certificate of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signed {
    /// The certificate, followed by that of the authority.
    pub(super) pem: String,
    /// Its serial number as lower-case hexadecimal digits.
    pub(super) serial: String,
    pub(super) until: Timestamp,
}

/// What is stored of an authority.
#[derive(Serialize, Deserialize)]
struct Stored {
    certificate: String,
    key: String,
}

impl Authority {
    /// The authority of a server; nothing is signed before it was loaded.
    pub(super) fn of(app: &App) -> Result<&Self, Error> {
        app.part::<Place>().0.get().ok_or(Error::Unavailable("the server is about to start: repeat"))
    }

    /// Reads the authority, or makes one with the first server.
    pub(crate) async fn load(app: &App) -> Result<&Self, String> {
        let place = &app.part::<Place>().0;
        if let Some(loaded) = place.get() {
            return Ok(loaded);
        }
        let loaded = match &Settings::of(&app.config).authority {
            Some((certificate, key)) => Self::from_files(certificate, key)?,
            None => own(app).await?,
        };
        Ok(place.get_or_init(|| loaded))
    }

    fn from_files(certificate: &Path, key: &Path) -> Result<Self, String> {
        let read =
            |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
        let (pem, key_pem) = (read(certificate)?, read(key)?);
        Self::from_pem(&pem, &key_pem).map_err(|error| format!("{}: {error}", certificate.display()))
    }

    fn from_pem(pem: &str, key: &str) -> Result<Self, String> {
        let key = KeyPair::from_pem(key).map_err(|error| format!("its key cannot be read: {error}"))?;
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| format!("cannot be read: {error}"))?;
        check(&der, &key)?;
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|error| error.to_string())?;
        Ok(Self { issuer, pem: pem.trim_end().to_owned() + "\n", der })
    }

    /// Signs the certificate of a device.
    pub(super) fn sign(
        &self,
        key: &PublicKey,
        now: Timestamp,
        lifetime: SignedDuration,
    ) -> Result<Signed, Error> {
        let failed = |error: rcgen::Error| {
            tracing::error!(%error, "a certificate of a device cannot be signed");
            Error::invalid("spec.csr", "has a key that cannot be signed")
        };
        let serial = serial();
        let until = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        let mut params = params(&key.name(), now, until).ok_or(Error::Internal)?;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let public = SubjectPublicKeyInfo::from_der(&key.0).map_err(failed)?;
        let signed = params.signed_by(&public, &self.issuer).map_err(failed)?;
        let pem = signed.pem() + &self.pem;
        Ok(Signed { pem, serial: hex(&serial), until })
    }

    /// Makes a certificate for the listener, with a new key.
    pub(crate) fn own(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let failed = |error: rcgen::Error| format!("the certificate of the listener of devices: {error}");
        let until = now.saturating_add(OWN_LIFETIME).unwrap_or(Timestamp::MAX);
        let mut params = params("wardroom", now, until).ok_or("the clock is out of range")?;
        let of_names = CertificateParams::new(names.to_vec()).map_err(failed)?;
        params.subject_alt_names = of_names.subject_alt_names;
        params.serial_number = Some(SerialNumber::from_slice(&serial()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(failed)?;
        let signed = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
        Ok((vec![signed.der().clone(), self.der.clone()], private))
    }
}

/// The certificate is one of an authority, and the key is its own.
fn check(der: &CertificateDer<'_>, key: &KeyPair) -> Result<(), String> {
    use rcgen::PublicKeyData as _;
    use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| "cannot be read as a certificate")?;
    if !certificate.is_ca() {
        return Err("is not the certificate of an authority".to_owned());
    }
    if certificate.public_key().raw != key.subject_public_key_info() {
        return Err("does not belong to its key".to_owned());
    }
    Ok(())
}

/// The authority that the server made itself: from its files, or from the database where another server made it.
async fn own(app: &App) -> Result<Authority, String> {
    let folder = &app.config.data_dir;
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    let stored = app.store.get("server", RECORD).await.map_err(|error| error.to_string())?;
    let known = match stored {
        Some(stored) => opened(app, &stored)?,
        None => first(app, &certificate, &key).await?,
    };
    let there = |path: &Path| fs::read_to_string(path).ok();
    if there(&certificate).is_some_and(|pem| pem.trim_end() != known.certificate.trim_end()) {
        return Err(format!(
            "{}: is not the authority that this database was made with; remove it and {}, or name another with \
             devices.ca_certificate",
            certificate.display(),
            key.display()
        ));
    }
    let wrong = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if there(&key).is_none() {
        write_private(&key, known.key.as_bytes()).map_err(|error| wrong(&key, &error))?;
    }
    if there(&certificate).is_none() {
        fs::write(&certificate, &known.certificate).map_err(|error| wrong(&certificate, &error))?;
    }
    Authority::from_pem(&known.certificate, &known.key).map_err(|error| wrong(&certificate, &error))
}

fn opened(app: &App, stored: &Resource) -> Result<Stored, String> {
    let Stored { certificate, key } = stored.content.document.read().map_err(|error| error.to_string())?;
    let key =
        Seal::of(&app.key, RECORD).open(&key).ok_or("the key of the device authority cannot be opened")?;
    Ok(Stored { certificate, key })
}

/// Makes the authority, or keeps that of the files, and stores it; if another server was faster, its authority counts.
async fn first(app: &App, certificate: &Path, key: &Path) -> Result<Stored, String> {
    let made = match (fs::read_to_string(certificate), fs::read_to_string(key)) {
        (Ok(certificate), Ok(key)) => Stored { certificate, key },
        _ => made(app.now())?,
    };
    let sealed = Seal::of(&app.key, RECORD).seal(&made.key);
    let stored = Stored { certificate: made.certificate.clone(), key: sealed };
    let document = Document::of(&stored).map_err(|error| error.to_string())?;
    let content = Content { document, ..jobs::server_record("server", RECORD) };
    let entry = by_system(app, "registered", serde_json::Value::Null);
    match app.create(content, entry).await {
        Ok(_) => Ok(made),
        Err(StoreError::Conflict) => {
            let found = app.store.get("server", RECORD).await.map_err(|error| error.to_string())?;
            opened(app, &found.ok_or("the record of the device authority is gone")?)
        }
        Err(error) => Err(error.to_string()),
    }
}

fn made(now: Timestamp) -> Result<Stored, String> {
    let failed = |error: rcgen::Error| format!("the device authority cannot be made: {error}");
    let until = now.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX);
    let mut params = params("Wardroom device authority", now, until).ok_or("the clock is out of range")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?.pem();
    Ok(Stored { certificate, key: key.serialize_pem() })
}

fn params(name: &str, from: Timestamp, until: Timestamp) -> Option<CertificateParams> {
    let time = |at: Timestamp| Some(ASN1Time::from_timestamp(at.as_second()).ok()?.to_datetime());
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params.not_before = time(from.saturating_sub(BACKDATED).ok()?)?;
    params.not_after = time(until)?;
    Some(params)
}

/// 127 random bits: a serial number is positive.
fn serial() -> [u8; 16] {
    let mut serial = [0; 16];
    serial.copy_from_slice(&secret::random()[..16]);
    serial[0] = (serial[0] & 0x7f) | 0x40;
    serial
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

    use super::*;
    use crate::kinds::device::csr;

    fn authority() -> Authority {
        let Stored { certificate, key } = made(Timestamp::constant(1_790_000_000, 0)).unwrap();
        Authority::from_pem(&certificate, &key).unwrap()
    }

    /// A request may ask to be an authority, and for other names: nothing of that gets into the certificate.
    #[test]
    fn a_certificate_has_nothing_of_its_request_but_the_key() {
        let key = KeyPair::generate().unwrap();
        let mut asked = CertificateParams::new(vec!["evil.example".to_owned()]).unwrap();
        asked.distinguished_name.push(DnType::CommonName, "admin");
        asked.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let request = asked.serialize_request(&key).unwrap().pem().unwrap();
        let public = csr::read("csr", &request).unwrap();
        let now = Timestamp::constant(1_790_000_000, 0);
        let signed = authority().sign(&public, now, SignedDuration::from_hours(1)).unwrap();
        let der = CertificateDer::from_pem_slice(signed.pem.as_bytes()).unwrap();
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        assert!(!certificate.is_ca());
        assert!(certificate.subject_alternative_name().unwrap().is_none());
        assert_eq!(certificate.subject().to_string(), format!("CN={}", public.name()));
        let usage = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.client_auth && !usage.server_auth && !usage.any);
        assert_eq!(hex(certificate.raw_serial()), signed.serial);
        assert_eq!(certificate.validity().not_after.timestamp(), signed.until.as_second());
    }

    #[test]
    fn a_key_that_is_not_of_the_authority_is_refused() {
        let [mine, other] = [(); 2].map(|()| made(Timestamp::constant(1_790_000_000, 0)).unwrap());
        assert!(Authority::from_pem(&mine.certificate, &other.key).is_err());
        assert!(Authority::from_pem("x", &mine.key).is_err());
    }
}
