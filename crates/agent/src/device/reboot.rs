//! A reboot that an operator requests, outside any update: its hooks, and once for each request.

use super::{
    hooks::{self, Occasion},
    os,
    record::Reboot,
    update::Updater,
};
use wardroom_core::device::hook::Hook;

impl Updater<'_> {
    /// Notes a requested reboot.
    pub(crate) fn begin_reboot(&self, number: u64) -> Result<(), String> {
        let from = os::boot_id(&self.config.os)?;
        tracing::info!(number, "a reboot was requested");
        self.store.change(|record| {
            record.reboot = Some(Reboot { number, from, hooked: false });
            record.reboot_problem = None;
        })
    }

    /// Finishes a requested reboot, if there is one. Before the reboot, this does not return.
    pub(crate) async fn finish_reboot(&self) -> Result<(), String> {
        let Some(reboot) = self.store.record().reboot.clone() else { return Ok(()) };
        if os::boot_id(&self.config.os)? == reboot.from {
            let problem = self.go_down(&reboot).await;
            tracing::error!(problem, "the requested reboot failed");
            return self.end_reboot(reboot.number, Some(problem));
        }
        // Its failure changes nothing: there is nothing to roll back.
        let problem = self.reboot_hook(Hook::AfterRebooting, true).await.err();
        self.end_reboot(reboot.number, problem)
    }

    /// Reboots. Returns only why the device is still up.
    async fn go_down(&self, reboot: &Reboot) -> String {
        if !reboot.hooked {
            if let Err(error) = self.reboot_hook(Hook::BeforeRebooting, false).await {
                return error;
            }
            let hooked = Reboot { hooked: true, ..reboot.clone() };
            if let Err(error) = self.store.change(|record| record.reboot = Some(hooked)) {
                return error;
            }
        }
        self.store.told().await;
        os::reboot(&self.config.os, &self.store.running()).await
    }

    async fn reboot_hook(&self, hook: Hook, rebooted: bool) -> Result<(), String> {
        let occasion = Occasion { hook, version: "", changes: &[], rebooted };
        hooks::run(&self.config.hooks, &occasion, &self.store.running()).await
    }

    fn end_reboot(&self, number: u64, problem: Option<String>) -> Result<(), String> {
        self.store.change(|record| {
            record.reboots = number;
            record.reboot = None;
            record.reboot_problem = problem;
        })
    }
}
