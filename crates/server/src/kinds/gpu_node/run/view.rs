//! A run as the API shows it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use wardroom_api::run::{Attempt, Failure, Observed, Recommended, Run as Shown, RunDetail, Waiting};
use wardroom_core::{
    Named as _,
    gpu_node::{
        maas::{self, Power, Status},
        task,
    },
    run::{
        State,
        action::{Action, Facts, Goal, Lease, Observation, allowed, decide, recommended},
        adopt::{self, System},
        failure::Class,
    },
};
use wardroom_store::HistoryRow;
use wardroom_workflow::{Adoption, Run};

use crate::{
    kinds::gpu_node::{data::Data as Known, document::KIND as NODE, silence},
    platform::{app::App, http::error::Error, identity::secret},
};

/// The source name of MAAS's observations.
pub(crate) const MAAS: &str = "maas";

/// Returns the last failure of a run's present stage. Failures that were overcome, and those of an ended run,
/// are only in history.
pub(crate) fn failure(run: &Run<Known>) -> Option<&wardroom_workflow::Failure> {
    let record = &run.record;
    record
        .progress
        .failure
        .as_ref()
        .filter(|failure| run.state.is_open() && failure.stage == record.current())
}

/// The names of the nodes of some runs, by their ids.
pub(crate) async fn hostnames(app: &App, runs: &[Run<Known>]) -> Result<BTreeMap<String, String>, Error> {
    let ids: BTreeSet<_> = runs.iter().map(|run| run.subject().to_owned()).collect();
    let nodes = app.store.get_all(NODE, &ids.into_iter().collect::<Vec<_>>()).await?;
    Ok(nodes.into_iter().map(|node| (node.content.id, node.content.name)).collect())
}

pub(crate) async fn one(app: &App, run: &Run<Known>) -> Result<Shown, Error> {
    let node = app.store.get(NODE, run.subject()).await?;
    Ok(shown(run, node.map(|node| node.content.name)))
}

/// A run as lists show it, with the name of its node.
pub(crate) fn shown(run: &Run<Known>, hostname: Option<String>) -> Shown {
    let record = &run.record;
    let failure = failure(run).map(|failure| Failure {
        stage: failure.stage.to_string(),
        class: failure.class.to_string(),
        evidence: failure.evidence.clone(),
        at: failure.at,
    });
    let waiting = record
        .hold
        .waiting
        .as_ref()
        .map(|waiting| Waiting { what: waiting.reason.clone(), since: waiting.since });
    Shown {
        id: run.id().to_owned(),
        kind: record.plan.kind.to_string(),
        node_id: run.subject().to_owned(),
        hostname,
        site: record.plan.site.clone(),
        state: run.state.to_string(),
        stage: record.progress.stage.to_string(),
        attempt: record.progress.attempt,
        goal: record.plan.goal.to_string(),
        undoing: record.progress.undoing,
        adopted: record.plan.adopted,
        failure,
        waiting,
        next_attempt_at: run.resource.content.due_at,
        created_at: run.resource.created_at,
        updated_at: run.resource.updated_at,
        state_changed_at: run.resource.state_changed_at,
    }
}

/// Shows a run with everything that an operator needs to decide.
pub(crate) fn detail(
    run: &Run<Known>,
    shown: Shown,
    facts: Facts,
    observed: Option<Observed>,
    rows: &[HistoryRow],
    now: Timestamp,
) -> RunDetail {
    let digest = observed.as_ref().map(|observed| observed.digest.clone());
    let digest = digest.as_deref();
    RunDetail {
        run: shown,
        observed,
        allowed_actions: allowed(facts).map(|allowed| action(run.id(), allowed, digest).into()).collect(),
        actions: Action::ALL.iter().map(|&asked| judged(run.id(), asked, facts, digest)).collect(),
        recommended: next(run, facts, digest, now),
        attempts: rows.iter().filter_map(attempt).collect(),
        tasks: Vec::new(),
    }
}

