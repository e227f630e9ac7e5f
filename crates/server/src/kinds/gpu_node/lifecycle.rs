//! The work behind a node's state: its run, what was observed, and what to do next.

use std::time::Duration;

use axum::{Json, extract::State as Shared};
use jiff::Timestamp;
use wardroom_api::{
    Envelope,
    gpu_node::{Health, Lifecycle, ObservedMachine, RunSummary},
};
use wardroom_core::{
    action::Recommendation,
    gpu_node::{
        advice,
        facts::Facts,
        maas::{self, Work},
    },
    run::{
        self,
        action::{self, Action as RunAction},
    },
};
use wardroom_store::Resource;
use wardroom_workflow::Run;

use super::{
    action::{Order, allowed_now, judged},
    begin,
    data::Data,
    document::{self, Document},
    facts,
    proof::{self, Latest, Sight},
    set_aside, task,
};
use crate::{
    kinds::gpu_node::run::view,
    platform::{
        app::App,
        http::{error::Error, path::Path, problems::Problems},
    },
};

/// Shows the work on a node: its run, the observed state, and the next step for an operator.
#[utoipa::path(
    get, path = "/api/v1/gpu-nodes/{id}/lifecycle", params(("id" = String, Path)),
    responses((status = 200, body = Envelope<Lifecycle>), Problems)
)]
pub(crate) async fn lifecycle(
    Shared(app): Shared<App>,
    Path(id): Path<String>,
) -> Result<Json<Envelope<Lifecycle>>, Error> {
    let node = begin::read(&app, &id).await?;
    let state = document::state(&node)?;
    let worked = newest(&app, &node).await?;
    let run = worked.as_ref().map(|(run, _)| run);
    let latest = proof::latest(&app, &id).await?;
    let open = run.is_some_and(|run| run.state.is_open());
    let work = if open { Work::Run } else { Work::Nobody };
    let fits = latest.maas.as_ref().map(|sight| maas::fits(state, sight.seen.observed(), work));
    let task = task::open(&app, &id).await?.first().map(task::view).transpose()?;
    let known = facts::of(&app, &node, run, &latest).await?;
    let Recommendation { action, why } = recommend(app.now(), &id, &known, worked.as_ref(), &latest);
    let recommended = Recommendation { action: action.map(|offered| judged(&known, offered)), why };
    let allowed_actions = if node.content.deleted { Vec::new() } else { allowed_now(&id, &known) };
    let allowed_decommissions =
        if node.content.deleted || open { Vec::new() } else { super::modes_now(&node)? };
    let digest = latest.maas.as_ref().map(|sight| sight.digest.as_str());
    let summary = worked.as_ref().map(|(run, facts)| summarize(run, *facts, digest));
    let because = set_aside::cause(&app, &node).await?;
    Ok(Json(Envelope::new(Lifecycle {
        node: id,
        state: state.to_string(),
        since: node.state_changed_at,
        because,
        run: summary,
        // A heartbeat of an earlier agent does not describe the node now.
        health: health(&latest, Document::of(&node)?.agent.map(|agent| agent.epoch))
            .filter(|_| !node.content.deleted),
        maas: latest.maas.map(shown),
        fits,
        task,
        recommended: recommended.into(),
        allowed_actions: allowed_actions.into_iter().map(Into::into).collect(),
        allowed_decommissions,
    })))
}

fn summarize(run: &Run<Data>, facts: action::Facts, digest: Option<&str>) -> RunSummary {
    let record = &run.record;
    let stage = record.current();
    let failure = crate::kinds::gpu_node::run::view::failure(run);
    RunSummary {
        id: run.id().to_owned(),
        kind: record.plan.kind.to_string(),
        state: run.state.to_string(),
        stage: stage.to_string(),
        attempt: record.progress.attempt,
        failure_class: failure.map(|failure| failure.class.to_string()),
        failure: failure.map(|failure| failure.evidence.clone()),
        waiting_for: record.hold.waiting.as_ref().map(|waiting| waiting.reason.clone()),
        due_at: run.resource.content.due_at,
        allowed_actions: action::allowed(facts)
            .map(|allowed| view::action(run.id(), allowed, digest).into())
            .collect(),
    }
}

