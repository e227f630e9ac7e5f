//! Why a run is in its state.

use wardroom_core::{
    action::Recommendation,
    run::{State, TABLE, action::ways, blockers},
    table::Owner,
    why::{Blocker, Next, Stay, Why, explain},
};
use wardroom_workflow::Run;

use super::view;
use crate::{
    kinds::gpu_node::{data::Data, lifecycle},
    platform::{app::App, http::error::Error},
};

pub(crate) async fn why(app: &App, id: &str) -> Result<Vec<Why>, Error> {
    Ok(vec![of_run(app, &super::find(app, id).await?).await?])
}

/// Returns the recommended call, if any.
pub(crate) fn asked(recommended: Recommendation) -> Option<Next> {
    let Recommendation { action, why } = recommended;
    Some(Next::Call(action?.when(why)))
}

/// Explains a run, beside its node.
pub(crate) async fn of_run(app: &App, run: &Run<Data>) -> Result<Why, Error> {
    let record = &run.record;
    let observed = view::observed(app, run.subject()).await?;
    let facts = view::facts(app, run, observed.as_ref()).await?;
    let failure = record.progress.failure.as_ref().filter(|failure| failure.stage == record.current());
    let failure = failure.map(|failure| failure.evidence.as_str());
    let next = view::recommendation(run, facts);
    let failures = record.progress.failures.values().sum();
    let digest = observed.as_ref().map(|observed| observed.digest.as_str());
    let fix = next.map(|action| view::action(run.id(), action, digest));
    let mut blockers = blockers(run.state, record.current(), failures, failure, fix.clone());
    if let Some(frozen) = view::frozen(run) {
        blockers.insert(0, Blocker { what: frozen.to_string().into(), fix });
    }
    let mut stay = Stay::of(run.state, run.resource.state_changed_at);
    // The present stage is more specific than the run.
    if run.state == State::Running {
        stay.counted_from = record.progress.since;
        stay.patience = Some(record.plan.kind.patience_at(record.progress.stage));
    }
    let repeat = "a repeat of the stage is safe";
    let fine = (run.state == State::FailedRetryable).then(|| repeat.into()).into_iter().collect();
    let mut why =
        Why { about: "run", fine, ..explain(TABLE, run.id(), run.state, stay, app.now(), blockers) };
    if let (Next::Nothing, Some(waiting)) = (&why.next, &record.hold.waiting) {
        let until = format!("the run goes on ({})", waiting.reason).into();
        why.next = Next::Wait { by: Owner::Workflow, until };
    }
    if run.state.is_open() {
        let advised = lifecycle::for_run(run, facts, digest, app.now());
        why.next = match view::silent_host(run, facts) {
            Some(_) if advised.action.is_none() => Next::Mend { what: advised.why.into() },
            _ => asked(advised).unwrap_or(why.next),
        };
    }
    let ways = ways(facts);
    why.exits.retain(|exit| exit.event().is_some_and(|event| ways.contains(&event)));
    Ok(why)
}
