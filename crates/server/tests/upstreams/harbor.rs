//! Robots in Harbor: created once, given their secrets, disabled, extended and deleted, also when Harbor
//! fails.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use reqwest::Method;
use serde_json::{Value, json};
use wardroom_fakes::{
    fault::Order,
    harbor::{Harbor, Options},
};

use crate::site::{Backend, DATABASE, Site, eventually, on_both, send};

on_both! {
    a_satellite_registers_with_the_robot_that_harbor_has,
    a_registration_waits_for_harbor_and_uses_nothing_up,
    a_revoked_satellite_is_refused_at_once_and_harbor_catches_up,
    a_lost_answer_creates_no_second_robot_and_repeats_no_update,
    a_hanging_call_delays_no_other,
    a_revocation_waits_for_no_failure_from_before,
    an_interrupted_effect_is_begun_again,
    effects_of_a_crashed_server_are_begun_again,
    a_robot_that_is_not_ours_is_left_alone,
    an_upstream_that_does_not_answer_is_left_alone,
    a_robot_that_is_there_is_adopted_where_that_is_allowed,
    a_name_that_is_given_again_gets_a_robot_of_its_own,
    projects_of_a_group_reach_the_robots_of_its_satellites,
    a_revoked_satellite_is_told_so_although_harbor_lost_its_robot,
}

/// Harbor chooses the prefix of robots' names; a satellite is recognised by that name on every server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_robot_is_known_everywhere_whatever_its_prefix() {
    DATABASE.scope(Backend::Postgres, known_everywhere()).await;
}

async fn known_everywhere() {
    for prefix in ["robot$", "robot$y-", "bot+"] {
        let options = Options { prefix: prefix.to_owned(), ..Options::default() };
        let harbor = Harbor::start(options).await.unwrap();
        let here = site(&harbor).await;
        let there = here.beside().await;
        // Of these two, one has the name that a robot of the other has, but for Harbor's part of it.
        for name in ["edge", "y-edge"] {
            let credential = here.register(&here.create(name, &[]).await).await;
            assert_eq!(credential.username, format!("{prefix}{name}"));
            for (site, which) in [(&there, "there"), (&here, "here")] {
                assert_eq!(site.beat(&credential).await, 200, "{} {which}", credential.username);
            }
        }
    }
}

/// Harbor is restored from before the satellite was made, or its robot was deleted there: the user that the
/// satellite shows is still its name.
async fn a_revoked_satellite_is_told_so_although_harbor_lost_its_robot() {
    for prefix in ["robot$", "bot+"] {
        let options = Options { prefix: prefix.to_owned(), ..Options::default() };
        let harbor = Harbor::start(options).await.unwrap();
        let site = site(&harbor).await;
        let edge = site.register(&site.create("edge", &[]).await).await;
        site.settled("edge", NO_REGISTRY).await;
        let id = robot(&harbor, "edge").unwrap()["id"].as_i64().unwrap();
        let gone = site.http.delete(format!("{}/api/v2.0/robots/{id}", harbor.url()));
        send(gone.basic_auth("admin", Some(PASSWORD))).await.expect(200);
        site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
        assert_eq!(site.beat(&edge).await, 403);
        site.settled("edge", NO_REGISTRY).await;
        assert_eq!(site.beat(&edge).await, 403, "{prefix}");

        // It returns with its credential, and with a robot.
        site.post("/api/satellites/edge/reenable", json!({"mode": "keep"})).await.expect(200);
        eventually("the way back", async || (site.beat(&edge).await == 200).then_some(())).await;
        site.settled("edge", NO_REGISTRY).await;
        let made = robot(&harbor, "edge").unwrap();
        assert_eq!((&made["secret"], &made["disable"]), (&json!(edge.password), &json!(false)));
    }
}

const PASSWORD: &str = "Harbor12345";

/// States go nowhere here: the fake is no registry.
const NO_REGISTRY: &[&str] = &["publish_state"];

