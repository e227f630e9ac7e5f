//! The key of a device and its certificate: made once, enrolled once, renewed until the device is taken out of service.
//!
//! Invariants: the private key never leaves the device. An agent whose certificate is refused never enrols by itself again;
//! it takes another certificate only from the approval of its own request.

use std::{fs, io, path::Path, time::Duration};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
use sha2::{Digest as _, Sha256};
use wardroom_api::{
    client::{Client, Options as ClientOptions},
    device::{API_VERSION, DeviceReport, EnrollmentRequest, EnrollmentRequestSpec, Metadata},
};
use x509_parser::{pem::parse_x509_pem, prelude::FromDer as _};

use super::{
    Options, clock,
    config::Config,
    random,
    retry::{Retry, is_final, is_unreadable},
};
use crate::folder;

const KEY: &str = "device.key";
const CERTIFICATE: &str = "device.crt";
/// Its presence says that the device was taken out of service.
const DECOMMISSIONED: &str = "decommissioned";

/// How often an agent asks for the decision on its request.
const ASK: Duration = Duration::from_secs(15);

/// A device with a key.
pub(crate) struct Identity {
    pub(crate) name: String,
    key: KeyPair,
    dir: std::path::PathBuf,
}

impl Identity {
    /// Reads the key, and makes it the first time.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(KEY);
        let key = match fs::read_to_string(&path) {
            Ok(pem) => KeyPair::from_pem(&pem).with_context(|| format!("{}", path.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = KeyPair::generate().context("cannot make a key")?;
                folder::write(&path, key.serialize_pem().as_bytes())?;
                key
            }
            Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
        };
        let name = base32hex(&Sha256::digest(key.subject_public_key_info()));
        Ok(Self { name, key, dir: dir.to_owned() })
    }

    /// Returns a certificate request. Only its public key counts.
    pub(crate) fn csr(&self) -> anyhow::Result<String> {
        let request = CertificateParams::default().serialize_request(&self.key);
        Ok(request.context("cannot make a certificate request")?.pem()?)
    }

