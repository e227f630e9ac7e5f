//! Several servers over one PostgreSQL, in real time and with short intervals.

use std::time::Duration;

use jiff::SignedDuration;
use tokio::{sync::watch, task::JoinSet};
use wardroom_core::liveness::{Cause, Interval};
use wardroom_store::{Location, Seen};

use super::site::{KIND, app, connect, satellite, satellite_every, store_satellite};
use crate::platform::{
    app::App,
    clock::Hand,
    http::error::Error,
    liveness::{
        NewSeat, flush,
        judge::Due,
        replicas,
        sweep::{self, Sweep},
    },
    testing::database,
};

pub(super) const SETTINGS: &str = "[liveness]\ngrace_seconds = 1\nflush_seconds_shared = 1\n";

struct Replica {
    app: App,
    stop: watch::Sender<bool>,
    jobs: JoinSet<()>,
    _folder: tempfile::TempDir,
}

impl Replica {
    async fn start(url: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let app = app(&folder, &Location::Postgres { url: url.to_owned() }, Hand::forever(), SETTINGS).await;
        let (stop, stopped) = watch::channel(false);
        let mut jobs = JoinSet::new();
        sweep::spawn(&app, &stopped, &mut jobs);
        Self { app, stop, jobs, _folder: folder }
    }

