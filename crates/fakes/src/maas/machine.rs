//! A machine, its interfaces and its disks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use jiff::Timestamp;
use serde::Deserialize;
use wardroom_core::gpu_node::maas::{Power, Status};

use super::event::Events;

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) hostname: String,
    pub(super) architecture: String,
    pub(super) description: String,
    pub(super) power_type: String,
    pub(super) power_parameters: BTreeMap<String, String>,
    pub(super) status: Status,
    /// The status before a test or rescue.
    pub(super) previous: Status,
    pub(super) power: Power,
    pub(super) bmc: Bmc,
    pub(super) owner: Option<String>,
    pub(super) owner_data: BTreeMap<String, String>,
    pub(super) locked: bool,
    pub(super) pool: String,
    pub(super) zone: String,
    pub(super) tags: BTreeSet<String>,
    pub(super) interfaces: Vec<Interface>,
    pub(super) disks: Vec<Disk>,
    /// Disks that commissioning finds.
    pub(super) hardware: Vec<Hardware>,
    pub(super) boot_disk: Option<u64>,
    pub(super) series: Option<String>,
    pub(super) user_data: Vec<u8>,
    pub(super) hw_sync: bool,
    /// Whether the deployed system reports as it should.
    pub(super) sync_works: bool,
    pub(super) last_sync: Option<Timestamp>,
    pub(super) error_description: String,
    pub(super) commissioning: Commissioning,
    pub(super) commissioning_set: Option<u64>,
    pub(super) installation_set: Option<u64>,
    pub(super) events: Events,
    /// When the work under way ends.
    pub(super) due: Option<Instant>,
    /// How the next work of a kind ends, by the status of that work.
    pub(super) outcomes: BTreeMap<i64, Vec<Outcome>>,
}

/// The result of the last commissioning. A release ends in `Ready` only after one that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commissioning {
    Never,
    Pending,
    Passed,
    /// Ended without results; MAAS shows it as passed.
    Aborted,
    Failed,
}

impl Commissioning {
    pub(super) const fn shown(self) -> (i64, &'static str) {
        match self {
            Self::Never => (-1, "Unknown"),
            Self::Pending => (0, "Pending"),
            Self::Passed | Self::Aborted => (2, "Passed"),
            Self::Failed => (3, "Failed"),
        }
    }

    /// Returns the result after other work failed: pending scripts will never run.
    pub(super) const fn failed(self) -> Self {
        if matches!(self, Self::Pending) { Self::Failed } else { self }
    }
}

/// Whether the BMC answers MAAS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bmc {
    /// It answers.
    #[default]
    Works,
    /// It does not answer, or refuses the password: power calls end in 500 after the status has changed.
    Fails,
}

/// How work ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Success.
    #[default]
    Pass,
    /// Failure, with this reason in the events.
    Fail(String),
    /// Never, until a test ends it.
    Stall,
}

#[derive(Debug, Clone)]
pub(super) struct Interface {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) mac: String,
    pub(super) mtu: Option<u32>,
    pub(super) vlan: Option<u64>,
    pub(super) links: Vec<Link>,
}

#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) id: u64,
    pub(super) mode: String,
    pub(super) subnet: u64,
    pub(super) address: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Hardware {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) serial: String,
    pub(super) size: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) id: u64,
    pub(super) hardware: Hardware,
    pub(super) block_size: u64,
    /// The one partition that the flat layout makes.
    pub(super) partition: Option<u64>,
}

impl Machine {
    /// A machine as a request to create one describes it.
    pub(super) fn new(hostname: String, interfaces: Vec<Interface>) -> Self {
        Self {
            hostname,
            architecture: "amd64/generic".to_owned(),
            description: String::new(),
            power_type: "manual".to_owned(),
            power_parameters: BTreeMap::new(),
            status: Status::New,
            previous: Status::Ready,
            power: Power::Unknown,
            bmc: Bmc::Works,
            owner: None,
            owner_data: BTreeMap::new(),
            locked: false,
            pool: "default".to_owned(),
            zone: "default".to_owned(),
            tags: BTreeSet::new(),
            interfaces,
            disks: Vec::new(),
            hardware: Vec::new(),
            boot_disk: None,
            series: None,
            user_data: Vec::new(),
            hw_sync: false,
            sync_works: true,
            last_sync: None,
            error_description: String::new(),
            commissioning: Commissioning::Never,
            commissioning_set: None,
            installation_set: None,
            events: Events::default(),
            due: None,
            outcomes: BTreeMap::new(),
        }
    }

    pub(super) fn has_mac(&self, mac: &str) -> bool {
        self.interfaces.iter().any(|interface| interface.mac.eq_ignore_ascii_case(mac))
    }
}
