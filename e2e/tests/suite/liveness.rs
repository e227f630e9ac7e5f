//! Silence: silent members are found in time, and time in which the servers could not hear does not count.

use std::{
    fs, io,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::support::{Backend, Reply, Site, on_both, satellite, satellite::Robot, wait_for};

on_both! {
    the_dead_are_found_in_time,
    a_pause_does_not_count_as_silence,
    a_clock_jump_does_not_count_as_silence,
    a_restart_does_not_count_as_silence,
    a_client_that_beats_half_as_often_stays_online,
    reports_of_a_satellite_survive_a_restart,
    a_first_beat_may_come_at_the_clients_own_interval,
}

/// Short enough for a test, long enough for a busy machine.
const INTERVAL: &str = "@every 00h00m02s";

/// Three beats of that may be missed.
const RULE: SignedDuration = SignedDuration::from_secs(6);

/// How long a healthy member may take to be heard again: twice the interval, and a tenth.
const GRACE: SignedDuration = SignedDuration::from_millis(4400);

/// Without the hold that would cover up for a member that is charged wrongly.
const SETTINGS: [(&str, &str); 3] = [
    ("WARDROOM_LIVENESS_GRACE_SECONDS", "6"),
    ("WARDROOM_LIVENESS_FLUSH_SECONDS_SHARED", "1"),
    ("WARDROOM_LIVENESS_HOLD_MEMBERS", "1000000"),
];

/// Longer than the rule and all that beats may take between two servers.
const LONG: Duration = Duration::from_secs(11);

/// Orders to the members that beat in the background: at which server, and whether they beat.
#[derive(Debug, Default)]
struct Orders {
    stop: AtomicBool,
    quiet: AtomicBool,
    /// One more than the index of the only server that they beat at; 0 for any.
    at: AtomicUsize,
}

/// Ends the beating, however the test ends.
struct Ending<'a>(&'a Orders);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}

/// All satellites beat every second, each in its own thread, so that one that waits for a paused server
/// delays no other.
fn while_beating<T>(site: &Site, robots: &[Robot], then: impl FnOnce(&Orders) -> T) -> T {
    let orders = Orders::default();
    thread::scope(|scope| {
        let _ending = Ending(&orders);
        for (number, robot) in robots.iter().enumerate() {
            let orders = &orders;
            scope.spawn(move || {
                for turn in number.. {
                    if orders.stop.load(Relaxed) {
                        return;
                    }
                    if !orders.quiet.load(Relaxed) {
                        beat(site, robot, orders.at.load(Relaxed).checked_sub(1).unwrap_or(turn));
                    }
                    thread::sleep(Duration::from_secs(1));
                }
            });
        }
        then(&orders)
    })
}

/// Sends a beat over a new connection; returns the time of the server, or none if it is paused.
fn beat(site: &Site, robot: &Robot, index: usize) -> Option<Timestamp> {
    let reply = send_beat(site, robot, index).ok()?;
    (reply.status == 200).then(|| reply.json()["server_time"].as_str().unwrap().parse().unwrap())
}

fn send_beat(site: &Site, robot: &Robot, index: usize) -> io::Result<Reply> {
    let body = json!({"state_report_interval": INTERVAL}).to_string();
    let api = robot.at(site, index).with("content-type", "application/json").within(Duration::from_secs(5));
    api.try_send("POST", "/satellites/sync", body.as_bytes())
}

/// Satellites that are online and have been heard.
fn online(site: &Site, count: usize) -> (Vec<String>, Vec<Robot>) {
    let names: Vec<_> = (0..count).map(|number| format!("sat-{number}")).collect();
    let robots: Vec<_> = names.iter().map(|name| satellite::online(site, name)).collect();
    // A server that takes over the sweep first gives every member time. Only the other server, if there is one, hears how
    // often they beat.
    let other = sweeper(site) + 1;
    for robot in &robots {
        assert!(beat(site, robot, other).is_some());
    }
    (names, robots)
}