    async fn is_sweeping(&self) -> bool {
        for _ in 0..300 {
            if self.app.liveness.status().sweeping.is_some() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    }

    async fn end(mut self) {
        self.stop.send_replace(true);
        while self.jobs.join_next().await.is_some() {}
    }
}

pub(super) async fn state(app: &App, id: &str) -> String {
    app.store.get(KIND, id).await.unwrap().unwrap().content.state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beat_may_land_anywhere() {
    let database = database().await;
    let sweeper = Replica::start(&database.url).await;
    assert!(sweeper.is_sweeping().await);
    let other = Replica::start(&database.url).await;
    let second = Interval::from_seconds(1);
    let (heard, silent) =
        (satellite_every(&other.app, None, 1).await, satellite_every(&other.app, None, 1).await);
    let here = other.app.liveness.find(KIND, &heard).unwrap();
    let mut silent_is_stale = false;
    for _ in 0..600 {
        other.app.liveness.beat(here, second);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(state(&other.app, &heard).await, "online", "it is heard, only elsewhere");
        silent_is_stale = state(&other.app, &silent).await == "stale";
        if silent_is_stale {
            break;
        }
    }
    assert!(silent_is_stale, "no server heard this one");
    assert!(other.app.liveness.status().sweeping.is_none(), "one server sweeps");
    // Its seat follows the feed to the server that it used to speak to.
    for _ in 0..100 {
        if other.app.liveness.find(KIND, &silent).is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(other.app.liveness.find(KIND, &silent).is_none());
    sweeper.end().await;
    assert!(other.is_sweeping().await, "the other one takes over");
    other.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_sweeper_that_wakes_up_late_changes_nothing() {
    let database = database().await;
    let location = Location::Postgres { url: database.url.clone() };
    let folder = tempfile::tempdir().unwrap();
    let hand = Hand::forever();
    let first = app(&folder, &location, hand, SETTINGS).await;
    let id = satellite(&first, None).await;
    sweep::start(&first).await.unwrap();
    let mut sweep = Sweep::new();
    sweep.tick(&first).await.unwrap();
    let lease = sweep.lease.clone().expect("it is alone, so it sweeps");

    hand.pass(SignedDuration::from_secs(1000));
    assert!(first.liveness.is_due(KIND, &id));
    // It judged, and stands still just before it commits; meanwhile its lease changes hands.
    let due = Due::of(&first.liveness, KIND, &id);
    let second = app(&folder, &location, Hand::forever(), SETTINGS).await;
    first.store.release_lease(&lease).await.unwrap();
    let mut other = Sweep::new();
    sweep::start(&second).await.unwrap();
    other.tick(&second).await.unwrap();
    assert!(other.lease.is_some());

    let late = sweep::mark(&first, first.liveness.kind(KIND).unwrap(), &[due], Some(&lease.fence())).await;
    assert!(late.is_err(), "it is told that it was overtaken");
    assert_eq!(state(&second, &id).await, "online");
    assert!(first.liveness.find(KIND, &id).is_some(), "and it goes on to be watched");
    let fence = other.lease.as_ref().map(wardroom_store::Lease::fence);
    sweep::mark(&first, first.liveness.kind(KIND).unwrap(), &[due], fence.as_ref()).await.unwrap();
    assert_eq!(state(&second, &id).await, "stale", "only the lease holder marks");
}

/// A replica that stood still writes what it heard when it wakes up; that counts then, however old it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beats_of_a_paused_replica_count_when_it_is_back() {
    let database = database().await;
    let location = Location::Postgres { url: database.url.clone() };
    let folder = tempfile::tempdir().unwrap();
    let (hand, other_hand) = (Hand::forever(), Hand::forever());
    let paused = app(&folder, &location, hand, SETTINGS).await;
    let other = app(&folder, &location, other_hand, SETTINGS).await;
    let (mut paused_sweep, mut sweep) = (Sweep::new(), Sweep::new());
    for (app, sweep) in [(&other, &mut sweep), (&paused, &mut paused_sweep)] {
        replicas::arrive(app).await.unwrap();
        sweep::start(app).await.unwrap();
        sweep.tick(app).await.unwrap();
    }
    assert!(sweep.lease.is_some() && paused_sweep.lease.is_none());

    // Both know that it is there; one has heard how often it beats, and stands still before it can tell.
    let id = store_satellite(&paused, None, None).await;
    other.liveness.seat(KIND, &id, NewSeat::default());
    let seat = paused.liveness.seat(KIND, &id, NewSeat::default());
    paused.liveness.beat(seat, Interval::from_seconds(30));
    for lease in other.store.leases("replica/").await.unwrap() {
        other.store.release_lease(&lease).await.unwrap();
    }
    hand.pass(SignedDuration::from_secs(3600));
    let interval = || other.liveness.standing(KIND, &id).unwrap().interval;
    for _ in 0..2 {
        other_hand.pass(SignedDuration::from_secs(6));
        sweep.tick(&other).await.unwrap();
        sweep.looked(&other).await;
        assert_eq!(interval(), None);
    }
    flush::flush_all(&paused).await.unwrap();
    replicas::announce(&paused).await.unwrap();
    for _ in 0..2 {
        other_hand.pass(SignedDuration::from_secs(6));
        sweep.tick(&other).await.unwrap();
        sweep.looked(&other).await;
    }
    assert_eq!(interval(), Interval::from_seconds(30), "it is judged by what it keeps to");
}

/// A look that the database holds up holds up nothing else; a member that it would have found is not judged meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_look_holds_up_no_sweep_and_makes_no_member_stale() {
    let database = database().await;
    let clock = Clock::of(&database.url).await;
    let location = Location::Postgres { url: database.url.clone() };
    let folder = tempfile::tempdir().unwrap();
    let here = app(&folder, &location, clock.hand, SETTINGS).await;
    let other = app(&folder, &location, clock.hand, SETTINGS).await;
    let (mut sweep, mut other_sweep) = (Sweep::new(), Sweep::new());
    for (app, sweep) in [(&here, &mut sweep), (&other, &mut other_sweep)] {
        replicas::arrive(app).await.unwrap();
        sweep::start(app).await.unwrap();
        sweep.tick(app).await.unwrap();
    }
    assert!(sweep.lease.is_some() && other_sweep.lease.is_none());
    let mut pass = async |sweep: &mut Sweep, seconds: u32| {
        for _ in 0..seconds {
            clock.pass(1000).await;
            let both = async {
                replicas::announce(&other).await.unwrap();
                other_sweep.tick(&other).await.unwrap();
                sweep.tick(&here).await.unwrap();
            };
            // Less than a look may take.
            tokio::time::timeout(Duration::from_secs(30), both).await.expect("no sweep waits for the look");
        }
    };
    flush::flush(&other).await.unwrap();
    // Longer than a renewal, so that the two know of each other, and than the deaf time of the take-over.
    pass(&mut sweep, 20).await;
    sweep.looked(&here).await;
    let (heard, dead) = (satellite_every(&here, None, 1).await, satellite_every(&here, None, 1).await);

    flush::flush(&here).await.unwrap();
    let locker = connect(&database.url).await;
    for table in ["BEGIN", "LOCK TABLE liveness IN ACCESS EXCLUSIVE MODE"] {
        locker.batch_execute(table).await.unwrap();
    }
    // Every member is due by now, and the lease was renewed several times.
    pass(&mut sweep, 30).await;
    for id in [&heard, &dead] {
        assert_eq!(state(&here, id).await, "online", "another server may have heard it");
    }
    assert!(!here.liveness.is_due(KIND, &dead), "as far as is known");
    // Which one of them was. It is told as soon as it can be.
    let beat = Seen { id: heard.as_str().into(), age: Duration::ZERO, every: 1 };
    let (noted, unlocked) =
        tokio::join!(other.store.note_seen(KIND, vec![beat]), locker.batch_execute("COMMIT"));
    noted.unwrap();
    unlocked.unwrap();
    for _ in 0..4 {
        flush::flush(&other).await.unwrap();
        sweep.looked(&here).await;
        pass(&mut sweep, 1).await;
    }
    assert_eq!([state(&here, &heard).await, state(&here, &dead).await], ["online", "stale"]);
}

/// The clock of the servers, and that of their database: its functions are looked for before those of PostgreSQL.
pub(super) struct Clock {
    pub(super) hand: &'static Hand,
    client: tokio_postgres::Client,
}

impl Clock {
    pub(super) async fn of(url: &str) -> Self {
        let client = connect(url).await;
        let turned = "CREATE SCHEMA turned; CREATE TABLE turned.clock AS SELECT 0::bigint AS ahead; \
             CREATE FUNCTION turned.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS \
             'SELECT pg_catalog.clock_timestamp() + ahead * interval ''1 millisecond'' FROM turned.clock'; \
             DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, turned, pg_catalog', \
             current_database()); END $$";
        client.batch_execute(turned).await.unwrap();
        Self { hand: Hand::forever(), client }
    }

    /// Lets time pass for the servers and for the database.
    pub(super) async fn pass(&self, millis: i64) {
        self.hand.pass(SignedDuration::from_millis(millis));
        self.set(millis).await;
    }

    /// Sets the clock of the database ahead, or back.
    pub(super) async fn set(&self, millis: i64) {
        let ahead = format!("UPDATE turned.clock SET ahead = ahead + {millis}");
        self.client.batch_execute(&ahead).await.unwrap();
    }
}

/// Two servers, one of which sweeps, and satellites that only the other one hears.
pub(super) struct Pair {
    pub(super) here: App,
    pub(super) other: App,
    pub(super) sweep: Sweep,
    hand: &'static Hand,
    pub(super) clock: Clock,
    _folder: tempfile::TempDir,
}

/// Steps of the clock in a second.
const STEPS: i64 = 10;

impl Pair {
    pub(super) async fn start(url: &str) -> Self {
        Self::with(url, 1).await
    }

    /// The same, with so many seconds in which members may return after an outage.
    pub(super) async fn with(url: &str, grace: u32) -> Self {
        let clock = Clock::of(url).await;
        let hand = clock.hand;
        let location = Location::Postgres { url: url.to_owned() };
        let folder = tempfile::tempdir().unwrap();
        let settings = format!("[liveness]\ngrace_seconds = {grace}\n");
        let here = app(&folder, &location, hand, &settings).await;
        let other = app(&folder, &location, hand, &settings).await;
        let (mut sweep, mut other_sweep) = (Sweep::new(), Sweep::new());
        for (app, sweep) in [(&here, &mut sweep), (&other, &mut other_sweep)] {
            replicas::arrive(app).await.unwrap();
            sweep::start(app).await.unwrap();
            sweep.tick(app).await.unwrap();
        }
        assert!(sweep.lease.is_some() && other_sweep.lease.is_none());
        let mut pair = Self { here, other, sweep, hand, clock, _folder: folder };
        // Longer than a renewal, so that they know of each other, and than the deaf time of the take-over.
        for _ in 0..20 {
            pair.pass(1000).await;
            pair.tick().await;
        }
        pair
    }

    pub(super) async fn pass(&self, millis: i64) {
        self.clock.pass(millis).await;
    }

    /// A sweep, and the merge that it begins, of what the other server just told: it is there and writes, however long
    /// that really takes.
    pub(super) async fn tick(&mut self) {
        flush::flush(&self.other).await.unwrap();
        self.tick_unwritten().await;
    }

    /// The same while the other server tells nothing.
    pub(super) async fn tick_unwritten(&mut self) {
        replicas::announce(&self.other).await.unwrap();
        flush::flush(&self.here).await.unwrap();
        self.sweep.tick(&self.here).await.unwrap();
        self.sweep.looked(&self.here).await;
    }

    /// At which step a satellite is stale that said to the other server, once, that it beats every 2 s. That is told at
    /// the first sweep; a sweep is so many steps after each whole second.
    async fn stale_at(&mut self, phase: i64) -> Option<i64> {
        let id = store_satellite(&self.here, None, None).await;
        self.here.liveness.seat(KIND, &id, NewSeat::default());
        let seat = self.other.liveness.seat(KIND, &id, NewSeat::default());
        self.other.liveness.beat(seat, Interval::from_seconds(2));
        for step in 0..20 * STEPS {
            if step % (2 * STEPS) == 0 {
                flush::flush(&self.other).await.unwrap();
            }
            if step % STEPS == phase {
                self.tick_unwritten().await;
                if state(&self.here, &id).await == "stale" {
                    return Some(step);
                }
            }
            self.pass(1000 / STEPS).await;
        }
        None
    }
}

/// Beats are written every two seconds, and the table is asked with every sweep as long as that takes no time; with two
/// seconds for the real time that the test takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_of_another_replica_is_found_well_before_ten_seconds() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    for phase in [0, 3, 7] {
        let found = pair.stale_at(phase).await.expect("it is found");
        assert!((6 * STEPS..=12 * STEPS).contains(&found), "found after {found} steps, the rule has 60");
    }
}

