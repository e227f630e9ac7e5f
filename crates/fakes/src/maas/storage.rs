//! Disks: added, chosen to boot from, laid out.

use serde_json::json;

use super::{
    body::Fields,
    handle::Answer,
    machine::{Disk, Hardware},
    route::Op,
    view,
    world::{World, next},
};

impl World {
    pub(super) fn disks(&self, id: &str) -> Answer {
        let Some(machine) = self.machines.get(id) else { return Answer::not_found("Machine") };
        let disks: Vec<_> = machine.disks.iter().map(|disk| view::disk(id, machine, disk)).collect();
        // The list omits fields of the single view.
        let mut shown = json!(disks);
        for disk in shown.as_array_mut().into_iter().flatten() {
            if let Some(disk) = disk.as_object_mut() {
                disk.remove("firmware_version");
            }
        }
        Answer::json(&shown)
    }

    pub(super) fn add_disk(&mut self, id: &str, fields: &Fields) -> Answer {
        let hardware = Hardware {
            name: fields.text("name").to_owned(),
            model: fields.text("model").to_owned(),
            serial: fields.text("serial").to_owned(),
            size: fields.text("size").parse().unwrap_or_default(),
        };
        let block_size = fields.text("block_size").parse().unwrap_or(512);
        let disk = Disk { id: next(&mut self.ids.disk), hardware, block_size, partition: None };
        let Some(machine) = self.machines.get_mut(id) else { return Answer::not_found("Machine") };
        machine.disks.push(disk.clone());
        self.count(id, Op::AddDisk);
        self.machines.get(id).map_or_else(
            || Answer::not_found("Machine"),
            |machine| Answer::json(&view::disk(id, machine, &disk)),
        )
    }

    pub(super) fn set_boot_disk(&mut self, id: &str, disk: &str) -> Answer {
        let Some(machine) = self.machines.get_mut(id) else { return Answer::not_found("Machine") };
        let Some(disk) = machine.disks.iter().map(|disk| disk.id).find(|found| found.to_string() == disk)
        else {
            return Answer::not_found("BlockDevice");
        };
        machine.boot_disk = Some(disk);
        self.count(id, Op::SetBootDisk);
        Answer::plain(200, "OK")
    }

    /// Lays out a disk; the status has been checked.
    pub(super) fn set_layout(&mut self, id: &str, fields: &Fields) -> Answer {
        const LAYOUTS: [&str; 7] = ["custom", "vmfs7", "vmfs6", "bcache", "lvm", "flat", "blank"];
        let layout = fields.text("storage_layout");
        if !LAYOUTS.contains(&layout) {
            return Answer::refused(
                &json!({"storage_layout": [invalid(layout, "storage_layout", &LAYOUTS)]}),
            );
        }
        let Some(machine) = self.machines.get_mut(id) else { return Answer::not_found("Machine") };
        let known: Vec<_> = machine.disks.iter().map(|disk| disk.id.to_string()).collect();
        let boot = machine.boot_disk.map(|disk| disk.to_string()).or_else(|| known.first().cloned());
        let root = fields.get("root_device").map(str::to_owned).or(boot).unwrap_or_default();
        if !known.contains(&root) {
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            return Answer::refused(&json!({"root_device": [invalid(&root, "root_device", &known)]}));
        }
        for disk in &mut machine.disks {
            let partitioned = layout != "blank" && disk.id.to_string() == root;
            disk.partition = partitioned.then(|| next(&mut self.ids.partition));
        }
        self.count(id, Op::SetLayout);
        self.show(id)
    }

    pub(super) fn restore_storage(&mut self, id: &str) -> Answer {
        if let Some(machine) = self.machines.get_mut(id) {
            machine.boot_disk = None;
            for disk in &mut machine.disks {
                disk.partition = None;
            }
        }
        self.count(id, Op::RestoreStorage);
        self.show(id)
    }
}

/// MAAS's sentence about a value that is not one of a list.
pub(super) fn invalid(value: &str, field: &str, known: &[&str]) -> String {
    let known: Vec<_> = known.iter().map(|value| format!("'{value}'")).collect();
    format!("'{value}' is not a valid {field}.  It should be one of: {}.", known.join(", "))
}