/// Returns the facts that decide which actions are allowed, with the last observation of MAAS.
pub(crate) async fn facts(app: &App, run: &Run<Known>, observed: Option<&Observed>) -> Result<Facts, Error> {
    let facts = wardroom_workflow::facts(&app.store, run, app.now()).await?;
    let observation = match adoption(run, observed) {
        Adoption::Continue(_) => Observation::Continues,
        Adoption::InUse => Observation::InUse,
        Adoption::Outdated => Observation::Outdated,
        Adoption::Nothing => Observation::Nothing,
    };
    let silent = silence::since(app, run.subject(), run.record.progress.since).await?.is_some();
    Ok(Facts { observation, silent, ..facts })
}

/// Returns the effect of adopting the observed state on the run. A doubtful answer of MAAS is not adopted.
pub(crate) fn adoption(run: &Run<Known>, observed: Option<&Observed>) -> Adoption {
    let believed = observed.filter(|observed| observed.state["doubt"].is_null());
    let Some(machine) = believed.and_then(machine) else { return Adoption::Nothing };
    let record = &run.record;
    let system = if record.data.deployed.is_some() { System::OfTheRun } else { System::OfOthers };
    match adopt::goes_on_at(record.plan.kind, record.progress.stage, machine, system) {
        Some(stage) => Adoption::Continue(stage),
        None if system == System::OfOthers && adopt::is_in_use(machine) => Adoption::InUse,
        None => Adoption::Nothing,
    }
}

/// Builds an action on a run, with the digest of the observation that it adopts.
pub(crate) fn action(id: &str, action: Action, digest: Option<&str>) -> wardroom_core::action::Action {
    let asked = action.call().of(id);
    match digest.filter(|_| action == Action::AdoptObservedState) {
        Some(digest) => asked.with("expected_observation_digest", digest.to_owned()),
        None => asked,
    }
}

/// An action, with the reason why it would be refused.
fn judged(id: &str, asked: Action, facts: Facts, digest: Option<&str>) -> wardroom_api::action::Action {
    let refused = decide(asked, facts).err().map(|refusal| refusal.meaning());
    action(id, asked, digest).unless(refused).into()
}

pub(crate) fn recommendation(run: &Run<Known>, facts: Facts) -> Option<Action> {
    recommended(facts, run.record.plan.kind, class(run).map(|class| (run.record.current(), class)))
}

/// Returns the class of a stopped run's failure. A run that the server froze, because of a state in MAAS that
/// it did not cause, has the class `disagreement`, regardless of earlier failures.
pub(crate) fn class(run: &Run<Known>) -> Option<Class> {
    let record = &run.record;
    let failure = record.progress.failure.as_ref().filter(|failure| failure.stage == record.current());
    let disagrees = frozen(run).is_some_and(|frozen| frozen.by.is_none());
    if disagrees { Some(Class::Disagreement) } else { failure.map(|failure| failure.class) }
}

/// How long a stage runs before the view says that the other system has not answered.
const ANSWERED: SignedDuration = SignedDuration::from_secs(10);

/// Says that a run needs nothing, and what it waits for.
pub(crate) fn on_its_way(run: &Run<Known>, now: Timestamp) -> String {
    let record = &run.record;
    let asks = record.hold.execution.as_ref().filter(|at_work| now.duration_since(at_work.since) > ANSWERED);
    match (asks, &record.hold.waiting) {
        (Some(at_work), _) => {
            let (stage, since) = (record.current(), at_work.since);
            format!(
                "nothing to do; {stage} has been at work since {since:.0}, and the system that it called has not answered yet"
            )
        }
        (None, Some(waiting)) => format!("nothing to do; it waits: {}", waiting.reason),
        (None, None) => "nothing to do; it is in progress".to_owned(),
    }
}

/// Returns the reason if a run waits for a silent agent.
pub(crate) fn silent_host(run: &Run<Known>, facts: Facts) -> Option<&str> {
    let record = &run.record;
    let asks = run.state == State::Running && task::Kind::of(record.current()).is_some();
    let waiting = record.hold.waiting.as_ref().filter(|_| asks && facts.silent && facts.goal == Goal::Run);
    waiting.map(|waiting| waiting.reason.as_str())
}

