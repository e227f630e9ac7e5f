//! No secret of a satellite is anywhere but in the answer that shows it: not in the database, logs, history or errors.

use std::fs;

use serde_json::json;

use crate::support::{
    Backend, Reply, Site, on_both,
    satellite::{Robot, create, online, reenable, revoke, ztr},
    wait_for,
};

on_both! {
    secrets_are_nowhere,
}

/// Every secret that was handed out in a full story, and every answer that has no business with one.
fn story(site: &Site) -> (Vec<String>, Vec<Reply>) {
    let mut answers: Vec<Reply> = Vec::new();

    let token = create(site, "edge");
    let keyed = site.caller(0, None).with("idempotency-key", "once");
    let robot = Robot::of(&keyed.get(&format!("/satellites/ztr/{token}")));
    Robot::of(&keyed.get(&format!("/satellites/ztr/{token}")));
    answers.push(ztr(site, 1, &token));
    let wrong = Robot { username: robot.username.clone(), password: format!("{}x", robot.password) };
    answers.extend([robot.beat(site, 0), wrong.beat(site, 1)]);
    revoke(site, "edge");
    answers.extend([robot.beat(site, 0), ztr(site, 0, &token)]);
    reenable(site, "edge", "refresh");
    let refreshed =
        wait_for("the refresh", || Some(robot.refresh(site, 1)).filter(|reply| reply.status == 200));
    let refreshed = Robot::of(&refreshed);
    answers.push(refreshed.beat(site, 0));
    revoke(site, "edge");
    let reissue = site.admin().with("idempotency-key", "reissue");
    let reissued = reissue.post("/api/satellites/edge/reenable", &json!({"mode": "reissue"})).expect(200);
    let second = reissued["token"].as_str().unwrap().to_owned();
    answers.push(reissue.post("/api/satellites/edge/reenable", &json!({"mode": "reissue"})));
    let by_body = site
        .caller(1, None)
        .with("idempotency-key", "twice")
        .post("/satellites/ztr", &json!({"token": second}));
    let last = Robot::of(&by_body);
    let unused =
        site.admin().with("idempotency-key", "create").post("/api/satellites", &json!({"name": "unused"}));
    let unused = unused.expect(200)["token"].as_str().unwrap().to_owned();
    let deleted = online(site, "gone");
    site.admin().delete("/api/satellites/gone").expect(200);
    answers.push(deleted.beat(site, 0));
    let secrets =
        vec![token, second, unused, robot.password, refreshed.password, last.password, deleted.password];

    for path in [
        "/api/satellites",
        "/api/satellites/edge",
        "/api/v1/history?limit=1000",
        "/api/v1/events?after=start&wait=0",
    ] {
        answers.push(site.admin().get(path));
    }
    (secrets, answers)
}

fn secrets_are_nowhere(on: Backend) {
    let mut site = Site::start_with(on, &[("WARDROOM_LOG_LEVEL", "trace")]);
    let (secrets, answers) = story(&site);
    for server in &mut site.servers {
        server.terminate();
        assert!(server.wait().success());
    }
    let mut places: Vec<(String, Vec<u8>)> = answers
        .into_iter()
        .enumerate()
        .map(|(number, reply)| (format!("answer {number}"), reply.body))
        .collect();
    places
        .extend((0..site.servers.len()).map(|index| (format!("log {index}"), site.log(index).into_bytes())));
    for index in 0..site.servers.len() {
        for entry in fs::read_dir(site.data_dir(index)).unwrap() {
            let path = entry.unwrap().path();
            places.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
        }
    }
    if on == Backend::Postgres {
        places.push(("the database".to_owned(), site.database.dump().into_bytes()));
    }
    assert!(
        places.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 20_000,
        "there was something to look at"
    );
    for secret in &secrets {
        assert!(secret.len() > 40, "{secret}");
        for (place, bytes) in &places {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "a secret is in {place}");
        }
    }
}
