//! Satellites beside a Harbor and a SPIRE server that are away, slow or back again, as processes of their own.

use serde_json::{Value, json};

use crate::support::{
    Backend, Site,
    fakes::{self, Fake},
    on_both,
    satellite::{Robot, create, reenable, revoke, ztr},
    wait_for, wait_long_for,
};

on_both! {
    a_revocation_bites_while_both_are_away,
    a_robot_is_extended_before_it_ends,
    an_upstream_that_hangs_holds_up_its_own_effects_only,
}

/// A site beside a Harbor and a SPIRE server.
struct World {
    site: Site,
    harbor: Fake,
    spire: Fake,
    _dir: tempfile::TempDir,
}

fn world(on: Backend, settings: &[(&str, &str)]) -> World {
    let dir = tempfile::tempdir().unwrap();
    let (harbor, spire) = (Fake::harbor(dir.path()), Fake::spire(dir.path()));
    let own = fakes::settings(&harbor, dir.path());
    let all = own.iter().map(|(name, value)| (*name, value.as_str())).chain(settings.iter().copied());
    World { site: Site::start_with(on, &all.collect::<Vec<_>>()), harbor, spire, _dir: dir }
}

impl World {
    fn effects(&self, name: &str) -> Vec<Value> {
        let effects = self.site.admin_at(1).get(&format!("/api/satellites/{name}/effects")).expect(200);
        effects["data"].as_array().unwrap().clone()
    }

    /// Effects of a type that are not done.
    fn open(&self, name: &str, effect_type: &str) -> Vec<Value> {
        let mut effects = self.effects(name);
        effects.retain(|effect| effect["type"] == effect_type && effect["progress"] != "done");
        effects
    }

    fn settle(&self, name: &str, effect_type: &str) {
        wait_for(&format!("{effect_type} of {name}"), || {
            self.open(name, effect_type).is_empty().then_some(())
        });
    }

    fn robot(&self, name: &str) -> Option<Value> {
        let state = self.harbor.state();
        state["robots"].as_object().unwrap().values().find(|robot| robot["name"] == name).cloned()
    }

    /// Registers a satellite as soon as Harbor has its robot.
    fn online(&self, name: &str) -> Robot {
        let token = create(&self.site, name);
        let reply =
            wait_for("its robot", || Some(ztr(&self.site, 0, &token)).filter(|reply| reply.status != 503));
        Robot::of(&reply)
    }

    fn number(&self, name: &str) -> f64 {
        self.site.admin().number(name)
    }
}

/// Harbor hangs and SPIRE is down: a revocation is acknowledged and holds on every server; its effects are
/// shown as pending, and done when both are back.
fn a_revocation_bites_while_both_are_away(on: Backend) {
    let mut world = world(on, &[]);
    let edge = world.online("edge");
    world.settle("edge", "harbor_robot");
    let wanted = json!({"satellite_name": "node", "selectors": ["unix:uid:1000"]});
    let made = world.site.admin().post("/api/join-tokens", &wanted).expect(200);
    let token = made["join_token"].as_str().unwrap().to_owned();
    let agent = wait_for("the join token", || world.spire.join(&token));
    world.settle("node", "spire_entry");

    world.harbor.signal("-STOP");
    world.spire.kill();
    for name in ["edge", "node"] {
        revoke(&world.site, name);
    }
    for index in 0..10 {
        edge.beat(&world.site, index).problem(403);
        edge.refresh(&world.site, index).problem(403);
    }
    for (name, effect_type) in [("edge", "harbor_robot"), ("node", "spire_entry")] {
        assert_eq!(world.open(name, effect_type).len(), 1, "{:?}", world.effects(name));
    }
    let error = wait_for("an error that is shown", || {
        world.open("node", "spire_entry")[0]["last_error"].as_str().map(str::to_owned)
    });
    assert!(error.starts_with("SPIRE") && !error.contains(&token), "{error}");
    wait_for("the numbers", || {
        let is_failing = world.number("wardroom_effects_failing{type=\"spire_entry\"}") > 0.0;
        let is_open = world.number("wardroom_effects_open{type=\"harbor_robot\"}") > 0.0;
        let oldest = world.number("wardroom_effects_oldest_seconds{type=\"harbor_robot\"}");
        (is_failing && is_open && oldest > 0.0).then_some(())
    });

    world.harbor.signal("-CONT");
    world.spire.restart();
    for (name, effect_type) in [("edge", "harbor_robot"), ("node", "spire_entry")] {
        let is_done = || world.open(name, effect_type).is_empty().then_some(());
        wait_long_for("what was left to do", is_done);
    }
    assert_eq!(world.robot("edge").unwrap()["disable"], true);
    let state = world.spire.state();
    assert_eq!(state["agents"][&agent]["banned"], true);
    assert_eq!(state["entries"], json!({}));
    edge.beat(&world.site, 0).problem(403);

    reenable(&world.site, "edge", "keep");
    wait_for("the way back", || (edge.beat(&world.site, 1).status == 200).then_some(()));
}

