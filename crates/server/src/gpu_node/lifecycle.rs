//! The work behind a node's state: its run, what was observed, and what to do next.

use std::time::Duration;

use axum::{Json, extract::State as Shared};
use wardroom_api::{
    Envelope,
    gpu_node::{Health, Lifecycle, ObservedMachine, Recommendation, RunSummary},
};
use wardroom_core::{
    gpu_node::{
        State,
        maas::{self, Work},
        mapping,
    },
    run::{
        self,
        action::{self, Action as RunAction, Facts},
        plan::Kind,
    },
};
use wardroom_store::Resource;
use wardroom_workflow::Run;

use super::{
    action::{Order, allowed_now},
    begin,
    data::Data,
    document::{self, Document},
    proof::{self, Latest, Sight},
    set_aside, task,
};
use crate::{app::App, error::Error, path::Path, problems::Problems, run::view};

/// What is being done to a node, what was observed of it, and what an operator should do next.
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
    let recommended = recommend(&app, &node, worked.as_ref(), &latest).await?;
    let allowed_actions =
        if node.content.deleted { Vec::new() } else { allowed_now(&app, &node, state, run).await? };
    let allowed_decommissions =
        if node.content.deleted || open { Vec::new() } else { super::modes_now(&node)? };
    let summary = worked.as_ref().map(|(run, facts)| summarize(run, *facts));
    let because = set_aside::told(&app, &node).await?;
    Ok(Json(Envelope::new(Lifecycle {
        node: id,
        state: state.to_string(),
        since: node.state_changed_at,
        because,
        run: summary,
        // What an agent said that is gone, and its system with it, says nothing of now.
        health: health(&latest, Document::of(&node)?.agent.map(|agent| agent.epoch))
            .filter(|_| !node.content.deleted),
        maas: latest.maas.map(shown),
        fits,
        task,
        recommended,
        allowed_actions,
        allowed_decommissions,
    })))
}

