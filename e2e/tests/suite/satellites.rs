//! Satellites: every row of the reply table, all ways to return, final deletion, and the fields a real client needs.

use serde_json::{Value, json};

use crate::support::{
    Backend, Site, on_both,
    satellite::{Robot, create, get, online, reenable, revoke, ztr},
    wait_for,
};

on_both! {
    a_satellite_registers_and_beats,
    every_state_has_its_reply,
    a_stale_satellite_is_online_again_before_it_is_answered,
    a_silent_satellite_goes_stale_and_returns,
    a_revoked_satellite_refreshes_once,
    a_reissued_satellite_needs_its_new_token,
    a_kept_credential_comes_back_with_a_beat,
    the_deleted_never_come_back,
    a_lost_answer_can_be_asked_for_again,
    tokens_expire_and_are_told_apart_as_little_as_possible,
    reports_of_a_satellite_are_tolerated_within_limits,
    lists_hide_the_deleted_and_show_the_revoked,
    join_tokens_are_checked_and_need_spire,
    why_names_the_blockers,
}

/// Expectations of the satellite's own client: C1 all four parts of a registration, C2 a state URL with its name in it,
/// C3 a beat with or without a body is answered by exactly 200, C5 the name in its body does not count.
fn a_satellite_registers_and_beats(on: Backend) {
    let site = Site::start(on);
    let create =
        json!({"name": "edge-01", "labels": {"zone": "berlin"}, "heartbeat_interval": "@every 1m30s"});
    let made = site.admin().post("/api/satellites", &create).expect(200);
    assert_eq!(made["data"]["heartbeat_interval"], "@every 00h01m30s");
    let token = made["token"].as_str().unwrap();
    site.admin().post("/api/satellites", &create).problem(409);

    let reply = ztr(&site, 0, token);
    let registered = reply.expect(200);
    let robot = Robot::of(&reply);
    let state = registered["state"].as_str().unwrap();
    assert!(state.starts_with("http://") && state.contains("/satellite-state/edge-01/"), "{state}");
    assert!(registered["auth"]["url"].as_str().is_some_and(|url| !url.is_empty() && state.starts_with(url)));
    assert!(!robot.password.is_empty());
    assert_eq!(robot.username, "robot$edge-01");
    assert_eq!(get(&site, "edge-01")["status"], "online");

    for index in 0..2 {
        let said = json!({
            "name": "another", "activity": "", "state_report_interval": "@every 00h00m03s",
            "latest_state_digest": "", "memory_used_bytes": 5, "cpu_percent": 0.5, "image_count": 1,
            "request_created_time": "2020-01-01T00:00:00Z", "from_the_future": {"a": [1]},
            "cached_images": [{"reference": "host/repo:tag@sha256:00", "size_bytes": 352}],
        });
        let reply = robot.at(&site, index).post("/satellites/sync", &said);
        let beat = reply.expect(200);
        assert!(reply.header("warning").unwrap().contains("from_the_future"));
        assert_eq!(beat["state"], "online");
        assert!(beat["next_interval"].as_str().unwrap().starts_with("@every "), "{beat}");
        assert!(beat["server_time"].as_str().unwrap().ends_with('Z'), "{beat}");
        assert_eq!(beat.get("events"), None);
        // An unreadable number is dropped and the beat counts; only the field that sets the deadline must be valid.
        let odd = json!({"image_count": -1, "cpu_percent": 0.5});
        let reply = robot.at(&site, index).post("/satellites/sync", &odd);
        assert_eq!(reply.expect(200)["state"], "online");
        assert!(reply.header("warning").unwrap().contains("could not be read: image_count"), "{reply:?}");
        let wrong = json!({"state_report_interval": 5, "image_count": 1});
        assert_eq!(
            robot.at(&site, index).post("/satellites/sync", &wrong).wrong_fields(),
            ["state_report_interval"]
        );
        // The body is optional, and so is its type.
        robot.at(&site, index).send("POST", "/satellites/sync", b"").expect(200);
    }
    let satellite = site.admin_at(0).get("/api/satellites/edge-01").expect(200)["data"].clone();
    assert!(satellite["last_seen"].is_string(), "{satellite}");
    assert_eq!(
        satellite["reported"]["state_report_interval"], "@every 00h00m03s",
        "an empty beat says nothing new"
    );
    assert_eq!(site.admin().get("/api/v1/summary").expect(200)["data"]["kinds"]["satellite"]["online"], 1);

    let id = satellite["id"].as_str().unwrap();
    let rows = site.admin().get(&format!("/api/v1/history?kind=satellite&id={id}")).expect(200);
    let moves: Vec<_> = rows["data"].as_array().unwrap().iter().map(|row| &row["to_state"]).collect();
    assert_eq!(moves, ["online", "pending"], "a beat is no change: {rows}");
    assert_eq!(rows["data"][0]["triggered_by"], "agent_report");
}

