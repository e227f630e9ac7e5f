//! Active nodes that fell silent go offline.

use std::collections::HashMap;

use wardroom_core::gpu_node::{Event, State, mapping};
use wardroom_store::{Held, Resource};
use wardroom_workflow::{RUN, Run};

use super::{data::Data, document::Document};
use crate::{app::App, error::Error, liveness::stale::Target};

/// Where nodes go that fell silent. One whose run is about to move it is left to the run.
pub(crate) async fn targets(app: &App, silent: &[Resource]) -> Result<Vec<Option<Target>>, Error> {
    let to = super::moved(State::Active, Event::HeartbeatsMissed).ok_or(Error::Internal)?;
    // A run is named by its node from the commit on that begins it.
    let named: Vec<_> = silent.iter().map(|node| Document::of(node).map(|document| document.run)).collect();
    let ids: Vec<_> = named.iter().flatten().flatten().cloned().collect();
    let runs = app.store.get_all(RUN, &ids).await?;
    let mut runs: HashMap<_, _> = runs.into_iter().map(|run| (run.content.id.clone(), run)).collect();
    let target = |(node, named): (&Resource, Result<Option<String>, Error>)| {
        let decided = named.and_then(|run| decide(to, run.and_then(|run| runs.remove(&run))));
        decided.unwrap_or_else(|error| {
            tracing::error!(%error, node = node.content.id, "a silent node cannot be judged; the others are");
            None
        })
    };
    Ok(silent.iter().zip(named).map(target).collect())
}

fn decide(to: State, run: Option<Resource>) -> Result<Option<Target>, Error> {
    let run = run.map(Run::<Data>::read).transpose()?;
    let current = run.as_ref().map(|run| (run.record.kind, run.state));
    // A run that is over moves no more, and another one would change the node: only one that goes on is held. What holds
    // nothing is written together with its neighbours.
    let goes_on = run.iter().filter(|run| run.state.is_open());
    let holds = goes_on.map(|run| Held::at(&run.resource)).collect();
    Ok(mapping::check(to, current).is_ok().then(|| Target { to: to.as_str(), holds }))
}
