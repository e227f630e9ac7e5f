//! Active nodes that fell silent go offline.

use std::collections::HashMap;

use wardroom_core::gpu_node::{Event, State, mapping};
use wardroom_store::{Held, Resource};
use wardroom_workflow::{RUN, Run};

use super::{
    data::Data,
    document::{Document, KIND},
    proof,
};
use crate::platform::{
    app::App,
    http::error::Error,
    liveness::{kinds::Beating, stale::Target},
};

pub(super) static BEATING: Beating = Beating {
    kind: KIND,
    states: &[State::Active.as_str()],
    event: Event::HeartbeatsMissed.as_str(),
    // Agents are told this one, and beat by it.
    given: |_, settings| Some(settings.interval),
    // Runs and people bring a node there, a while after its agent proved that it is well.
    heard: |app, id| Box::pin(proof::heard(app, id)),
    ends: &[State::Deleted.as_str()],
    targets: |app, members| Box::pin(targets(app, members)),
    marked: &[],
    // A beat does not suffice: the node's checks have to say that it is well, and no run may have taken it on. The next
    // beat reads the record, and comes soon.
    back: |_| Ok(None),
};

/// Where nodes go that fell silent. One whose run is about to move it is left to the run.
async fn targets(app: &App, silent: &[Resource]) -> Result<Vec<Option<Target>>, Error> {
    let to = super::moved(State::Active, Event::HeartbeatsMissed).ok_or(Error::Internal)?;
    // A run is named by its node from the commit on that begins it.
    let named: Vec<_> = silent.iter().map(|node| Document::of(node).map(|document| document.run)).collect();
    let ids: Vec<_> = named.iter().flatten().flatten().cloned().collect();
    let runs = app.store.get_all(RUN, &ids).await?;
    let mut runs: HashMap<_, _> = runs.into_iter().map(|run| (run.content.id.clone(), run)).collect();
    let target = |(node, named): (&Resource, Result<Option<String>, Error>)| {
        let decided = named.and_then(|run| decide(to, run.and_then(|run| runs.remove(&run))));
        decided.unwrap_or_else(|error| {
            tracing::error!(%error, node = node.content.id, "silent node unreadable; skipped");
            None
        })
    };
    Ok(silent.iter().zip(named).map(target).collect())
}

fn decide(to: State, run: Option<Resource>) -> Result<Option<Target>, Error> {
    let run = run.map(Run::<Data>::read).transpose()?;
    let current = run.as_ref().map(|run| (run.record.plan.kind, run.state));
    // A run that is over moves no more, and another one would change the node: only one that goes on is held. What holds
    // nothing is written together with its neighbours.
    let goes_on = run.iter().filter(|run| run.state.is_open());
    let holds = goes_on.map(|run| Held::at(&run.resource)).collect();
    Ok(mapping::check(to, current).is_ok().then(|| Target { to: to.as_str(), holds }))
}
