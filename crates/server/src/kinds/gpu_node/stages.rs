//! The stages of a run: what each does with the node, its MAAS and its agent.
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
    /// Shared by all callers of MAAS.
    pub(crate) limits: Limits,
}

/// One execution of a stage.
type Try<'a> = Attempt<'a, Data>;
/// The result of a stage; an early end is an error.
type StageResult = Result<Outcome<Data>, StageError>;

#[derive(Debug)]
enum StageError {
    /// Another worker has the run.
    Lost,
    /// The stage ended with this outcome.
    Outcome(Box<Outcome<Data>>),
    /// Nothing was done: the other system is overloaded, and asked for a retry after this time.
    Busy { after: Duration, reason: String },
    /// It failed, and the other system asked for no call before this time.
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
            // These stages cannot be undone; the core never orders an undo of one.
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
        let site = site.ok_or_else(|| needs_person("the run has no site: rerun it"))?;
        let session =
            self.clients.session(&site.name, &site.settings, &self.limits).map_err(wrong_settings)?;
        Ok((site, session))
    }

    /// As [`Self::site`], for an undo: none if the run never loaded its site, because then nothing was done
    /// there.
    fn site_to_undo(&self, attempt: &Try<'_>) -> Result<Option<(Snapshot, Session)>, StageError> {
        attempt.data.site.as_ref().map(|_| self.site(attempt)).transpose()
    }

    /// MAAS's id of the machine: the run's, or the node's from an earlier one.
    async fn system_id(&self, attempt: &mut Try<'_>) -> Result<String, StageError> {
        if let Some(machine) = &attempt.data.machine {
            return Ok(machine.system_id.clone());
        }
        let node = self.node(attempt).await?;
        let machine = node.machine.clone().ok_or_else(|| needs_person("the node has no machine in MAAS"))?;
        self.require_its(attempt, &node, &machine).await?;
        let system_id = machine.system_id;
        attempt.data.machine = Some(super::data::Machine { system_id: system_id.clone(), created: false });
        Ok(system_id)
    }

    /// A MAAS at another address may use the id for another machine.
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
        Err(needs_person(format!(
            "the MAAS of site {} has another machine {id}, with no MAC of the node: correct the address \
             of the site, or remove the node and register it again",
            site.name
        )))
    }

    async fn node(&self, attempt: &Try<'_>) -> Result<Document, StageError> {
        let node = begin::read(&self.app, attempt.subject).await?;
        Ok(Document::of(&node)?)
    }

    /// Changes the record of the node, unless another worker or operator has the run by then: a worker of a
    /// frozen run writes nothing more.
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

    /// Asks MAAS for the machine and stores the answer for views and advice. A missing machine needs a
    /// person.
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

    /// Stores an observation of a machine. A failure is only logged: the machine is observed again.
    async fn note(&self, attempt: &Try<'_>, site: &str, id: &str, machine: Option<&Machine>, at: Timestamp) {
        let document = cache::seen(site, id, machine);
        if let Err(error) = proof::note(&self.app, attempt.subject, &document, at).await {
            tracing::info!(node = attempt.subject, %error, "observation of a machine not stored; the next look tries again");
        }
    }

    /// Returns an observation of the machine since the stage began; otherwise the stage waits.
    async fn sighted(&self, attempt: &mut Try<'_>, what: &str) -> Result<Arc<Machine>, StageError> {
        let (site, _) = self.site(attempt)?;
        let seen = self.seen(attempt).await?;
        seen.ok_or_else(|| StageError::Outcome(Box::new(wait_for(attempt, &site, what))))
    }

    /// Returns an observation of the machine since the stage began, if any, and polls the machine from now
    /// on.
    async fn seen(&self, attempt: &mut Try<'_>) -> Result<Option<Arc<Machine>>, StageError> {
        let site = attempt.data.site.clone().ok_or_else(|| needs_person("the run has no site"))?;
        let system_id = self.system_id(attempt).await?;
        let which = Which { site: site.name.clone(), system_id };
        let since = attempt.since;
        match self.cache.look(&which, attempt.subject, &site.settings, since, attempt.now) {
            Some(Sighting { machine: None, .. }) => Err(gone()),
            seen => Ok(seen.and_then(|seen| seen.machine)),
        }
    }
}

fn is_left_out(attempt: &Try<'_>) -> bool {
    attempt.data.left_out(attempt.kind, attempt.stage).is_some()
}

fn done(attempt: &Try<'_>) -> StageResult {
    Ok(Outcome::Done(attempt.data.clone()))
}

/// The stage waits and looks again soon.
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

/// A failure that a retry may fix.
fn again(evidence: impl Into<String>) -> StageError {
    failed(Class::Retryable, evidence)
}

/// Returns a failure without an answer: the outcome is unknown.
fn unanswered(evidence: impl Into<String>) -> StageError {
    failed(Class::Unanswered, evidence)
}

