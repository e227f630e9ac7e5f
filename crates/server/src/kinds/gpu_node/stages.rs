//! What the stages of a run do to a GPU node, its MAAS and its agent.
//!
//! Each stage observes, decides, saves its intent, calls, and observes again; it may be executed again at any time, also
//! after its reply was lost. Long waits look into the cache that one poller fills.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    gpu_node::maas::Status,
    run::{failure::Class, plan::Stage},
};
use wardroom_store::Resource;
use wardroom_upstream::maas::{self, Machine};
use wardroom_workflow::{Attempt, Data as _, Failure, Limits, Lost, Outcome, Stages};

use super::{
    begin,
    cache::{self, Cache, Sighting, Which},
    data::Data,
    document::{self, Document},
    drift, proof,
    site::Snapshot,
    upstream::{Clients, Session},
};
use crate::platform::{
    app::{App, Decided},
    http::error::Error,
};

mod agent;
mod claim;
mod enrollment;
mod failure;
pub(crate) mod image;
mod leave;
mod machine;
mod network;
mod prepare;
mod storage;
pub(super) mod sync;

#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) app: App,
    pub(crate) clients: Arc<Clients>,
    pub(crate) cache: Arc<Cache>,
    /// Shared by everything here that calls MAAS.
    pub(crate) limits: Limits,
}

/// One execution of a stage.
type Try<'a> = Attempt<'a, Data>;
/// The result of a stage; an early end is an error.
type StageResult = Result<Outcome<Data>, StageError>;

#[derive(Debug)]
enum StageError {
    /// The run is in other hands.
    Lost,
    /// This came of it.
    Outcome(Box<Outcome<Data>>),
    /// Nothing was done: the other system is overloaded, and gave a time to come back.
    Busy { after: Duration, reason: String },
    /// It failed, and the other system gave a time before which not to ask again.
    Failed { class: Class, evidence: String, after: Duration },
}

impl Stages for Workers {
    type Data = Data;

    async fn meet(&self, site: &str) {
        if let Err(error) = drift::sites(self).await {
            tracing::warn!(site, %error, "sites not read; the call rate of this one is not known yet");
        }
    }

    async fn perform(&self, mut attempt: Try<'_>) -> Result<Outcome<Data>, Lost> {
        let came = self.stage(attempt.stage, &mut attempt).await;
        settle(came, self.app.now())
    }

    async fn undo(&self, mut attempt: Try<'_>) -> Result<Outcome<Data>, Lost> {
        let came = self.take_back(attempt.stage, &mut attempt).await;
        settle(came, self.app.now())
    }
}

fn settle(came: StageResult, now: Timestamp) -> Result<Outcome<Data>, Lost> {
    match came {
        Err(StageError::Busy { after, reason }) => {
            let until = SignedDuration::try_from(after).ok().and_then(|after| now.checked_add(after).ok());
            Ok(Outcome::Busy { reason, until: until.unwrap_or(now) })
        }
        Err(StageError::Failed { class, evidence, after }) => {
            Ok(Outcome::Retry { class, evidence, after: SignedDuration::try_from(after).ok() })
        }
        Ok(outcome) => Ok(outcome),
        Err(StageError::Outcome(outcome)) => Ok(*outcome),
        Err(StageError::Lost) => Err(Lost),
    }
}

impl Workers {
    async fn stage(&self, stage: Stage, attempt: &mut Try<'_>) -> StageResult {
        match stage {
            Stage::LoadSiteConfig => self.load_site_config(attempt).await,
            Stage::ResolvePowerCredentials => self.resolve_power_credentials(attempt).await,
            Stage::CreateOrFindInMaas => self.create_or_find(attempt).await,
            Stage::CommissionNode => self.commission(attempt).await,
            Stage::WaitForReady => self.wait_for_ready(attempt).await,
            Stage::ConfigureStorage => self.configure_storage(attempt).await,
            Stage::ApplyRocePhase2 => self.apply_fabric(attempt).await,
            Stage::EnsurePxeInterfaceAuto => self.ensure_pxe(attempt).await,
            Stage::RenderCloudInit => self.render(attempt).await,
            Stage::DeployViaMaas => self.deploy(attempt).await,
            Stage::WaitForDeployed => self.wait_for_deployed(attempt).await,
            Stage::ClassifyDeployFailure => self.classify(attempt).await,
            Stage::RecoverForDatasourceRetry => self.recover(attempt).await,
            Stage::EnsureHardwareSyncConfigured => self.ensure_sync(attempt).await,
            Stage::WaitForHardwareSyncHealthy => self.wait_for_sync(attempt).await,
            Stage::WaitForAgentEnrollment => self.wait_for_agent(attempt).await,
            // The engine moves the node when it enters these, and when they are done.
            Stage::DisableNode | Stage::ForceReleaseAllocations | Stage::RetireGpuaasNode => done(attempt),
            Stage::DrainNode | Stage::CleanupStorage | Stage::ScrubGpu | Stage::ValidateCleanNode => {
                self.ask_agent(attempt).await
            }
            Stage::ReleaseMaasNode => self.release(attempt).await,
            Stage::PowerOffMaasNode => self.power_off(attempt).await,
            Stage::RemoveGpuaasNodeRecord => self.uninstall(attempt).await,
            Stage::CleanupSecrets => self.cleanup_secrets(attempt).await,
            Stage::RemoveMaasRecord => self.remove_machine(attempt).await,
        }
    }

