//! Which failures of other servers and of the database's clock excuse silence.

use std::sync::atomic::Ordering::Relaxed;

use jiff::SignedDuration;
use wardroom_core::liveness::Interval;
use wardroom_store::Location;

use super::{
    replicas::{Pair, SETTINGS, state},
    site::{self, KIND, Site, satellite_every},
};
use crate::platform::{
    app::App,
    liveness::{
        NewSeat, flush, replicas,
        sweep::{self, Sweep},
    },
    testing::database,
};

/// The interval of every member here: three of these are the rule.
const EVERY: u32 = 2;

/// Lets seconds pass, in each of which the other server tells what it heard; when one of them is stale.
async fn found(
    pair: &mut Pair,
    id: &str,
    seconds: i64,
    mut each: impl AsyncFnMut(&Pair, i64),
) -> Option<i64> {
    for second in 1..=seconds {
        pair.pass(1000).await;
        each(pair, second).await;
        flush::flush(&pair.here).await.unwrap();
        pair.sweep.tick(&pair.here).await.unwrap();
        pair.sweep.looked(&pair.here).await;
        if state(&pair.here, id).await == "stale" {
            return Some(second);
        }
    }
    None
}

fn beat(app: &App, id: &str) {
    let seat = app.liveness.seat(KIND, id, NewSeat::default());
    app.liveness.beat(seat, Interval::from_seconds(EVERY));
}

async fn tell(app: &App) {
    flush::flush(app).await.unwrap();
    replicas::announce(app).await.unwrap();
}

/// Each life of such a server may have heard members without storing it. That excuses silence, but not for
/// ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_repeatedly_does_not_hide_dead_members() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let (dead, heard) =
        (satellite_every(&pair.here, None, EVERY).await, satellite_every(&pair.here, None, EVERY).await);
    let (alive, known) = (heard.clone(), heard.clone());
    let at = found(&mut pair, &dead, 120, async |pair: &Pair, second| {
        beat(&pair.here, &alive);
        tell(&pair.other).await;
        if second % 3 == 0 {
            let (store, name) = (&pair.here.store, format!("life-{second}"));
            let moment = store.moment().await.unwrap();
            store.note_watermark(&name, moment).await.unwrap();
            let lasts = std::time::Duration::from_secs(6);
            store.acquire_lease(&format!("replica/{name}"), &name, lasts).await.unwrap().unwrap();
        }
    })
    .await;
    // The rule twice, twice the longest time that one of them was not heard of, and until it was known to be gone.
    assert!(at.is_some_and(|at| (12..=45).contains(&at)), "{at:?}");
    assert_eq!(state(&pair.here, &known).await, "online");
    assert!(pair.here.liveness.totals().gone > 1, "people can see why it took so long");
    let periods = pair.here.liveness.view().listening.periods;
    assert!(periods.iter().any(|period| period.cause == "replica"), "{periods:?}");
}

/// A server that refuses beats is present and reports it: the sweeper learns of that too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_another_server_do_not_count_as_silence() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let refused = satellite_every(&pair.here, None, EVERY).await;
    let cut_off = async |pair: &Pair, _: i64| {
        pair.other.liveness.cut_off(true);
        assert!(pair.other.liveness.takes_beats().is_err());
        tell(&pair.other).await;
    };
    assert_eq!(found(&mut pair, &refused, 10, cut_off).await, None, "it had no chance to be heard");
    pair.other.liveness.cut_off(false);
    let again = refused.clone();
    let taken = async |pair: &Pair, _: i64| {
        assert!(pair.other.liveness.takes_beats().is_ok());
        beat(&pair.other, &again);
        tell(&pair.other).await;
    };
    assert_eq!(found(&mut pair, &refused, 20, taken).await, None, "it is heard again");
    // A server that refuses for ever excuses silence for a limited time: the rule twice, and twice the
    // minute of reports.
    let at = found(&mut pair, &refused, 200, cut_off).await;
    assert!(at.is_some_and(|at| at > 12), "{at:?}");
}

/// The sweeper takes its own refusals into account before it judges, however short they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_this_server_do_not_count_as_silence() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let refused = satellite_every(&pair.here, None, EVERY).await;
    let absent = async |pair: &Pair, _: i64| {
        assert!(pair.here.liveness.takes_beats().is_err(), "others were not told that it is there");
        tell(&pair.other).await;
    };
    assert_eq!(found(&mut pair, &refused, 15, absent).await, None, "it had no chance to be heard");
    let there = async |pair: &Pair, _: i64| {
        replicas::announce(&pair.here).await.unwrap();
        assert!(pair.here.liveness.takes_beats().is_ok());
        tell(&pair.other).await;
    };
    let at = found(&mut pair, &refused, 30, there).await;
    assert!(at.is_some(), "it is silent");
}

/// Whatever ails one member, at every beat of it, excuses no other; and it was there itself.
#[tokio::test]
async fn a_member_that_is_refused_repeatedly_excuses_no_other() {
    let mut site = Site::new(tempfile::tempdir().unwrap()).await;
    site.start().await;
    let (ill, dead) =
        (satellite_every(&site.app, None, EVERY).await, satellite_every(&site.app, None, EVERY).await);
    // Longer than the grace after a start.
    for _ in 0..400 {
        site.hand.pass(SignedDuration::from_secs(1));
        site.app.liveness.was_there(KIND, &ill);
        site.tick().await;
    }
    assert_eq!([state(&site.app, &ill).await, state(&site.app, &dead).await], ["online", "stale"]);
}

