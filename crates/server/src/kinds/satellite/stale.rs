//! Silent satellites become stale, and online again with their next beat.

use jiff::Timestamp;
use wardroom_core::satellite::{Event, State};
use wardroom_store::Resource;

use super::{document, step};
use crate::platform::{
    http::error::Error,
    liveness::{
        kinds::Beating,
        stale::{self, Goal, Target},
        unwatched::Back,
    },
};

pub(super) static BEATING: Beating = Beating {
    kind: document::KIND,
    states: &[State::Online.as_str()],
    event: Event::HeartbeatsMissed.as_str(),
    given: |member, _| stale::given_interval(member),
    heard: |_, _| Box::pin(async { Ok(None) }),
    ends: &[],
    targets: |_, members| Box::pin(async { targets(members) }),
    marked: &[State::Stale.as_str()],
    back,
};

/// The state that silent satellites move to.
fn targets(silent: &[Resource]) -> Result<Vec<Option<Target>>, Error> {
    let to = step("", State::Online, Event::HeartbeatsMissed)?.to.as_str();
    Ok(vec![Some(Target { to: Goal::State(to), holds: Vec::new() }); silent.len()])
}

/// The state that a stale satellite returns to with a beat.
fn back(satellite: &Resource, _: Timestamp) -> Result<Option<Back>, Error> {
    if document::state(satellite)? != State::Stale {
        return Ok(None);
    }
    let to = step("", State::Stale, Event::Heartbeat)?.to.as_str();
    Ok(Some(Back { to: Goal::State(to), event: Event::Heartbeat.as_str() }))
}