fn every_state_has_its_reply(on: Backend) {
    let site = Site::start(on);
    // A stranger, a wrong secret and a satellite that never registered.
    create(&site, "fresh");
    let robot = online(&site, "edge");
    for index in 0..2 {
        for (username, password) in [
            ("robot$nobody", "Wr1x"),
            ("robot$edge", "Wr1x"),
            ("robot$fresh", "Wr1x"),
            ("edge", "x"),
            ("", ""),
        ] {
            let stranger = Robot { username: username.to_owned(), password: password.to_owned() };
            let reply = stranger.beat(&site, index);
            reply.problem(401);
            assert!(reply.header("www-authenticate").unwrap().starts_with("Basic"));
        }
        site.caller(index, Some(&site.token)).post("/satellites/sync", &json!({})).problem(401);
        site.caller(index, None).post("/satellites/sync", &json!({})).problem(401);
        robot.beat(&site, index).expect(200);
    }
    revoke(&site, "edge");
    for index in 0..2 {
        assert_eq!(robot.beat(&site, index).problem(403)["code"], "revoked");
        assert_eq!(robot.refresh(&site, index).problem(403)["code"], "revoked");
    }
    // Again is no error, and changes nothing.
    let sequence = get(&site, "edge")["updated_at"].clone();
    revoke(&site, "edge");
    assert_eq!(get(&site, "edge")["updated_at"], sequence);

    assert_eq!(reenable(&site, "edge", "refresh")["data"]["refresh_required"], true);
    for index in 0..2 {
        let told = wait_for("the refresh directive", || {
            let reply = robot.beat(&site, index);
            (reply.status == 200).then(|| reply.json())
        });
        assert_eq!(told["state"], "pending");
        assert_eq!(told["events"], json!(["refresh_credentials"]));
        assert_eq!(told["actions"], json!(["refresh_credentials"]));
        assert!(told["refresh"]["url"].as_str().unwrap().ends_with("/satellites/refresh"), "{told}");
    }
    site.admin().delete("/api/satellites/edge").expect(200);
    for index in 0..2 {
        robot.beat(&site, index).problem(401);
        robot.refresh(&site, index).problem(401);
    }
}

fn a_stale_satellite_is_online_again_before_it_is_answered(on: Backend) {
    let mut site = Site::start(on);
    let robot = online(&site, "edge");
    site.database.execute("UPDATE resources SET state = 'stale' WHERE kind = 'satellite'").unwrap();
    for index in 0..site.servers.len() {
        site.servers[index].kill();
        site.restart(index);
    }
    assert_eq!(get(&site, "edge")["status"], "stale");
    assert_eq!(site.admin().get("/api/satellites/stale").expect(200)["data"][0]["name"], "edge");
    assert_eq!(robot.beat(&site, 1).expect(200)["state"], "online");
    for index in 0..2 {
        let satellite = site.admin_at(index).get("/api/satellites/edge").expect(200);
        assert_eq!(satellite["data"]["status"], "online");
    }
    let id = get(&site, "edge")["id"].as_str().unwrap().to_owned();
    let rows = site.admin().get(&format!("/api/v1/history?kind=satellite&id={id}")).expect(200);
    let newest = &rows["data"][0];
    assert_eq!((&newest["from_state"], &newest["to_state"]), (&json!("stale"), &json!("online")));
}