/// The index of the server that sweeps.
fn sweeper(site: &Site) -> usize {
    let mut found = Vec::new();
    until("one server to sweep", || {
        found = (0..site.servers.len())
            .filter(|index| {
                let shown = site.admin_at(*index).get("/api/v1/liveness").expect(200);
                shown["data"]["sweeper"]["this_server"] == true
            })
            .collect();
        found.len() == 1
    });
    found[0]
}

/// Waits for a slow condition.
fn until(what: &str, mut look: impl FnMut() -> bool) {
    for _ in 0..240 {
        if look() {
            return;
        }
        thread::sleep(Duration::from_millis(250));
    }
    panic!("waited in vain for {what}");
}

fn signal(site: &Site, signal: &str) {
    site.servers.iter().for_each(|server| server.signal(signal));
}

/// Returns all moves to stale.
fn moves_to_stale(site: &Site) -> Vec<Value> {
    let rows = site.admin().get("/api/v1/history?limit=1000").expect(200);
    let rows = rows["data"].as_array().unwrap().iter();
    rows.filter(|row| row["kind"] == "satellite" && row["to_state"] == "stale").cloned().collect()
}

/// Silences one more member and waits until it is found, to prove that the server still judges.
fn a_dead_one_is_found(site: &Site, name: &str) -> Value {
    until("the dead satellite to be found", || satellite::get(site, name)["status"] == "stale");
    let row = moves_to_stale(site).remove(0);
    assert_eq!(row["resource_id"], satellite::get(site, name)["id"]);
    assert_eq!(row["triggered_by"], "system", "{row}");
    row
}

// With the default configuration.
fn the_dead_are_found_in_time(on: Backend) {
    find_the_dead(&Site::start(on), SignedDuration::from_secs(if on == Backend::Sqlite { 2 } else { 10 }));
}

/// No other server can have heard a member, so the server waits for none.
#[test]
fn one_server_on_postgres_finds_the_dead_as_fast() {
    find_the_dead(&Site::alone(Backend::Postgres, &[]), SignedDuration::from_secs(2));
}

fn find_the_dead(site: &Site, most: SignedDuration) {
    let (names, mut robots) = online(site, 15);
    let dead = robots.split_off(12);
    let mut overdue = Vec::new();
    while_beating(site, &robots, |_| {
        let other = sweeper(site) + 1;
        // Apart, so that each is found by a sweep of its own.
        let apart = |robot| {
            thread::sleep(Duration::from_millis(1300));
            beat(site, robot, other).unwrap()
        };
        let heard: Vec<_> = dead.iter().map(apart).collect();
        until("the dead to be found", || moves_to_stale(site).len() == dead.len());
        let deaf = periods(site, sweeper(site));
        for row in moves_to_stale(site) {
            let number = names.iter().position(|name| satellite::get(site, name)["id"] == row["resource_id"]);
            let found: Timestamp = row["created_at"].as_str().unwrap().parse().unwrap();
            let heard = heard[number.unwrap() - robots.len()];
            assert!(found > heard + RULE, "found before the rule says: {row}");
            overdue.push(found.duration_since(due(heard, found, &deaf)));
        }
    });
    // By the servers' own times. A machine that is busy with other tests may be late for one of them, not for all.
    assert!(overdue.iter().any(|late| *late <= most), "found too late: {overdue:?}");
    let load = SignedDuration::from_secs(3);
    assert!(overdue.iter().all(|late| *late <= most + load), "found too late: {overdue:?}");
    assert_eq!(moves_to_stale(site).len(), dead.len(), "and nobody else");
    // They were only away.
    assert!(beat(site, &dead[0], 1).is_some());
    assert_eq!(satellite::get(site, &names[12])["status"], "online");
}