/// Due robots are found by their due time, not by reading every robot.
fn a_robot_is_extended_before_it_ends(on: Backend) {
    let mut world = world(on, &[("WARDROOM_HARBOR_ROBOT_DAYS", "2")]);
    for name in ["edge", "other", "revoked"] {
        world.online(name);
        world.settle(name, "harbor_robot");
        assert_eq!(world.robot(name).unwrap()["duration"], 2);
    }
    revoke(&world.site, "revoked");
    world.settle("revoked", "harbor_robot");
    let updates = world.harbor.count("robot.update");
    for server in &mut world.site.servers {
        server.kill();
    }
    let due =
        "UPDATE resources SET due_at = '2026-01-01T00:00:00.000000Z' WHERE kind = 'satellite' AND name = ";
    for name in ["edge", "revoked"] {
        world.site.database.execute(&format!("{due} '{name}' AND due_at IS NOT NULL")).unwrap();
    }
    world.site.set("WARDROOM_HARBOR_ROBOT_DAYS", "30");
    for index in 0..world.site.servers.len() {
        world.site.restart(index);
    }
    wait_for("a longer life", || (world.robot("edge").unwrap()["duration"].as_i64()? >= 30).then_some(()));
    world.settle("edge", "harbor_robot");
    if on == Backend::Postgres {
        let kept = world.site.database.count("SELECT 1 FROM leases WHERE name LIKE 'satellite/%'");
        assert_eq!(kept, 0, "what was seen to is not held on to");
    }
    for name in ["other", "revoked"] {
        assert_eq!(world.robot(name).unwrap()["duration"], 2, "{name} is not due");
    }
    assert_eq!(world.harbor.count("robot.update"), updates + 1);
    let edge = world.site.admin().get("/api/satellites/edge").expect(200);
    assert_eq!(edge["data"]["status"], "online");
}

/// Harbor hangs at more effects than are performed at once; effects for SPIRE do not wait for that.
fn an_upstream_that_hangs_holds_up_its_own_effects_only(on: Backend) {
    let world = world(on, &[]);
    world.harbor.signal("-STOP");
    let names: Vec<_> = (0..50).map(|number| format!("edge-{number}")).collect();
    names.iter().for_each(|name| drop(create(&world.site, name)));
    let begun = || names.iter().filter(|name| world.open(name, "harbor_robot")[0]["attempts"] != 0).count();
    wait_for("calls that hang", || (begun() >= 16).then_some(()));
    let wanted = json!({"satellite_name": "node", "selectors": ["unix:uid:1000"]});
    let made = world.site.admin().post("/api/join-tokens", &wanted).expect(200);
    let token = made["join_token"].as_str().unwrap();
    wait_long_for("the join token", || world.spire.join(token));
    world.settle("node", "spire_entry");
    for name in &names {
        let waiting = &world.open(name, "harbor_robot")[0];
        assert_eq!(
            waiting["last_error"],
            Value::Null,
            "Harbor was given up on before SPIRE was told: {waiting}"
        );
    }
    world.harbor.signal("-CONT");
}

/// A server performs only effects that it is configured for; effects finished long ago are forgotten.
#[test]
fn effects_go_to_servers_that_can_perform_them() {
    let mut world = world(Backend::Postgres, &[]);
    world.site.servers[1].kill();
    world.site.set("WARDROOM_HARBOR_URL", "");
    world.site.restart(1);
    let names: Vec<_> = (0..20).map(|number| format!("edge-{number}")).collect();
    for name in &names {
        world.site.admin_at(0).post("/api/satellites", &json!({"name": name})).expect(200);
    }
    for name in &names {
        world.settle(name, "harbor_robot");
        let effects = world.effects(name);
        let robot = effects.iter().find(|effect| effect["type"] == "harbor_robot").unwrap();
        assert_eq!(robot["attempts"], 1, "{robot}");
    }

    // The server that takes a change may have no Harbor: the record shows that there is a robot.
    world.site.admin_at(1).post("/api/satellites/edge-1/revoke", &json!({})).expect(200);
    wait_for("the robot to be disabled", || (world.robot("edge-1")?["disable"] == true).then_some(()));

    // An effect that no server can perform says so, and is not attempted.
    world.site.servers[0].kill();
    let waiting = world.open("edge-0", "publish_state");
    assert_eq!(waiting.len(), 1, "the fake is no registry");
    let told = world.site.admin_at(1).post("/api/satellites", &json!({"name": "late"})).expect(200);
    assert_eq!(told["data"]["status"], "pending");
    let open = "INSERT INTO effects (kind, resource_id, sequence, type, payload, created_at) SELECT kind, id, version, \
                'harbor_robot', '{}', '2026-01-01T00:00:00.000000Z' FROM resources WHERE name = 'late'";
    world.site.database.execute(open).unwrap();
    let late = &world.open("late", "harbor_robot")[0];
    assert_eq!((&late["progress"], &late["attempts"]), (&json!("pending"), &json!(0)));
    assert!(late["last_error"].as_str().unwrap().contains("not configured here"), "{late}");

    // Old effects go, but for the last of each type.
    let old = "UPDATE effects SET done_at = '2026-01-01T00:00:00.000000Z' WHERE done_at IS NOT NULL; \
               INSERT INTO effects (kind, resource_id, sequence, type, payload, created_at, done_at) SELECT kind, id, \
               version, 'harbor_robot', '{}', created_at, '2026-01-01T00:00:00.000000Z' FROM resources, \
               generate_series(1, 200) WHERE name = 'edge-0'";
    world.site.database.execute(old).unwrap();
    world.site.servers[1].kill();
    world.site.restart(1);
    let done = "SELECT 1 FROM effects WHERE type = 'harbor_robot' AND done_at IS NOT NULL";
    wait_for("old effects to be forgotten", || {
        (world.site.database.count(done) == names.len()).then_some(())
    });
}