/// What a crashed server heard is unknown, so no member is judged before its lease expires; that is soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_holds_up_the_others_for_moments() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let (dead, heard) =
        (satellite_every(&pair.here, None, 2).await, satellite_every(&pair.here, None, 2).await);
    // Only the other one hears it last, and dies before it tells.
    pair.tick().await;
    pair.pass(1000).await;
    replicas::announce(&pair.other).await.unwrap();
    let seat = pair.other.liveness.seat(KIND, &heard, NewSeat::default());
    pair.other.liveness.beat(seat, Interval::from_seconds(2));
    let mut found = None;
    for second in 2..=16 {
        pair.pass(1000).await;
        flush::flush(&pair.here).await.unwrap();
        pair.sweep.tick(&pair.here).await.unwrap();
        pair.sweep.looked(&pair.here).await;
        if second < 8 {
            assert_eq!(state(&pair.here, &heard).await, "online", "after {second} s it may have been heard");
        } else {
            // It found this server.
            let seat = pair.here.liveness.find(KIND, &heard).expect("it is watched");
            pair.here.liveness.beat(seat, Interval::from_seconds(2));
        }
        if found.is_none() && state(&pair.here, &dead).await == "stale" {
            found = Some(second);
        }
    }
    let found = found.expect("its rule and 10 s are over");
    assert!(found > 6, "after {found} s");
    assert_eq!(state(&pair.here, &heard).await, "online");
}