/// When a member is due by the rule, given the times in which its server did not listen: on a busy machine it
/// may pause for seconds, and that time does not count as silence.
fn due(heard: Timestamp, found: Timestamp, deaf: &[Value]) -> Timestamp {
    let mut due = heard + RULE;
    let mut settled = due;
    for period in deaf {
        let time = |name: &str| period[name].as_str().map(|text| text.parse::<Timestamp>().unwrap());
        let (from, to) = (time("from").unwrap_or(Timestamp::MIN), time("to").unwrap());
        if to > heard && from < found {
            due += to.duration_since(from.max(heard));
            settled = settled.max(to + GRACE.max(to.duration_since(from.max(heard))));
        }
    }
    due.max(settled)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the servers are asked about the time in which they stood still"
)]
fn a_pause_does_not_count_as_silence(on: Backend) {
    // Once it is a whole minute; `./dev faults` takes the time for it on both.
    let is_long = on == Backend::Sqlite || std::env::var_os("WARDROOM_FAULT_ROUNDS").is_some();
    let long = if is_long { 60 } else { 20 };
    let site = Site::start_with(on, &SETTINGS);
    let (names, mut robots) = online(&site, 12);
    let dead = robots.pop().unwrap();
    while_beating(&site, &robots, |orders| {
        assert!(beat(&site, &dead, 0).is_some());
        orders.quiet.store(true, Relaxed);
        signal(&site, "-STOP");
        let stopped = Timestamp::now();
        thread::sleep(Duration::from_secs(long));
        let woken = Timestamp::now();
        signal(&site, "-CONT");
        // They beat when it is time to, not when the servers wake up.
        thread::sleep(Duration::from_secs(2));
        assert_eq!(moves_to_stale(&site), [Value::Null; 0], "nobody had a chance to beat");
        // Every server reports that it received nothing in all that time: as a pause, or as part of a start
        // if it lost the lease meanwhile.
        wait_for("the pause to be told", || {
            let told =
                |index: usize| periods(&site, index).iter().any(|period| covers(period, stopped, woken));
            (0..site.servers.len()).all(told).then_some(())
        });
        orders.quiet.store(false, Relaxed);
        a_dead_one_is_found(&site, &names[11]);
    });
    let moves = moves_to_stale(&site);
    assert_eq!(moves.len(), 1, "only the dead one: {moves:#?}");
}

fn a_clock_jump_does_not_count_as_silence(on: Backend) {
    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    fs::write(&clock, "0 0").unwrap();
    let mut settings = SETTINGS.to_vec();
    settings.push(("WARDROOM_LIVENESS_TEST_CLOCK_FILE", clock.to_str().unwrap()));
    let site = Site::start_with(on, &settings);
    let (names, mut robots) = online(&site, 12);
    let dead = robots.pop().unwrap();
    while_beating(&site, &robots, |_| {
        for ahead in ["3600000 0", "-3600000 0", "0 0"] {
            assert!(beat(&site, &dead, 0).is_some());
            fs::write(&clock, ahead).unwrap();
            thread::sleep(Duration::from_secs(5));
        }
        assert_eq!(moves_to_stale(&site), [Value::Null; 0], "everybody was heard in time");
        a_dead_one_is_found(&site, &names[11]);
    });
    let moves = moves_to_stale(&site);
    assert_eq!(moves.len(), 1, "only the dead one: {moves:#?}");
    assert!((0..site.servers.len()).all(|index| causes(&site, index).contains("clock_jump")));
}

/// When a server was deaf, and why, as it shows it.
fn periods(site: &Site, index: usize) -> Vec<Value> {
    let shown = site.admin_at(index).get("/api/v1/liveness").expect(200);
    shown["data"]["listening"]["periods"].as_array().unwrap().clone()
}

fn causes(site: &Site, index: usize) -> String {
    Value::from(periods(site, index)).to_string()
}

