//! Storage of a machine: its disks, the boot disk, and the layout; all calls are idempotent.

use reqwest::Method;

use super::{BlockDevice, Effect::Declares, Error, Maas, Machine, call::Op, form::Form};

/// The layouts that MAAS knows for disks of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutKind {
    /// One partition for everything.
    Flat,
    /// One volume group.
    Lvm,
    /// Nothing, so that a deployment is impossible.
    Blank,
}

/// A layout on a disk.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Which layout.
    pub kind: LayoutKind,
    /// The disk, by MAAS's id.
    pub root_device: i64,
}

impl Maas {
    /// The disks of a machine.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn block_devices(&self, id: &str) -> Result<Vec<BlockDevice>, Error> {
        self.get("block_devices", &["nodes", id, "blockdevices", ""], &[]).await
    }

    /// Chooses the disk a machine boots from.
    ///
    /// # Errors
    /// When MAAS does not take it.
    pub async fn set_boot_disk(&self, id: &str, disk: i64) -> Result<(), Error> {
        let path = ["nodes", id, "blockdevices", &disk.to_string(), "op-set_boot_disk"];
        let op = Op("set_boot_disk", Declares);
        self.call(&op, Method::POST, &path, &[], Some(&Form::default())).await.map(drop)
    }

    /// Lays out the disks; only in `Ready`.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn set_storage_layout(&self, id: &str, layout: Layout) -> Result<Machine, Error> {
        let kind = match layout.kind {
            LayoutKind::Flat => "flat",
            LayoutKind::Lvm => "lvm",
            LayoutKind::Blank => "blank",
        };
        let form = Form::default().set("storage_layout", kind).set("root_device", layout.root_device);
        let path = ["machines", id, "op-set_storage_layout"];
        self.post(Op("set_storage_layout", Declares), &path, form).await
    }

    /// Restores the storage to its state after commissioning.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn restore_storage(&self, id: &str) -> Result<Machine, Error> {
        let path = ["machines", id, "op-restore_storage_configuration"];
        self.post(Op("restore_storage_configuration", Declares), &path, Form::default()).await
    }
}
