//! Revocations of devices against their requests: polls that are held, kept connections, resumed sessions.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::json;

use crate::support::{
    Backend, Site,
    device::{Device, open_token},
    on_both,
};

on_both! {
    no_device_is_answered_after_its_revocation,
    a_held_poll_ends_with_the_revocation,
}

/// How many revocations are raced: more under `./dev faults`.
fn rounds() -> usize {
    std::env::var("WARDROOM_RACE_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap())
}

/// From the acknowledged revocation on, no request gets 200 or 204, over connections that were open before.
fn no_device_is_answered_after_its_revocation(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    for round in 0..rounds() {
        let device = Device::enrolled(&site, &token);
        device.poll(&site, round, None).expect(200);
        let revoked = AtomicBool::new(false);
        thread::scope(|scope| {
            for index in 0..4 {
                let (site, device, revoked) = (&site, &device, &revoked);
                scope.spawn(move || {
                    loop {
                        let was = revoked.load(Ordering::SeqCst);
                        let reply = match index % 2 {
                            0 => device.poll(site, index / 2, None),
                            _ => device.report(
                                site,
                                index / 2,
                                &json!({"systemInfo": {"n": index.to_string()}}),
                            ),
                        };
                        if was {
                            reply.problem(403);
                            return;
                        }
                        assert!(matches!(reply.status, 200 | 204 | 403), "{}", reply.status);
                    }
                });
            }
            thread::sleep(Duration::from_millis(30));
            let path = format!("/api/v1/devices/{}/revoke", device.name);
            site.admin_at(round).post(&path, &json!({"comment": "stolen"})).expect(200);
            revoked.store(true, Ordering::SeqCst);
        });
        // Nor over a new connection, which the TLS library may resume.
        for index in 0..2 {
            device.poll(&site, index, None).problem(403);
            let csr = json!({"csr": device.csr()});
            device.own(&site, index, Method::POST, "certificate", Some(&csr)).problem(403);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "when a poll ends is what is measured")]
fn a_held_poll_ends_with_the_revocation(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let device = Device::enrolled(&site, &token);
    device.poll(&site, 0, None).expect(200);
    thread::scope(|scope| {
        let polls: Vec<_> = (0..2)
            .map(|index| {
                let (site, device) = (&site, &device);
                scope.spawn(move || (device.poll(site, index, Some("0")), Instant::now()))
            })
            .collect();
        thread::sleep(Duration::from_millis(500));
        site.admin_at(1).post(&format!("/api/v1/devices/{}/revoke", device.name), &json!({})).expect(200);
        let revoked = Instant::now();
        for poll in polls {
            let (reply, answered) = poll.join().unwrap();
            reply.problem(403);
            assert!(answered < revoked + Duration::from_secs(2), "it was held on");
        }
    });
}
