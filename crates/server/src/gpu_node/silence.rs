//! Whether the agent of a node is silent.

use jiff::Timestamp;
use wardroom_core::gpu_node::State;
use wardroom_store::Resource;

use super::{
    document::{self, Document, KIND},
    proof,
};
use crate::{app::App, error::Error};

/// Since when nothing is heard of the agent that is waited for since `from`, if that is longer than a dead one stays
/// undiscovered. Heartbeats of an active node are marks in memory; from when a run waits, the node is not active, and
/// they are kept.
pub(crate) async fn since(app: &App, node: &str, from: Timestamp) -> Result<Option<Timestamp>, Error> {
    let health = proof::latest(app, node).await?.health;
    let last = health.as_ref().map_or(from, |(_, heard)| from.max(*heard));
    let interval = proof::interval(app, health.as_ref().map(|(health, _)| health));
    let allowed = app.config.liveness.policy.at_most(interval);
    Ok((app.now().duration_since(last) > allowed).then_some(last))
}

/// Whether an agent speaks for the node and is heard: what it can be asked for is not given up. Of an active node that is
/// for liveness to say, which knows when the server itself was deaf.
pub(crate) async fn is_heard(app: &App, node: &Resource) -> Result<bool, Error> {
    if Document::of(node)?.agent.is_none() {
        return Ok(false);
    }
    let id = &node.content.id;
    let health = proof::latest(app, id).await?.health;
    // The last heartbeats of a node that was active a moment ago are known in memory only.
    let last = health.as_ref().map(|(_, at)| *at).max(app.liveness.last_seen(KIND, id));
    let health = health.as_ref().map(|(health, _)| health);
    let fresh = last.is_some_and(|last| proof::is_fresh(app, health, last, app.now()));
    Ok(fresh || document::state(node)? == State::Active)
}
