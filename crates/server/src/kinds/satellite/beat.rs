//! A beat, as liveness sees it.

use wardroom_core::{
    liveness::{Interval, in_force},
    satellite::State,
};
use wardroom_store::Resource;

use super::{document::KIND, identity::Known};
use crate::kinds::satellite::identity::Identities;
use crate::platform::{
    app::App,
    http::error::Error,
    liveness::{Beat, NewSeat, stale::given_interval},
};

/// The interval for a satellite without a seat, which has to re-register or refresh first.
const UNTIL_THEN: u32 = 30;

/// Notes a beat of a satellite and returns when the next is due. Only online satellites are watched.
pub(crate) fn heard(app: &App, known: &Known, said: Option<Interval>) -> Beat {
    if known.state != State::Online {
        let next = in_force(said, known.given).or(Interval::from_seconds(UNTIL_THEN));
        let member =
            known.name().bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        return app.liveness.answer(member, next.unwrap_or(Interval::LONGEST));
    }
    let id = known.id();
    let seat = app.liveness.find(KIND, &id).unwrap_or_else(|| {
        let new = NewSeat { zone: known.zone.as_deref(), given: known.given, last_seen: None, said: None };
        app.liveness.seat(KIND, &id, new)
    });
    app.liveness.beat(seat, said)
}

/// Registering or refreshing counts as a beat, and sets the given interval and the zone.
pub(crate) fn first(app: &App, satellite: &Resource) -> Result<(), Error> {
    let known = Identities::of(app).read(satellite, app.moment())?;
    if known.state == State::Online {
        let said = until_first_beat(app, known.given);
        let new = NewSeat { zone: known.zone.as_deref(), given: known.given, last_seen: None, said };
        let seat = app.liveness.seat(KIND, &satellite.content.id, new);
        app.liveness.beat(seat, said);
    }
    Ok(())
}

/// A client beats in its own interval until it gets another one: until its first beat the longer one applies.
fn until_first_beat(app: &App, given: Option<Interval>) -> Option<Interval> {
    given.map(|given| given.max(app.liveness.usual_interval()))
}

/// Records a beat before the commit that brings the satellite online, so that no replica finds it online with
/// an old beat.
pub(crate) fn comes_online(app: &App, satellite: &Resource) {
    let every = until_first_beat(app, given_interval(satellite));
    app.liveness.hear(KIND, &satellite.content.id, every);
}

/// Stops watching a satellite that need not beat any more.
pub(crate) fn rests(app: &App, id: &str) {
    app.liveness.unseat(KIND, id);
}