/// Whether a period has all of the time between two moments. A server notices within a sweep.
fn covers(period: &Value, from: Timestamp, to: Timestamp) -> bool {
    let time = |name: &str| period[name].as_str().map(|text| text.parse::<Timestamp>().unwrap());
    let slack = SignedDuration::from_secs(2);
    time("from").is_none_or(|began| began <= from + slack) && time("to").is_none_or(|end| end >= to)
}

#[test]
fn a_paused_server_affects_no_other() {
    one_stands_still(|sweeper| 1 - sweeper, Duration::from_secs(17));
}

/// Beats that it may have received excuse silence for some seconds only.
#[test]
fn the_dead_are_found_while_a_replica_stands_still() {
    let site = Site::start(Backend::Postgres);
    let (names, mut robots) = online(&site, 6);
    let dead = robots.split_off(3);
    let sweeper = sweeper(&site);
    let mut overdue = Vec::new();
    while_beating(&site, &robots, |orders| {
        orders.at.store(sweeper + 1, Relaxed);
        let apart = |robot| {
            thread::sleep(Duration::from_millis(1300));
            beat(&site, robot, sweeper).unwrap()
        };
        let heard: Vec<_> = dead.iter().map(apart).collect();
        site.servers[1 - sweeper].signal("-STOP");
        let moves = || {
            let rows = site.admin_at(sweeper).get("/api/v1/history?limit=1000").expect(200);
            let rows = rows["data"].as_array().unwrap().iter();
            rows.filter(|row| row["to_state"] == "stale").cloned().collect::<Vec<_>>()
        };
        until("the dead to be found", || moves().len() == dead.len());
        let found = moves();
        site.servers[1 - sweeper].signal("-CONT");
        for row in found {
            let number =
                names.iter().position(|name| satellite::get(&site, name)["id"] == row["resource_id"]);
            let found: Timestamp = row["created_at"].as_str().unwrap().parse().unwrap();
            overdue.push(found.duration_since(heard[number.unwrap() - robots.len()] + RULE));
        }
    });
    // By the servers' own times, as above.
    let (most, load) = (SignedDuration::from_secs(10), SignedDuration::from_secs(3));
    assert!(overdue.iter().any(|late| *late <= most), "found too late: {overdue:?}");
    assert!(overdue.iter().all(|late| *late <= most + load), "found too late: {overdue:?}");
    assert_eq!(moves_to_stale(&site).len(), dead.len(), "and nobody else");
}

/// Longer than it may keep the lease.
#[test]
fn a_sweeper_that_wakes_up_late_changes_nothing() {
    one_stands_still(|sweeper| sweeper, Duration::from_secs(22));
}

/// Members of one of two servers turn to the other one when it stops.
fn one_stands_still(which: impl Fn(usize) -> usize, long: Duration) {
    let site = Site::start_with(Backend::Postgres, &SETTINGS);
    let (names, mut robots) = online(&site, 12);
    let dead = robots.pop().unwrap();
    let stopped = which(sweeper(&site));
    while_beating(&site, &robots, |orders| {
        orders.at.store(stopped + 1, Relaxed);
        for _ in 0..3 {
            thread::sleep(Duration::from_secs(1));
            assert!(beat(&site, &dead, stopped).is_some());
        }
        site.servers[stopped].signal("-STOP");
        orders.at.store(2 - stopped, Relaxed);
        thread::sleep(long);
        site.servers[stopped].signal("-CONT");
        a_dead_one_is_found(&site, &names[11]);
        sweeper(&site);
        thread::sleep(Duration::from_secs(3));
    });
    let moves = moves_to_stale(&site);
    assert_eq!(moves.len(), 1, "only the dead one: {moves:#?}");
}