    async fn take_back(&self, stage: Stage, attempt: &mut Try<'_>) -> StageResult {
        match stage {
            Stage::CreateOrFindInMaas => self.undo_create(attempt).await,
            Stage::CommissionNode => self.undo_commission(attempt).await,
            Stage::ConfigureStorage => self.undo_storage(attempt).await,
            Stage::ApplyRocePhase2 | Stage::EnsurePxeInterfaceAuto => self.undo_links(attempt).await,
            Stage::RenderCloudInit => self.undo_token(attempt).await,
            Stage::DeployViaMaas | Stage::RecoverForDatasourceRetry => self.undo_deploy(attempt).await,
            Stage::WaitForAgentEnrollment => self.undo_agent(attempt).await,
            Stage::DrainNode | Stage::RemoveGpuaasNodeRecord => self.undo_task(attempt).await,
            // These leave nothing that can be undone; the core names none of them for an undo.
            Stage::LoadSiteConfig
            | Stage::ResolvePowerCredentials
            | Stage::WaitForReady
            | Stage::WaitForDeployed
            | Stage::ClassifyDeployFailure
            | Stage::EnsureHardwareSyncConfigured
            | Stage::WaitForHardwareSyncHealthy
            | Stage::DisableNode
            | Stage::ForceReleaseAllocations
            | Stage::CleanupStorage
            | Stage::ScrubGpu
            | Stage::ValidateCleanNode
            | Stage::ReleaseMaasNode
            | Stage::PowerOffMaasNode
            | Stage::RetireGpuaasNode
            | Stage::CleanupSecrets
            | Stage::RemoveMaasRecord => done(attempt),
        }
    }

    /// The site as the run froze it, and its MAAS.
    fn site(&self, attempt: &Try<'_>) -> Result<(Snapshot, Session), StageError> {
        let site = attempt.data.site.clone();
        let site = site.ok_or_else(|| by_hand("the run has no site: rerun it"))?;
        let session = self.clients.session(&site.name, &site.settings, &self.limits).map_err(by_settings)?;
        Ok((site, session))
    }

    /// As [`Self::site`], for an undo: nothing when the run never came to load its site, since then nothing was done
    /// there. A site that cannot be asked now is no reason to believe that.
    fn site_to_undo(&self, attempt: &Try<'_>) -> Result<Option<(Snapshot, Session)>, StageError> {
        attempt.data.site.as_ref().map(|_| self.site(attempt)).transpose()
    }

    /// MAAS's id of the machine: the run's, or the node's from an earlier one.
    async fn system_id(&self, attempt: &mut Try<'_>) -> Result<String, StageError> {
        if let Some(machine) = &attempt.data.machine {
            return Ok(machine.system_id.clone());
        }
        let node = self.node(attempt).await?;
        let machine = node.machine.clone().ok_or_else(|| by_hand("the node has no machine in MAAS"))?;
        self.require_its(attempt, &node, &machine).await?;
        let system_id = machine.system_id;
        attempt.data.machine = Some(super::data::Machine { system_id: system_id.clone(), created: false });
        Ok(system_id)
    }

    /// A MAAS at another address than the one that had the machine may call another one the same.
    async fn require_its(
        &self,
        attempt: &Try<'_>,
        node: &Document,
        machine: &document::Machine,
    ) -> Result<(), StageError> {
        let (site, session) = self.site(attempt)?;
        if machine.is_at(&site.settings.url) {
            return Ok(());
        }
        let id = &machine.system_id;
        let seen = session.observe(id).await?;
        if drift::has_mac(node, &seen) {
            return Ok(());
        }
        Err(by_hand(format!(
            "the MAAS of site {} has another machine {id}, with no MAC of the node: correct the address \
             of the site, or remove the node and register it again",
            site.name
        )))
    }

    async fn node(&self, attempt: &Try<'_>) -> Result<Document, StageError> {
        let node = begin::read(&self.app, attempt.subject).await?;
        Ok(Document::of(&node)?)
    }