    fn certificate(&self) -> anyhow::Result<Option<String>> {
        let path = self.dir.join(CERTIFICATE);
        match fs::read_to_string(&path) {
            Ok(pem) => Ok(Some(pem)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{}", path.display())),
        }
    }

    /// Stores a certificate, after it was checked that it can be used.
    pub(crate) fn keep(&self, pem: &str) -> anyhow::Result<()> {
        valid(pem)?;
        folder::write(&self.dir.join(CERTIFICATE), pem.as_bytes())
    }

    /// Returns the client of this device, and when its certificate begins and ends.
    pub(crate) fn client(&self, options: &Options) -> anyhow::Result<(Client, Timestamp, Timestamp)> {
        let certificate = self.certificate()?.context("this device has no certificate")?;
        let (from, until) = valid(&certificate)?;
        let identity = format!("{}{certificate}", self.key.serialize_pem());
        let client = Client::with_certificate(&client_options(options, None)?, identity.as_bytes())?;
        Ok((client, from, until))
    }

    /// Gets the first certificate. Waits until the request is decided.
    pub(crate) async fn enrol(
        &self,
        options: &Options,
        config: &Config,
        status: DeviceReport,
    ) -> anyhow::Result<()> {
        if self.certificate()?.is_some() {
            return Ok(());
        }
        let client = self.enroller(options)?;
        let request = EnrollmentRequest {
            api_version: API_VERSION.to_owned(),
            kind: "EnrollmentRequest".to_owned(),
            metadata: Metadata { name: self.name.clone(), ..Metadata::default() },
            spec: EnrollmentRequestSpec {
                csr: self.csr()?,
                labels: config.labels.clone(),
                device_status: Some(status),
            },
            status: None,
        };
        let (mut retry, mut asked) = (Retry::default(), false);
        loop {
            let answer = match asked {
                false => client.request_enrollment(&request).await,
                true => client.own_enrollment_request(&self.name).await,
            };
            let pause = match answer {
                Ok(request) => {
                    if let Some(pem) = decided(&request)? {
                        self.keep(&pem)?;
                        tracing::info!(device = self.name, "enrolled");
                        return Ok(());
                    }
                    if !std::mem::replace(&mut asked, true) {
                        tracing::info!(device = self.name, "the enrolment request waits for a decision");
                    }
                    retry = Retry::default();
                    ASK.mul_f64(0.8 + 0.4 * random())
                }
                Err(error) if is_final(&error) || is_unreadable(&error) => {
                    return Err(error).context("the server does not enrol this device");
                }
                Err(error) => {
                    tracing::warn!(%error, "the server did not take the enrolment request; retrying");
                    retry.pause()
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks whether a person approved the request again, after the certificate was refused. Returns true if there is
    /// another certificate.
    pub(crate) async fn reissued(&self, options: &Options) -> anyhow::Result<bool> {
        if options.token_file.is_none() {
            return Ok(false);
        }
        let request = match self.enroller(options)?.own_enrollment_request(&self.name).await {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!(%error, "the enrolment request of this device cannot be read");
                return Ok(false);
            }
        };
        let Some(pem) = decided(&request)? else { return Ok(false) };
        if self.certificate()?.as_deref() == Some(&*pem) {
            return Ok(false);
        }
        self.keep(&pem)?;
        tracing::info!(device = self.name, "the enrolment request was approved again");
        Ok(true)
    }

    fn enroller(&self, options: &Options) -> anyhow::Result<Client> {
        let file = options.token_file.as_deref().with_context(|| {
            "this device is not enrolled: give --token-file with an enrolment token (POST /api/v1/enrollmenttokens)"
        })?;
        let token = fs::read_to_string(file)
            .with_context(|| format!("cannot read --token-file {}", file.display()))?;
        let token = token.trim();
        anyhow::ensure!(
            !token.is_empty() && !token.contains(char::is_whitespace),
            "--token-file {} holds no enrolment token: it is one line",
            file.display()
        );
        Ok(Client::new(&client_options(options, Some(token.to_owned()))?)?)
    }
}

/// Returns the certificate of an approved request; nothing while it waits. A denied one is an error.
fn decided(request: &EnrollmentRequest) -> anyhow::Result<Option<String>> {
    let Some(status) = &request.status else { return Ok(None) };
    let denied = status.approval.as_ref().filter(|approval| !approval.approved);
    if let Some(denied) = denied {
        let by = &denied.approved_by;
        anyhow::bail!(
            "the enrolment of this device was denied by {by}; an operator has to approve its request"
        );
    }
    Ok(status.certificate.clone())
}

fn client_options(options: &Options, token: Option<String>) -> anyhow::Result<ClientOptions> {
    let certificates = options.ca_file.as_ref().map(fs::read).transpose().context("the CA file")?;
    Ok(ClientOptions { server: options.server.clone(), token, certificates, timeout: None, warned: None })
}

/// Returns when a certificate begins and ends.
fn valid(pem: &str) -> anyhow::Result<(Timestamp, Timestamp)> {
    let (_, block) =
        parse_x509_pem(pem.as_bytes()).map_err(|error| anyhow::anyhow!("no certificate: {error}"))?;
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(&block.contents)
        .map_err(|error| anyhow::anyhow!("no certificate: {error}"))?;
    let validity = certificate.validity();
    let at = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp());
    Ok((at(validity.not_before)?, at(validity.not_after)?))
}

/// Returns how long to wait before the certificate is renewed: until two thirds of its time, and up to a tenth more.
pub(crate) fn renewal(from: Timestamp, until: Timestamp, random: f64) -> Duration {
    let whole = until.duration_since(from).as_secs_f64();
    let due = SignedDuration::try_from_secs_f64(whole * (2.0 / 3.0 + 0.1 * random));
    let due = due.ok().and_then(|after| from.checked_add(after).ok()).unwrap_or(until);
    due.duration_since(clock::now()).try_into().unwrap_or(Duration::ZERO)
}

/// Removes the key and the certificate, and notes that the device is out of service.
pub(crate) fn wipe(dir: &Path, name: &str) -> anyhow::Result<()> {
    let note = format!("{name} was decommissioned at {:.0}\n", clock::now());
    folder::write(&dir.join(DECOMMISSIONED), note.as_bytes())?;
    wipe_again(dir)
}

/// Removes everything but the note. The disk may still hold what was in the files.
pub(crate) fn wipe_again(dir: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("{}", dir.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == DECOMMISSIONED || name == folder::LOCK {
            continue;
        }
        let path = entry.path();
        if name == KEY {
            let length = entry.metadata().map_or(0, |metadata| metadata.len());
            let zeros = vec![0; usize::try_from(length).unwrap_or_default()];
            fs::write(&path, zeros)
                .and_then(|()| fs::File::open(&path)?.sync_all())
                .with_context(|| format!("{}", path.display()))?;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot wipe {}", path.display()))?;
    }
    fs::File::open(dir).and_then(|dir| dir.sync_all()).with_context(|| format!("{}", dir.display()))
}

/// Returns the note of a device that was taken out of service.
pub(crate) fn decommissioned(dir: &Path) -> Option<String> {
    fs::read_to_string(dir.join(DECOMMISSIONED)).ok()
}

/// Writes bytes in lower-case base32hex without padding.
fn base32hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let digit = |first: usize| (first..first + 5).fold(0, |value, at| value << 1 | bit(at));
    (0..bytes.len() * 8).step_by(5).map(|first| char::from(DIGITS[digit(first)])).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_name_is_that_of_the_key_and_both_stay() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::open(dir.path()).unwrap();
        let again = Identity::open(dir.path()).unwrap();
        assert_eq!(first.name, again.name);
        assert_eq!(first.name.len(), 52);
        assert!(first.csr().unwrap().contains("BEGIN CERTIFICATE REQUEST"));
        let mode = fs::metadata(dir.path().join(KEY)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        // RFC 4648, without padding and in lower case.
        for (text, expected) in [("", ""), ("f", "co"), ("fo", "cpng"), ("foobar", "cpnmuoj1e8")] {
            assert_eq!(base32hex(text.as_bytes()), expected);
        }
    }

    #[test]
    fn a_wiped_device_has_no_key_and_knows_why() {
        let dir = tempfile::tempdir().unwrap();
        let name = Identity::open(dir.path()).unwrap().name;
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join(CERTIFICATE), "pem").unwrap();
        assert_eq!(decommissioned(dir.path()), None);
        wipe(dir.path(), &name).unwrap();
        assert!(decommissioned(dir.path()).unwrap().contains(&name));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_time() {
        let now = clock::now();
        let from = now.checked_sub(SignedDuration::from_secs(500)).unwrap();
        let until = now.checked_add(SignedDuration::from_secs(400)).unwrap();
        for (random, seconds) in [(0.0, 100), (1.0, 190)] {
            let wait = renewal(from, until, random).as_secs();
            assert!((seconds - 2..=seconds).contains(&wait), "{wait}");
        }
        assert_eq!(renewal(from, now, 1.0), Duration::ZERO);
    }

    #[test]
    fn a_denied_request_is_an_error_and_a_pending_one_is_not() {
        let mut request = EnrollmentRequest { status: Some(Default::default()), ..Default::default() };
        assert_eq!(decided(&request).unwrap(), None);
        let status = request.status.as_mut().unwrap();
        status.approval =
            Some(wardroom_api::device::Approval { approved_by: "eve".to_owned(), ..Default::default() });
        assert!(decided(&request).unwrap_err().to_string().contains("denied by eve"));
    }
}