/// Others judge by what they are told: a beat that came soon after one that was written down is told as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_beat_is_told() {
    let database = database().await;
    let pair = Pair::start(&database.url).await;
    let id = satellite_every(&pair.here, None, 2).await;
    let seat = pair.other.liveness.seat(KIND, &id, NewSeat::default());
    for _ in 0..3 {
        pair.hand.pass(SignedDuration::from_millis(100));
        pair.other.liveness.beat(seat, Interval::from_seconds(2));
        flush::flush(&pair.other).await.unwrap();
        assert_eq!(pair.other.liveness.status().flushed.rows, 1);
    }
}

/// The sweeper waits for the watermark of the server that heard the member, however slowly that server
/// writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_heard_by_a_slow_writer_is_not_stale() {
    let database = database().await;
    let sweeper = Replica::start(&database.url).await;
    assert!(sweeper.is_sweeping().await);
    let other = Replica::start(&database.url).await;
    let (heard, dead) =
        (satellite_every(&other.app, None, 1).await, satellite_every(&other.app, None, 1).await);
    let here = other.app.liveness.find(KIND, &heard).unwrap();
    for _ in 0..300 {
        if !other.app.liveness.is_cut_off() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!other.app.liveness.is_cut_off(), "the others know that it is there");
    let locker = connect(&database.url).await;
    let mut locked = false;
    // Several times what a flush and the rule take, and less than PostgreSQL waits for a lock.
    for turn in 0..150 {
        other.app.liveness.beat(here, Interval::from_seconds(1));
        if turn == 20 {
            for lock in ["BEGIN", "LOCK TABLE liveness IN SHARE MODE"] {
                locker.batch_execute(lock).await.unwrap();
            }
            locked = true;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(state(&other.app, &heard).await, "online", "it is heard, only not told: {locked} {turn}");
    }
    locker.batch_execute("COMMIT").await.unwrap();
    let mut dead_is_stale = false;
    for _ in 0..600 {
        other.app.liveness.beat(here, Interval::from_seconds(1));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(state(&other.app, &heard).await, "online");
        dead_is_stale = state(&other.app, &dead).await == "stale";
        if dead_is_stale {
            break;
        }
    }
    assert!(dead_is_stale, "once everything is told");
    sweeper.end().await;
    other.end().await;
}