    /// Changes the record of the node, unless the run is in other hands by then: of a run that was frozen while its worker
    /// waited for an answer, nothing is written down any more.
    async fn change(
        &self,
        attempt: &Try<'_>,
        decide: impl Fn(&Resource) -> Result<Decided<()>, Error>,
    ) -> Result<(), StageError> {
        let run = || async {
            let held = attempt.hold().await;
            held.map(|run| vec![run]).map_err(|_| Error::Unavailable("another worker has the run"))
        };
        self.app.changing(document::KIND, attempt.subject).holding(run).decide(decide).await?;
        Ok(())
    }

    /// Asks MAAS for the machine and keeps the answer, which views and advice are based on. A machine that is
    /// gone needs a person.
    async fn observe(&self, attempt: &Try<'_>, session: &Session, id: &str) -> Result<Machine, StageError> {
        let at = self.app.now();
        let seen = session.observe(id).await;
        let machine = match &seen {
            Ok(machine) => Some(machine),
            Err(maas::Error { class: maas::Class::Gone, .. }) => None,
            Err(_) => return Ok(seen?),
        };
        if let Some(site) = &attempt.data.site {
            self.note(attempt, &site.name, id, machine, at).await;
        }
        Ok(seen?)
    }

    /// Keeps an observation of a machine. A failure to keep it is ignored: the machine is looked at again.
    async fn note(&self, attempt: &Try<'_>, site: &str, id: &str, machine: Option<&Machine>, at: Timestamp) {
        let document = cache::seen(site, id, machine);
        if let Err(error) = proof::note(&self.app, attempt.subject, &document, at).await {
            tracing::info!(node = attempt.subject, %error, "observation of a machine not stored; the next look tries again");
        }
    }

    /// What was seen of the machine since the run came to the stage; else the stage waits.
    async fn sighted(&self, attempt: &mut Try<'_>, what: &str) -> Result<Arc<Machine>, StageError> {
        let (site, _) = self.site(attempt)?;
        let seen = self.seen(attempt).await?;
        seen.ok_or_else(|| StageError::Outcome(Box::new(wait_for(attempt, &site, what))))
    }

    /// What was seen of the machine since the run came to the stage, if anything was. It is looked at from now on.
    async fn seen(&self, attempt: &mut Try<'_>) -> Result<Option<Arc<Machine>>, StageError> {
        let site = attempt.data.site.clone().ok_or_else(|| by_hand("the run has no site"))?;
        let system_id = self.system_id(attempt).await?;
        let which = Which { site: site.name.clone(), system_id };
        let since = attempt.since;
        match self.cache.look(&which, attempt.subject, &site.settings, since, attempt.now) {
            Some(Sighting { machine: None, .. }) => Err(gone()),
            seen => Ok(seen.and_then(|seen| seen.machine)),
        }
    }
}

/// Whether the site does not ask for what the stage does.
fn is_left_out(attempt: &Try<'_>) -> bool {
    attempt.data.left_out(attempt.kind, attempt.stage).is_some()
}

fn done(attempt: &Try<'_>) -> StageResult {
    Ok(Outcome::Done(attempt.data.clone()))
}

/// Nothing is wrong; the stage looks again soon.
fn wait_for(attempt: &Try<'_>, site: &Snapshot, reason: &str) -> Outcome<Data> {
    let pause =
        SignedDuration::try_from(Cache::pause(&site.settings)).unwrap_or(SignedDuration::from_secs(5));
    wait_until(attempt.now.saturating_add(pause).unwrap_or(Timestamp::MAX), reason)
}

fn wait_until(until: Timestamp, reason: &str) -> Outcome<Data> {
    Outcome::Wait { reason: reason.to_owned(), until }
}

fn failed(class: Class, evidence: impl Into<String>) -> StageError {
    StageError::Outcome(Box::new(Outcome::Retry { class, evidence: evidence.into(), after: None }))
}

/// It did not work this time.
fn again(evidence: impl Into<String>) -> StageError {
    failed(Class::Retryable, evidence)
}

/// Returns a failure without an answer: the outcome is unknown.
fn unanswered(evidence: impl Into<String>) -> StageError {
    failed(Class::Unanswered, evidence)
}

/// A call that failed, where the next attempt looks before it calls again: an answer that got lost says nothing of the
/// machine then, and is borne for as long as a MAAS that is away.
fn lost(error: maas::Error) -> StageError {
    if let maas::Class::Unavailable { after, .. } = error.class {
        StageError::Failed { class: Class::Unanswered, evidence: error.to_string(), after }
    } else if matches!(error.class, maas::Class::Ambiguous(_) | maas::Class::Unreadable(_)) {
        unanswered(error.to_string())
    } else {
        error.into()
    }
}

