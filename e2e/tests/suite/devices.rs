//! Devices: enrolment, polls, reports, what operators do, and what stays after a kill.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use rcgen::{CertificateParams, KeyPair};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Backend, Site,
    device::{Device, open_token, statuses, token},
    on_both, wait_for, wait_long_for,
};

on_both! {
    a_device_is_enrolled_by_a_person,
    a_token_is_for_as_many_devices_as_it_says,
    a_request_proves_its_key,
    a_device_gets_its_own_record_only,
    a_poll_is_held_until_there_is_something_new,
    statuses_follow_from_reports,
    a_silent_device_is_offline_and_right_again_with_its_first_request,
    a_certificate_is_renewed,
    a_decommissioned_device_stays_out_of_service,
    a_denied_or_deleted_device_waits_for_a_person,
    all_survives_a_kill,
    nonsense_is_refused,
    a_large_report_is_taken,
}

fn device_of(site: &Site, name: &str) -> Value {
    site.admin().get(&format!("/api/v1/devices/{name}")).expect(200)
}

fn a_device_is_enrolled_by_a_person(on: Backend) {
    let site = Site::start(on);
    let token = token(&site, &json!({"name": "site", "labels": {"site": "berlin", "tier": "token"}}));
    let mut device = Device::new(&site);
    let own = json!({"rack": "r1", "tier": "own", "site": "elsewhere"});
    let asked = device.ask(&site, 0, &token, &own).expect(201);
    assert_eq!(asked["metadata"]["labels"], json!({"rack": "r1", "tier": "token", "site": "berlin"}));
    assert_eq!(
        device.ask(&site, 1, &token, &own).expect(200)["metadata"]["name"],
        json!(device.name),
        "a repeat"
    );
    site.admin().get(&format!("/api/v1/devices/{}", device.name)).problem(404);
    let path = format!("/api/v1/enrollmentrequests/{}", device.name);
    let (_, installer) = site.new_token(&json!({"name": "installer", "role": "installer"}));
    let approval = json!({"approved": true, "labels": {"tier": "person"}, "comment": "on its shelf"});
    for _ in 0..2 {
        site.caller(0, Some(&installer)).put(&format!("{path}/approval"), &approval).expect(200);
    }
    device.take_certificate(&site, &token);
    let shown = device_of(&site, &device.name);
    assert_eq!(shown["metadata"]["labels"], json!({"rack": "r1", "tier": "person", "site": "berlin"}));
    assert_eq!(statuses(&shown), ["Offline", "Unknown", "Unknown", "Enrolled"]);
    device.poll(&site, 1, None).expect(200);
    assert_eq!(device.statuses(&site)[0], "Online");
    // The secret is in no answer and in no record but the first one.
    for path in ["enrollmenttokens", "enrollmentrequests", "devices", "history?limit=100"] {
        assert!(!site.admin().get(&format!("/api/v1/{path}")).text().contains(&token), "{path}");
    }
    site.admin().put(&format!("{path}/approval"), &json!({"approved": false})).problem(409);
}

fn a_token_is_for_as_many_devices_as_it_says(on: Backend) {
    let site = Site::start(on);
    let token = token(&site, &json!({"name": "two", "uses": 2, "autoApprove": true}));
    let devices: Vec<_> = (0..6).map(|_| Device::new(&site)).collect();
    let replies = thread::scope(|scope| {
        let asking: Vec<_> = devices
            .iter()
            .enumerate()
            .map(|(index, device)| {
                let (site, token) = (&site, &token);
                scope.spawn(move || device.ask(site, index, token, &json!({})).status)
            })
            .collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
    });
    let count = |status| replies.iter().filter(|reply| **reply == status).count();
    assert_eq!((count(201), count(409)), (2, 4), "{replies:?}");
    let list = site.admin().get("/api/v1/devices").expect(200);
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    site.admin().delete("/api/v1/enrollmenttokens/two").expect(200);
    devices[0].ask(&site, 0, &token, &json!({})).problem(401);
}

