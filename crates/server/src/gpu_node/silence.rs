//! Whether the agent of a node is silent.

use jiff::Timestamp;
use wardroom_core::gpu_node::State;
use wardroom_store::Resource;

use super::{
    begin,
    document::{self, Document, KIND},
    proof,
};
use crate::{app::App, error::Error};

/// Since when nothing is heard of the agent that is waited for since `from`, if that is longer than a dead one stays
/// undiscovered, and this server listened. One that was silent before it was waited for is silent since then.
pub(crate) async fn since(app: &App, node: &str, from: Timestamp) -> Result<Option<Timestamp>, Error> {
    let speaks = Document::of(&begin::read(app, node).await?)?.has_agent();
    let health = proof::latest(app, node).await?.health;
    let last = last_heard(app, node, health.as_ref()).filter(|_| speaks).unwrap_or(from);
    let interval = proof::interval(app, health.as_ref().map(|(health, _)| health));
    let allowed = app.config.liveness.policy.at_most(interval);
    let long = app.now().duration_since(last) > allowed;
    Ok((long && app.liveness.is_silent(last, interval)).then_some(last))
}

/// Whether an agent speaks for the node and is heard, or may well be as far as this server could hear: what it can be asked
/// for is not given up. Of an active node that is for liveness to say.
pub(crate) async fn is_heard(app: &App, node: &Resource) -> Result<bool, Error> {
    if !Document::of(node)?.has_agent() {
        return Ok(false);
    }
    let id = &node.content.id;
    let health = proof::latest(app, id).await?.health;
    let last = last_heard(app, id, health.as_ref());
    let interval = proof::interval(app, health.as_ref().map(|(health, _)| health));
    let heard = last.is_some_and(|last| !app.liveness.is_silent(last, interval));
    Ok(heard || document::state(node)? == State::Active)
}

/// The last heartbeats of a node that was active a moment ago are known in memory only; those of others are kept.
fn last_heard(app: &App, id: &str, health: Option<&(proof::Health, Timestamp)>) -> Option<Timestamp> {
    health.map(|(_, at)| *at).max(app.liveness.last_seen(KIND, id))
}
