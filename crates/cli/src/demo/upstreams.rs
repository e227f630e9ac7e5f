//! The fakes of the systems that the server drives.

use std::{net::SocketAddr, path::Path, time::Duration};

use wardroom_fakes::{harbor, maas, redfish};

use super::domain::Domain;

/// How long MAAS takes to commission or deploy a machine.
const PACE: Duration = Duration::from_millis(2500);

/// How many machines one BMC speaks for.
const SYSTEMS: usize = 4000;

/// A MAAS, a BMC, a Harbor and a SPIRE that run until they are dropped.
#[derive(Debug)]
pub(super) struct Upstreams {
    pub(super) maas: maas::Fake,
    pub(super) maas_key: String,
    pub(super) bmc: redfish::Fake,
    pub(super) bmc_credential: String,
    pub(super) harbor: harbor::Harbor,
    pub(super) harbor_user: String,
    pub(super) harbor_password: String,
    pub(super) domain: Domain,
}

impl Upstreams {
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = maas::Config { pace: maas::Pace::all(PACE), ..maas::Config::default() };
        let maas_key = config.key.clone();
        let maas = maas::Fake::start(config, free).await?;
        let config = redfish::Config { systems: SYSTEMS, ..redfish::Config::default() };
        let bmc_credential = format!("{}:{}", config.user, config.password);
        let bmc = redfish::Fake::start(config, free).await?;
        let options = harbor::Options { is_registry: true, ..harbor::Options::default() };
        let (harbor_user, harbor_password) = (options.username.clone(), options.password.clone());
        let harbor = harbor::Harbor::start(options).await?;
        let domain = Domain::start(folder).await?;
        Ok(Self { maas, maas_key, bmc, bmc_credential, harbor, harbor_user, harbor_password, domain })
    }
}
