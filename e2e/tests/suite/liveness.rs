//! Silence: nobody is charged for what the servers did not hear.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use serde_json::json;

use crate::support::{Backend, Site, on_both, satellite, satellite::Robot};

on_both! {
    a_restart_charges_nobody,
}

/// Short enough for a test, long enough for a busy machine.
const INTERVAL: &str = "@every 00h00m05s";
const SETTINGS: [(&str, &str); 2] =
    [("WARDROOM_LIVENESS_GRACE_SECONDS", "5"), ("WARDROOM_LIVENESS_FLUSH_SECONDS_SHARED", "1")];

/// Longer than the three beats that may be missed.
const LONG: Duration = Duration::from_secs(25);

fn beat(site: &Site, robot: &Robot, index: usize) -> u16 {
    let body = json!({"state_report_interval": INTERVAL}).to_string();
    let api = robot.at(site, index).with("content-type", "application/json");
    // A server that stands still answers nothing.
    api.try_send("POST", "/satellites/sync", body.as_bytes()).map_or(0, |reply| reply.status)
}

/// Everybody beats at any server until told to stop; what happens meanwhile is the test.
fn while_beating<T>(site: &Site, robots: &[Robot], then: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut index = 0;
            while !stop.load(Relaxed) {
                for robot in robots {
                    index += 1;
                    beat(site, robot, index);
                }
                thread::sleep(Duration::from_secs(1));
            }
        });
        let result = then();
        stop.store(true, Relaxed);
        result
    })
}

/// Waits for what takes longer than a moment.
fn until(what: &str, mut look: impl FnMut() -> bool) {
    for _ in 0..240 {
        if look() {
            return;
        }
        thread::sleep(Duration::from_millis(500));
    }
    panic!("waited in vain for {what}");
}

fn moves_to_stale(site: &Site) -> usize {
    let rows = site.admin().get("/api/v1/history?limit=1000").expect(200);
    rows["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["kind"] == "satellite" && row["to_state"] == "stale")
        .count()
}

fn a_restart_charges_nobody(on: Backend) {
    let mut site = Site::start_with(on, &SETTINGS);
    let names: Vec<_> = (0..5).map(|number| format!("sat-{number}")).collect();
    let robots: Vec<_> = names.iter().map(|name| satellite::online(&site, name)).collect();
    for robot in &robots {
        assert_eq!(beat(&site, robot, 0), 200);
    }
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
        while_beating(&site, &robots, || thread::sleep(LONG));
        assert_eq!(moves_to_stale(&site), 0);
    }
}
