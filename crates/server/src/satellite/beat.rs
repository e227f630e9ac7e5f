//! A beat, as liveness sees it.

use jiff::Timestamp;
use wardroom_core::{
    liveness::{Interval, in_force},
    satellite::State,
};

use super::identity::Known;
use wardroom_store::Resource;

use crate::{app::App, error::Error};

/// What a member is told.
pub(crate) struct Next {
    pub(crate) next: Interval,
    pub(crate) server_time: Timestamp,
}

/// Notes that a satellite was heard, and says when it shall be heard next.
pub(crate) fn heard(app: &App, known: &Known, said: Option<Interval>) -> Next {
    let default = Interval::from_seconds(30).unwrap_or(Interval::LONGEST);
    Next { next: in_force(said, known.given).unwrap_or(default), server_time: app.now() }
}

/// A satellite that need not be heard any more.
pub(crate) fn rests(_app: &App, _id: &str) {}

/// When a satellite was last heard.
pub(crate) fn last_heard(app: &App, id: &str) -> Option<Timestamp> {
    app.facts.of(id).map(|reported| reported.received_at)
}

/// Registering or refreshing counts as a beat.
pub(crate) fn first(app: &App, satellite: &Resource) -> Result<(), Error> {
    let known = Known::of(satellite, app.moment())?;
    if known.state == State::Online {
        heard(app, &known, None);
    }
    Ok(())
}