/// The step before the recommended action.
pub(crate) fn first(action: Action, class: Class) -> &'static str {
    match (action, class) {
        (_, Class::Credentials) => {
            "correct the secret or the account first; only `retry-stage` tries it again"
        }
        (Action::Rerun, Class::Disagreement) => "check the machine, and release it in MAAS first",
        (Action::RestartClean, Class::Redeploy) => {
            "it releases the machine and deploys it again with another token"
        }
        (Action::Cancel, Class::Redeploy) => "the machine is released; then reimage the node again",
        (Action::Rerun, _) => {
            "correct the setting that it names first (`wardroom apply -f` changes a site); the run then loads the settings again"
        }
        (Action::AdoptObservedState, _) => {
            "check the machine first; the run continues from the state that MAAS reports"
        }
        (Action::RestartClean | Action::Cancel, _) => "check the machine in MAAS first",
        (_, Class::Retryable | Class::Unanswered | Class::Overdue | Class::Crashed) => "retrying is safe",
        _ => "fix the cause first",
    }
}

fn next(run: &Run<Known>, facts: Facts, digest: Option<&str>, now: Timestamp) -> Recommended {
    let record = &run.record;
    let recommended = recommendation(run, facts);
    let failure = record.progress.failure.as_ref().filter(|failure| failure.stage == record.current());
    let because = match failure.zip(recommended) {
        Some((failure, action)) => {
            let (stage, class, evidence) = (failure.stage, failure.class, &failure.evidence);
            let frozen = frozen(run).map(|frozen| format!("{frozen}; ")).unwrap_or_default();
            let first = first(action, self::class(run).unwrap_or(class));
            format!("{frozen}{stage} failed ({class}): {evidence}; {first}")
        }
        None if let Some(failure) = failure.filter(|_| !run.state.is_worked_on() && run.state.is_open()) => {
            format!("{} failed ({}): {}", failure.stage, failure.class, failure.evidence)
        }
        _ if facts.lease == Lease::Stale => "the server that worked on it did not return".to_owned(),
        _ if recommended.is_some() => look_first(run),
        _ if let Some(reason) = silent_host(run, facts) => format!("check the host: {reason}"),
        _ if run.state.is_open() => on_its_way(run, now),
        _ => "nothing to do; it is over".to_owned(),
    };
    Recommended { action: recommended.map(|next| action(run.id(), next, digest).into()), because }
}

/// Returns the person and reason of a freeze, if that stopped the run.
pub(crate) fn frozen(run: &Run<Known>) -> Option<&wardroom_workflow::Frozen> {
    let stands = run.state.is_open() && !run.state.is_worked_on();
    run.record.hold.frozen.as_ref().filter(|_| stands)
}

/// Returns the advice for a run that a person froze.
pub(crate) fn look_first(run: &Run<Known>) -> String {
    let frozen = frozen(run).map_or_else(|| "it was frozen".to_owned(), ToString::to_string);
    format!("{frozen}; check the reason before you continue it")
}

/// Returns the attempt that a history row records, if any.
fn attempt(row: &HistoryRow) -> Option<Attempt> {
    let told = &row.entry.metadata;
    let text = |name: &str| told[name].as_str().map(str::to_owned);
    let time = |name: &str| told[name].as_str()?.parse().ok();
    Some(Attempt {
        stage: text("stage")?,
        attempt: told["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok())?,
        undo: told["undo"] == Value::Bool(true),
        outcome: text("outcome")?,
        class: text("class"),
        evidence: text("evidence").or_else(|| text("reason")),
        started_at: time("started_at")?,
        ended_at: time("ended_at")?,
    })
}

/// Returns the last observation of a node's machine in MAAS.
pub(crate) async fn observed(app: &App, node: &str) -> Result<Option<Observed>, Error> {
    let seen = app.store.observations(NODE, node).await?;
    let Some(seen) = seen.into_iter().find(|seen| seen.source == MAAS) else { return Ok(None) };
    let digest = secret::encode(&Sha256::digest(seen.document.as_str())[..12]);
    Ok(Some(Observed { state: seen.document.read()?, digest, observed_at: seen.observed_at }))
}

/// Converts an observation for the core; none if it is unreadable.
fn machine(observed: &Observed) -> Option<maas::Observed> {
    let state = &observed.state;
    if state["present"] == Value::Bool(false) {
        return Some(maas::Observed::Absent);
    }
    let status = Status::from_code(state["status"].as_i64()?);
    let power: Power = state["power"].as_str()?.parse().ok()?;
    Some(maas::Observed::Present { status, power })
}
