//! Whether the agent that a run waits for is silent.

use jiff::Timestamp;

use super::proof;
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