fn a_silent_satellite_goes_stale_and_returns(on: Backend) {
    let settings = [
        ("WARDROOM_LIVENESS_GRACE_SECONDS", "1"),
        ("WARDROOM_LIVENESS_FLUSH_SECONDS_SHARED", "1"),
        ("WARDROOM_LIVENESS_DEFAULT_INTERVAL_SECONDS", "1"),
    ];
    let site = Site::start_with(on, &settings);
    let made = json!({"name": "edge", "heartbeat_interval": "@every 1s"});
    let token = site.admin().post("/api/satellites", &made).expect(200)["token"].as_str().unwrap().to_owned();
    let robot = Robot::of(&ztr(&site, 0, &token));
    wait_for("its silence to be noticed", || (get(&site, "edge")["status"] == "stale").then_some(()));
    assert_eq!(get(&site, "edge")["interval_in_force"], "@every 00h00m01s");
    let why = site.admin().get("/api/v1/resources/satellite/edge/why").expect(200)["data"][0].to_string();
    assert!(why.contains("Last heard 20") && why.contains("held to @every 00h00m01s"), "{why}");
    assert!(why.contains("check its host"), "{why}");
    for index in 0..2 {
        // Each server has learned of it, and accepts its return with a beat that is durable before it is
        // answered.
        let back = wait_for("the way back", || {
            let reply = robot.beat(&site, index).expect(200);
            (get(&site, "edge")["status"] == "online").then_some(reply)
        });
        assert_eq!(back["state"], "online");
        if index == 0 {
            wait_for("its silence to be noticed", || (get(&site, "edge")["status"] == "stale").then_some(()));
        }
    }
    let id = get(&site, "edge")["id"].as_str().unwrap().to_owned();
    let rows = site.admin().get(&format!("/api/v1/history?kind=satellite&id={id}")).expect(200);
    let rows = rows["data"].as_array().unwrap();
    let stale: Vec<_> = rows.iter().filter(|row| row["to_state"] == "stale").collect();
    assert!(stale.len() >= 2, "{rows:?}");
    assert!(stale.iter().all(|row| row["triggered_by"] == "system"), "{rows:?}");
}

fn a_revoked_satellite_refreshes_once(on: Backend) {
    let site = Site::start(on);
    let old = online(&site, "edge");
    site.admin().post("/api/satellites/edge/reenable", &json!({})).problem(409);
    revoke(&site, "edge");
    reenable(&site, "edge", "refresh");
    // Again is no error.
    reenable(&site, "edge", "refresh");
    let reply = wait_for("the refresh", || Some(old.refresh(&site, 0)).filter(|reply| reply.status == 200));
    let new = Robot::of(&reply);
    assert_ne!(new.password, old.password);
    assert_eq!(get(&site, "edge")["status"], "online");
    // A caller that lost the answer asks again and learns the result.
    let told =
        wait_for("the old credential", || Some(old.beat(&site, 1)).filter(|reply| reply.status == 200));
    assert_eq!(told.json()["events"], json!(["refresh_credentials"]));
    assert_eq!(Robot::of(&old.refresh(&site, 1)), new);
    // The first use of the new one ends that.
    for index in 0..2 {
        assert_eq!(new.beat(&site, index).expect(200).get("events"), None);
    }
    for index in 0..2 {
        wait_for("the end of the old credential", || (old.beat(&site, index).status == 401).then_some(()));
        old.refresh(&site, index).problem(401);
        new.beat(&site, index).expect(200);
    }
    // A satellite that is revoked during an exchange may show either credential and gets 403.
    revoke(&site, "edge");
    reenable(&site, "edge", "refresh");
    let newest = wait_for("the refresh", || Some(new.refresh(&site, 1)).filter(|reply| reply.status == 200));
    let newest = Robot::of(&newest);
    revoke(&site, "edge");
    for index in 0..2 {
        new.beat(&site, index).problem(403);
        newest.beat(&site, index).problem(403);
    }
}