/// A failed call in a stage that observes before it calls again: a lost answer is then tolerated for as long
/// as an unavailable MAAS.
fn lost(error: maas::Error) -> StageError {
    if let maas::Class::Unavailable { after, .. } = error.class {
        StageError::Failed { class: Class::Unanswered, evidence: error.to_string(), after }
    } else if matches!(error.class, maas::Class::Ambiguous(_) | maas::Class::Unreadable(_)) {
        unanswered(error.to_string())
    } else {
        error.into()
    }
}

/// A failure that only a person can resolve.
fn needs_person(reason: impl Into<String>) -> StageError {
    StageError::Outcome(Box::new(Outcome::NeedsOperator { reason: reason.into() }))
}

/// A failure that needs a correction of the site's or node's settings.
fn wrong_settings(reason: impl Into<String>) -> StageError {
    failed(Class::Settings, reason)
}

/// A failure because the run did not cause the observed state.
fn unexpected_state(reason: impl Into<String>) -> StageError {
    failed(Class::Disagreement, reason)
}

/// A failure because the deployed system cannot be used.
fn unusable_system(evidence: impl Into<String>) -> StageError {
    failed(Class::Redeploy, evidence)
}

/// A failure because the machine was deleted during the run.
fn gone() -> StageError {
    unexpected_state("MAAS does not have the machine: it was deleted there")
}

/// Whether a person who was told the consequence continued the run from this stage. Retries after a lost
/// answer or a crash keep this consent; a person who was shown another failure has not given it.
async fn has_consent(attempt: &mut Try<'_>, told: impl FnOnce(&Failure) -> bool) -> Result<bool, StageError> {
    if attempt.confirmed && attempt.failure.as_ref().is_some_and(told) {
        attempt.data.said_in = Some(attempt.generation);
        attempt.save().await?;
    }
    Ok(attempt.confirmed && attempt.data.said_in == Some(attempt.generation))
}

/// Refuses to release or delete a machine that is not ours: ours has the site's tag and no other owner.
fn require_ours(site: &Snapshot, machine: &Machine) -> Result<(), StageError> {
    let (id, tag) = (&machine.system_id, &site.settings.tag);
    if !machine.has_tag(tag) {
        return Err(needs_person(format!(
            "{id} does not carry the tag {tag} and does not belong to Wardroom: check it first"
        )));
    }
    let owner = machine.owner.as_deref().filter(|owner| !owner.is_empty());
    match owner.filter(|owner| *owner != site.user) {
        Some(owner) => Err(needs_person(format!("{id} belongs to {owner}: check it first"))),
        None => Ok(()),
    }
}

/// Returns the failure for a state in MAAS that the run did not cause.
fn disagrees(stage: Stage, machine: &Machine) -> StageError {
    let (status, id) = (name(machine), &machine.system_id);
    unexpected_state(format!(
        "at {stage} MAAS says that {id} is {status}, which this run did not cause: check it first"
    ))
}

/// MAAS's word for the status of a machine.
fn name(machine: &Machine) -> String {
    if machine.status_name.is_empty() { format!("{:?}", machine.status) } else { machine.status_name.clone() }
}

/// Whether the machine is past the stages that prepare it, because this run deployed it, perhaps
/// unsuccessfully, and is rerun while it repairs that.
fn is_past_preparation(attempt: &Try<'_>, machine: &Machine) -> bool {
    let deployed = matches!(machine.status, Status::Deploying | Status::Deployed | Status::FailedDeployment);
    deployed && attempt.data.deployed.is_some()
}

impl From<Lost> for StageError {
    fn from(_: Lost) -> Self {
        Self::Lost
    }
}

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

/// MAAS passes this call to the BMC, so a failure may be the BMC's.
const POWER: &str = "query_power_state";

/// Classifies a failed call. A lost answer is retried, because every stage observes first.
impl From<maas::Error> for StageError {
    fn from(error: maas::Error) -> Self {
        let evidence = error.to_string();
        let looked = error.effect == maas::Effect::None && error.op != POWER;
        let unknown = if looked { Class::Unanswered } else { Class::Retryable };
        match error.class {
            // Nothing was done, and MAAS says when to retry.
            maas::Class::Busy { after } | maas::Class::Throttled { after } => {
                Self::Busy { after, reason: evidence }
            }
            maas::Class::Unreachable(_) => unanswered(evidence),
            maas::Class::Unavailable { after, .. } => Self::Failed { class: unknown, evidence, after },
            maas::Class::Ambiguous(_) | maas::Class::Unreadable(_) => failed(unknown, evidence),
            maas::Class::WrongState(_) => again(evidence),
            maas::Class::Credentials => failed(Class::Credentials, evidence),
            maas::Class::Gone => gone(),
            // MAAS refuses a setting of the site, or the server its URL.
            maas::Class::Refused(_) | maas::Class::Elsewhere(_) => wrong_settings(evidence),
            maas::Class::Forbidden(_) | maas::Class::Malformed { .. } => needs_person(evidence),
        }
    }
}