fn a_request_proves_its_key(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let [device, other] = [(); 2].map(|()| Device::new(&site));
    let post =
        |body: &Value| device.with_token(&site, 0, &token, Method::POST, "enrollmentrequests", Some(body));
    let mut named = device.request(&json!({}));
    named["metadata"]["name"] = json!(other.name);
    post(&named).problem(400);
    // The request of another key, under its own name: the signature of this key is not over it.
    let mut asked = CertificateParams::new(vec!["admin".to_owned()]).unwrap();
    asked.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let csr = asked.serialize_request(&device.key).unwrap().pem().unwrap();
    let broken = csr.replacen("MI", "MJ", 1);
    for csr in
        [broken.as_str(), "", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----"]
    {
        post(&json!({"metadata": {"name": device.name}, "spec": {"csr": csr}})).problem(400);
    }
    assert_eq!(site.admin().get("/api/v1/enrollmentrequests").expect(200)["items"], json!([]));
    let made = post(&json!({"metadata": {"name": device.name}, "spec": {"csr": csr}})).expect(201);
    let pem = made["status"]["certificate"].as_str().unwrap();
    assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 2, "its own, and that of the authority");
}

fn a_device_gets_its_own_record_only(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let [device, other] = [(); 2].map(|()| Device::enrolled(&site, &token));
    let report = json!({"status": {}});
    let csr = json!({"csr": device.csr()});
    for (method, path, body) in [
        (Method::GET, "rendered", None),
        (Method::PUT, "status", Some(&report)),
        (Method::POST, "certificate", Some(&csr)),
    ] {
        for name in [&other.name, "nothing"] {
            device.of(&site, 0, method.clone(), name, path, body).problem(403);
        }
    }
    // Its certificate is worth nothing for people's routes, and those are not on its listener.
    assert_eq!(device.of(&site, 0, Method::GET, &device.name, "", None).status, 404);
    // A certificate of another authority, and one with the right name that the server did not issue.
    let stranger = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["x".to_owned()]).unwrap().self_signed(&stranger).unwrap();
    let mut forged = Device::new(&site);
    forged.key = stranger;
    forged.use_certificate(&own.pem());
    assert!(forged.try_of(&site, 0, Method::GET, &device.name, "rendered", None).is_err());
    // With an enrolment token nothing but requests is read.
    let other_token = self::token(&site, &json!({"name": "other"}));
    let path = format!("enrollmentrequests/{}", device.name);
    device.with_token(&site, 0, &other_token, Method::GET, &path, None).problem(403);
    device
        .with_token(&site, 0, &token, Method::GET, &format!("devices/{}/rendered", device.name), None)
        .problem(401);
}

