//! Changes to machines that tests make without a request.

use std::collections::BTreeMap;

use serde::Deserialize;
use wardroom_core::gpu_node::maas::{Power, Status};

use super::{
    Bmc, Outcome,
    clock::Now,
    machine::{Commissioning, Disk, Hardware, Link, Machine},
    rules::OWNED,
    world::{World, next},
};

/// A disk to find.
#[derive(Debug, Clone, Deserialize)]
pub struct DiskSpec {
    /// The name.
    pub name: String,
    /// The model.
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// Its size in bytes.
    pub size: u64,
}

/// A machine to add.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Seed {
    /// The name; one is made up without it.
    pub hostname: Option<String>,
    /// The MACs; two are made up without them.
    pub macs: Vec<String>,
    /// The status; `New` without it.
    pub status: Option<Status>,
    /// Disks that commissioning finds; a boot disk of a known model and two others without them.
    pub disks: Option<Vec<DiskSpec>>,
    /// Whether it is set up for a deployment: disks known, boot interface linked.
    pub configured: bool,
}

/// A change to a machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// The status, with the owner that fits it and without work under way.
    pub status: Option<Status>,
    /// The power: `on`, `off`, `unknown` or `error`.
    pub power: Option<String>,
    /// Whether its BMC answers.
    pub bmc: Option<Bmc>,
    /// Whether its last commissioning passed.
    pub commissioned: Option<bool>,
    /// Whether its deployed system reports the hardware.
    pub sync_works: Option<bool>,
    /// Its owner.
    pub owner: Option<String>,
    /// Whether it is locked.
    pub locked: Option<bool>,
    /// Disks that the next commissioning finds.
    pub disks: Option<Vec<DiskSpec>>,
    /// How the next pieces of work end, in their order, by `commissioning`, `deploying`, `erasing`, `releasing`, `testing`.
    pub outcomes: BTreeMap<String, Vec<Outcome>>,
}

impl World {
    /// Adds a machine.
    pub(super) fn seed(&mut self, seed: &Seed, now: Now) -> String {
        let id = self.new_system_id();
        let number = self.ids.interface / 2;
        let made_up = [0, 1].map(|nic| {
            format!(
                "02:fa:{:02x}:{:02x}:{:02x}:{nic:02x}",
                number >> 16 & 255,
                number >> 8 & 255,
                number & 255
            )
        });
        let macs = if seed.macs.is_empty() { &made_up[..] } else { &seed.macs[..] };
        let interfaces = self.new_interfaces(macs.iter().map(String::as_str));
        let hostname = seed.hostname.clone().unwrap_or_else(|| format!("gpu-{id}"));
        let mut machine = Machine::new(hostname, interfaces);
        machine.power = Power::Off;
        machine.power_type = "redfish".to_owned();
        machine.hardware = seed.disks.as_deref().map_or_else(|| usual_disks(&id), hardware);
        self.machines.insert(id.clone(), machine);
        if seed.configured {
            self.configure(&id);
        }
        self.change(&id, &Change { status: seed.status, ..Change::default() }, now);
        id
    }

    /// Makes a machine ready to deploy: disks known, boot interface linked.
    fn configure(&mut self, id: &str) {
        self.discover(id);
        let link = next(&mut self.ids.link);
        let Some(machine) = self.machines.get_mut(id) else { return };
        machine.boot_disk = machine.disks.first().map(|disk| disk.id);
        if let Some(boot) = machine.interfaces.first_mut() {
            boot.vlan = Some(1);
            boot.links = vec![Link { id: link, mode: "auto".to_owned(), subnet: 1, address: None }];
        }
    }

    pub(super) fn discover(&mut self, id: &str) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        for hardware in &machine.hardware {
            if machine.disks.iter().all(|disk| disk.hardware.serial != hardware.serial) {
                let id = next(&mut self.ids.disk);
                let hardware = hardware.clone();
                machine.disks.push(Disk { id, hardware, block_size: 512, partition: None });
            }
        }
        if let Some(boot) = machine.interfaces.first_mut() {
            boot.vlan.get_or_insert(1);
        }
    }

    pub(super) fn change(&mut self, id: &str, change: &Change, _now: Now) {
        let user = self.config.user.clone();
        let Some(machine) = self.machines.get_mut(id) else { return };
        if let Some(status) = change.status {
            machine.status = status;
            machine.due = None;
            machine.owner = OWNED.contains(&status).then_some(user);
        }
        if let Some(power) = &change.power {
            machine.power = match power.as_str() {
                "on" => Power::On,
                "off" => Power::Off,
                "error" => Power::Error,
                _ => Power::Unknown,
            };
        }
        if let Some(passed) = change.commissioned {
            machine.commissioning = if passed { Commissioning::Passed } else { Commissioning::Never };
        }
        if let Some(disks) = &change.disks {
            machine.hardware = hardware(disks);
            machine.disks.clear();
            machine.boot_disk = None;
        }
        machine.bmc = change.bmc.unwrap_or(machine.bmc);
        machine.sync_works = change.sync_works.unwrap_or(machine.sync_works);
        machine.locked = change.locked.unwrap_or(machine.locked);
        if let Some(owner) = &change.owner {
            machine.owner = Some(owner.clone()).filter(|owner| !owner.is_empty());
        }
        for (work, outcomes) in &change.outcomes {
            let status = match work.as_str() {
                "commissioning" => Status::Commissioning,
                "deploying" => Status::Deploying,
                "erasing" => Status::DiskErasing,
                "releasing" => Status::Releasing,
                _ => Status::Testing,
            };
            machine.outcomes.entry(status.code()).or_default().extend(outcomes.iter().cloned());
        }
    }
}

fn hardware(disks: &[DiskSpec]) -> Vec<Hardware> {
    disks
        .iter()
        .map(|disk| Hardware {
            name: disk.name.clone(),
            model: disk.model.clone(),
            serial: disk.serial.clone(),
            size: disk.size,
        })
        .collect()
}

pub(super) fn usual_disks(id: &str) -> Vec<Hardware> {
    let disk = |name: &str, model: &str, kind: &str, size| Hardware {
        name: name.to_owned(),
        model: model.to_owned(),
        serial: format!("{kind}-{id}"),
        size,
    };
    vec![
        disk("nvme0n1", "SAMSUNG MZ", "DATA0", 3_840_000_000_000),
        disk("nvme1n1", "SAMSUNG MZ", "DATA1", 3_840_000_000_000),
        disk("sda", "DELLBOSS VD", "BOSS", 480_000_000_000),
    ]
}
