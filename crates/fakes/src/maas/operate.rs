//! Operations on one machine: refused by the table, or carried out.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use wardroom_core::gpu_node::maas::{Power, Status};

use super::{
    Bmc,
    body::Fields,
    clock::Now,
    handle::Answer,
    machine::{Commissioning, Machine},
    route::Op,
    rules::{self, To},
    storage::invalid,
    world::{World, next},
};

const SERIES: &str = "jammy";

impl World {
    /// A machine as the answer to an operation shows it.
    pub(super) fn show(&self, id: &str) -> Answer {
        let Some(machine) = self.machines.get(id) else { return Answer::not_found("Machine") };
        Answer::json(&super::view::machine(self, id, machine))
    }

    pub(super) fn operate(&mut self, op: Op, id: &str, fields: &Fields, now: Now) -> Answer {
        self.settle(id, now);
        let Some(machine) = self.machines.get(id) else {
            return if op == Op::Allocate {
                Answer::refusal(rules::refusal(op, Status::New, id))
            } else {
                Answer::not_found("Machine")
            };
        };
        let refuse = || Answer::refusal(rules::refusal(op, machine.status, id));
        if machine.locked && matches!(op, Op::Release | Op::Delete) {
            return Answer::refusal((403, String::new()));
        }
        if machine.owner.is_none() && matches!(op, Op::PowerOn | Op::MarkBroken) {
            return refuse();
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest moves by the table")]
        match op {
            Op::Delete => {
                self.machines.remove(id);
                self.count(id, op);
                Answer::plain(204, "")
            }
            Op::PowerOn => self.power_on(id, fields, now),
            Op::PowerOff | Op::QueryPower => self.power_off(op, id, fields, now),
            Op::MarkBroken => {
                self.count(id, op);
                let comment = fields.text("comment");
                self.enter(id, Status::Broken, "User marking node broken", comment, now);
                self.machines.entry(id.to_owned()).and_modify(|machine| machine.owner = None);
                self.show(id)
            }
            Op::Unlock => self.lock_or_unlock(op, id, fields, now),
            _ => match rules::find(op, machine.status) {
                None => refuse(),
                Some(to) => self.perform(op, to, id, fields, now),
            },
        }
    }

    fn perform(&mut self, op: Op, to: To, id: &str, fields: &Fields, now: Now) -> Answer {
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these are in the table")]
        match op {
            Op::SetLayout => return self.set_layout(id, fields),
            Op::RestoreStorage => return self.restore_storage(id),
            Op::Lock => return self.lock_or_unlock(op, id, fields, now),
            _ => {}
        }
        if to == To::Same {
            return self.show(id);
        }
        if op == Op::Deploy
            && let Err(refused) = self.may_deploy(id, fields)
        {
            return refused;
        }
        self.count(id, op);
        let comment = fields.text("comment");
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these are in the table")]
        match op {
            Op::Commission => self.commission(id, fields, now),
            Op::Allocate => {
                self.allocate(id, comment, now);
                self.show_allocated(id)
            }
            Op::Deploy => self.deploy(id, fields, now),
            Op::Release if fields.is_set("erase") => {
                self.enter(id, Status::DiskErasing, "User erasing disk", comment, now);
                self.powered_work(id, now)
            }
            Op::Release => self.release(id, comment, now),
            Op::Abort => self.abort(id, to, comment, now),
            Op::MarkFixed => self.entered(id, Status::Ready, "User marking node fixed", comment, now),
            Op::OverrideTesting => {
                self.entered(id, Status::Ready, "User overrode 'Failed testing' status", comment, now)
            }
            Op::Test => self.test_or_rescue(id, Status::Testing, "User starting node testing", now),
            Op::RescueMode => {
                self.test_or_rescue(id, Status::EnteringRescueMode, "User entering rescue mode", now)
            }
            _ => self.exit_rescue(id, now),
        }
    }

    fn enter(&mut self, id: &str, to: Status, event: &str, comment: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        machine.due = None;
        machine.events.user(&mut pen, event, comment);
        machine.go(to, &mut pen);
    }

    fn entered(&mut self, id: &str, to: Status, event: &str, comment: &str, now: Now) -> Answer {
        self.enter(id, to, event, comment, now);
        self.show(id)
    }

    /// Shows the machine, then powers it on for the new work. The status is committed even if the BMC fails.
    fn powered_work(&mut self, id: &str, now: Now) -> Answer {
        let shown = self.show(id);
        self.begin(id, now);
        let Some(machine) = self.machines.get_mut(id) else { return shown };
        if machine.bmc == Bmc::Fails {
            return Answer::text(500, "Could not contact node's BMC: Failed talking to node's BMC");
        }
        machine.power = Power::On;
        shown
    }

    fn commission(&mut self, id: &str, fields: &Fields, now: Now) -> Answer {
        let set = next(&mut self.ids.set);
        // The set of the tests that follow.
        next(&mut self.ids.set);
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return Answer::not_found("Machine") };
        machine.owner = Some(pen.user.to_owned());
        machine.commissioning = Commissioning::Pending;
        machine.commissioning_set = Some(set);
        machine.forget_configuration(fields.is_set("skip_storage"), fields.is_set("skip_networking"));
        machine.events.user(&mut pen, "User starting node commissioning", "");
        machine.events.info(&mut pen, "Commissioning", "");
        if fields.is_set("skip_bmc_config") {
            let text = "30-maas-01-bmc-config changed status from 'Pending' to 'Skipped'";
            machine.events.debug(&mut pen, "Script result", text);
        }
        machine.go(Status::Commissioning, &mut pen);
        self.powered_work(id, now)
    }

