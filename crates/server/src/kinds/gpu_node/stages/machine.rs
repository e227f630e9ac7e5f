//! The machine in MAAS: found or created, commissioned, ready.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a stage names the statuses it knows what to do with; any other needs a person"
)]

use wardroom_core::{gpu_node::maas::Status, run::plan::Kind};
use wardroom_upstream::maas::{
    Class, Commission, Error as MaasError, Filter, Machine, NewMachine, PowerDriver,
};

use super::{
    StageError, StageResult, Try, Workers, again,
    claim::{claim, give_back},
    disagrees, done, gone, is_past_preparation, lost, name, needs_person,
    prepare::Power,
    require_ours, wait_for,
};
use crate::{
    kinds::gpu_node::{
        data,
        document::{self, Document, KIND},
        site::Snapshot,
        upstream::Session,
    },
    platform::app::{Decided, by_system},
};

impl Workers {
    /// Finds the machine by its stored id, else by all MACs, else by name. If there is none, it is created
    /// but not commissioned yet; if there is one, it is taken, unless it has another owner; if there are
    /// several, a person has to choose.
    pub(super) async fn create_or_find(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let node = self.node(attempt).await?;
        let known = attempt.data.machine.as_ref().map(|machine| machine.system_id.clone());
        // The same id in another MAAS is another machine.
        let is_here =
            |machine: &&document::Machine| machine.site == site.name && machine.is_at(&site.settings.url);
        let stored = node.machine.as_ref().filter(is_here);
        let known = known.or_else(|| stored.map(|machine| machine.system_id.clone()));
        let found = self.candidates(&session, known.as_deref(), &node).await?;
        let marker = marker(attempt.run);
        let machine = match &found[..] {
            [] => {
                let power = match &node.bmc {
                    Some(bmc) => Some(self.power(&site.name, bmc).await?),
                    None => None,
                };
                attempt.data.creating = true;
                attempt.save().await?;
                create(&session, &site, &node, &marker, power).await?
            }
            [machine] => machine.clone(),
            several => return Err(conflict(several)),
        };
        let created = machine.description == marker;
        let is_known = known.as_deref() == Some(machine.system_id.as_str());
        self.refuse_taken(attempt, &site, &machine.system_id).await?;
        attempt.data.turn_to(&machine.system_id);
        if attempt.data.deployed.is_none() {
            if matches!(machine.status, Status::Releasing | Status::DiskErasing) {
                return Ok(wait_for(attempt, &site, "MAAS releases the machine"));
            }
            refuse_in_use(&machine)?;
        }
        if !created && !is_known && !machine.has_tag(&site.settings.tag) {
            refuse_foreign(&site, &machine)?;
        }
        // The machine must belong to this node alone before it is changed, or undone.
        self.remember(attempt, &site, &machine.system_id).await?;
        attempt.data.creating = false;
        attempt.data.machine = Some(data::Machine { system_id: machine.system_id.clone(), created });
        attempt.save().await?;
        // Replaces observations of an earlier machine of the node.
        self.note(attempt, &site.name, &machine.system_id, Some(&machine), attempt.now).await;
        claim(attempt, &session, &site, &machine).await?;
        done(attempt)
    }

