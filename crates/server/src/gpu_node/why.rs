//! Why a GPU node is where it is: its own state, and the run that works on it.

use wardroom_core::{
    gpu_node::{
        TABLE,
        maas::{Work, fits},
    },
    why::{Blocker, Stay, Why, explain},
};

use super::{
    begin,
    document::{self, KIND},
    proof,
};
use crate::{app::App, error::Error, liveness::view};

/// Explains a node and its open run.
pub(crate) async fn why(app: &App, id: &str) -> Result<Vec<Why>, Error> {
    let node = super::find(app, id).await?;
    let state = document::state(&node)?;
    let run = begin::open_run(app, &node).await?;
    let latest = proof::latest(app, id).await?;
    let mut blockers = view::blockers(app, KIND, id).await?;
    if let Some((health, _)) = latest.health.filter(|(health, _)| !health.is_healthy()) {
        let what = format!("its agent reports: {}", health.complaints()).into();
        blockers.push(Blocker { what, fix: None });
    }
    let work = if run.is_some() { Work::Run } else { Work::Nobody };
    if let Some(sight) = latest.maas.filter(|sight| !fits(state, sight.seen.observed(), work)) {
        let said = sight.seen.status_name.unwrap_or_else(|| "absent".to_owned());
        let what = format!("MAAS says that {} is {said}, which does not fit", sight.seen.system_id).into();
        blockers.push(Blocker { what, fix: None });
    }
    let mut stay = Stay::of(state, node.state_changed_at);
    let mut explained = Vec::new();
    if let Some(run) = &run {
        // While a run works on the node, the patience of its stage says more.
        stay.counted_from = run.record.since;
        stay.patience = run.state.is_worked_on().then(|| run.record.kind.patience_at(run.record.stage));
        explained.push(crate::why::of_run(app, run));
    }
    explained.insert(0, explain(TABLE, state, stay, app.now(), blockers));
    Ok(explained)
}
