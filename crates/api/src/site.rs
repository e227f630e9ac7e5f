//! Sites: the MAAS that manages machines, and how it is used. Secrets are references, never values.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Creates or replaces a site.
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
    /// How its MAAS is used. Runs under way use the settings from their start.
    pub settings: SiteSettings,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// The settings of a site, with their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SiteSettings {
    /// The address of its MAAS.
    pub url: String,
    /// A reference to the API key: `file:…` in the server's folder of secrets, or `env:…`.
    pub key: String,
    /// A reference to the certificates to trust for MAAS. Default: the system's.
    pub ca: Option<String>,
    /// A reference to the certificates to trust for BMCs. Default: the system's.
    pub bmc_ca: Option<String>,
    /// Whether BMCs may show any certificate or use no TLS (`http://`); any machine that answers then gets the password.
    pub bmc_insecure: bool,
    /// The networks that BMCs live in, such as `["10.0.0.0/24"]`: no password is sent to any other address. Without any, nodes
    /// of the site have no BMC.
    pub bmc_networks: Vec<String>,
    /// The credentials that nodes may use for their BMCs, such as `["file:bmc/rack-1", "file:bmc/berlin-*"]`; a `*` at the end
    /// stands for the rest of the name.
    pub bmc_credentials: Vec<String>,
    /// The resource pool that machines are put into.
    pub pool: Option<String>,
    /// The zone that machines are put into.
    pub zone: Option<String>,
    /// The tag of managed machines: only machines with this tag are ever deleted.
    pub tag: String,
    /// The architecture of machines that are created.
    pub architecture: String,
    /// The release of the operating system.
    pub series: String,
    /// The subnet that machines boot in, by its name or network.
    pub provisioning_subnet: String,
    /// The settings of the fabric interfaces.
    pub fabric: Vec<Fabric>,
    /// Which disk the machine boots from.
    pub boot_disk: BootDisk,
    /// Scripts to commission with, besides MAAS's own.
    pub commissioning_scripts: Vec<String>,
    /// Tests to run after commissioning.
    pub testing_scripts: Vec<String>,
    /// The user data for cloud-init. `{{token}}`, `{{server}}`, `{{node}}` and `{{hostname}}` are replaced.
    pub user_data: String,
    /// The URL under which nodes reach this server. Default: `server.public_url`, or the listen address.
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
    /// The most calls of MAAS per second. Among sites with the same MAAS the strictest setting counts for all.
    pub requests_per_second: f64,
    /// The most deployments begun per minute. Among sites with the same MAAS the strictest setting counts for all.
    pub deploys_per_minute: f64,
    /// The most deployments under way at once. Among sites with the same MAAS the strictest setting counts for all.
    pub deploys_at_once: u32,
    /// How often machines with work under way are checked, in milliseconds.
    pub poll_millis: u64,
    /// How often the other machines are checked, in milliseconds.
    pub sweep_millis: u64,
    /// Retries and patience by stage, for every kind of run, such as `{"wait_for_deployed": {"patience_minutes": 90}, "deploy_via_maas": {"retries": 2}}`. Other stages keep their defaults.
    pub budgets: BTreeMap<String, Budget>,
}

/// The limits of a stage before its run stops.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// The failures that may pass by themselves, or calls without an answer, before the run stops.
    #[schema(minimum = 0, maximum = 1000)]
    pub retries: Option<u32>,
    /// How long the stage may wait. A MAAS that is too busy is waited for this long too; by default at least an hour.
    #[schema(minimum = 1, maximum = 10080)]
    pub patience_minutes: Option<u32>,
    /// The same in seconds, for less than a minute; instead of `patience_minutes`.
    #[schema(minimum = 1, maximum = 59)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_seconds: Option<u32>,
}

impl Default for SiteSettings {
    fn default() -> Self {
        Self {
            url: String::new(),
            key: String::new(),
            ca: None,
            bmc_ca: None,
            bmc_insecure: false,
            bmc_networks: Vec::new(),
            bmc_credentials: Vec::new(),
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

/// The settings of a fabric interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fabric {
    /// The interface, by its name.
    pub interface: String,
    /// The subnet it is linked to, by its name or network.
    pub subnet: Option<String>,
    /// Its MTU.
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
    /// By the disks' own erase function; fully if they have none.
    Secure,
    /// By the disks' own erase function; quickly if they have none.
    SecureOrQuick,
    /// Fully, which takes hours.
    Full,
}