/// A server takes beats only while the others wait for its watermark; beats it could not store do not count
/// as missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_without_presence_takes_no_beats() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let other = pair.other.clone();
    pair.hand.pass(SignedDuration::from_secs(20));
    // A server that refuses members does not hear them, and does not judge them for that.
    let slow = std::future::ready(Err(Error::Unavailable("the disk is slow")));
    sweep::be_present(&pair.here, slow).await;
    pair.sweep.tick(&pair.here).await.unwrap();
    assert_eq!(pair.here.liveness.deaf(), Some(Cause::Database));
    sweep::be_present(&pair.here, replicas::announce(&pair.here)).await;
    pair.sweep.tick(&pair.here).await.unwrap();
    assert_eq!(pair.here.liveness.deaf(), None);
    assert!(other.liveness.is_cut_off(), "its presence lapsed");
    let mut sweep = Sweep::new();
    let mut tick = async || {
        replicas::announce(&other).await.unwrap();
        sweep.tick(&other).await.unwrap();
    };
    tick().await;
    assert!(!other.liveness.is_cut_off());
    other.liveness.status().flush_failed = true;
    tick().await;
    assert!(other.liveness.is_cut_off(), "it cannot tell what it hears");
    other.liveness.status().flush_failed = false;

    // It told nothing since long before it is gone.
    let told = pair.here.liveness.clock.steady();
    for _ in 0..60 {
        pair.pass(1000).await;
        pair.tick_unwritten().await;
    }
    for lease in other.store.leases("replica/").await.unwrap() {
        other.store.release_lease(&lease).await.unwrap();
    }
    pair.sweep.tick(&pair.here).await.unwrap();
    let deaf =
        pair.here.liveness.judge_state().listening.deaf_between(told, pair.here.liveness.clock.steady());
    assert!(deaf >= SignedDuration::from_secs(55), "{deaf}");
}

/// No other server can have heard a member, so the sweep does not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_alone_finds_the_dead_as_fast_on_postgres() {
    let database = database().await;
    let folder = tempfile::tempdir().unwrap();
    let mut site = super::site::Site::at(folder, &Location::Postgres { url: database.url.clone() }).await;
    site.start().await;
    site.pass(301, |_, _| {}).await;
    let steady = |site: &super::site::Site| site.app.liveness.clock.steady();
    let rule = SignedDuration::from_secs(3 * super::site::INTERVAL);
    let before = steady(&site);
    let dead = site.satellites(1, None).await;
    let heard = steady(&site);
    loop {
        site.hand.pass(SignedDuration::from_secs(1));
        let began = steady(&site);
        site.tick().await;
        if site.stale(&dead).await == 1 {
            assert!(steady(&site) > before + rule, "its rule allows three beats");
            return;
        }
        assert!(began <= heard + rule, "the first sweep after its rule finds it");
    }
}