    async fn candidates(
        &self,
        session: &Session,
        known: Option<&str>,
        node: &Document,
    ) -> Result<Vec<Machine>, StageError> {
        if let Some(id) = known {
            match session.turn().await.machine(id).await {
                Ok(machine) => return Ok(vec![machine]),
                Err(MaasError { class: Class::Gone, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let macs: Vec<_> = node.macs.iter().map(String::as_str).collect();
        let filter = Filter { macs: &macs, ..Filter::default() };
        let found = session.turn().await.find(&filter).await?;
        if !found.is_empty() {
            return Ok(found);
        }
        let hostnames = [node.hostname.as_str()];
        let filter = Filter { hostnames: &hostnames, ..Filter::default() };
        Ok(session.turn().await.find(&filter).await?)
    }

    /// Stores the machine in the node's record.
    async fn remember(&self, attempt: &Try<'_>, site: &Snapshot, system_id: &str) -> Result<(), StageError> {
        let machine = document::Machine::new(system_id, &site.name, &site.settings.url, attempt.run);
        let remember = |node: &wardroom_store::Resource| {
            let mut document = Document::of(node)?;
            let known = document.machine.take().filter(|known| known.is(&machine));
            if known.as_ref().is_some_and(|known| known.maas == machine.maas) {
                return Ok(Decided::Nothing(()));
            }
            // The run that found it first stays recorded.
            let run = known.map_or_else(|| machine.run.clone(), |known| known.run);
            let machine = document::Machine { run, ..machine.clone() };
            document.machine = Some(machine.clone());
            let content = document.into_content_of(node, document::state(node)?)?;
            let metadata = serde_json::json!({"machine": machine});
            Ok(Decided::Commit(Box::new((content, by_system(&self.app, "changed", metadata))), ()))
        };
        self.change(attempt, remember).await?;
        Ok(())
    }

    /// Refuses a machine that another node has.
    async fn refuse_taken(
        &self,
        attempt: &Try<'_>,
        site: &Snapshot,
        system_id: &str,
    ) -> Result<(), StageError> {
        let machine = document::Machine::new(system_id, &site.name, &site.settings.url, attempt.run);
        for key in machine.keys() {
            let holder = self.app.store.get_by_key(KIND, &key).await?;
            if let Some(holder) = holder.filter(|holder| holder.content.id != attempt.subject) {
                return Err(needs_person(format!(
                    "{system_id} is the machine of GPU node {} ({}) already: remove that node first, or register this \
                     one with the MACs and the name of its own machine",
                    holder.content.id, holder.content.name
                )));
            }
        }
        Ok(())
    }

    /// Has MAAS commission the machine, unless that is under way or was done for this run. A machine that was
    /// `Ready` before is commissioned too, because its hardware may have changed.
    pub(super) async fn commission(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        if is_past_preparation(attempt, &machine) {
            return done(attempt);
        }
        match machine.status {
            Status::Commissioning | Status::Testing => {}
            Status::Ready if attempt.kind == Kind::Reimage => {}
            Status::Ready | Status::FailedCommissioning if arrived(attempt, &machine) => {}
            Status::New | Status::Ready | Status::FailedCommissioning | Status::Broken => {
                ask(attempt, &session, &site, &machine).await?;
            }
            Status::FailedTesting => {
                return Err(needs_person(
                    "the tests of the machine failed: override them in MAAS, or repair it",
                ));
            }
            _ => return Err(disagrees(attempt.stage, &machine)),
        }
        done(attempt)
    }

    /// Waits until MAAS reports the machine as ready. A failed commissioning is repeated once.
    pub(super) async fn wait_for_ready(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let machine = self.sighted(attempt, "MAAS commissions the machine").await?;
        if is_past_preparation(attempt, &machine) {
            return done(attempt);
        }
        match machine.status {
            Status::Ready => {
                attempt.data.recommissioned = false;
                done(attempt)
            }
            Status::Commissioning | Status::Testing => {
                Ok(wait_for(attempt, &site, "MAAS commissions the machine"))
            }
            Status::FailedCommissioning if !attempt.data.recommissioned => {
                attempt.data.recommissioned = true;
                ask(attempt, &session, &site, &machine).await?;
                // Ignore earlier observations.
                Err(again("commissioning failed; it was started once more"))
            }
            Status::FailedCommissioning => {
                let now = self.observe(attempt, &session, &machine.system_id).await?;
                if now.status != Status::FailedCommissioning {
                    return Ok(wait_for(attempt, &site, "MAAS commissions the machine once more"));
                }
                if !arrived(attempt, &now) {
                    ask(attempt, &session, &site, &now).await?;
                    return Err(again("commissioning failed; it was started once more"));
                }
                attempt.data.recommissioned = false;
                attempt.save().await?;
                Err(needs_person("commissioning failed twice: check its results in MAAS"))
            }
            Status::FailedTesting => {
                Err(needs_person("the tests of the machine failed: override them in MAAS, or repair it"))
            }
            Status::Broken => Err(needs_person("MAAS calls the machine broken")),
            _ => Err(disagrees(attempt.stage, &machine)),
        }
    }

    /// Deletes the machine if this run created it, it has our tag and it was not used yet. A machine that was
    /// found is restored.
    pub(super) async fn undo_create(&self, attempt: &mut Try<'_>) -> StageResult {
        let Some((site, session)) = self.site_to_undo(attempt)? else { return done(attempt) };
        let node = self.node(attempt).await?;
        let mut machine = attempt.data.machine.clone();
        if attempt.data.creating {
            // The answer to the create request was lost: the marker shows whether it took effect.
            let found = self.candidates(&session, None, &node).await?;
            let ours = found.into_iter().find(|machine| machine.description == marker(attempt.run));
            machine = ours.map(|ours| data::Machine { system_id: ours.system_id, created: true }).or(machine);
        }
        let Some(machine) = machine else {
            // The node's record may be newer than the run's.
            return if attempt.data.creating { done(attempt) } else { self.forget(attempt).await };
        };
        if machine.created {
            let seen = match session.turn().await.machine(&machine.system_id).await {
                Ok(seen) => seen,
                Err(MaasError { class: Class::Gone, .. }) => return self.forget(attempt).await,
                Err(error) => return Err(error.into()),
            };
            let tag = &site.settings.tag;
            if !matches!(
                seen.status,
                Status::New | Status::Ready | Status::FailedCommissioning | Status::FailedTesting
            ) {
                return Err(needs_person(format!(
                    "{} is {}, and not deleted: release it in MAAS first, if it is not needed",
                    machine.system_id,
                    name(&seen)
                )));
            }
            if !seen.has_tag(tag) && seen.description != marker(attempt.run) {
                return Err(needs_person(format!(
                    "{} does not carry the tag {tag}, and is not deleted",
                    machine.system_id
                )));
            }
            match session.turn().await.delete(&machine.system_id).await {
                Ok(()) | Err(MaasError { class: Class::Gone, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        } else {
            give_back(attempt, &session, &site, &machine.system_id).await?;
        }
        self.forget(attempt).await
    }

    /// Removes the machine from the node's record, if this run put it there.
    async fn forget(&self, attempt: &mut Try<'_>) -> StageResult {
        let run = attempt.run;
        let forget = |node: &wardroom_store::Resource| {
            let mut document = Document::of(node)?;
            let ours = |machine: &mut document::Machine| machine.run == run;
            if document.machine.take_if(ours).is_none() {
                return Ok(Decided::Nothing(()));
            }
            let content = document.into_content_of(node, document::state(node)?)?;
            let metadata = serde_json::json!({"machine": null});
            Ok(Decided::Commit(Box::new((content, by_system(&self.app, "changed", metadata))), ()))
        };
        self.change(attempt, forget).await?;
        attempt.data.machine = None;
        done(attempt)
    }

    /// Aborts the run's commissioning or its tests, if still running. A commissioning by others continues.
    pub(super) async fn undo_commission(&self, attempt: &mut Try<'_>) -> StageResult {
        let Some((site, session)) = self.site_to_undo(attempt)? else { return done(attempt) };
        let Some(machine) = attempt.data.machine.clone() else { return done(attempt) };
        if attempt.data.commissioning.is_none() {
            return done(attempt);
        }
        match session.turn().await.machine(&machine.system_id).await {
            Ok(seen) if matches!(seen.status, Status::Commissioning | Status::Testing) => {
                require_ours(&site, &seen)?;
                session.turn().await.abort(&machine.system_id, attempt.run).await?;
                done(attempt)
            }
            Ok(_) | Err(MaasError { class: Class::Gone, .. }) => done(attempt),
            Err(error) => Err(error.into()),
        }
    }
}

/// The description that marks machines created by a run.
fn marker(run: &str) -> String {
    format!("wardroom run {run}")
}

async fn create(
    session: &Session,
    site: &Snapshot,
    node: &Document,
    marker: &str,
    power: Option<Power>,
) -> Result<Machine, StageError> {
    let macs: Vec<_> = node.macs.iter().map(String::as_str).collect();
    let power = power.as_ref().map_or(PowerDriver::Manual, Power::driver);
    let new = NewMachine {
        hostname: &node.hostname,
        architecture: &site.settings.architecture,
        macs: &macs,
        power,
        description: marker,
    };
    match session.turn().await.create(&new).await {
        Ok(machine) => Ok(machine),
        // Created by our earlier request or by others: the next attempt looks it up.
        Err(error) if error.is_taken() => Err(again(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a machine in use by another owner, or with the system of a removed node.
fn refuse_in_use(machine: &Machine) -> Result<(), StageError> {
    let idle = matches!(
        machine.status,
        Status::New
            | Status::Ready
            | Status::Commissioning
            | Status::FailedCommissioning
            | Status::Testing
            | Status::FailedTesting
            | Status::Broken
    );
    if idle {
        return Ok(());
    }
    let (id, status) = (&machine.system_id, name(machine));
    Err(needs_person(format!(
        "{id} is {status}, and not for this run: if its data is not needed, release it in MAAS, then repeat the stage"
    )))
}

/// Refuses a machine that belongs to another owner.
fn refuse_foreign(site: &Snapshot, machine: &Machine) -> Result<(), StageError> {
    let owner = machine.owner.as_deref().filter(|owner| !owner.is_empty());
    let (id, user) = (&machine.system_id, &site.user);
    if let Some(owner) = owner.filter(|owner| *owner != user) {
        return Err(needs_person(format!("{id} belongs to {owner}: release it first")));
    }
    Ok(())
}

fn conflict(several: &[Machine]) -> StageError {
    let ids: Vec<_> = several.iter().map(|machine| machine.system_id.as_str()).collect();
    needs_person(format!(
        "the MACs of the node match several machines, {}: keep one of them in MAAS",
        ids.join(", ")
    ))
}

/// Whether the commissioning that this run requested has started.
fn arrived(attempt: &Try<'_>, machine: &Machine) -> bool {
    attempt.data.commissioning.is_some_and(|asked| asked.before != machine.commissioning)
}

/// Stores the intent, then requests a commissioning.
async fn ask(
    attempt: &mut Try<'_>,
    session: &Session,
    site: &Snapshot,
    machine: &Machine,
) -> Result<(), StageError> {
    attempt.data.commissioning = Some(data::Commissioning { before: machine.commissioning });
    attempt.save().await?;
    // A reimage keeps data on other disks; an onboarding configures storage afterwards.
    start(session, site, &machine.system_id, attempt.kind == Kind::Reimage).await
}

pub(super) async fn start(
    session: &Session,
    site: &Snapshot,
    id: &str,
    keep: bool,
) -> Result<(), StageError> {
    let scripts: Vec<_> = site.settings.commissioning_scripts.iter().map(String::as_str).collect();
    let tests: Vec<_> = site.settings.testing_scripts.iter().map(String::as_str).collect();
    let how =
        Commission { scripts: &scripts, testing_scripts: &tests, keep_storage: keep, keep_networking: keep };
    match session.turn().await.commission(id, &how).await {
        Ok(_) => Ok(()),
        Err(MaasError { class: Class::Gone, .. }) => Err(gone()),
        // MAAS answers 400 if the status does not allow it: the next attempt looks again.
        Err(error) if matches!(error.class, Class::Refused(_) | Class::Malformed { .. }) => {
            Err(again(error.to_string()))
        }
        Err(error) => Err(lost(error)),
    }
}
