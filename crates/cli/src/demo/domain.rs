//! The trust domain of the demo: its authority, a fake SPIRE server, and the certificates of satellites that joined it.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};
use wardroom_fakes::spire::{Attestation, Options, Spire, Tls};

use super::folder::write_secret;

const NAME: &str = "demo.example";

/// Where everything listens.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A trust domain with a SPIRE server that runs until it is dropped.
pub(super) struct Domain {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate of the authority, as PEM.
    pub(super) root: String,
    spire: Spire,
    folder: PathBuf,
}

/// The key of the authority is secret.
impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Domain {
    pub(super) async fn start(within: &Path) -> anyhow::Result<Self> {
        let folder = within.join("spire");
        fs::create_dir_all(&folder)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);
        for (name, id) in [("server", "spire/server"), ("wardroom", "wardroom")] {
            let (certificate, key) = svid(&issuer, &format!("spiffe://{NAME}/{id}"), Some(HERE.into()))?;
            write_secret(&folder.join(format!("{name}.pem")), &certificate)?;
            write_secret(&folder.join(format!("{name}.key")), &key)?;
        }
        write_secret(&folder.join("bundle.pem"), &root.pem())?;
        let tls = Tls {
            certificate: folder.join("server.pem"),
            key: folder.join("server.key"),
            bundle: folder.join("bundle.pem"),
        };
        let options = Options {
            trust_domain: NAME.to_owned(),
            tcp: Some((SocketAddr::from((HERE, 0)), tls)),
            roots: vec![root.der().to_vec()],
            ..Options::default()
        };
        let spire = Spire::start(options).await?;
        Ok(Self { issuer, root: root.pem(), spire, folder })
    }

    /// What the server is told of it.
    pub(super) fn flags(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let address = self.spire.address().map(|address| address.to_string()).unwrap_or_default();
        vec![
            ("spire.address", address),
            ("spire.certificate", path("wardroom.pem")),
            ("spire.key", path("wardroom.key")),
            ("spire.bundle", path("bundle.pem")),
            ("spire.trust_domain", NAME.to_owned()),
            ("spiffe.listen", SocketAddr::from((HERE, 0)).to_string()),
            ("spiffe.certificate", path("wardroom.pem")),
            ("spiffe.key", path("wardroom.key")),
        ]
    }

    /// Lets the agent of a node join; false while SPIRE was not told of its token.
    pub(super) fn joins(&self, token: &str) -> bool {
        self.spire.attest(&Attestation::JoinToken { token: token.to_owned() }).is_ok()
    }

    /// Certificate and key of a satellite that joined, as PEM.
    pub(super) fn identity(&self, id: &str) -> anyhow::Result<String> {
        let (certificate, key) = svid(&self.issuer, id, None)?;
        Ok(format!("{certificate}{key}"))
    }
}

/// Certificate and key of an identity, as PEM; those of listeners are for an address too.
fn svid(
    issuer: &Issuer<'static, KeyPair>,
    id: &str,
    address: Option<IpAddr>,
) -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    let uri = SanType::URI(id.try_into().with_context(|| id.to_owned())?);
    params.subject_alt_names = [uri].into_iter().chain(address.map(SanType::IpAddress)).collect();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}
