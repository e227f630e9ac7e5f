//! Skips stages of a run that is already open.

use std::collections::BTreeMap;

use serde_json::json;
use wardroom_core::run::{
    READ,
    action::{Action as RunAction, Goal},
    plan::Stage,
};
use wardroom_store::Resource;
use wardroom_workflow::{RUN, Run};

use super::{
    action::{Done, Order},
    begin,
    data::Data,
    document::Document,
};
use crate::platform::{
    app::{Decided, by_person},
    http::error::Error,
};

/// Skips stages of an open run, each with its reason; a run that had failed there continues. Idempotent.
pub(crate) async fn also(
    order: &Order<'_>,
    run: &Run<Data>,
    skip: &BTreeMap<Stage, String>,
) -> Result<Done, Error> {
    // Without an agent, stages that erase or prove cannot run.
    let has_agent = Document::of(&begin::read(order.app, order.id).await?)?.has_agent();
    let added = |found: &Resource| {
        let run = Run::<Data>::read(found.clone())?;
        let mut record = run.record.clone();
        let new: BTreeMap<_, _> =
            skip.iter().filter(|(stage, _)| !record.plan.skip.contains_key(stage)).map(owned).collect();
        if new.is_empty() {
            return Ok(Decided::Nothing(()));
        }
        if !run.state.is_open() || record.progress.undoing || record.plan.goal != Goal::Run {
            return Err(begin::busy(&run));
        }
        if let Some(stage) = new.keys().find(|&&stage| is_too_late(&run, stage, has_agent)) {
            return Err(too_late(&run, *stage));
        }
        let mut content = found.content.clone();
        let mut entry = by_person(order.app, order.caller, "action", order.reason.clone());
        entry.metadata = json!({"skip": new, "stage": record.progress.stage});
        record.plan.skip.extend(new);
        content.document = wardroom_store::Document::of(&record)?;
        if run.state.is_worked_on() {
            content.due_at = Some(order.app.now());
        }
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    };
    order.app.change(RUN, run.id(), added).await?;
    if !run.state.is_worked_on() && skip.contains_key(&run.record.progress.stage) {
        order.ask(run.id(), RunAction::RetryStage).await?;
    }
    Ok(Done::only("stage_skipped"))
}

fn owned((stage, reason): (&Stage, &String)) -> (Stage, String) {
    (*stage, reason.clone())
}

/// Whether a stage can no longer be skipped. Stages that erase or prove are skipped only at the start of a
/// run for a silent host, because the state of a draining node does not show that they were skipped; or if
/// the node has no agent.
fn is_too_late(run: &Run<Data>, stage: Stage, has_agent: bool) -> bool {
    let record = &run.record;
    let passed = record.progress.stage != stage && record.plan.kind.is_past(record.progress.stage, stage);
    passed || (stage.erases_or_proves() && has_agent)
}

fn too_late(run: &Run<Data>, stage: Stage) -> Error {
    let (kind, id, at) = (run.record.plan.kind, run.id(), run.record.progress.stage);
    let why = if at != stage && kind.is_past(at, stage) {
        format!("the run is at {at}, past {stage}: it cannot be skipped any more")
    } else {
        format!(
            "{stage} is skipped only when a {kind} starts: cancel the run, then start it again with the skip"
        )
    };
    Error::Conflict {
        code: "run_open",
        detail: why,
        allowed: vec![READ.of(id), RunAction::Cancel.call().of(id)],
    }
}