fn a_reissued_satellite_needs_its_new_token(on: Backend) {
    let site = Site::start(on);
    let old = online(&site, "edge");
    revoke(&site, "edge");
    let reissued = reenable(&site, "edge", "reissue");
    let first = reissued["token"].as_str().unwrap().to_owned();
    for index in 0..2 {
        old.beat(&site, index).problem(401);
        old.refresh(&site, index).problem(401);
    }
    // A token that was lost is replaced, and void.
    let second = reenable(&site, "edge", "reissue")["token"].as_str().unwrap().to_owned();
    assert_eq!(ztr(&site, 0, &first).problem(400)["code"], "token_unknown");
    let new = Robot::of(&ztr(&site, 1, &second));
    assert_ne!(new.password, old.password);
    for index in 0..2 {
        new.beat(&site, index).expect(200);
        old.beat(&site, index).problem(401);
    }
    // A satellite without a credential cannot return by `refresh`.
    revoke(&site, "edge");
    reenable(&site, "edge", "reissue");
    let refused =
        site.admin().post("/api/satellites/edge/reenable", &json!({"mode": "refresh"})).problem(409);
    assert_eq!(refused["allowed_actions"][0]["body"], json!({"mode": "reissue"}));
    let wrong = site.admin().post("/api/satellites/edge/reenable", &json!({"mode": "trust"}));
    assert_eq!(wrong.wrong_fields(), ["mode"]);
}

fn a_kept_credential_comes_back_with_a_beat(on: Backend) {
    let site = Site::start(on);
    let robot = online(&site, "edge");
    revoke(&site, "edge");
    assert_eq!(reenable(&site, "edge", "keep")["data"]["status"], "pending");
    let beat = wait_for("the way back", || Some(robot.beat(&site, 1)).filter(|reply| reply.status == 200));
    assert_eq!(beat.json()["state"], "online");
    assert_eq!(beat.json().get("events"), None);
    for index in 0..2 {
        robot.beat(&site, index).expect(200);
    }
    let id = get(&site, "edge")["id"].as_str().unwrap().to_owned();
    let newest =
        site.admin().get(&format!("/api/v1/history?kind=satellite&id={id}")).expect(200)["data"][0].clone();
    assert_eq!((&newest["to_state"], &newest["metadata"]["mode"]), (&json!("online"), &json!("keep")));
}

fn the_deleted_never_come_back(on: Backend) {
    let site = Site::start(on);
    let old = online(&site, "edge");
    let unused = create(&site, "unused");
    let id = get(&site, "edge")["id"].as_str().unwrap().to_owned();
    for name in ["edge", "unused"] {
        assert_eq!(
            site.admin().delete(&format!("/api/satellites/{name}")).expect(200)["data"]["deleted"],
            true
        );
        site.admin().get(&format!("/api/satellites/{name}")).problem(404);
        site.admin().delete(&format!("/api/satellites/{name}")).problem(404);
    }
    ztr(&site, 0, &unused).problem(400);
    for verb in ["revoke", "reenable"] {
        site.admin().post(&format!("/api/satellites/{id}/{verb}"), &json!({})).problem(404);
    }
    // Its name may be used again, by a satellite that is not it.
    let new = online(&site, "edge");
    assert_ne!(new.password, old.password);
    assert_ne!(get(&site, "edge")["id"], json!(id));
    for index in 0..2 {
        new.beat(&site, index).expect(200);
        old.beat(&site, index).problem(401);
    }
    let rows = site.admin().get(&format!("/api/v1/history?kind=satellite&id={id}")).expect(200);
    assert_eq!(rows["data"][0]["type"], "deleted", "history outlives it");
}

