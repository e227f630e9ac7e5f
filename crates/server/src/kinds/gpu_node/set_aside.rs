//! Explains quarantines: their cause, and what keeps the node from use.

use wardroom_core::{
    action::Value,
    gpu_node::{
        Event, State,
        action::Action,
        advice,
        facts::NewestRun,
        proof::{self, Unusable},
    },
    run::action::Action as RunAction,
};
use wardroom_store::{HistoryRow, Resource, Rows};
use wardroom_workflow::{RUN, Run};

use super::{data::Data, document::KIND};
use crate::platform::{app::App, http::error::Error};

/// An erasure was begun on the node and not proven complete.
pub(crate) fn not_clean(node: &str, run: &NewestRun) -> Error {
    Error::Conflict {
        code: "not_proven",
        detail: Unusable::NotClean(run.clone()).to_string(),
        allowed: vec![
            advice::decommission(node, proof::mode_that_proves(run)),
            Action::Recover.call().needing(&["comment"]).of(node).with("unproven", Value::Flag(true)),
        ],
    }
}

/// How far back the history is searched for the cause of a quarantine.
const ROWS: usize = 200;

/// Returns who or what quarantined a node, and the reason. A repeated quarantine is explained by the first
/// one.
pub(crate) async fn cause(app: &App, node: &Resource) -> Result<Option<String>, Error> {
    const QUARANTINED: &str = State::Quarantined.as_str();
    if node.content.state != QUARANTINED {
        return Ok(None);
    }
    let (rows, _) = app.store.history(KIND, &node.content.id, Rows::All, ROWS, 0).await?;
    for row in &rows {
        let entered = row.to_state == QUARANTINED && row.from_state.as_deref() != Some(QUARANTINED);
        let taken_over = row.entry.metadata["action"] == Action::Quarantine.as_str();
        if !entered && !taken_over {
            continue;
        }
        let Some(run) = row.entry.metadata["run"].as_str() else { return Ok(Some(by_hand(row))) };
        let Some(run) = app.store.get(RUN, run).await? else { return Ok(Some(by_hand(row))) };
        let run = Run::<Data>::read(run)?;
        let again = row.entry.metadata["event"] == Event::SetAsideAgain.as_str();
        if !again || !run.record.progress.unproven.is_empty() {
            return by_run(app, row, &run).await.map(Some);
        }
    }
    Ok(None)
}

/// Explains a quarantine by a person or by the server.
fn by_hand(row: &HistoryRow) -> String {
    let by = row.entry.user_id.as_deref().unwrap_or("the server");
    let why = row.entry.comment.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    format!("by {by}{why}")
}

/// Explains a quarantine by a run that failed or was stopped.
async fn by_run(app: &App, row: &HistoryRow, run: &Run<Data>) -> Result<String, Error> {
    let (kind, id, stage) = (run.record.plan.kind, run.id(), run.record.progress.stage);
    let (rows, _) = app.store.history(RUN, id, Rows::All, ROWS, 0).await?;
    let earlier = rows.iter().filter(|told| told.entry.at <= row.entry.at);
    let cancels = |told: &&HistoryRow| told.entry.metadata["action"] == RunAction::Cancel.as_str();
    let begun = !run.record.progress.unproven.is_empty();
    let what = if begun { ", which had begun to erase what is on the node" } else { "" };
    if let Some(cancel) = earlier.clone().find(cancels) {
        return Ok(format!("{}, who cancelled the {kind} run {id} at {stage}{what}", by_hand(cancel)));
    }
    let failed = earlier.clone().find_map(|told| {
        let told = &told.entry.metadata;
        let (stage, evidence) = (told["stage"].as_str()?, told["evidence"].as_str()?);
        (told["outcome"] == "failed").then(|| format!(" at {stage}: {evidence}"))
    });
    let failed = failed.unwrap_or_else(|| format!(" at {stage}"));
    Ok(format!("by the {kind} run {id}{what}, which failed{failed}"))
}