/// A transaction left open anywhere delays the feed but not liveness: a member that registers and dies is
/// found, and one that returns at a server that did not learn of its silence is online.
#[test]
fn silence_is_judged_while_the_feed_is_held_back() {
    let site = Site::start_with(Backend::Postgres, &SETTINGS);
    let (names, robots) = online(&site, 1);
    let other = 1 - sweeper(&site);
    let is = |name: &str, state: &str| satellite::get(&site, name)["status"] == state;
    site.database.hold("INSERT INTO meta (key, value) VALUES ('held', 'back')", || {
        let born = Robot::of(&satellite::ztr(&site, other, &satellite::create(&site, "born")));
        assert!(beat(&site, &born, other).is_some());
        until("both to be found", || is("born", "stale") && is(&names[0], "stale"));
        until("the one that beats to be online", || {
            assert!(beat(&site, &robots[0], other).is_some());
            is(&names[0], "online")
        });
        assert!(is("born", "stale"));
    });
}

/// The server is paused during a beat, and the others no longer count it when it continues: the beat might be
/// lost.
#[test]
fn a_beat_that_takes_too_long_is_refused() {
    let site = Site::alone(Backend::Postgres, &SETTINGS);
    let (names, robots) = online(&site, 1);
    until("it to be stale", || satellite::get(&site, &names[0])["status"] == "stale");
    let (done, answered) = mpsc::channel::<()>();
    let answer = thread::scope(|scope| {
        // The beat that brings it back is written down.
        let beat = site.database.hold("LOCK TABLE resources IN EXCLUSIVE MODE", || {
            let api = robots[0].at(&site, 0).within(Duration::from_secs(30));
            let beat = scope.spawn(move || api.try_send("POST", "/satellites/sync", b"").unwrap());
            let waits =
                "SELECT count(*)::text FROM pg_locks WHERE NOT granted AND relation = 'resources'::regclass";
            until("the beat to wait", || site.database.text(waits) != "0");
            site.servers[0].signal("-STOP");
            let database = &site.database;
            let lock = "LOCK TABLE leases IN EXCLUSIVE MODE";
            scope.spawn(move || database.hold(lock, move || answered.recv()).unwrap());
            beat
        });
        // Longer than its presence.
        thread::sleep(Duration::from_secs(8));
        site.servers[0].signal("-CONT");
        let answer = beat.join().unwrap();
        done.send(()).unwrap();
        answer
    });
    let told = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert_eq!(answer.status, 503, "the beat may be lost");
    assert!(told.contains("cannot be shared with the other servers"), "{told}");
    until("it to be taken again", || beat(&site, &robots[0], 0).is_some());
}

/// A client starts with its own interval, and gets a shorter one with its first beat.
fn a_first_beat_may_come_at_the_clients_own_interval(on: Backend) {
    let site = Site::start_with(
        on,
        &[&SETTINGS[..], &[("WARDROOM_LIVENESS_DEFAULT_INTERVAL_SECONDS", "20")]].concat(),
    );
    let create = json!({"name": "edge", "heartbeat_interval": INTERVAL});
    let made = site.admin().post("/api/satellites", &create).expect(200);
    let robot = Robot::of(&satellite::ztr(&site, 0, made["token"].as_str().unwrap()));
    thread::sleep(LONG);
    let edge = satellite::get(&site, "edge");
    assert_eq!((&edge["status"], &edge["interval_in_force"]), (&json!("online"), &json!("@every 00h00m20s")));
    // From then on it is held to the given and reported interval.
    let other = sweeper(&site) + 1;
    for _ in 0..2 {
        assert!(beat(&site, &robot, other).is_some());
        thread::sleep(Duration::from_secs(1));
    }
    until("it to be missed", || satellite::get(&site, "edge")["status"] == "stale");
    assert_eq!(satellite::get(&site, "edge")["interval_in_force"], INTERVAL);
}

