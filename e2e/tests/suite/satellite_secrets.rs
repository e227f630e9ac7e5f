//! No secret of a satellite is anywhere but in the answer that shows it: not in the database, logs, history or errors.

use std::fs;

use serde_json::json;

use crate::support::{
    Backend, Reply, Site,
    fakes::{self, Fake},
    on_both,
    satellite::{Robot, create, reenable, revoke, ztr},
    wait_for, wait_long_for,
};

on_both! {
    secrets_are_nowhere,
    secrets_are_nowhere_beside_upstreams,
}

/// Repeats a request while it is answered with 503.
fn granted(ask: impl Fn() -> Reply) -> Reply {
    wait_for("the registry", || Some(ask()).filter(|reply| reply.status != 503))
}

/// Every secret that was handed out in a full story, and every answer that has no business with one.
fn story(site: &Site) -> (Vec<String>, Vec<Reply>) {
    let mut answers: Vec<Reply> = Vec::new();

    let token = create(site, "edge");
    let keyed = site.caller(0, None).with("idempotency-key", "once");
    let robot = Robot::of(&granted(|| keyed.get(&format!("/satellites/ztr/{token}"))));
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
    let twice = site.caller(1, None).with("idempotency-key", "twice");
    let last = Robot::of(&granted(|| twice.post("/satellites/ztr", &json!({"token": second}))));
    let unused =
        site.admin().with("idempotency-key", "create").post("/api/satellites", &json!({"name": "unused"}));
    let unused = unused.expect(200)["token"].as_str().unwrap().to_owned();
    let token_of_gone = create(site, "gone");
    let deleted = Robot::of(&granted(|| ztr(site, 1, &token_of_gone)));
    site.admin().delete("/api/satellites/gone").expect(200);
    answers.push(deleted.beat(site, 0));
    let mut secrets =
        vec![token, second, unused, robot.password, refreshed.password, last.password, deleted.password];
    secrets.extend(configure(site, &mut answers));
    (secrets, answers)
}

/// Gives a satellite settings with secrets of its site, changes some of them, and deletes another config.
fn configure(site: &Site, answers: &mut Vec<Reply>) -> Vec<String> {
    let secrets: Vec<_> =
        (0..4).map(|number| format!("{number}-a-secret-of-the-site-that-is-long-enough")).collect();
    let local = json!({"url": "http://127.0.0.1:8585", "username": "local", "password": secrets[0]});
    let config =
        json!({"app_config": {"local_registry": local}, "zot": {"http": {"auth": {"bind": secrets[1]}}}});
    let post =
        |path: &str, body: &serde_json::Value| site.admin().with("idempotency-key", path).post(path, body);
    answers.push(post("/api/configs", &json!({"config_name": "site", "config": config})));
    answers.push(post("/api/configs/satellite", &json!({"satellite": "edge", "config_name": "site"})));
    let change = json!({"config": {"app_config": {"local_registry": {"password": secrets[2]}}}});
    answers.push(site.admin().patch("/api/configs/site", &change));
    let gone = json!({"config_name": "gone", "config": {"tls": {"privateKey": secrets[3]}}});
    answers.push(site.admin().post("/api/configs", &gone));
    answers.push(site.admin().delete("/api/configs/gone"));
    assert!(answers.iter().rev().take(5).all(|reply| reply.status < 300), "configs are made");
    secrets
}

/// Everything that can be read of it.
fn readings(site: &Site) -> Vec<Reply> {
    let paths = [
        "/api/satellites",
        "/api/satellites?deleted=true",
        "/api/satellites/edge",
        "/api/satellites/edge/effects",
        "/api/configs",
        "/api/configs/site",
        "/metrics",
        "/api/v1/history?limit=1000",
        "/api/v1/events?continue=start&wait=0",
    ];
    paths.iter().map(|path| site.admin().get(path)).collect()
}

fn secrets_are_nowhere(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_LOG_LEVEL", "trace")]);
    let (secrets, mut answers) = story(&site);
    answers.extend(readings(&site));
    look_everywhere(on, site, &secrets, answers);
}

/// The same with robots in Harbor and identities in SPIRE, which answer, refuse, and are away.
fn secrets_are_nowhere_beside_upstreams(on: Backend) {
    let dir = tempfile::tempdir().unwrap();
    let (harbor, mut spire) = (Fake::harbor(dir.path()), Fake::spire(dir.path()));
    let mut settings = vec![("WARDROOM_LOG_LEVEL", "trace".to_owned())];
    settings.extend(fakes::settings(&harbor, dir.path()));
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let site = Site::start_with(on, &settings);
    let (mut secrets, mut answers) = story(&site);

    let wanted = json!({"satellite_name": "node", "selectors": ["unix:uid:1000"]});
    let made = site.admin().with("idempotency-key", "join").post("/api/join-tokens", &wanted).expect(200);
    let token = made["join_token"].as_str().unwrap().to_owned();
    wait_for("the join token", || spire.join(&token));
    answers.push(site.admin().with("idempotency-key", "join").post("/api/join-tokens", &wanted));
    spire.kill();
    revoke(&site, "node");
    wait_for("an error", || {
        let effects = site.admin().get("/api/satellites/node/effects");
        let is_shown = effects.text().contains("SPIRE");
        answers.push(effects);
        is_shown.then_some(())
    });
    spire.restart();
    wait_long_for("the ban", || (spire.count("agent.ban") > 0).then_some(()));
    let back = site.admin().post("/api/satellites/node/reenable", &json!({"mode": "reissue"})).expect(200);
    secrets.extend([token, back["join_token"].as_str().unwrap().to_owned(), fakes::PASSWORD.to_owned()]);
    answers.extend(readings(&site));
    assert!(harbor.count("robot.create") >= 2, "robots were made");
    look_everywhere(on, site, &secrets, answers);
}

fn look_everywhere(on: Backend, mut site: Site, secrets: &[String], answers: Vec<Reply>) {
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
    let places: Vec<_> =
        places.iter().map(|(place, bytes)| (place, String::from_utf8_lossy(bytes))).collect();
    assert!(
        places.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 20_000,
        "there was something to look at"
    );
    for secret in secrets {
        assert!(secret.len() >= 36, "{secret}");
        for (place, text) in &places {
            assert!(!text.contains(secret), "a secret is in {place}");
        }
    }
}
