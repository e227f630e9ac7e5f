//! The way out of MAAS: release, power off, secrets, and the machine's record.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a stage names the statuses it knows what to do with; any other needs a person"
)]

use jiff::SignedDuration;
use wardroom_core::gpu_node::maas::{Power, Status};
use wardroom_store::Resource;
use wardroom_upstream::maas::{self, Class, Error as MaasError, Release, StopMode};

use super::{
    StageError, StageResult, Try, Workers, again, agent::End, disagrees, done, has_consent, is_left_out,
    is_past_preparation, lost, name, needs_person, require_ours, wait_for, wait_until,
};
use crate::kinds::gpu_node::identity::Agents;
use crate::{
    kinds::gpu_node::{
        document::{self, Document},
        site::Erase,
        upstream::Session,
    },
    platform::app::{Decided, by_system},
};

/// MAAS's name of the power driver for machines that people switch.
const MANUAL: &str = "manual";
/// The advice for such a machine.
const SWITCH_OFF: &str = "MAAS cannot power the machine: switch it off by hand, then repeat the stage";
/// How often a release may fail.
const RELEASES: u32 = 2;
/// The least time that a machine needs to switch off.
const PAUSE: SignedDuration = SignedDuration::from_secs(5);

impl Workers {
    /// Unlocks and releases the machine, and waits until it is free, also for its disks to be erased.
    pub(super) async fn release(&self, attempt: &mut Try<'_>) -> StageResult {
        const WHAT: &str = "MAAS releases the machine";
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        if is_deleted(attempt, &session, &id).await? {
            return done(attempt);
        }
        let machine = self.observe(attempt, &session, &id).await?;
        require_ours(&site, &machine)?;
        if is_past_preparation(attempt, &machine) {
            // Released and deployed earlier; the run was rerun.
            return done(attempt);
        }
        match machine.status {
            Status::Ready | Status::New => {
                // Also when it was released outside of Wardroom.
                self.end_identity(attempt, End::Released).await?;
                attempt.data.releasing = false;
                attempt.data.deployed = None;
                done(attempt)
            }
            Status::Releasing | Status::DiskErasing => Ok(wait_for(attempt, &site, WHAT)),
            Status::FailedReleasing | Status::FailedDiskErasing
                if attempt.data.failed_releases >= RELEASES =>
            {
                attempt.data.failed_releases = 0;
                attempt.save().await?;
                Err(needs_person(format!(
                    "{id} is still {} after {RELEASES} attempts to release it",
                    name(&machine)
                )))
            }
            Status::Deployed
            | Status::Allocated
            | Status::Reserved
            | Status::Deploying
            | Status::FailedDeployment
            | Status::Broken
            | Status::FailedReleasing
            | Status::FailedDiskErasing => {
                if machine.locked {
                    session.turn().await.unlock(&id, attempt.run).await?;
                }
                if matches!(machine.status, Status::FailedReleasing | Status::FailedDiskErasing) {
                    attempt.data.failed_releases += 1;
                }
                attempt.data.releasing = true;
                attempt.save().await?;
                // From here on the disks may be erased, with the agent's identity.
                self.end_identity(attempt, End::Released).await?;
                let how = Release { erase: erase(site.settings.erase), comment: attempt.run };
                session.turn().await.release(&id, &how).await.map_err(lost)?;
                Ok(wait_for(attempt, &site, WHAT))
            }
            _ => Err(disagrees(attempt.stage, &machine)),
        }
    }

