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
    liveness::{
        kinds::Beating,
        stale::{Goal, Target},
    },
};

pub(super) static BEATING: Beating = Beating {
    kind: KIND,
    states: &[State::Active.as_str()],
    event: Event::HeartbeatsMissed.as_str(),
    // Agents get this interval.
    given: |_, settings| Some(settings.interval),
    // Runs and people activate a node, some time after its agent proved its health.
    heard: |app, id| Box::pin(proof::heard(app, id)),
    ends: &[State::Deleted.as_str()],
    targets: |app, members| Box::pin(targets(app, members)),
    marked: &[],
    // A beat alone does not suffice: the node's checks must pass, and no run may work on it. The next beat
    // reads the record and decides.
    back: |_, _| Ok(None),
};

/// The state that silent nodes move to. A node that its run is about to move is left to the run.
async fn targets(app: &App, silent: &[Resource]) -> Result<Vec<Option<Target>>, Error> {
    let to = super::moved(State::Active, Event::HeartbeatsMissed).ok_or(Error::Internal)?;
    // A node names its run from the commit that begins it.
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
    // Only an open run is a precondition: an ended run moves no node, and a new one would change the node.
    // Changes without preconditions are written together.
    let goes_on = run.iter().filter(|run| run.state.is_open());
    let holds = goes_on.map(|run| Held::at(&run.resource)).collect();
    Ok(mapping::check(to, current).is_ok().then(|| Target { to: Goal::State(to.as_str()), holds }))
}