async fn site(harbor: &Harbor) -> Site {
    site_with(harbor, "").await
}

async fn site_with(harbor: &Harbor, settings: &str) -> Site {
    Site::start(&sections(harbor, settings)).await
}

fn sections(harbor: &Harbor, settings: &str) -> String {
    let section =
        format!("[harbor]\nurl = {:?}\nusername = \"admin\"\npassword = {PASSWORD:?}\n", harbor.url());
    format!("{section}{settings}[registry]\nurl = \"http://127.0.0.1:9\"\n")
}

fn robot(harbor: &Harbor, name: &str) -> Option<Value> {
    let state = harbor.state();
    let robots = state["robots"].as_object().unwrap();
    robots.values().find(|robot| robot["name"] == name).cloned()
}

fn projects(robot: &Value) -> Vec<&str> {
    let permissions = robot["permissions"].as_array().unwrap().iter();
    permissions.map(|permission| permission["namespace"].as_str().unwrap()).collect()
}

async fn robot_with(harbor: &Harbor, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || robot(harbor, name).filter(|robot| is_so(robot))).await
}

fn always(on: &str, kind: &str) -> Order {
    Order { on: on.to_owned(), kind: kind.to_owned(), times: 10_000, delay_ms: 0 }
}

async fn a_satellite_registers_with_the_robot_that_harbor_has() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = site(&harbor).await;
    site.group("g", &["library/x"]).await;
    let token = site.create("edge", &["g"]).await;
    let edge = site.register(&token).await;
    let robot = robot(&harbor, "edge").unwrap();
    assert_eq!(edge.username, "robot$edge");
    assert_eq!(robot["secret"], edge.password.as_str());
    assert_eq!(robot["disable"], false);
    assert_eq!(projects(&robot), ["library", "satellite"]);
    assert_eq!(site.beat(&edge).await, 200);
    site.settled("edge", NO_REGISTRY).await;
    assert_eq!(harbor.faults().count("robot.create"), 1);
    assert_eq!(harbor.faults().count("robot.refresh"), 1);
    assert_eq!(harbor.state()["projects"]["satellite"]["is_public"], false);
}

async fn a_registration_waits_for_harbor_and_uses_nothing_up() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    harbor.faults().order(always("POST /robots", "503")).unwrap();
    let site = site(&harbor).await;
    let token = site.create("edge", &[]).await;
    eventually("the first attempt", async || {
        let effects = site.effects("edge").await;
        effects.iter().find(|(type_, progress, _)| type_ == "harbor_robot" && progress == "retrying").cloned()
    })
    .await;
    let ztr = || site.http.post(format!("{}/satellites/ztr", site.url)).json(&json!({"token": token}));
    let refused = ztr().send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    harbor.faults().clear();
    let edge = site.register(&token).await;
    assert_eq!(site.beat(&edge).await, 200);
}

async fn a_revoked_satellite_is_refused_at_once_and_harbor_catches_up() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = site(&harbor).await;
    site.group("g", &["library/x"]).await;
    let token = site.create("edge", &["g"]).await;
    let edge = site.register(&token).await;
    site.settled("edge", NO_REGISTRY).await;

    for call in ["GET /robots", "PUT /robots", "PATCH /robots"] {
        harbor.faults().order(always(call, "500")).unwrap();
    }
    site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    assert_eq!(site.beat(&edge).await, 403, "before Harbor was told");
    assert_eq!(robot(&harbor, "edge").unwrap()["disable"], false);
    let error = eventually("an error that is shown", async || {
        let effects = site.effects("edge").await;
        let failed =
            effects.into_iter().find(|(type_, _, error)| type_ == "harbor_robot" && !error.is_empty());
        failed.map(|(_, _, error)| error)
    });
    let error = error.await;
    assert!(error.contains("500"), "{error}");
    assert!(!error.contains(PASSWORD) && !error.contains(&edge.password), "{error}");

    harbor.faults().clear();
    robot_with(&harbor, "edge", "the robot to be disabled", |robot| robot["disable"] == true).await;

    // An edit of its group does not bring it back, and neither does a new one.
    site.group("g", &["library/x", "library/y"]).await;
    site.ask(Method::DELETE, "/api/groups/satellite", Some(json!({"satellite": "edge", "group": "g"})))
        .await
        .expect(200);
    site.settled("edge", NO_REGISTRY).await;
    assert_eq!(robot(&harbor, "edge").unwrap()["disable"], true);

    let secret = robot(&harbor, "edge").unwrap()["secret"].clone();
    site.post("/api/satellites/edge/reenable", json!({"mode": "reissue"})).await.expect(200);
    let back =
        robot_with(&harbor, "edge", "the robot to be enabled", |robot| robot["disable"] == false).await;
    assert_ne!(back["secret"], secret, "the old secret opens nothing");
    assert_eq!(projects(&back), ["satellite"]);
}

