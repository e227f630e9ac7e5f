//! Progress of work: by time, by a report of the machine, or by order of a test.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use wardroom_core::gpu_node::maas::{
    Power,
    Status::{self, *},
};

use super::{
    Outcome,
    clock::Now,
    event::Pen,
    machine::{Commissioning, Link, Machine},
    world::World,
};

const INSTALLATION_FAILED: &str = "Installation failed (refer to the installation log for more information).";

impl World {
    /// Begins work: it ends when its time comes, unless it was ordered to stall.
    pub(super) fn begin(&mut self, id: &str, now: Now) {
        let pace = self.config.pace;
        let Some(machine) = self.machines.get_mut(id) else { return };
        #[expect(clippy::wildcard_enum_match_arm, reason = "the other statuses are not work")]
        let time = match machine.status {
            Commissioning => pace.commissioning,
            Deploying => pace.deploying,
            Releasing => pace.releasing,
            DiskErasing => pace.erasing,
            Testing | EnteringRescueMode => pace.testing,
            ExitingRescueMode => Some(Duration::ZERO),
            _ => None,
        };
        let outcomes = machine.outcomes.get(&machine.status.code());
        let stalls = outcomes.and_then(|outcomes| outcomes.first()) == Some(&Outcome::Stall);
        machine.due = time.filter(|_| !stalls).map(|time| now.instant + time);
    }

    /// Brings a machine up to date before it is read.
    pub(super) fn settle(&mut self, id: &str, now: Now) {
        // Erasing is followed by a release, which may be over at once.
        for _ in 0..2 {
            let Some(machine) = self.machines.get_mut(id) else { return };
            if machine.due.is_none_or(|due| due > now.instant) {
                break;
            }
            let planned = machine.outcomes.get_mut(&machine.status.code());
            let outcome = planned.filter(|planned| !planned.is_empty()).map(|planned| planned.remove(0));
            self.finish(id, &outcome.unwrap_or_default(), now);
        }
        self.sync(id, now.wall);
    }

    /// A deployed machine reports its hardware from time to time.
    fn sync(&mut self, id: &str, now: Timestamp) {
        let Ok(interval) = SignedDuration::try_from(self.config.sync_interval) else { return };
        let Some(machine) = self.machines.get_mut(id) else { return };
        let works = machine.status == Deployed && machine.hw_sync && machine.sync_works;
        let (Some(last), true) = (machine.last_sync.filter(|_| works), interval.as_millis() > 0) else {
            return;
        };
        let passed = now.duration_since(last).as_millis() / interval.as_millis();
        let passed = i32::try_from(passed).unwrap_or_default();
        machine.last_sync = last.checked_add(interval * passed).ok().or(machine.last_sync);
    }

