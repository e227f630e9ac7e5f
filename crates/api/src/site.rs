//! Sites: the MAAS that manages machines, and how it is used. Secrets are references, never values.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Makes or replaces a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SiteSpec {
    /// Its name, for ever.
    pub name: String,
    /// How its MAAS is used.
    pub settings: SiteSettings,
}

/// A site as the API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// How its MAAS is used; runs that have begun go by what it was then.
    pub settings: SiteSettings,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The settings of a site that a run goes by, with what they are when nobody said anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SiteSettings {
    /// The address of its MAAS.
    pub url: String,
    /// Where the API key is: `file:…` in the server's folder of secrets, or `env:…`.
    pub key: String,
    /// Where the certificates to trust are; the system's when absent.
    pub ca: Option<String>,
    /// Where the certificates are by which BMCs are known; the system's when absent.
    pub bmc_ca: Option<String>,
    /// Whether BMCs may show any certificate, or speak without TLS (`http://`): whoever answers gets the password.
    pub bmc_insecure: bool,
    /// The resource pool that machines are put into.
    pub pool: Option<String>,
    /// The zone that machines are put into.
    pub zone: Option<String>,
    /// The tag of machines that we manage: only those are ever deleted.
    pub tag: String,
    /// The architecture of machines that are created.
    pub architecture: String,
    /// The release of the operating system.
    pub series: String,
    /// The subnet that machines boot in, by its name or network.
    pub provisioning_subnet: String,
    /// What the fabric interfaces shall be.
    pub fabric: Vec<Fabric>,
    /// Which disk the machine boots from.
    pub boot_disk: BootDisk,
    /// Scripts to commission with, besides MAAS's own.
    pub commissioning_scripts: Vec<String>,
    /// Tests to run after commissioning.
    pub testing_scripts: Vec<String>,
    /// What cloud-init gets, with `{{token}}`, `{{server}}`, `{{node}}` and `{{hostname}}` filled in.
    pub user_data: String,
    /// The URL under which nodes reach this server; where it listens when absent, or `satellites.url`.
    pub server_url: Option<String>,
    /// Whether deployed machines report their hardware.
    pub hardware_sync: bool,
    /// Whether machines are locked in MAAS while they are in use.
    pub lock: bool,
    /// How disks are erased at a release.
    pub erase: Erase,
    /// Whether a reimage wipes the tenant's disks before the release.
    pub cleanup_on_reimage: bool,
    /// Whether a full decommission deletes the machine in MAAS.
    pub remove_machine: bool,
    /// Calls of MAAS in a second; of sites that have the same MAAS, the strictest counts for all of them.
    pub requests_per_second: f64,
    /// Deployments that are begun in a minute; the strictest of sites that have the same MAAS.
    pub deploys_per_minute: f64,
    /// Deployments that are under way at once; the strictest of sites that have the same MAAS.
    pub deploys_at_once: u32,
    /// How often machines with work under way are looked at, in milliseconds.
    pub poll_millis: u64,
    /// How often the other machines are looked at, in milliseconds.
    pub sweep_millis: u64,
    /// How much stages bear here, by stage, such as `{"wait_for_deployed": {"patience_minutes": 90}, "deploy_via_maas": {"retries": 2}}`; the others bear what they usually do.
    pub budgets: BTreeMap<String, Budget>,
}

/// How much a stage bears before its run stops.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Failures that may pass by themselves, or questions that nobody answers.
    #[schema(minimum = 0, maximum = 1000)]
    pub retries: Option<u32>,
    /// How long it may wait for what it asked for, and for a MAAS that is too busy to be asked; for that an hour at least when nobody says anything.
    #[schema(minimum = 1, maximum = 10080)]
    pub patience_minutes: Option<u32>,
}

impl Default for SiteSettings {
    fn default() -> Self {
        Self {
            url: String::new(),
            key: String::new(),
            ca: None,
            bmc_ca: None,
            bmc_insecure: false,
            pool: None,
            zone: None,
            tag: "wardroom".to_owned(),
            architecture: "amd64/generic".to_owned(),
            series: "jammy".to_owned(),
            provisioning_subnet: String::new(),
            fabric: Vec::new(),
            boot_disk: BootDisk::default(),
            commissioning_scripts: Vec::new(),
            testing_scripts: Vec::new(),
            user_data: "#cloud-config\nwrite_files:\n- path: /etc/wardroom/token\n  permissions: '0600'\n  \
                        content: \"{{token}}\"\n"
                .to_owned(),
            server_url: None,
            hardware_sync: true,
            lock: false,
            erase: Erase::No,
            cleanup_on_reimage: false,
            remove_machine: false,
            requests_per_second: 20.0,
            deploys_per_minute: 60.0,
            deploys_at_once: 50,
            poll_millis: 10_000,
            sweep_millis: 60_000,
            budgets: BTreeMap::new(),
        }
    }
}

/// What a fabric interface shall be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fabric {
    /// The interface, by its name.
    pub interface: String,
    /// The subnet it is linked to, by its name or network.
    pub subnet: Option<String>,
    /// The MTU it shall have.
    pub mtu: Option<u32>,
}

/// Which disk a machine boots from: by model or serial number, never by a name that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BootDisk {
    /// A part of the model.
    pub model: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
}

/// How disks are erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Erase {
    /// Not at all.
    #[default]
    No,
    /// Only their beginning and end.
    Quick,
    /// By the disks' own erase function, or entirely where there is none.
    Secure,
    /// By the disks' own erase function, or quickly where there is none.
    SecureOrQuick,
    /// Entirely, which takes hours.
    Full,
}