fn summarize(run: &Run<Data>, facts: Facts) -> RunSummary {
    let record = &run.record;
    let stage =
        if record.undoing { record.touched.last().copied().unwrap_or(record.stage) } else { record.stage };
    let failure = crate::run::view::failure(run);
    RunSummary {
        id: run.id().to_owned(),
        kind: record.kind.to_string(),
        state: run.state.to_string(),
        stage: stage.to_string(),
        attempt: record.attempt,
        failure_class: failure.map(|failure| failure.class.to_string()),
        failure: failure.map(|failure| failure.evidence.clone()),
        waiting_for: record.waiting.as_ref().map(|waiting| waiting.reason.clone()),
        due_at: run.resource.content.due_at,
        allowed_actions: action::allowed(facts).map(|action| action.to_string()).collect(),
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
pub(crate) async fn newest(app: &App, node: &Resource) -> Result<Option<(Run<Data>, Facts)>, Error> {
    let Some(run) = begin::newest_run(app, node).await? else { return Ok(None) };
    let observed = view::observed(app, &node.content.id).await?;
    let facts = view::facts(app, &run, observed.as_ref()).await?;
    Ok(Some((run, facts)))
}

/// What an operator should do next, in the order of what blocks most. Whatever explains the node says the same.
pub(crate) async fn recommend(
    app: &App,
    node: &Resource,
    run: Option<&(Run<Data>, Facts)>,
    latest: &Latest,
) -> Result<Recommendation, Error> {
    let (id, state) = (&node.content.id, document::state(node)?);
    let does = |action: &str, call: String, why: String| Recommendation {
        action: Some(action.to_owned()),
        request: Some(format!("POST /api/v1/gpu-nodes/{id}/{call}")),
        why,
    };
    let of_node = |action: &str, why: &str| does(action, format!("actions/{action}"), why.to_owned());
    let document = Document::of(node)?;
    let current = run.map(|(run, _)| (run.record.kind, run.state));
    if let Err(misfit) = mapping::check(state, current) {
        return Ok(of_node("resume", &misfit.to_string()));
    }
    let sight = latest.maas.as_ref();
    if let Some((run, facts)) = run.filter(|(run, _)| run.state.is_open()) {
        return Ok(for_run(app, run, *facts, sight.map(|sight| sight.digest.as_str())));
    }
    let fits = sight.is_none_or(|sight| maas::fits(state, sight.seen.observed(), Work::Nobody));
    Ok(match state {
        State::Retired if !fits => of_node(
            "remove",
            "MAAS does not have the machine as it was left: look at it there, then remove the node or reimage it",
        ),
        State::Retired if !document.identity_kept && !document.can_be_reimaged() => {
            of_node("remove", "it has no identity that could be reactivated")
        }
        State::Retired if !document.identity_kept => {
            let body = set_aside::skips(Kind::Reimage, Some(Kind::Reimage));
            let why = "it has no identity that could be reactivated: reimage its machine, or remove the node";
            does("decommission", format!("decommissions {body}"), why.to_owned())
        }
        State::Active if document.unhealthy => wait(&unhealthy(latest)),
        State::Active | State::Deleted | State::Retired => wait(NOTHING),
        State::Offline => wait("a healthy heartbeat brings the node back; see to the host if none comes"),
        State::Quarantined => set_aside::way_out(app, node, sight).await?,
        // The document has no straight way from here to the end of life.
        State::BootstrapIssued => of_node(
            "resume",
            "no run works on the node: this issues another token; to be rid of the node, start an onboarding, \
             quarantine the node, cancel the run, then retire and remove it",
        ),
        State::Enrolling | State::Draining | State::Removing => of_node("resume", "no run works on the node"),
    })
}

/// What is said where all is well.
pub(crate) const NOTHING: &str = "nothing has to be done";

fn wait(why: &str) -> Recommendation {
    Recommendation { action: None, request: None, why: why.to_owned() }
}

/// An active node whose checks fail is heard, and not used.
fn unhealthy(latest: &Latest) -> String {
    let said = latest.health.as_ref().map(|(health, _)| health.complaints()).unwrap_or_default();
    format!(
        "see to the host: its agent reports {said}; nothing is scheduled on it until its checks pass, and quarantined it \
         stays out of use until a person has looked"
    )
}

/// The action is the one that the run itself shows. What failed is told with the run, and not once more here.
pub(crate) fn for_run(app: &App, run: &Run<Data>, facts: Facts, digest: Option<&str>) -> Recommendation {
    let id = run.id();
    let of_run = |action: RunAction, why: String| {
        let adopts = action == RunAction::AdoptObservedState;
        let body = digest.filter(|_| adopts).map(|digest| {
            let body = serde_json::json!({"expected_observation_digest": digest});
            format!(" {body}")
        });
        Recommendation {
            action: Some(action.to_string()),
            request: Some(format!("POST /api/v1/runs/{id}/actions/{action}{}", body.unwrap_or_default())),
            why,
        }
    };
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
            let overdue =
                app.now().duration_since(run.record.counted_from(app.now())) > run.record.patience();
            if overdue {
                return of_run(RunAction::Resume, "the stage takes longer than it should".to_owned());
            }
            wait(&view::on_its_way(run, app.now()))
        }
        run::State::Completed | run::State::Cancelled | run::State::Reconciled => wait(NOTHING),
    }
}

/// What a run stands still at is skipped, with what nobody could do after it: what started the run is asked of the node again, and says so.
fn skip(run: &Run<Data>) -> Recommendation {
    let (kind, stage, node) = (run.record.kind, run.record.current(), &run.record.node);
    let skips =
        kind.skippable_from(stage).map(|stage| serde_json::json!({"stage": stage, "reason": "REASON"}));
    let skip: Vec<_> = skips.collect();
    let plain = matches!(kind, Kind::Retire | Kind::Remove);
    let (action, request) = if plain {
        let body = serde_json::json!({"skip": skip});
        (kind.as_str(), format!("POST /api/v1/gpu-nodes/{node}/actions/{kind} {body}"))
    } else {
        let body = serde_json::json!({"mode": kind, "skip": skip});
        ("decommission", format!("POST /api/v1/gpu-nodes/{node}/decommissions {body}"))
    };
    let why = format!("nobody speaks for the host that could do {stage}: say why it is skipped");
    Recommendation { action: Some(action.to_owned()), request: Some(request), why }
}

/// Cancels the run that waits for an agent by hand, and waits a moment for it to be over.
pub(crate) async fn end_bootstrap(order: &Order<'_>, node: &Resource) -> Result<(), Error> {
    const LOOKS: u32 = 40;
    let Some(run) = begin::open_run(order.app, node).await? else { return Ok(()) };
    // Somebody else started something since: that is not what is to be ended here.
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