    /// Switches the machine off, until the BMC confirms it. Nothing switches it on again.
    pub(super) async fn power_off(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        if is_deleted(attempt, &session, &id).await? {
            return done(attempt);
        }
        let is_off = has_consent(attempt, |told| told.evidence == SWITCH_OFF).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        require_ours(&site, &machine)?;
        if !matches!(machine.status, Status::Ready | Status::New) {
            return Err(needs_person(format!(
                "{id} is {}, and only a free machine is switched off",
                name(&machine)
            )));
        }
        if machine.power_type == MANUAL {
            // Only the BMC knows.
            if is_off {
                attempt.data.switched_off_by_hand = true;
                return done(attempt);
            }
            return Err(needs_person(SWITCH_OFF));
        }
        match session.turn().await.query_power(&id).await? {
            Power::Off => done(attempt),
            Power::On => {
                session.turn().await.power_off(&id, StopMode::Hard, attempt.run).await?;
                let until = attempt.now.saturating_add(PAUSE).unwrap_or(attempt.now);
                Ok(wait_until(until, "the machine switches off"))
            }
            other @ (Power::Unknown | Power::Error) => {
                Err(again(format!("the power of {id} is {other}, which is not off")))
            }
        }
    }

    /// Revokes the identity and tokens of the node, and removes the reference to its BMC's secret.
    pub(super) async fn cleanup_secrets(&self, attempt: &mut Try<'_>) -> StageResult {
        let revoke = |node: &Resource| {
            let mut document = Document::of(node)?;
            let before = document.clone();
            (document.agent, document.enrollment, document.bmc) = (None, None, None);
            // Agents still on the host are refused.
            document.identity_kept = false;
            if document == before {
                return Ok(Decided::Nothing(()));
            }
            let content = document.into_content_of(node, document::state(node)?)?;
            let metadata = serde_json::json!({"secrets": "revoked"});
            Ok(Decided::Commit(Box::new((content, by_system(&self.app, "credential", metadata))), ()))
        };
        self.change(attempt, revoke).await?;
        // From here on no server accepts the credential.
        Agents::of(&self.app).settle().await;
        done(attempt)
    }

    /// Deletes the machine in MAAS, if the site is set so, and only a machine that is free, off and ours:
    /// MAAS itself does not check that.
    pub(super) async fn remove_machine(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        if is_left_out(attempt) {
            return done(attempt);
        }
        let id = self.system_id(attempt).await?;
        let machine = match session.turn().await.machine(&id).await {
            Ok(machine) => machine,
            // It was deleted before, by us or by others.
            Err(MaasError { class: Class::Gone, .. }) => return done(attempt),
            Err(error) => return Err(error.into()),
        };
        let tag = &site.settings.tag;
        if !matches!(machine.status, Status::Ready | Status::New) {
            return Err(needs_person(format!(
                "{id} is {}, and only a free machine is deleted",
                name(&machine)
            )));
        }
        if !machine.has_tag(tag) {
            return Err(needs_person(format!("{id} does not carry the tag {tag}, and is not deleted")));
        }
        let power = if machine.power_type == MANUAL && attempt.data.switched_off_by_hand {
            Power::Off
        } else {
            session.turn().await.query_power(&id).await?
        };
        if power != Power::Off {
            return Err(again(format!(
                "the power of {id} is {power}, and only a machine that is off is deleted"
            )));
        }
        attempt.data.deleting = true;
        attempt.save().await?;
        match session.turn().await.delete(&id).await {
            Ok(()) | Err(MaasError { class: Class::Gone, .. }) => done(attempt),
            Err(MaasError { class: Class::Forbidden(said), .. }) => Err(needs_person(said)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether this run deleted the machine, and was rerun since.
async fn is_deleted(attempt: &Try<'_>, session: &Session, id: &str) -> Result<bool, StageError> {
    if !attempt.data.deleting {
        return Ok(false);
    }
    match session.turn().await.machine(id).await {
        Ok(_) => Ok(false),
        Err(MaasError { class: Class::Gone, .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn erase(erase: Erase) -> maas::Erase {
    match erase {
        Erase::No => maas::Erase::No,
        Erase::Quick => maas::Erase::Quick,
        Erase::Secure => maas::Erase::Secure,
        Erase::SecureOrQuick => maas::Erase::SecureOrQuick,
        Erase::Full => maas::Erase::Full,
    }
}