async fn a_lost_answer_creates_no_second_robot_and_repeats_no_update() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    harbor.faults().order(Order::once("POST /robots", "lost_reply")).unwrap();
    let site = site(&harbor).await;
    let token = site.create("edge", &[]).await;
    let edge = site.register(&token).await;
    site.settled("edge", NO_REGISTRY).await;
    assert_eq!(harbor.faults().count("robot.create"), 1);
    assert_eq!(robot(&harbor, "edge").unwrap()["secret"], edge.password.as_str());

    let updates = harbor.faults().count("robot.update");
    harbor.faults().order(Order::once("PUT /robots", "lost_reply")).unwrap();
    site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    site.settled("edge", NO_REGISTRY).await;
    assert_eq!(robot(&harbor, "edge").unwrap()["disable"], true);
    assert_eq!(harbor.faults().count("robot.update"), updates + 1);
}

/// A hanging call delays no other.
async fn a_hanging_call_delays_no_other() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    harbor.faults().order(Order::once("POST /robots", "hang")).unwrap();
    let site = site(&harbor).await;
    site.create("poison", &[]).await;
    eventually("the call that hangs", async || {
        let effects = site.effects("poison").await;
        let begun = |(type_, progress, _): &(String, String, String)| {
            type_ == "harbor_robot" && progress == "running"
        };
        effects.iter().any(begun).then_some(())
    })
    .await;
    for name in ["one", "two", "three"] {
        let token = site.create(name, &[]).await;
        site.register(&token).await;
    }
}

/// Repeated failures are retried less and less often. A revocation is a new effect, which is not delayed.
async fn a_revocation_waits_for_no_failure_from_before() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = site(&harbor).await;
    let token = site.create("edge", &[]).await;
    site.register(&token).await;
    site.settled("edge", NO_REGISTRY).await;
    harbor.faults().order(always("PUT /robots", "500")).unwrap();
    site.group("g", &["library/x"]).await;
    site.post("/api/groups/satellite", json!({"satellite": "edge", "group": "g"})).await.expect(200);
    let next = eventually("a failure that waits for long", async || {
        let effects = site.get("/api/satellites/edge/effects").await;
        let effects = effects["data"].as_array().unwrap();
        let is_it =
            |effect: &&Value| effect["type"] == "harbor_robot" && effect["attempts"].as_i64() >= Some(7);
        let next = effects.iter().find(is_it)?;
        next["next_attempt_at"].as_str().map(|time| time.parse::<jiff::Timestamp>().unwrap())
    })
    .await;
    harbor.faults().clear();
    site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    robot_with(&harbor, "edge", "a robot that is disabled", |robot| robot["disable"] == true).await;
    assert!(wardroom_server::platform::clock::Clock.now() < next, "it was told before that was due again");
}

