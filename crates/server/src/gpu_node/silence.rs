//! Whether the agent that a run waits for is silent.

use jiff::Timestamp;

use super::proof;
use crate::{app::App, error::Error};

/// Since when nothing is heard of the agent that is waited for since `from`, if that is longer than a dead one stays
/// undiscovered. Heartbeats of an active node are marks in memory; from when a run waits, the node is not active, and
/// they are kept.
pub(crate) async fn since(app: &App, node: &str, from: Timestamp) -> Result<Option<Timestamp>, Error> {
    let heard = proof::latest(app, node).await?.health.map(|(_, at)| at);
    let last = heard.map_or(from, |heard| heard.max(from));
    let liveness = &app.config.liveness;
    let allowed = liveness.policy.at_most(Some(liveness.interval));
    Ok((app.now().duration_since(last) > allowed).then_some(last))
}
