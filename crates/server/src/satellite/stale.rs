//! Satellites that fell silent become stale.

use wardroom_core::satellite::{Event, State};
use wardroom_store::Resource;

use super::step;
use crate::{error::Error, liveness::stale::Target};

/// Where satellites go that fell silent.
pub(crate) fn targets(silent: &[Resource]) -> Result<Vec<Option<Target>>, Error> {
    let to = step(State::Online, Event::HeartbeatsMissed)?.to.as_str();
    Ok(vec![Some(Target { to, holds: Vec::new() }); silent.len()])
}