    /// An allocation also lists the constraints that the machine meets; an allocation by id has none.
    fn show_allocated(&self, id: &str) -> Answer {
        let Some(machine) = self.machines.get(id) else { return Answer::not_found("Machine") };
        let mut shown = super::view::machine(self, id, machine);
        shown["constraints_by_type"] = json!({});
        Answer::json(&shown)
    }

    fn allocate(&mut self, id: &str, comment: &str, now: Now) {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return };
        machine.owner = Some(pen.user.to_owned());
        machine.events.user(&mut pen, "User acquiring node", comment);
        machine.go(Status::Allocated, &mut pen);
    }

    fn may_deploy(&self, id: &str, fields: &Fields) -> Result<(), Answer> {
        let series = fields.text("distro_series");
        if !["", SERIES, "ubuntu/jammy"].contains(&series) {
            let text = invalid(series, "distro_series", &["", "ubuntu/jammy"]);
            return Err(Answer::refused(&json!({"distro_series": [text]})));
        }
        let interfaces = self.machines.get(id).map(|machine| &machine.interfaces[..]).unwrap_or_default();
        if interfaces.iter().all(|interface| interface.links.is_empty()) {
            let text = json!({"network": ["Node must be configured to use a network"]});
            return Err(Answer::refused_bare(&text));
        }
        Ok(())
    }

    fn deploy(&mut self, id: &str, fields: &Fields, now: Now) -> Answer {
        if self.machines.get(id).is_some_and(|machine| machine.status == Status::Ready) {
            self.allocate(id, "", now);
        }
        let set = next(&mut self.ids.set);
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return Answer::not_found("Machine") };
        machine.installation_set = Some(set);
        machine.series = Some(SERIES.to_owned());
        machine.hw_sync = fields.is_set("enable_hw_sync");
        machine.user_data = BASE64_STANDARD.decode(fields.text("user_data")).unwrap_or_default();
        machine.events.user(&mut pen, "User starting deployment", fields.text("comment"));
        machine.go(Status::Deploying, &mut pen);
        machine.events.info(&mut pen, "Deploying", "");
        let shown = self.powered_work(id, now);
        self.give_addresses(id);
        shown
    }

    fn release(&mut self, id: &str, comment: &str, now: Now) -> Answer {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return Answer::not_found("Machine") };
        machine.forget_deployment();
        machine.events.user(&mut pen, "User releasing node", comment);
        machine.go(Status::Releasing, &mut pen);
        machine.events.info(&mut pen, "Releasing", "");
        self.begin(id, now);
        self.show(id)
    }

    fn abort(&mut self, id: &str, to: To, comment: &str, now: Now) -> Answer {
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return Answer::not_found("Machine") };
        let commissioning = machine.status == Status::Commissioning;
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these are aborted")]
        let (asked, done) = match machine.status {
            Status::Commissioning => ("User aborting node commissioning", "Aborted commissioning"),
            Status::Deploying => ("User aborting deployment", "Aborted deployment"),
            Status::DiskErasing => ("User aborting disk erasing", "Aborted disk erasing"),
            _ => ("User aborting node testing", "Aborted testing"),
        };
        machine.events.user(&mut pen, asked, comment);
        machine.events.info(&mut pen, done, "");
        if commissioning {
            machine.owner = None;
        }
        let shown = self.show(id);
        if let Some(machine) = self.machines.get_mut(id) {
            machine.power = Power::Off;
            if commissioning {
                machine.commissioning = Commissioning::Aborted;
            }
            let status = if let To::Late(status) = to { status } else { machine.previous };
            self.step(id, status, now, |machine, _| machine.forget_aborted());
        }
        shown
    }

    fn test_or_rescue(&mut self, id: &str, to: Status, event: &str, now: Now) -> Answer {
        if let Some(machine) = self.machines.get_mut(id) {
            machine.previous = machine.status;
        }
        self.enter(id, to, event, "", now);
        self.powered_work(id, now)
    }

    fn exit_rescue(&mut self, id: &str, now: Now) -> Answer {
        self.enter(id, Status::ExitingRescueMode, "User exiting rescue mode", "", now);
        let shown = self.show(id);
        self.begin(id, now);
        shown
    }

    fn lock_or_unlock(&mut self, op: Op, id: &str, fields: &Fields, now: Now) -> Answer {
        self.count(id, op);
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return Answer::not_found("Machine") };
        machine.locked = op == Op::Lock;
        let event = if machine.locked { "User locking node" } else { "User unlocking node" };
        machine.events.user(&mut pen, event, fields.text("comment"));
        self.show(id)
    }

    fn power_on(&mut self, id: &str, fields: &Fields, now: Now) -> Answer {
        self.count(id, Op::PowerOn);
        let Some((machine, mut pen)) = self.with_pen(id, now) else { return Answer::not_found("Machine") };
        machine.events.user(&mut pen, "User powering up node", fields.text("comment"));
        if machine.status != Status::Allocated {
            let shown = self.show(id);
            return self.power(id, Power::On).unwrap_or(shown);
        }
        machine.go(Status::Deploying, &mut pen);
        machine.events.info(&mut pen, "Deploying", "");
        machine.series = Some(SERIES.to_owned());
        self.powered_work(id, now)
    }

    /// Powering off and querying the power both notice that a machine is off, which ends a release.
    fn power_off(&mut self, op: Op, id: &str, fields: &Fields, now: Now) -> Answer {
        if self.machines.get(id).is_some_and(|machine| machine.status == Status::ExitingRescueMode) {
            // As recorded, where there were no results of tests to return to.
            return Answer::text(500, "'NoneType' object has no attribute 'created'");
        }
        let mut shown = self.show(id);
        if op == Op::PowerOff {
            self.count(id, op);
            let Some((machine, mut pen)) = self.with_pen(id, now) else { return shown };
            machine.events.user(&mut pen, "User powering down node", fields.text("comment"));
            if let Some(failed) = self.power(id, Power::Off) {
                return failed;
            }
        }
        let Some(machine) = self.machines.get(id) else { return shown };
        if op == Op::QueryPower {
            let state = if machine.bmc == Bmc::Fails { "error" } else { machine.power.as_str() };
            shown = Answer::json(&json!({"state": state}));
        }
        if machine.status == Status::Releasing && machine.power == Power::Off {
            self.released(id, now);
        }
        shown
    }

    /// Changes the power, unless the BMC does not take it.
    fn power(&mut self, id: &str, power: Power) -> Option<Answer> {
        let machine = self.machines.get_mut(id)?;
        if machine.bmc == Bmc::Fails {
            return Some(Answer::text(500, "Could not contact node's BMC: Failed talking to node's BMC"));
        }
        machine.power = power;
        None
    }
}

impl Machine {
    /// Commissioning starts from nothing, except for what the request keeps.
    fn forget_configuration(&mut self, keep_storage: bool, keep_networking: bool) {
        if !keep_storage {
            self.boot_disk = None;
            for disk in &mut self.disks {
                disk.partition = None;
            }
        }
        if !keep_networking {
            for interface in &mut self.interfaces {
                interface.links.clear();
            }
        }
    }

    fn forget_aborted(&mut self) {
        if self.status == Status::Deploying {
            self.forget_deployment();
        }
    }
}