    /// Ends the work under way.
    pub(super) fn finish(&mut self, id: &str, outcome: &Outcome, now: Now) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        machine.due = None;
        let failure = match outcome {
            Outcome::Stall => return,
            Outcome::Pass => None,
            Outcome::Fail(why) => Some(why.as_str()),
        };
        match (machine.status, failure) {
            (Commissioning, None) => {
                machine.commissioning = Commissioning::Passed;
                self.discover(id);
                self.commissioned(id, now);
            }
            (Commissioning, Some(_)) => {
                machine.commissioning = Commissioning::Failed;
                self.commissioning_failed(id, now);
            }
            (Deploying, None) => self.deployed(id, now),
            (Deploying, Some(why)) => self.deployment_failed(id, why, now),
            (Releasing, None) => self.released(id, now),
            (Releasing, Some(why)) => self.mark_failed(id, FailedReleasing, why, now),
            (DiskErasing, None) => self.erased(id, now),
            (DiskErasing, Some(why)) => self.erase_failed(id, why, now),
            (Testing, Some(_)) => self.step(id, FailedTesting, now, |_, _| {}),
            (Testing | ExitingRescueMode, None) => {
                let previous = machine.previous;
                self.step(id, previous, now, |_, _| {});
            }
            (EnteringRescueMode, None) => self.step(id, RescueMode, now, |_, _| {}),
            (EnteringRescueMode, Some(_)) => self.step(id, FailedEnteringRescueMode, now, |_, _| {}),
            (ExitingRescueMode, Some(_)) => self.step(id, FailedExitingRescueMode, now, |_, _| {}),
            _ => {}
        }
    }

    /// Handles a machine's report to the metadata service.
    pub(super) fn signal(&mut self, id: &str, status: &str, now: Now) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        let (ok, failed) = (status == "OK", status == "FAILED");
        #[expect(clippy::wildcard_enum_match_arm, reason = "other statuses do not listen")]
        match machine.status {
            // Without results of scripts, commissioning stays pending, and a release will end in `New`.
            Commissioning if ok => self.commissioned(id, now),
            Commissioning if failed => {
                machine.commissioning = Commissioning::Aborted;
                self.commissioning_failed(id, now);
            }
            Deploying if failed => self.deployment_failed(id, INSTALLATION_FAILED, now),
            DiskErasing if failed => self.erase_failed(id, "Failed to erase disks.", now),
            DiskErasing | Testing | EnteringRescueMode if ok => self.finish(id, &Outcome::Pass, now),
            Testing | EnteringRescueMode if failed => self.finish(id, &Outcome::Fail(String::new()), now),
            _ => {}
        }
    }

    fn commissioned(&mut self, id: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        machine.owner = None;
        machine.due = None;
        machine.events.info(&mut pen, "Ready", "");
        machine.go(Ready, &mut pen);
    }

    fn commissioning_failed(&mut self, id: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        machine.due = None;
        machine.events.info(&mut pen, "Failed commissioning", "");
        machine.go(FailedCommissioning, &mut pen);
    }

    /// Notes that cloud-init fetched its data; MAAS does not learn more.
    pub(super) fn deployed(&mut self, id: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        let series = machine.series.clone().unwrap_or_default();
        let image = format!("deployed ubuntu/{series}/{}", machine.architecture);
        machine.due = None;
        machine.last_sync = machine.hw_sync.then_some(now.wall);
        machine.events.info(&mut pen, "Image Deployed", image);
        machine.go(Deployed, &mut pen);
        machine.events.info(&mut pen, "Deployed", "");
    }

    fn deployment_failed(&mut self, id: &str, why: &str, now: Now) {
        if let Some(machine) = self.machines.get_mut(id) {
            machine.last_sync = machine.hw_sync.then_some(now.wall);
        }
        self.mark_failed(id, FailedDeployment, why, now);
    }

    fn erased(&mut self, id: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        machine.events.debug(&mut pen, "User releasing node", "");
        machine.go(Releasing, &mut pen);
        machine.events.info(&mut pen, "Releasing", "");
        self.begin(id, now);
    }

    fn erase_failed(&mut self, id: &str, why: &str, now: Now) {
        self.mark_failed(id, FailedDiskErasing, why, now);
    }

    fn mark_failed(&mut self, id: &str, status: Status, why: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        machine.due = None;
        why.clone_into(&mut machine.error_description);
        machine.commissioning = machine.commissioning.failed();
        machine.events.error(&mut pen, "Marking node failed", why);
        machine.go(status, &mut pen);
    }

    /// Ends a release: the deployment is removed, and the machine has no owner.
    pub(super) fn released(&mut self, id: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        let passed = machine.commissioning == Commissioning::Passed;
        machine.due = None;
        machine.owner = None;
        machine.owner_data.clear();
        machine.power = Power::Off;
        machine.forget_deployment();
        for link in machine.interfaces.iter_mut().flat_map(|interface| &mut interface.links) {
            link.address = None;
        }
        machine.go(if passed { Ready } else { New }, &mut pen);
        machine.events.info(&mut pen, "Released", "");
    }

    pub(super) fn step(&mut self, id: &str, to: Status, now: Now, act: fn(&mut Machine, &mut Pen<'_>)) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        machine.due = None;
        act(machine, &mut pen);
        machine.go(to, &mut pen);
    }

    /// Addresses for the links that MAAS chooses addresses for.
    pub(super) fn give_addresses(&mut self, id: &str) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        let links = machine.interfaces.iter_mut().flat_map(|interface| &mut interface.links);
        for link in links.filter(|link: &&mut Link| link.mode == "auto" && link.address.is_none()) {
            let subnet = self.subnets.iter_mut().find(|subnet| subnet.id == link.subnet);
            link.address = subnet.map(|subnet| {
                subnet.next += 1;
                format!("{}.{}.{}", subnet.prefix, subnet.next >> 8 & 255, subnet.next & 255)
            });
        }
    }
}

impl Machine {
    /// Changes and records a status; the only function that does.
    pub(super) fn go(&mut self, to: Status, pen: &mut Pen<'_>) {
        if self.status != to {
            self.events.moved(pen, self.status, to);
            self.status = to;
        }
    }

    pub(super) fn forget_deployment(&mut self) {
        self.series = None;
        self.hw_sync = false;
        self.last_sync = None;
        self.installation_set = None;
        self.user_data.clear();
    }
}