fn health(latest: &Latest, epoch: Option<u64>) -> Option<Health> {
    let heard = latest.health.as_ref().filter(|(health, _)| Some(health.epoch) == epoch);
    heard.map(|(health, at)| Health {
        healthy: health.is_healthy(),
        checks: health.checks.clone(),
        received_at: *at,
    })
}

fn shown(sight: Sight) -> ObservedMachine {
    let Sight { seen, digest, observed_at, .. } = sight;
    ObservedMachine {
        digest,
        present: seen.status.is_some(),
        status: seen.status.map(maas::Status::code),
        status_name: seen.status_name,
        power: seen.power.map(|power| power.to_string()),
        system_id: seen.system_id,
        observed_at,
    }
}

/// The newest run of a node, and what its actions depend on.
pub(crate) async fn newest(app: &App, node: &Resource) -> Result<Option<(Run<Data>, action::Facts)>, Error> {
    let Some(run) = begin::newest_run(app, node).await? else { return Ok(None) };
    let observed = view::observed(app, &node.content.id).await?;
    let facts = view::facts(app, &run, observed.as_ref()).await?;
    Ok(Some((run, facts)))
}

/// Recommends the next step to an operator: that of the run, while one works on the node. `why` gives the
/// same.
pub(crate) fn recommend(
    now: Timestamp,
    id: &str,
    known: &Facts,
    run: Option<&(Run<Data>, action::Facts)>,
    latest: &Latest,
) -> Recommendation {
    if let Some(misfit) = advice::misfit(id, known) {
        return misfit;
    }
    if let Some((run, facts)) = run.filter(|(run, _)| run.state.is_open()) {
        return for_run(run, *facts, latest.maas.as_ref().map(|sight| sight.digest.as_str()), now);
    }
    advice::idle(id, known)
}

/// Recommends how to continue an open run. The failure is shown with the run, not here.
pub(crate) fn for_run(
    run: &Run<Data>,
    facts: action::Facts,
    digest: Option<&str>,
    now: Timestamp,
) -> Recommendation {
    let of_run =
        |action: RunAction, why: String| Recommendation::of(view::action(run.id(), action, digest), why);
    match run.state {
        run::State::FailedRetryable | run::State::FailedManualIntervention => {
            let Some(action) = view::recommendation(run, facts) else { return skip(run) };
            let why = view::class(run).map_or_else(
                || view::look_first(run),
                |class| {
                    let frozen = view::frozen(run).map(|frozen| format!("{frozen}; ")).unwrap_or_default();
                    format!("{frozen}{}", view::first(action, class))
                },
            );
            of_run(action, why)
        }
        run::State::Pending | run::State::Running | run::State::Compensating => {
            let record = &run.record;
            let overdue = now.duration_since(record.counted_from(now)) > record.patience();
            match view::silent_host(run, facts) {
                Some(_) if record.plan.kind.gets_past(record.current()) => skip(run),
                Some(reason) => Recommendation::wait(format!("check the host: {reason}")),
                None if overdue => {
                    of_run(RunAction::Resume, "the stage takes longer than expected".to_owned())
                }
                None => Recommendation::wait(view::on_its_way(run, now)),
            }
        }
        run::State::Completed | run::State::Cancelled | run::State::Reconciled => {
            Recommendation::wait(advice::NOTHING)
        }
    }
}

/// Recommends to skip the stage that a run is stuck at, and all stages that need the same agent, by repeating
/// the request that started the run with the skips.
fn skip(run: &Run<Data>) -> Recommendation {
    let (kind, stage) = (run.record.plan.kind, run.record.current());
    let why = format!("no agent can run {stage}; skip it and give a comment");
    Recommendation::of(advice::skipping_from(run.subject(), kind, Some(stage)), why)
}

/// Cancels a bootstrap by hand, and waits a moment for its end.
pub(crate) async fn end_bootstrap(order: &Order<'_>, node: &Resource) -> Result<(), Error> {
    const LOOKS: u32 = 40;
    let Some(run) = begin::open_run(order.app, node).await? else { return Ok(()) };
    // A run that was started since is not the one to end here.
    if Document::of(node)?.run.as_deref() != Some(run.id()) {
        return Err(begin::busy(&run));
    }
    order.ask(run.id(), RunAction::Cancel).await?;
    for _ in 0..LOOKS {
        if begin::open_run(order.app, node).await?.is_none() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(begin::busy(&run))
}