/// A sweeper crashes like any other server: beats it did not store are excused, and dead members are found
/// soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_are_found_soon_when_the_sweeper_crashes() {
    let database = database().await;
    // As long as the lease used to be, and longer.
    let mut pair = Pair::with(&database.url, 20).await;
    let (dead, heard) =
        (satellite_every(&pair.here, None, EVERY).await, satellite_every(&pair.here, None, EVERY).await);
    let mut sweep = Sweep::new();
    for second in 0..15 {
        pair.pass(1000).await;
        for id in [&dead, &heard] {
            beat(&pair.here, id);
            pair.other.liveness.seat(
                KIND,
                id,
                NewSeat { given: Interval::from_seconds(EVERY), ..NewSeat::default() },
            );
        }
        // The last beats are not told any more.
        if second < 14 {
            tell(&pair.here).await;
        }
        tell(&pair.other).await;
        pair.sweep.tick(&pair.here).await.unwrap();
        sweep.tick(&pair.other).await.unwrap();
        sweep.looked(&pair.other).await;
    }
    assert!(sweep.lease.is_none());
    let (mut found, crashed) = (None, pair.other.liveness.clock.steady());
    for second in 1..=60 {
        pair.pass(1000).await;
        tell(&pair.other).await;
        if pair.other.liveness.clock.steady().duration_since(crashed).as_secs() >= 7 {
            // It found the other server.
            beat(&pair.other, &heard);
        }
        sweep.tick(&pair.other).await.unwrap();
        sweep.looked(&pair.other).await;
        assert_eq!(state(&pair.other, &heard).await, "online", "after {second} s it may have been heard");
        if state(&pair.other, &dead).await == "stale" {
            found = Some(second);
            break;
        }
    }
    assert!(found.is_some_and(|second| second <= 3 * EVERY + 10), "{found:?}");
}

/// The clock of the database is set back by an hour, and one server crashed: its presence seems to last for that hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_delays_no_member() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let dead = satellite_every(&pair.here, None, EVERY).await;
    pair.clock.set(-3_600_000).await;
    let at = found(&mut pair, &dead, 120, async |_: &Pair, _| {}).await;
    assert!(at.is_some_and(|at| (7..=28).contains(&at)), "{at:?}");
}

/// The same for the lease of the sweeper.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweeper_that_is_gone_is_followed_although_the_clock_was_set_back() {
    let database = database().await;
    let pair = Pair::start(&database.url).await;
    let mut sweep = Sweep::new();
    pair.clock.set(-3_600_000).await;
    let mut taken = None;
    for second in 1..=90 {
        pair.pass(1000).await;
        tell(&pair.other).await;
        sweep.tick(&pair.other).await.unwrap();
        if sweep.lease.is_some() {
            taken = Some(second);
            break;
        }
    }
    assert!(taken.is_some_and(|at| at <= 25), "{taken:?}");
}

/// What was written down just before the clock was set back lies ahead of it, and is not believed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beat_before_the_clock_was_set_back_counts() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let (heard, dead) =
        (satellite_every(&pair.here, None, EVERY).await, satellite_every(&pair.here, None, EVERY).await);
    beat(&pair.other, &heard);
    let other = async |pair: &Pair, _: i64| tell(&pair.other).await;
    assert_eq!(found(&mut pair, &heard, 4, other).await, None);
    // Twice the interval after the beat before, as some clients beat. It is told, but not read before the clock is set.
    beat(&pair.other, &heard);
    tell(&pair.other).await;
    pair.clock.set(-3_600_000).await;
    let alive = heard.clone();
    let on = async |pair: &Pair, second: i64| {
        if second % 4 == 0 {
            beat(&pair.other, &alive);
        }
        tell(&pair.other).await;
    };
    assert_eq!(found(&mut pair, &heard, 16, on).await, None, "it is heard");
    assert_eq!(state(&pair.here, &dead).await, "stale", "and a silent member is found");
}

/// After a minute no other server is waited for, and nothing is read: the first sweep after the rule finds
/// the dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_does_not_wait_for_others() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    replicas::leave(&pair.other).await;
    let heard = satellite_every(&pair.here, None, 30).await;
    assert_eq!(found(&mut pair, &heard, 75, async |pair: &Pair, _| beat(&pair.here, &heard)).await, None);
    assert!(pair.here.liveness.knows_all.load(Relaxed), "there is nothing more to read");
    let dead = satellite_every(&pair.here, None, EVERY).await;
    let last = pair.here.liveness.clock.steady();
    let rule = jiff::SignedDuration::from_secs(i64::from(3 * EVERY));
    for _ in 0..20 {
        pair.pass(1000).await;
        let began = pair.here.liveness.clock.steady();
        pair.sweep.tick(&pair.here).await.unwrap();
        if state(&pair.here, &dead).await == "stale" {
            return;
        }
        assert!(began <= last + rule, "the first sweep after its rule finds it");
    }
    panic!("it was never found");
}

/// Other servers do not wait for a server that is not known to be present, so it takes no beats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_beats_only_while_others_know_that_it_is_there() {
    let database = database().await;
    let folder = tempfile::tempdir().unwrap();
    let clock = super::replicas::Clock::of(&database.url).await;
    let location = Location::Postgres { url: database.url.clone() };
    let app = site::app(&folder, &location, clock.hand, SETTINGS).await;
    assert!(app.liveness.takes_beats().is_err(), "other servers do not know of it");
    sweep::arrive(&app).await;
    assert!(app.liveness.takes_beats().is_ok());
    clock.pass(2_500).await;
    assert!(app.liveness.takes_beats().is_ok(), "its presence lasts for four seconds");
    clock.pass(1_500).await;
    assert!(app.liveness.takes_beats().is_err(), "it has lapsed, and nothing else is wrong");
    tell(&app).await;
    assert!(app.liveness.takes_beats().is_ok());
    replicas::leave(&app).await;
    assert!(app.liveness.takes_beats().is_err(), "it said that it takes none");
}
