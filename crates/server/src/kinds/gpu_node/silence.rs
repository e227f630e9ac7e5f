//! Whether the agent of a node is silent.

use jiff::Timestamp;
use wardroom_core::gpu_node::State;
use wardroom_store::Resource;

use super::{
    begin,
    document::{self, Document, KIND},
    proof::{self, Latest},
};
use crate::platform::{app::App, http::error::Error, liveness};

/// Returns since when the agent is silent, if longer than the rule of liveness while this server listened;
/// otherwise none. The wait for the agent began at `from`.
pub(crate) async fn since(app: &App, node: &str, from: Timestamp) -> Result<Option<Timestamp>, Error> {
    let speaks = Document::of(&begin::read(app, node).await?)?.has_agent();
    let health = proof::latest(app, node).await?.health;
    let last = last_heard(app, node, health.as_ref()).await?.filter(|_| speaks).unwrap_or(from);
    let interval = proof::interval(app, health.as_ref().map(|(health, _)| health));
    let allowed = app.config.liveness.policy.at_most(interval);
    let long = app.now().duration_since(last) > allowed;
    Ok((long && app.liveness.is_silent(last, interval)).then_some(last))
}

/// Whether the node's agent sends heartbeats, or may have while this server could not listen. For active
/// nodes liveness decides.
pub(crate) async fn is_heard(app: &App, node: &Resource) -> Result<bool, Error> {
    hears_agent(app, node, &Document::of(node)?, &proof::latest(app, &node.content.id).await?).await
}

/// The same, with the given observations.
pub(crate) async fn hears_agent(
    app: &App,
    node: &Resource,
    document: &Document,
    latest: &Latest,
) -> Result<bool, Error> {
    if !document.has_agent() {
        return Ok(false);
    }
    let health = latest.health.as_ref();
    let last = last_heard(app, &node.content.id, health).await?;
    let interval = proof::interval(app, health.map(|(health, _)| health));
    let heard = last.is_some_and(|last| !app.liveness.is_silent(last, interval));
    Ok(heard || document::state(node)? == State::Active)
}

/// Returns the last heartbeat: for a recently active node from memory, for others from the database.
async fn last_heard(
    app: &App,
    id: &str,
    health: Option<&(proof::Health, Timestamp)>,
) -> Result<Option<Timestamp>, Error> {
    liveness::view::refresh_ids(app, KIND, &[id.to_owned()]).await?;
    Ok(health.map(|(_, at)| *at).max(app.liveness.last_seen(KIND, id)))
}