/// Where the table cannot be read, beats are still taken; and the lease holder alone says that it cannot judge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_fails_cuts_no_replica_off() {
    let database = database().await;
    let location = Location::Postgres { url: database.url.clone() };
    let folder = tempfile::tempdir().unwrap();
    let hand = Hand::forever();
    let here = app(&folder, &location, hand, SETTINGS).await;
    let other = app(&folder, &location, hand, SETTINGS).await;
    let (mut sweep, mut other_sweep) = (Sweep::new(), Sweep::new());
    for (app, sweep) in [(&here, &mut sweep), (&other, &mut other_sweep)] {
        replicas::arrive(app).await.unwrap();
        sweep::start(app).await.unwrap();
        sweep.tick(app).await.unwrap();
    }
    connect(&database.url).await.batch_execute("ALTER TABLE liveness RENAME TO elsewhere").await.unwrap();
    let mut failed = false;
    for _ in 0..100 {
        hand.pass(SignedDuration::from_secs(1));
        replicas::announce(&here).await.unwrap();
        replicas::announce(&other).await.unwrap();
        sweep.tick(&here).await.unwrap();
        other_sweep.tick(&other).await.unwrap();
        assert!(!here.liveness.is_cut_off() && !other.liveness.is_cut_off(), "beats are taken");
        failed = sweep.failed_looks > 0 && other_sweep.failed_looks > 0;
        if failed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(failed, "both have tried");
    assert!(sweep.lease.is_some() && other_sweep.lease.is_none());
    assert!(here.liveness.deaf().is_some(), "it does not know what the other heard");
    assert_eq!(other.liveness.deaf(), None, "it hears all there is to hear");
}

/// A lease holder that cannot read the table leaves it to a replica that may; without other replicas it judges once it can
/// read the table again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweeper_that_cannot_read_leaves_it_to_another_one() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    pair.clock.client.batch_execute("ALTER TABLE liveness RENAME TO elsewhere").await.unwrap();
    let second = async |pair: &mut Pair| {
        pair.hand.pass(SignedDuration::from_secs(1));
        pair.sweep.tick(&pair.here).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut deaf = false;
    for _ in 0..300 {
        replicas::announce(&pair.other).await.unwrap();
        second(&mut pair).await;
        deaf |= pair.here.liveness.deaf().is_some();
        if pair.sweep.lease.is_none() {
            break;
        }
    }
    assert!(deaf && pair.sweep.lease.is_none(), "another one may sweep");
    for lease in pair.here.store.leases("replica/").await.unwrap() {
        if lease.holder != pair.here.liveness.name {
            pair.here.store.release_lease(&lease).await.unwrap();
        }
    }
    for _ in 0..90 {
        second(&mut pair).await;
    }
    assert!(pair.sweep.lease.is_some(), "there is no other one");
    assert!(pair.here.liveness.deaf().is_some(), "it does not know what the other one heard");
    pair.clock.client.batch_execute("ALTER TABLE elsewhere RENAME TO liveness").await.unwrap();
    for _ in 0..3 {
        second(&mut pair).await;
        pair.sweep.looked(&pair.here).await;
    }
    second(&mut pair).await;
    assert_eq!((pair.sweep.failed_looks, pair.here.liveness.deaf()), (0, None));
}

/// By how much judging is behind is a number for alerts: of the lease holder only, because the others judge no member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_sweeper_is_behind() {
    let database = database().await;
    let mut pair = Pair::start(&database.url).await;
    let mut other_sweep = Sweep::new();
    let mut most = SignedDuration::ZERO;
    for _ in 0..25 {
        pair.pass(1000).await;
        pair.tick().await;
        replicas::announce(&pair.here).await.unwrap();
        other_sweep.tick(&pair.other).await.unwrap();
        other_sweep.looked(&pair.other).await;
        assert!(other_sweep.lease.is_none());
        let behind = pair.here.liveness.totals().behind;
        assert!(behind > SignedDuration::ZERO && behind < SignedDuration::from_secs(22), "{behind}");
        most = most.max(pair.other.liveness.totals().behind);
    }
    assert_eq!(most, SignedDuration::ZERO);
}