fn a_lost_answer_can_be_asked_for_again(on: Backend) {
    let site = Site::start(on);
    let token = create(&site, "edge");
    let keyed = |index: usize, key: &str| site.caller(index, None).with("idempotency-key", key);
    let path = format!("/satellites/ztr/{token}");
    let robot = Robot::of(&keyed(0, "mine").get(&path));
    // The same, on any server and in either form; no other caller may.
    for index in 0..2 {
        assert_eq!(Robot::of(&keyed(index, "mine").get(&path)), robot);
        assert_eq!(Robot::of(&keyed(index, "mine").post("/satellites/ztr", &json!({"token": token}))), robot);
        keyed(index, "another").get(&path).problem(400);
        site.caller(index, None).get(&path).problem(400);
    }
    revoke(&site, "edge");
    keyed(0, "mine").get(&path).problem(400);
    // Without a key there is nothing to repeat.
    let token = create(&site, "plain");
    ztr(&site, 0, &token).expect(200);
    ztr(&site, 0, &token).problem(400);
    keyed(1, "late").get(&format!("/satellites/ztr/{token}")).problem(400);
}

fn tokens_expire_and_are_told_apart_as_little_as_possible(on: Backend) {
    let mut site = Site::start(on);
    let token = create(&site, "edge");
    let unknown = ztr(&site, 0, "wrz_unknown").problem(400);
    ztr(&site, 0, &token).expect(200);
    let used = ztr(&site, 1, &token).problem(400);
    for field in ["code", "title", "detail"] {
        assert_eq!(unknown[field], used[field]);
    }
    site.caller(0, None).post("/satellites/ztr", &json!({})).problem(400);
    ztr(&site, 0, &"x".repeat(5000)).problem(400);

    let token = create(&site, "late");
    let past = "2020-01-01T00:00:00Z";
    let expire = format!(
        "UPDATE resources SET document = replace(document, '\"expires_at\":\"', '\"expires_at\":\"{past}\",\"was\":\"') \
         WHERE name = 'late'"
    );
    site.database.execute(&expire).unwrap();
    // A server does not notice changes made directly in the database.
    for index in 0..site.servers.len() {
        site.servers[index].kill();
        site.restart(index);
    }
    assert!(ztr(&site, 1, &token).problem(401)["detail"].as_str().unwrap().contains("expired"));
    assert_eq!(get(&site, "late")["status"], "pending");
}

fn reports_of_a_satellite_are_tolerated_within_limits(on: Backend) {
    let site = Site::start(on);
    let robot = online(&site, "edge");
    let said = |body: &Value| robot.at(&site, 0).post("/satellites/sync", body);
    for interval in ["30s", "@every", "@every -1s", "@every 500ms", "@daily", "@every 1000h"] {
        let wrong = said(&json!({"state_report_interval": interval}));
        assert_eq!(wrong.wrong_fields(), ["state_report_interval"], "{interval}");
    }
    said(&json!({"state_report_interval": ""})).expect(200);
    let image = json!({"reference": "r".repeat(100), "size_bytes": 1});
    said(&json!({"cached_images": vec![image.clone(); 400], "image_count": 400})).expect(200);
    let satellite = site.admin_at(0).get("/api/satellites/edge").expect(200)["data"].clone();
    assert_eq!(satellite["reported"]["image_count"], 400);
    assert_eq!(satellite["reported"]["cached_images"].as_array().unwrap().len(), 100);
    let large = said(&json!({"cached_images": vec![image.clone(); 1000]}));
    large.expect(200);
    assert!(large.header("warning").is_some(), "only the interval was read");
    said(&json!({"cached_images": vec![image; 10_000]})).problem(413);
    said(&json!({"cpu_percent": "much"})).expect(200);
    for name in ["", "A", "a--b", "-a", "a b", "active"] {
        let refused = site.admin().post("/api/satellites", &json!({"name": name}));
        assert_eq!(refused.wrong_fields(), ["name"], "{name:?}");
    }
    let refused = site.admin().post("/api/satellites", &json!({"name": "a", "heartbeat_interval": "30"}));
    assert_eq!(refused.wrong_fields(), ["heartbeat_interval"]);
    site.admin().post("/api/satellites", &json!({"name": "a", "color": "red"})).problem(400);
}

