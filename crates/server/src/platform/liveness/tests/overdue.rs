//! What the lease holder reads in the table beside other replicas.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::Interval;
use wardroom_store::{Lease, Seen};

use super::{
    replicas::{Pair, state},
    site::{KIND, satellite_every, store_satellite},
};
use crate::platform::{
    liveness::{
        NewSeat, flush, follow,
        judge::Due,
        overdue::{self, Looks},
        sweep, view,
    },
    testing::database,
};

const EVERY: u32 = 2;

fn seen(id: &str, seconds: u64) -> Seen {
    Seen { id: id.into(), age: Duration::from_secs(seconds), every: EVERY }
}

/// A satellite may be online before the beat that brought it there is in the table: its old row says nothing until the
/// watermark of each replica is past the moment at which it was found online.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_came_back_is_not_judged_by_its_old_beat() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let ids = [store_satellite(&pair.here, None, None).await, store_satellite(&pair.here, None, None).await];
    let [back, dead] = &ids;
    pair.here.store.note_seen(KIND, ids.iter().map(|id| seen(id, 1000)).collect()).await.unwrap();
    // The other replica has noted a beat, and does not come to writing it.
    assert!(pair.other.liveness.hear(KIND, back, Interval::from_seconds(EVERY)));
    for _ in 0..3 {
        pair.pass(1000).await;
        pair.tick_unwritten().await;
        assert_eq!([state(&pair.here, back).await, state(&pair.here, dead).await], ["online", "online"]);
    }
    for _ in 0..4 {
        pair.pass(500).await;
        pair.tick().await;
    }
    assert_eq!([state(&pair.here, back).await, state(&pair.here, dead).await], ["online", "stale"]);
}

/// The row that a mark was decided on has changed by the time of its commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beat_between_the_look_and_the_mark_counts() {
    let database = database().await;
    let pair = Pair::start(&database.url).await;
    let (heard, dead) =
        (satellite_every(&pair.here, None, EVERY).await, satellite_every(&pair.here, None, EVERY).await);
    flush::flush(&pair.here).await.unwrap();
    for _ in 0..100 {
        if [&heard, &dead].iter().all(|id| pair.here.liveness.is_due(KIND, id)) {
            break;
        }
        pair.pass(1000).await;
    }
    let look = overdue::look(&pair.here).await.unwrap();
    let rows = Looks::default().take(&pair.here.liveness, look, Timestamp::MAX);
    let due = [&heard, &dead].map(|id| {
        let mut due = Due::of(&pair.here.liveness, KIND, id);
        let row = rows.iter().find(|(seat, _)| *seat == due.seat);
        due.beat = row.expect("the look finds both").1;
        due
    });
    pair.here.store.note_seen(KIND, vec![seen(&heard, 0)]).await.unwrap();
    let fence = pair.sweep.lease.as_ref().map(Lease::fence);
    sweep::mark(&pair.here, pair.here.liveness.kind(KIND).unwrap(), &due, fence.as_ref()).await.unwrap();
    assert_eq!([state(&pair.here, &heard).await, state(&pair.here, &dead).await], ["online", "stale"]);
    assert!(pair.here.liveness.find(KIND, &heard).is_some(), "it is judged again");
}

/// Every row looks an hour older than it is. The dead are found nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_forward_makes_no_member_stale() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let (heard, dead) =
        (satellite_every(&pair.here, None, EVERY).await, satellite_every(&pair.here, None, EVERY).await);
    let seat = pair.other.liveness.seat(KIND, &heard, NewSeat::default());
    let mut found = None;
    for second in 1..=30 {
        if second == 3 {
            pair.clock.set(3_600_000).await;
        }
        if second % 4 == 0 {
            pair.other.liveness.beat(seat, Interval::from_seconds(EVERY));
        }
        pair.pass(1000).await;
        pair.tick().await;
        assert_eq!(state(&pair.here, &heard).await, "online", "after {second} s");
        if found.is_none() && state(&pair.here, &dead).await == "stale" {
            found = Some(second);
        }
    }
    assert!(found.is_some_and(|second| (6..=20).contains(&second)), "{found:?}");
}

/// What is shown of a member that beats at another replica is read from the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beat_elsewhere_is_shown() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let id = satellite_every(&pair.here, None, 30).await;
    let seat = pair.other.liveness.seat(KIND, &id, NewSeat::default());
    for _ in 0..20 {
        pair.pass(1000).await;
        pair.tick().await;
    }
    pair.other.liveness.beat(seat, Interval::from_seconds(40));
    pair.tick().await;
    let silent = |pair: &Pair| {
        let heard = pair.here.liveness.last_seen(KIND, &id).unwrap();
        pair.here.now().duration_since(heard)
    };
    assert!(silent(&pair) >= SignedDuration::from_secs(20), "memory does not know");
    view::refresh_ids(&pair.here, KIND, std::slice::from_ref(&id)).await.unwrap();
    assert!(silent(&pair) < SignedDuration::from_secs(10), "{}", silent(&pair));
    let interval = pair.here.liveness.standing(KIND, &id).unwrap().interval;
    assert_eq!(interval, Interval::from_seconds(40));
}

/// A server that learns from the feed that a member was heard elsewhere does not know how often it beats: whichever
/// of them writes last, the row keeps the interval of the one that heard it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_follows_leaves_the_interval_of_the_row() {
    let database = database().await;
    let pair = Pair::start(&database.url).await;
    let (given, usual) = (Interval::from_seconds(EVERY), pair.here.liveness.usual_interval());
    let mut cursor = pair.other.store.feed_tail().await.unwrap();
    for follower_first in [false, true] {
        let id = store_satellite(&pair.here, None, given).await;
        let new = NewSeat { given, said: Some(usual), ..NewSeat::default() };
        pair.here.liveness.beat(pair.here.liveness.seat(KIND, &id, new), Some(usual));
        pair.pass(20).await;
        // PostgreSQL holds back what it committed while anybody's older transaction is open, in any database.
        for _ in 0..600 {
            follow::catch_up(&pair.other, &mut cursor).await.unwrap();
            if pair.other.liveness.find(KIND, &id).is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(pair.other.liveness.find(KIND, &id).is_some());
        let (first, second) =
            if follower_first { (&pair.other, &pair.here) } else { (&pair.here, &pair.other) };
        flush::flush(first).await.unwrap();
        flush::flush(second).await.unwrap();
        let rows = pair.here.store.seen_of(KIND, &[id]).await.unwrap();
        assert_eq!(rows[0].every, usual.seconds(), "follower first: {follower_first}");
    }
}