#[expect(clippy::disallowed_methods, reason = "how long a poll is held is what is measured")]
fn a_poll_is_held_until_there_is_something_new(on: Backend) {
    let site = Site::start_with(
        on,
        &[("WARDROOM_DEVICES_POLL_SECONDS", "4"), ("WARDROOM_SERVER_REQUEST_TIMEOUT_SECONDS", "2")],
    );
    let token = open_token(&site);
    let device = Device::enrolled(&site, &token);
    let path = format!("/api/v1/devices/{}", device.name);
    device.poll(&site, 0, None).expect(200);
    let began = Instant::now();
    assert_eq!(device.poll(&site, 0, Some("0")).status, 204);
    let held = began.elapsed();
    assert!(Duration::from_millis(3900) < held && held < Duration::from_secs(8), "{held:?}");
    let spec = |content: &str| json!({"spec": {"config": [{"name": "motd", "inline": [{"path": "/etc/motd", "content": content}]}]}});
    for (index, version) in [(0, "1"), (1, "2")] {
        let known = (index).to_string();
        let (reply, took) = thread::scope(|scope| {
            let polling = scope.spawn(|| {
                let reply = device.poll(&site, 1, Some(&known));
                (reply, Instant::now())
            });
            thread::sleep(Duration::from_millis(500));
            site.admin_at(0).put(&path, &spec(version)).expect(200);
            let changed = Instant::now();
            let (reply, answered) = polling.join().unwrap();
            (reply, answered.duration_since(changed))
        });
        let found = reply.expect(200);
        assert_eq!(found["metadata"]["annotations"]["renderedVersion"], json!(version));
        assert_eq!(found["spec"]["config"][0]["inline"][0]["content"], json!(version));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    // The same spec makes no new version, and labels make none.
    let mut same = spec("2");
    same["metadata"] = json!({"labels": {"site": "berlin"}});
    let kept = site.admin().put(&path, &same).expect(200);
    assert_eq!(kept["metadata"]["annotations"]["renderedVersion"], json!("2"));
    // A version that is not known here is another one.
    device.poll(&site, 0, Some("7")).expect(200);
    device.poll(&site, 0, Some("nonsense")).expect(200);
    // A reboot ends the poll of an agent that knows of such.
    let reboots = thread::scope(|scope| {
        let polling = scope.spawn(|| {
            device.own(&site, 0, Method::GET, "rendered?knownRenderedVersion=2&knownReboots=0", None)
        });
        thread::sleep(Duration::from_millis(300));
        site.admin_at(1).post(&format!("{path}/actions/reboot"), &json!({"comment": "stuck"})).expect(200);
        polling.join().unwrap().expect(200)
    });
    assert_eq!(reboots["metadata"]["annotations"]["rebootsRequested"], json!("1"));
}

/// Reports and the statuses that they lead to, through HTTP: summary, updated, applications.
fn statuses_follow_from_reports(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let device = Device::enrolled(&site, &token);
    let updating =
        |status: &str, reason: &str| json!([{"type": "Updating", "status": status, "reason": reason}]);
    let rebooting = json!([{"type": "Rebooting", "status": "True"}]);
    let well = json!({"cpu": "Healthy", "memory": "Healthy", "disk": "Healthy"});
    let apps = |states: &[&str]| {
        let named = states.iter().enumerate();
        named.map(|(at, state)| json!({"name": format!("app-{at}"), "status": state})).collect::<Vec<_>>()
    };
    let cases = [
        (json!({}), ["Online", "UpToDate", "Healthy"]),
        (json!({"resources": well}), ["Online", "UpToDate", "Healthy"]),
        (json!({"resources": {"cpu": "Degraded"}}), ["Degraded", "UpToDate", "Healthy"]),
        (json!({"resources": {"disk": "Warning"}}), ["Degraded", "UpToDate", "Healthy"]),
        (json!({"resources": {"disk": "Warning", "cpu": "Critical"}}), ["Error", "UpToDate", "Healthy"]),
        (json!({"resources": {"memory": "Error"}}), ["Error", "UpToDate", "Healthy"]),
        (json!({"resources": {"memory": "Unheard"}}), ["Online", "UpToDate", "Healthy"]),
        (
            json!({"resources": {"memory": "Error"}, "conditions": rebooting}),
            ["Rebooting", "UpToDate", "Healthy"],
        ),
        (json!({"conditions": updating("True", "Preparing")}), ["Online", "Updating", "Healthy"]),
        (json!({"conditions": updating("True", "Rebooting")}), ["Rebooting", "Updating", "Healthy"]),
        (json!({"conditions": updating("False", "Updated")}), ["Online", "UpToDate", "Healthy"]),
        (json!({"config": {"renderedVersion": "1"}}), ["Online", "OutOfDate", "Healthy"]),
        (json!({"applications": apps(&["Running", "Completed"])}), ["Online", "UpToDate", "Healthy"]),
        (json!({"applications": apps(&["Running", "Starting"])}), ["Online", "UpToDate", "Degraded"]),
        (json!({"applications": apps(&["Preparing", "Novel"])}), ["Online", "UpToDate", "Degraded"]),
        (json!({"applications": apps(&["Starting", "Error"])}), ["Online", "UpToDate", "Error"]),
    ];
    for (index, (report, expected)) in cases.iter().enumerate() {
        assert_eq!(device.report(&site, index, report).status, 204, "{report}");
        let found = device.statuses(&site);
        assert_eq!(found[..3], *expected, "{report}");
        // Record, list, filter and summary agree.
        let [summary, updated, apps, lifecycle] = &found;
        let all = format!(
            "status.summary.status={summary},status.updated.status={updated},status.applicationSummary.status={apps},\
             status.lifecycle.status={lifecycle}"
        );
        let listed = site.admin().get(&format!("/api/v1/devices?fieldSelector={all}")).expect(200);
        assert_eq!(statuses(&listed["items"][0]), found, "{report}");
        let counts = site.admin().get("/api/v1/summary").expect(200);
        assert_eq!(counts["data"]["kinds"]["device"], json!({summary: 1}), "{report}");
        let other = if summary == "Online" { "Error" } else { "Online" };
        let others = site.admin().get(&format!("/api/v1/devices?fieldSelector=status.summary={other}"));
        assert_eq!(others.expect(200)["items"], json!([]), "{report}");
    }
    let why = site.admin().get(&format!("/api/v1/resources/device/{}/why", device.name)).expect(200);
    assert_eq!(why["data"][2]["state"], json!("Error"));
    assert!(why["data"][2]["blockers"][0]["what"].is_string(), "{why}");
    let history = site.admin().get(&format!("/api/v1/history?kind=device&id={}", device.name)).expect(200);
    let rows = history["data"].as_array().unwrap();
    let moved: BTreeSet<_> = rows.iter().filter_map(|row| row["to_state"].as_str()).collect();
    assert_eq!(moved, BTreeSet::from(["Offline", "Online", "Degraded", "Error", "Rebooting"]), "{history}");
}

fn a_silent_device_is_offline_and_right_again_with_its_first_request(on: Backend) {
    let site = Site::start_with(
        on,
        &[
            ("WARDROOM_DEVICES_INTERVAL_SECONDS", "1"),
            ("WARDROOM_DEVICES_DISCONNECTION_SECONDS", "3"),
            ("WARDROOM_LIVENESS_GRACE_SECONDS", "1"),
        ],
    );
    let token = open_token(&site);
    let device = Device::enrolled(&site, &token);
    let report = json!({
        "resources": {"cpu": "Degraded"}, "applications": [{"name": "web", "status": "Running"}],
        "conditions": [{"type": "Updating", "status": "True", "reason": "Preparing"}],
    });
    device.report(&site, 0, &report);
    assert_eq!(device.statuses(&site), ["Degraded", "Updating", "Healthy", "Enrolled"]);
    let lost = ["Offline", "Unknown", "Unknown", "Enrolled"];
    wait_long_for("the device to be lost", || (device.statuses(&site) == lost).then_some(()));
    let offline = site.admin().get("/api/v1/devices?fieldSelector=status.updated.status=Unknown").expect(200);
    assert_eq!(statuses(&offline["items"][0]), lost);
    // Servers learn of the loss from each other within a second.
    thread::sleep(Duration::from_millis(1500));
    // A poll is enough: the report from before counts again.
    device.poll(&site, 1, None).expect(200);
    assert_eq!(device.statuses(&site), ["Degraded", "Updating", "Healthy", "Enrolled"]);
    let history = site.admin().get(&format!("/api/v1/history?kind=device&id={}", device.name)).expect(200);
    let rows = history["data"].as_array().unwrap();
    let moved =
        |from: &str, to: &str| rows.iter().any(|row| row["from_state"] == from && row["to_state"] == to);
    assert!(moved("Degraded", "Offline") && moved("Offline", "Degraded"), "{history}");
}

fn a_certificate_is_renewed(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_DEVICES_CERTIFICATE_MINUTES", "1")]);
    let token = open_token(&site);
    let mut device = Device::enrolled(&site, &token);
    let csr = json!({"csr": device.csr()});
    let renew = |device: &Device, index| {
        let renewed = device.own(&site, index, Method::POST, "certificate", Some(&csr)).expect(200);
        renewed["certificate"].as_str().unwrap().to_owned()
    };
    // The answer is lost: the certificate from before counts still, and that of the lost answer does not.
    let lost = renew(&device, 0);
    let new = renew(&device, 1);
    device.poll(&site, 0, None).expect(200);
    let over = device.connected_anew(&lost);
    let lost_at = |index: usize| {
        let address = &site.servers[index % site.servers.len()].device_address;
        let url = format!("https://{address}/api/v1/devices/{}/rendered", device.name);
        crate::support::device::send(over.get(url)).unwrap().status
    };
    assert_eq!(lost_at(1), 401, "the server that renewed it again");
    // Other servers learn of that from it.
    wait_for("the lost certificate to be refused", || (lost_at(0) == 401).then_some(()));
    device.use_certificate(&new);
    device.poll(&site, 1, None).expect(200);
    let other = KeyPair::generate().unwrap();
    let csr = CertificateParams::new(Vec::new()).unwrap().serialize_request(&other).unwrap().pem().unwrap();
    device.own(&site, 0, Method::POST, "certificate", Some(&json!({"csr": csr}))).problem(400);
}

fn a_decommissioned_device_stays_out_of_service(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let device = Device::enrolled(&site, &token);
    let path = format!("/api/v1/devices/{}", device.name);
    device.report(&site, 0, &json!({}));
    let told = thread::scope(|scope| {
        let polling = scope.spawn(|| device.poll(&site, 0, Some("0")));
        thread::sleep(Duration::from_millis(300));
        site.admin().put(&format!("{path}/decommission"), &json!({"comment": "sold"})).expect(200);
        polling.join().unwrap().expect(200)
    });
    assert_eq!(told["spec"]["decommissioning"], json!({"target": "Unenroll"}));
    assert_eq!(device.statuses(&site)[3], "Decommissioning");
    for reply in [
        site.admin().put(&path, &json!({"spec": {"os": {"image": "x"}}})),
        site.admin().put(&path, &json!({"metadata": {"labels": {"a": "b"}}, "spec": {}})),
        site.admin().post(&format!("{path}/actions/reboot"), &json!({})),
        device.own(&site, 0, Method::POST, "certificate", Some(&json!({"csr": device.csr()}))),
    ] {
        reply.problem(409);
    }
    let reason = |reason: &str| json!({"conditions": [{"type": "DeviceDecommissioning", "status": "True", "reason": reason}]});
    for (said, lifecycle) in [
        ("Started", "Decommissioning"),
        ("Completed", "Decommissioned"),
        // It never goes back, whatever comes later.
        ("Started", "Decommissioned"),
    ] {
        device.report(&site, 0, &reason(said));
        assert_eq!(device.statuses(&site)[3], lifecycle, "{said}");
    }
    site.admin().put(&format!("{path}/decommission"), &json!({})).expect(200);
    // It asks again, with a token that approves: its request from before is all it gets.
    device.ask(&site, 0, &token, &json!({})).expect(200);
    let approval = format!("/api/v1/enrollmentrequests/{}/approval", device.name);
    site.admin().put(&approval, &json!({"approved": true})).problem(409);
    // A device that is dead is finished by a person, and what it has left does not count.
    let dead = Device::enrolled(&site, &token);
    let finish = json!({"finish": true, "comment": "in the sea"});
    let finished =
        site.admin().put(&format!("/api/v1/devices/{}/decommission", dead.name), &finish).expect(200);
    assert_eq!(statuses(&finished)[3], "Decommissioned");
    dead.poll(&site, 0, None).problem(401);
}

fn a_denied_or_deleted_device_waits_for_a_person(on: Backend) {
    let site = Site::start(on);
    let by_hand = token(&site, &json!({"name": "by-hand"}));
    let open = open_token(&site);
    let device = Device::new(&site);
    device.ask(&site, 0, &by_hand, &json!({})).expect(201);
    let path = format!("/api/v1/enrollmentrequests/{}", device.name);
    site.admin()
        .put(&format!("{path}/approval"), &json!({"approved": false, "comment": "not ours"}))
        .expect(200);
    let denied = device.ask(&site, 0, &by_hand, &json!({})).expect(200);
    assert_eq!(denied["status"]["conditions"][0]["type"], json!("Denied"));
    device.ask(&site, 0, &open, &json!({})).problem(409);
    site.admin().delete(&path).expect(200);
    let again = device.ask(&site, 0, &open, &json!({})).expect(201);
    assert_eq!(again["status"]["certificate"], Value::Null, "the token does not approve it");

    let deleted = Device::enrolled(&site, &open);
    deleted.poll(&site, 0, None).expect(200);
    site.admin().delete(&format!("/api/v1/devices/{}", deleted.name)).expect(200);
    for index in 0..2 {
        deleted.poll(&site, index, None).problem(401);
    }
    let again = deleted.ask(&site, 0, &open, &json!({})).expect(201);
    assert_eq!(again["status"]["certificate"], Value::Null, "nor this one");
    let path = format!("/api/v1/enrollmentrequests/{}/approval", deleted.name);
    site.admin().put(&path, &json!({"approved": true})).expect(200);
    deleted.poll(&site, 0, None).problem(401);
    assert_eq!(deleted.statuses(&site)[3], "Enrolled", "with a new certificate");
}

fn all_survives_a_kill(on: Backend) {
    let mut site = Site::start(on);
    let token = open_token(&site);
    let [mut device, revoked] = [(); 2].map(|()| Device::enrolled(&site, &token));
    let report = json!({"resources": {"cpu": "Critical"}, "config": {"renderedVersion": "3"}});
    device.report(&site, 0, &report);
    site.admin()
        .put(&format!("/api/v1/devices/{}", device.name), &json!({"spec": {"os": {"image": "a:1"}}}))
        .expect(200);
    site.admin().post(&format!("/api/v1/devices/{}/revoke", revoked.name), &json!({})).expect(200);
    for index in 0..site.servers.len() {
        site.servers[index].kill();
    }
    for index in 0..site.servers.len() {
        site.restart(index);
    }
    device.take_certificate(&site, &token);
    let polled = device.poll(&site, 0, Some("3")).expect(200);
    assert_eq!(polled["spec"]["os"]["image"], json!("a:1"));
    assert_eq!(device.statuses(&site), ["Error", "OutOfDate", "Healthy", "Enrolled"]);
    for index in 0..2 {
        revoked.poll(&site, index, None).problem(403);
    }
    // Approving again gives it another certificate; the one from before stays void.
    let approval = format!("/api/v1/enrollmentrequests/{}/approval", revoked.name);
    site.admin().put(&approval, &json!({"approved": true})).expect(200);
    wait_for("the certificate from before to be void", || {
        (revoked.poll(&site, 0, None).status == 401).then_some(())
    });
    let mut back = revoked;
    back.take_certificate(&site, &token);
    back.poll(&site, 1, None).expect(200);
}

/// Hostile reports, requests, selectors, patches and paths: an answer that names the mistake, and no failure.
fn nonsense_is_refused(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let device = Device::enrolled(&site, &token);
    let long = "x".repeat(3000);
    let many: Vec<_> = (0..600).map(|at| json!({"name": format!("a{at}"), "status": "Running"})).collect();
    for report in [
        json!("well"),
        json!({"conditions": 1}),
        json!({"conditions": [{"type": "Updating"}]}),
        json!({"conditions": [{"type": "Updating", "status": "Maybe"}]}),
        json!({"conditions": [{"type": "A", "status": "True"}, {"type": "A", "status": "False"}]}),
        json!({"applications": [{"name": "a", "status": "Running"}, {"name": "a", "status": "Error"}]}),
        json!({"applications": [{"name": "", "status": "Running"}]}),
        json!({"applications": many}),
        json!({"systemInfo": {"a": "b\u{0}"}}),
        json!({"config": {"renderedVersion": 7}}),
        json!({"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "yesterday"}]}),
    ] {
        device.report(&site, 0, &report).problem(400);
    }
    assert_eq!(device.report(&site, 0, &json!({"systemInfo": {"a": long}, "later": {"b": [1]}})).status, 204);
    let path = format!("/api/v1/devices/{}", device.name);
    for (given, status) in [
        (json!({"spec": {"config": [{"inline": [{"path": "/etc/../shadow", "content": ""}]}]}}), 400),
        (json!({"spec": {"config": [{"inline": [{"path": "etc/x", "content": ""}]}]}}), 400),
        (json!({"spec": {"config": [{"inline": [{"path": "/x"}, {"path": "/x"}]}]}}), 400),
        (json!({"spec": {"colour": "red"}}), 400),
        (json!({"spec": {"decommissioning": {"target": "Unenroll"}}}), 400),
        (json!({"metadata": {"labels": {"a b": "c"}}}), 400),
        (json!({"metadata": {"name": "other"}}), 400),
        (json!({"metadata": {"resourceVersion": "99"}}), 412),
        (json!({"spec": 1}), 400),
    ] {
        site.admin().put(&path, &given).problem(status);
    }
    for patch in [
        json!({}),
        json!([{"op": "remove", "path": "/nothing"}]),
        json!([{"op": "replace", "path": "/metadata/name", "value": "x"}]),
        json!([{"op": "add", "path": "/spec/config", "value": 7}]),
        json!([{"op": "test", "path": "/kind", "value": "Node"}]),
        json!([{"op": "jump", "path": "/kind"}]),
    ] {
        site.admin().patch(&path, &patch).problem(400);
    }
    let doubling: Vec<_> =
        (0..40).map(|_| json!({"op": "copy", "from": "/metadata", "path": "/metadata/labels"})).collect();
    let doubled = site.admin().patch(&path, &json!(doubling));
    assert!((400..500).contains(&doubled.status), "{}", doubled.status);
    for selector in [
        "fieldSelector=status.summary=Unheard",
        "fieldSelector=colour=red",
        "fieldSelector=status.summary=Online,status.summary.status=Error",
        "labelSelector=a%20b",
        "labelSelector=a%20in%20(",
        "limit=0",
        "continue=x",
        "colour=red",
    ] {
        site.admin().get(&format!("/api/v1/devices?{selector}")).problem(400);
    }
    for name in ["..", "%2e%2e", "a%00b", "%ff", &long] {
        let reply = site.admin().get(&format!("/api/v1/devices/{name}"));
        assert!((400..500).contains(&reply.status), "{name}: {}", reply.status);
    }
    for create in [
        json!({"name": "Big"}),
        json!({"name": "a", "uses": 0}),
        json!({"name": "a", "minutes": 0}),
        json!({"name": "a", "labels": {"a b": "c"}}),
        json!({"name": "a", "colour": "red"}),
    ] {
        site.admin().post("/api/v1/enrollmenttokens", &create).problem(400);
    }
}

/// Up to 256 KiB, which many applications with long messages need.
fn a_large_report_is_taken(on: Backend) {
    let site = Site::start(on);
    let token = open_token(&site);
    let device = Device::enrolled(&site, &token);
    let apps = |count: usize| {
        let one = |at: usize| json!({"name": format!("app-{at}"), "status": "Running", "message": "x".repeat(2000)});
        json!({"applications": (0..count).map(one).collect::<Vec<_>>()})
    };
    assert_eq!(device.report(&site, 0, &apps(100)).status, 204);
    assert_eq!(device_of(&site, &device.name)["status"]["applications"].as_array().unwrap().len(), 100);
    device.report(&site, 0, &apps(200)).problem(413);
}