/// A satellite whose revocation Harbor does not answer.
async fn revoking(harbor: &Harbor) -> Site {
    let site = site(harbor).await;
    let token = site.create("edge", &[]).await;
    site.register(&token).await;
    site.settled("edge", NO_REGISTRY).await;
    harbor.faults().order(Order::once("PUT /robots", "hang")).unwrap();
    site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    eventually("the call that hangs", async || {
        let effects = site.effects("edge").await;
        let begun = |(type_, progress, error): &(String, String, String)| {
            type_ == "harbor_robot" && progress == "running" && error.is_empty()
        };
        effects.iter().any(begun).then_some(())
    })
    .await;
    assert_eq!(robot(harbor, "edge").unwrap()["disable"], false);
    site
}

/// A stopping server waits only briefly for upstreams. The next one continues its effects at once.
async fn an_interrupted_effect_is_begun_again() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = revoking(&harbor).await.restart(&sections(&harbor, "")).await;
    site.settled("edge", NO_REGISTRY).await;
    assert_eq!(robot(&harbor, "edge").unwrap()["disable"], true);
}

/// Effects of a crashed server are continued by the next one: at once if there can be only one server,
/// otherwise when its claims expire, long before the time limit of an effect.
async fn effects_of_a_crashed_server_are_begun_again() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = revoking(&harbor).await.kill(&sections(&harbor, "")).await;
    site.settled("edge", NO_REGISTRY).await;
    assert_eq!(robot(&harbor, "edge").unwrap()["disable"], true);
}

/// Makes a robot without Wardroom, and gives its id.
async fn by_hand(harbor: &Harbor, site: &Site, name: &str, description: &str) -> i64 {
    let by_hand = json!({
        "name": name, "description": description, "level": "system", "duration": 1, "disable": true,
        "permissions": [{"kind": "project", "namespace": "library", "access": [{"resource": "repository", "action": "pull"}]}],
    });
    let made =
        site.http.post(format!("{}/api/v2.0/robots", harbor.url())).basic_auth("admin", Some(PASSWORD));
    send(made.json(&by_hand)).await.expect(201)["id"].as_i64().unwrap()
}

/// Neither a robot made by hand, nor one of another server.
async fn a_robot_that_is_not_ours_is_left_alone() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = site(&harbor).await;
    for (name, description) in [("edge", "by hand"), ("other", "satellite of Wardroom: somebody-elses")] {
        let id = by_hand(&harbor, &site, name, description).await;
        let before = robot(&harbor, name).unwrap();
        let token = site.create(name, &[]).await;
        let error = eventually("an error that says why", async || {
            let effects = site.effects(name).await;
            let failed = |progress: &str, error: &str| progress == "retrying" && !error.is_empty();
            effects
                .into_iter()
                .find(|(type_, progress, error)| type_ == "harbor_robot" && failed(progress, error))
        });
        let (_, _, error) = error.await;
        assert!(error.contains(&format!("robot${name}")) && error.contains("adopt_robots"), "{error}");
        // Also after changes of the satellite the robot is not ours.
        site.post(&format!("/api/satellites/{name}/revoke"), json!({})).await.expect(200);
        site.settled(name, NO_REGISTRY).await;
        let back = json!({"mode": "reissue"});
        let back = site.post(&format!("/api/satellites/{name}/reenable"), back).await.expect(200);
        assert_ne!(back["token"].as_str().unwrap(), token);
        assert_eq!(robot(&harbor, name).unwrap(), before);
        let gone = site.http.delete(format!("{}/api/v2.0/robots/{id}", harbor.url()));
        assert_eq!(gone.basic_auth("admin", Some(PASSWORD)).send().await.unwrap().status(), 200);
        let registered = site.register(back["token"].as_str().unwrap()).await;
        assert_eq!(robot(&harbor, name).unwrap()["secret"], registered.password.as_str());
    }
    by_hand(&harbor, &site, "third", "by hand").await;
    site.create("third", &[]).await;
    site.ask(Method::DELETE, "/api/satellites/third", None).await.expect(200);
    site.create("last", &[]).await;
    site.settled("last", NO_REGISTRY).await;
    assert_eq!(robot(&harbor, "third").unwrap()["description"], "by hand");
}