fn lists_hide_the_deleted_and_show_the_revoked(on: Backend) {
    let site = Site::start(on);
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let create = json!({"name": name, "labels": {"zone": zone}});
        site.admin().post("/api/satellites", &create).expect(200);
    }
    revoke(&site, "a");
    site.admin().delete("/api/satellites/b").expect(200);
    let names = |query: &str| {
        let page = site.admin().get(&format!("/api/satellites{query}")).expect(200);
        let names =
            page["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["a", "c"]);
    assert_eq!(names("?status=revoked"), ["a"]);
    assert_eq!(names("?labelSelector=zone%3Dx"), ["a"]);
    assert_eq!(names("?fieldSelector=name%3Dc"), ["c"]);
    assert_eq!(names("?deleted=true"), ["b"]);
    let page = site.admin().get("/api/satellites?limit=1").expect(200);
    let next = page["continue"].as_str().unwrap();
    assert_eq!(names(&format!("?limit=1&continue={next}")), ["c"]);
    site.admin().get("/api/satellites?status=asleep").problem(400);
    let (_, viewer) = site.new_token(&json!({"name": "v", "role": "viewer"}));
    site.caller(0, Some(&viewer)).get("/api/satellites?deleted=true").problem(403);
    let (_, auditor) = site.new_token(&json!({"name": "u", "role": "auditor"}));
    site.caller(0, Some(&auditor)).get("/api/satellites?deleted=true").expect(200);
}

fn join_tokens_are_checked_and_need_spire(on: Backend) {
    let site = Site::start(on);
    for path in ["/api/join-tokens", "/api/satellites/register"] {
        let post = |body: &Value| site.admin().post(path, body);
        let decent = json!({"satellite_name": "edge", "selectors": ["unix:uid:1000"]});
        assert_eq!(post(&decent).problem(503)["code"], "not_configured");
        assert_eq!(
            post(&json!({"satellite_name": "edge", "selectors": ["unix"]})).wrong_fields(),
            ["selectors[0]"]
        );
        let method = json!({"satellite_name": "edge", "selectors": ["a:b"], "attestation_method": "magic"});
        assert_eq!(post(&method).wrong_fields(), ["attestation_method"]);
    }
    site.admin().get("/api/satellites/edge").problem(404);
}

fn why_names_the_blockers(on: Backend) {
    let site = Site::start(on);
    create(&site, "edge");
    let why = || site.admin().get("/api/v1/resources/satellite/edge/why").expect(200)["data"][0].clone();
    let pending = why();
    assert_eq!(pending["state"], "pending");
    assert_eq!(pending["patience_ends"], get(&site, "edge")["token_expires_at"]);
    assert_eq!(pending["next"]["do"], "wait");
    site.database
        .execute("UPDATE resources SET document = replace(document, '\"expires_at\":\"', '\"expires_at\":\"2020-01-01T00:00:00Z\",\"was\":\"') WHERE kind = 'satellite'")
        .unwrap();
    let late = why();
    assert_eq!(late["overdue"], true);
    assert!(late["blockers"][0]["what"].as_str().unwrap().contains("expired"), "{late}");
    assert_eq!(late["next"]["body"]["mode"], "reissue", "{late}");
    revoke(&site, "edge");
    assert_eq!(why()["next"]["action"], "reenable");
}