/// Only a person can decide how to go on.
fn by_hand(reason: impl Into<String>) -> StageError {
    StageError::Outcome(Box::new(Outcome::NeedsOperator { reason: reason.into() }))
}

/// What the site or the node was registered with has to be corrected.
fn by_settings(reason: impl Into<String>) -> StageError {
    failed(Class::Settings, reason)
}

/// The observed state was not caused by the run.
fn by_looking(reason: impl Into<String>) -> StageError {
    failed(Class::Disagreement, reason)
}

/// The machine was deployed, and what is on it is of no use to the run.
fn in_vain(evidence: impl Into<String>) -> StageError {
    failed(Class::Redeploy, evidence)
}

/// The machine was deleted in the middle of the run.
fn gone() -> StageError {
    by_looking("MAAS does not have the machine: it was deleted there")
}

/// Whether a person who knew the consequence sent the run on from the stage. Repetitions by the stage itself,
/// after no answer or a crash, keep that consent; a person who was shown another failure has not given it.
async fn word(attempt: &mut Try<'_>, told: impl FnOnce(&Failure) -> bool) -> Result<bool, StageError> {
    if attempt.confirmed && attempt.failure.as_ref().is_some_and(told) {
        attempt.data.said_in = Some(attempt.generation);
        attempt.save().await?;
    }
    Ok(attempt.confirmed && attempt.data.said_in == Some(attempt.generation))
}

/// Refuses to take a machine away that is not ours: ours has the site's tag and no other owner.
fn require_ours(site: &Snapshot, machine: &Machine) -> Result<(), StageError> {
    let (id, tag) = (&machine.system_id, &site.settings.tag);
    if !machine.has_tag(tag) {
        return Err(by_hand(format!(
            "{id} does not carry the tag {tag} and does not belong to Wardroom: check it first"
        )));
    }
    let owner = machine.owner.as_deref().filter(|owner| !owner.is_empty());
    match owner.filter(|owner| *owner != site.user) {
        Some(owner) => Err(by_hand(format!("{id} belongs to {owner}: check it first"))),
        None => Ok(()),
    }
}

/// Returns the failure for a state in MAAS that does not fit the run, and that no work of ours caused.
fn disagrees(stage: Stage, machine: &Machine) -> StageError {
    let (status, id) = (name(machine), &machine.system_id);
    by_looking(format!(
        "at {stage} MAAS says that {id} is {status}, which this run did not cause: check it first"
    ))
}

/// MAAS's word for the status of a machine.
fn name(machine: &Machine) -> String {
    if machine.status_name.is_empty() { format!("{:?}", machine.status) } else { machine.status_name.clone() }
}

/// Whether the machine is past the stages that prepare it, because this run had it deployed: also in vain, when the run is
/// entered again from the top while it repairs that.
fn is_past_preparation(attempt: &Try<'_>, machine: &Machine) -> bool {
    let deployed = matches!(machine.status, Status::Deploying | Status::Deployed | Status::FailedDeployment);
    deployed && attempt.data.deployed.is_some()
}

impl From<Lost> for StageError {
    fn from(_: Lost) -> Self {
        Self::Lost
    }
}

/// What the store or the record of the node could not give this time.
impl From<Error> for StageError {
    fn from(error: Error) -> Self {
        again(error.to_string())
    }
}

impl From<wardroom_store::Error> for StageError {
    fn from(error: wardroom_store::Error) -> Self {
        again(error.to_string())
    }
}

/// MAAS asks the BMC for this; a failure may well be the BMC's, and says something of the machine.
const POWER: &str = "query_power_state";

/// What follows from a failed call. An answer that got lost is tried again: every stage observes first.
impl From<maas::Error> for StageError {
    fn from(error: maas::Error) -> Self {
        let evidence = error.to_string();
        let looked = error.effect == maas::Effect::None && error.op != POWER;
        let unknown = if looked { Class::Unanswered } else { Class::Retryable };
        match error.class {
            // Nothing was done, and MAAS says when to come back.
            maas::Class::Busy { after } | maas::Class::Throttled { after } => {
                Self::Busy { after, reason: evidence }
            }
            maas::Class::Unreachable(_) => unanswered(evidence),
            maas::Class::Unavailable { after, .. } => Self::Failed { class: unknown, evidence, after },
            maas::Class::Ambiguous(_) | maas::Class::Unreadable(_) => failed(unknown, evidence),
            maas::Class::WrongState(_) => again(evidence),
            maas::Class::Credentials => failed(Class::Credentials, evidence),
            maas::Class::Gone => gone(),
            // MAAS refuses a setting of the site.
            maas::Class::Refused(_) => by_settings(evidence),
            maas::Class::Forbidden(_) | maas::Class::Malformed { .. } => by_hand(evidence),
        }
    }
}