fn a_restart_does_not_count_as_silence(on: Backend) {
    let mut site = Site::start_with(on, &SETTINGS);
    let (names, robots) = online(&site, 5);
    // Once as it should be, once as a power cut would.
    for kill in [false, true] {
        for server in &mut site.servers {
            if kill {
                server.kill();
            } else {
                server.terminate();
                assert!(server.wait().success());
            }
        }
        thread::sleep(LONG);
        for index in 0..site.servers.len() {
            site.restart(index);
        }
        // Members are loaded while requests are answered already.
        until("what was heard before is known", || satellite::get(&site, &names[0])["last_seen"].is_string());
        // They beat when it is time to, not when the servers are back.
        thread::sleep(Duration::from_secs(2));
        while_beating(&site, &robots, |_| thread::sleep(LONG));
        assert_eq!(moves_to_stale(&site), [Value::Null; 0]);
    }
}

/// As the real client does when it samples its processor for an interval before it sends: a new connection for each
/// beat, twice the interval between them, and nothing that is answered changes that.
fn a_client_that_beats_half_as_often_stays_online(on: Backend) {
    let site = Site::start(on);
    let (names, robots) = online(&site, 3);
    let late = |turn: usize| {
        thread::sleep(Duration::from_secs(4));
        robots
            .iter()
            .enumerate()
            .map(|(number, robot)| send_beat(&site, robot, turn + number).unwrap().status)
            .collect::<Vec<_>>()
    };
    // Ten intervals, and each time at another server.
    for turn in 0..5 {
        assert_eq!(late(turn), [200; 3]);
    }
    assert_eq!(moves_to_stale(&site), [Value::Null; 0]);
    // One is refused and keeps beating; the beats of others still count.
    satellite::revoke(&site, &names[0]);
    assert_eq!(late(5), [403, 200, 200]);
    satellite::reenable(&site, &names[0], "keep");
    assert_eq!(late(6), [200; 3]);
    assert_eq!(satellite::get(&site, &names[0])["status"], "online");
    assert_eq!(moves_to_stale(&site), [Value::Null; 0]);
}

fn reports_of_a_satellite_survive_a_restart(on: Backend) {
    let mut site = Site::start_with(on, &SETTINGS);
    let robot = satellite::online(&site, "edge");
    let image = json!({"reference": "registry/library/alpine:3", "size_bytes": 352});
    let said =
        json!({"activity": "replicating", "image_count": 1, "cpu_percent": 2.5, "cached_images": [image]});
    robot.at(&site, 0).post("/satellites/sync", &said).expect(200);
    let shown = |site: &Site, index: usize| {
        let shown = site.admin_at(index).get("/api/satellites/edge").expect(200)["data"]["reported"].clone();
        let listed = site.admin_at(index).get("/api/satellites").expect(200)["data"][0]["reported"].clone();
        assert_eq!(shown, listed);
        ["activity", "image_count", "cpu_percent", "cached_images"]
            .iter()
            .all(|field| shown[*field] == said[*field])
    };
    for index in 0..site.servers.len() {
        until("every server to know what was said", || shown(&site, index));
    }
    for kill in [true, false] {
        // Once after it was written down, once as it is written at the end.
        if kill {
            let written =
                || site.admin_at(0).get("/api/v1/liveness").expect(200)["data"]["flush"]["at"].clone();
            let before = written();
            until("two flushes", || written() != before);
            let before = written();
            until("two flushes", || written() != before);
        } else {
            let more =
                json!({"activity": "idle", "image_count": 1, "cpu_percent": 2.5, "cached_images": [image]});
            robot.at(&site, 0).post("/satellites/sync", &more).expect(200);
        }
        for server in &mut site.servers {
            if kill {
                server.kill();
            } else {
                server.terminate();
                assert!(server.wait().success());
            }
        }
        for index in 0..site.servers.len() {
            site.restart(index);
        }
        for index in 0..site.servers.len() {
            if kill {
                assert!(shown(&site, index));
            } else {
                assert_eq!(satellite::get(&site, "edge")["reported"]["activity"], "idle");
            }
        }
    }
}
