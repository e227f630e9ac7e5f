//! Sets the boot disk and the storage layout; idempotent.

use wardroom_core::gpu_node::maas::Status;
use wardroom_upstream::maas::{BlockDevice, Class, Error as MaasError, Layout, LayoutKind};

use super::{
    StageError, StageResult, Try, Workers, again, disagrees, done, is_past_preparation, wrong_settings,
};
use crate::kinds::gpu_node::site::BootDisk;

impl Workers {
    /// Finds the boot disk by model or serial number, makes it the boot disk, and sets the layout.
    pub(super) async fn configure_storage(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        if is_past_preparation(attempt, &machine) {
            return done(attempt);
        }
        if machine.status != Status::Ready {
            return Err(disagrees(attempt.stage, &machine));
        }
        let disks = session.turn().await.block_devices(&id).await?;
        let disk = boot_disk(&site.settings.boot_disk, &disks)?;
        attempt.data.laid_out = true;
        attempt.save().await?;
        if machine.boot_disk.as_ref().is_none_or(|boots| boots.id != disk.id) {
            session.turn().await.set_boot_disk(&id, disk.id).await?;
        }
        let layout = Layout { kind: LayoutKind::Flat, root_device: disk.id };
        match session.turn().await.set_storage_layout(&id, layout).await {
            Ok(_) => done(attempt),
            Err(error @ MaasError { class: Class::WrongState(_), .. }) => Err(again(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Restores the storage as it was after commissioning, if MAAS still allows it.
    pub(super) async fn undo_storage(&self, attempt: &mut Try<'_>) -> StageResult {
        let Some((_, session)) = self.site_to_undo(attempt)? else { return done(attempt) };
        let Some(machine) = attempt.data.machine.clone() else { return done(attempt) };
        if !attempt.data.laid_out {
            return done(attempt);
        }
        match session.turn().await.machine(&machine.system_id).await {
            Ok(seen) if seen.status == Status::Ready => {
                session.turn().await.restore_storage(&machine.system_id).await?;
                attempt.data.laid_out = false;
                done(attempt)
            }
            // In other statuses the next commissioning does it.
            Ok(_) | Err(MaasError { class: Class::Gone, .. }) => done(attempt),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the one disk that matches the rule.
fn boot_disk<'a>(rule: &BootDisk, disks: &'a [BlockDevice]) -> Result<&'a BlockDevice, StageError> {
    if rule.model.is_none() && rule.serial.is_none() {
        return Err(wrong_settings("the site names no boot disk: set its model or serial number"));
    }
    let fits = |disk: &&BlockDevice| {
        rule.serial.as_ref().is_none_or(|serial| disk.serial == *serial)
            && rule.model.as_ref().is_none_or(|model| disk.model.contains(model.as_str()))
    };
    let mut found = disks.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(disk), None) => Ok(disk),
        (None, _) => {
            let there: Vec<_> = disks.iter().map(|disk| format!("{} {}", disk.model, disk.serial)).collect();
            Err(wrong_settings(format!(
                "no disk matches the boot disk of the site; the machine has: {}",
                there.join(", ")
            )))
        }
        (Some(one), Some(other)) => Err(wrong_settings(format!(
            "several disks match the boot disk of the site, such as {} and {}",
            one.serial, other.serial
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(id: i64, model: &str, serial: &str) -> BlockDevice {
        let (name, used_for) = (String::new(), String::new());
        BlockDevice { id, name, model: model.to_owned(), serial: serial.to_owned(), size: 0, used_for }
    }

    #[test]
    fn the_boot_disk_is_the_only_one_that_fits() {
        let disks = [disk(1, "DELLBOSS VD", "a"), disk(2, "NVMe", "b"), disk(3, "NVMe", "c")];
        let by = |model: Option<&str>, serial: Option<&str>| {
            let rule = BootDisk { model: model.map(str::to_owned), serial: serial.map(str::to_owned) };
            boot_disk(&rule, &disks).map(|disk| disk.id).ok()
        };
        assert_eq!(by(Some("BOSS"), None), Some(1));
        assert_eq!(by(Some("NVMe"), Some("c")), Some(3));
        assert_eq!(by(Some("NVMe"), None), None, "two of them");
        assert_eq!(by(Some("SATA"), None), None, "none");
        assert_eq!(by(None, None), None, "no rule");
    }
}
