//! Satellites that fell silent become stale, and are online again when they were heard.

use wardroom_core::satellite::{Event, State};
use wardroom_store::Resource;

use super::{document, step};
use crate::{
    error::Error,
    liveness::{astray::Back, stale::Target},
};

/// Where satellites go that fell silent.
pub(crate) fn targets(silent: &[Resource]) -> Result<Vec<Option<Target>>, Error> {
    let to = step(State::Online, Event::HeartbeatsMissed)?.to.as_str();
    Ok(vec![Some(Target { to, holds: Vec::new() }); silent.len()])
}

/// Where a satellite goes that is stale and was heard.
pub(crate) fn back(satellite: &Resource) -> Result<Option<Back>, Error> {
    if document::state(satellite)? != State::Stale {
        return Ok(None);
    }
    let to = step(State::Stale, Event::Heartbeat)?.to.as_str();
    Ok(Some(Back { to, event: Event::Heartbeat.as_str() }))
}