async fn a_robot_that_is_there_is_adopted_where_that_is_allowed() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = site_with(&harbor, "adopt_robots = true\n").await;
    by_hand(&harbor, &site, "edge", "by hand").await;
    let token = site.create("edge", &[]).await;
    let edge = site.register(&token).await;
    let robot = robot(&harbor, "edge").unwrap();
    assert_eq!(harbor.faults().count("robot.create"), 1, "none but the one by hand");
    assert_eq!(robot["secret"], edge.password.as_str());
    assert!(robot["duration"].as_i64().unwrap() >= 30, "{}", robot["duration"]);
    assert_eq!(projects(&robot), ["satellite"]);
}

async fn a_name_that_is_given_again_gets_a_robot_of_its_own() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = site(&harbor).await;
    let token = site.create("edge", &[]).await;
    let first = site.register(&token).await;
    site.settled("edge", NO_REGISTRY).await;
    // Harbor is away while one goes and the next comes.
    harbor.faults().order(always("GET /robots", "500")).unwrap();
    site.ask(Method::DELETE, "/api/satellites/edge", None).await.expect(200);
    let token = site.create("edge", &[]).await;
    harbor.faults().clear();
    let second = site.register(&token).await;
    assert_ne!(first.password, second.password);
    site.settled("edge", NO_REGISTRY).await;
    eventually("exactly one robot, the new one's", async || {
        let state = harbor.state();
        let robots = state["robots"].as_object().unwrap();
        let all: Vec<_> = robots.values().map(|robot| robot["secret"].clone()).collect();
        (all == [json!(second.password)]).then_some(())
    })
    .await;
    assert_eq!(site.beat(&first).await, 401);
    assert_eq!(site.beat(&second).await, 200);
}

async fn projects_of_a_group_reach_the_robots_of_its_satellites() {
    let harbor = Harbor::start(Options::default()).await.unwrap();
    let site = site(&harbor).await;
    site.group("g", &["library/x"]).await;
    let token = site.create("edge", &["g"]).await;
    site.register(&token).await;
    site.group("g", &["apps/x"]).await;
    eventually("an error that says why", async || {
        let effects = site.effects("edge").await;
        effects.iter().any(|(_, _, error)| error.contains("projects")).then_some(())
    })
    .await;
    let project = json!({"project_name": "apps", "metadata": {"public": "false"}});
    let made =
        site.http.post(format!("{}/api/v2.0/projects", harbor.url())).basic_auth("admin", Some(PASSWORD));
    assert_eq!(made.json(&project).send().await.unwrap().status(), 201);
    robot_with(&harbor, "edge", "the new project", |robot| projects(robot) == ["apps", "satellite"]).await;
}

/// Every effect is put off after few of them were tried: an upstream that hangs up is not asked by all.
async fn an_upstream_that_does_not_answer_is_left_alone() {
    const SATELLITES: usize = 60;
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", deaf.local_addr().unwrap());
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let hanging_up = tokio::spawn(async move {
        while deaf.accept().await.is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let section = format!("[harbor]\nurl = {url:?}\nusername = \"admin\"\npassword = {PASSWORD:?}\n");
    let site = Site::start(&format!("{section}[registry]\nurl = \"http://127.0.0.1:9\"\n")).await;
    for number in 0..SATELLITES {
        site.create(&format!("edge-{number}"), &[]).await;
    }
    let mut left_alone = 0;
    for number in 0..SATELLITES {
        let error = eventually("an effect that is put off", async || {
            let effects = site.effects(&format!("edge-{number}")).await;
            effects.into_iter().find(|(type_, _, error)| type_ == "harbor_robot" && !error.is_empty())
        });
        left_alone += usize::from(error.await.2.contains("not called for now"));
    }
    assert!(left_alone > SATELLITES / 2, "{left_alone} of {SATELLITES}");
    let calls = calls.load(Ordering::Relaxed);
    assert!((1..SATELLITES).contains(&calls), "{calls} calls for {SATELLITES} satellites");
    hanging_up.abort();
}
