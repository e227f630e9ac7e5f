//! GPU nodes that are bootstrapped by hand: their agents, their runs, and operator actions.

use serde_json::{Value, json};

use crate::support::{Api, Backend, Reply, Site, at_once, on_both, wait_for};

on_both! {
    a_node_lives_from_bootstrap_to_removal,
    a_token_enrols_one_agent_once,
    a_dead_host_is_retired_and_removed,
    a_drain_survives_its_server,
    a_drain_can_be_stopped_and_resumed_by_many,
    a_node_that_is_not_clean_is_quarantined,
    a_run_says_what_to_do_next,
}

/// A node with requests of its agent and operators.
struct Node<'a> {
    site: &'a Site,
    id: String,
    credential: String,
}

fn announce(site: &Site, name: &str) -> (String, String) {
    let made = site.admin().post("/api/v1/gpu-nodes", &json!({"hostname": name})).expect(201);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    assert_eq!(made["data"]["status"], "bootstrap_issued");
    (text(&made["data"]["id"]), text(&made["data"]["token"]))
}

fn enroll(site: &Site, server: usize, token: &str) -> Reply {
    site.caller(server, None).post("/api/v1/gpu-nodes/enroll", &json!({"token": token}))
}

impl<'a> Node<'a> {
    fn active(site: &'a Site, name: &str) -> Self {
        let (id, token) = announce(site, name);
        let enrolled = enroll(site, 1, &token).expect(200);
        assert_eq!(enrolled["node"], id);
        let node = Self { site, id, credential: enrolled["credential"].as_str().unwrap().to_owned() };
        assert_eq!(node.state(), "enrolling");
        assert_eq!(node.beat(true)["status"], "enrolling");
        node.becomes("active");
        node
    }

    fn agent(&self) -> Api {
        self.site.caller(0, Some(&self.credential))
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/v1/gpu-nodes/{}{rest}", self.id)
    }

    fn beat(&self, healthy: bool) -> Value {
        self.agent()
            .post(&self.path("/heartbeat"), &json!({"checks": [{"name": "all", "ok": healthy}]}))
            .expect(200)
    }

    fn state(&self) -> String {
        let node = self.site.admin().get(&self.path("")).expect(200);
        node["data"]["status"].as_str().unwrap().to_owned()
    }

    fn becomes(&self, state: &str) {
        wait_for(&format!("the node to become {state}"), || (self.state() == state).then_some(()));
    }

    fn act(&self, action: &str, body: &Value) -> Value {
        self.site.admin().post(&self.path(&format!("/actions/{action}")), body).expect(200)["data"].clone()
    }

    fn run(&self) -> Value {
        let node = self.site.admin().get(&self.path("")).expect(200);
        let id = node["data"]["run"].as_str().unwrap();
        self.site.admin().get(&format!("/api/v1/runs/{id}")).expect(200)["data"].clone()
    }

    fn run_becomes(&self, state: &str) -> Value {
        wait_for(&format!("the run to become {state}"), || {
            let run = self.run();
            (run["status"] == state).then_some(run)
        })
    }

    /// Takes the next task, which must be of a kind.
    fn claims(&self, kind: &str) -> Value {
        let task = wait_for(&format!("a task {kind}"), || {
            let claimed = self.claim();
            claimed["task"].is_object().then(|| claimed["task"].clone())
        });
        assert_eq!(task["kind"], kind);
        task
    }

    fn claim(&self) -> Value {
        self.agent().post(&self.path("/tasks/claim"), &json!({"holder": "agent"})).expect(200)
    }

    fn answers(&self, task: &Value, outcome: &str) {
        let path = self.path(&format!("/tasks/{}/result", task["id"].as_str().unwrap()));
        let result = json!({"epoch": task["epoch"], "outcome": outcome, "output": format!("it {outcome}")});
        for repeated in [false, true] {
            // The same result again is no error.
            assert_eq!(self.agent().post(&path, &result).expect(200)["repeated"], repeated);
        }
    }

    fn does(&self, kind: &str) {
        let task = self.claims(kind);
        self.answers(&task, "succeeded");
    }
}

fn a_node_lives_from_bootstrap_to_removal(on: Backend) {
    let site = Site::start(on);
    let node = Node::active(&site, "gpu-1");
    assert_eq!(node.run()["status"], "completed");
    assert!(node.claim()["task"].is_null());

    site.admin().post(&node.path("/decommissions"), &json!({"mode": "soft_reset"})).expect(201);
    site.admin().post(&node.path("/decommissions"), &json!({"mode": "storage_cleanup"})).problem(409);
    for kind in ["node.drain", "node.cleanup_storage", "node.scrub_gpu", "node.validate_clean"] {
        node.does(kind);
    }
    node.run_becomes("completed");
    assert_eq!(node.state(), "offline", "health proves active");
    assert_eq!(node.beat(false)["status"], "offline");
    assert_eq!(node.beat(true)["status"], "active");

    assert_eq!(node.act("retire", &json!({}))["did"], "run_created");
    node.becomes("draining");
    assert_eq!(node.act("retire", &json!({}))["did"], "run_in_progress");
    node.does("node.drain");
    node.becomes("retired");
    assert_eq!(node.act("reactivate", &json!({}))["status"], "offline");
    assert_eq!(node.beat(true)["status"], "active");
    site.admin().post(&node.path("/actions/remove"), &json!({})).problem(409);

    node.act("retire", &json!({}));
    node.does("node.drain");
    node.becomes("retired");
    node.act("remove", &json!({}));
    node.becomes("removing");
    let run = node.run()["id"].as_str().unwrap().to_owned();
    node.does("node.uninstall");
    node.becomes("deleted");
    let run = site.admin().get(&format!("/api/v1/runs/{run}")).expect(200);
    assert_eq!(run["data"]["status"], "completed", "the run outlives its node");
    node.agent().post(&node.path("/heartbeat"), &json!({})).problem(401);
    // A machine that comes back is another node.
    let (again, _) = announce(&site, "gpu-1");
    assert_ne!(again, node.id);
}

fn a_token_enrols_one_agent_once(on: Backend) {
    let site = Site::start(on);
    let (id, token) = announce(&site, "gpu-1");
    site.admin().post("/api/v1/gpu-nodes", &json!({"hostname": "gpu-1"})).problem(409);
    let replies = at_once(8, |index| enroll(&site, index, &token));
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 1);
    assert!(replies.iter().filter(|reply| reply.status != 200).all(|reply| reply.status == 401));

    let (other, first) = announce(&site, "gpu-2");
    let resumed =
        site.admin().post(&format!("/api/v1/gpu-nodes/{other}/actions/resume"), &json!({})).expect(200);
    let second = resumed["data"]["token"].as_str().unwrap();
    enroll(&site, 0, &first).problem(401);
    enroll(&site, 0, second).expect(200);
    for secret in [&token, &first, second] {
        let history = site.admin().get("/api/v1/history?limit=1000").text();
        assert!(!history.contains(secret) && !site.log(0).contains(secret), "a secret leaked");
    }
    assert!(!id.is_empty());
}

fn a_dead_host_is_retired_and_removed(on: Backend) {
    let settings = [
        ("WARDROOM_LIVENESS_DEFAULT_INTERVAL_SECONDS", "1"),
        ("WARDROOM_LIVENESS_GRACE_SECONDS", "1"),
        ("WARDROOM_LIVENESS_FLUSH_SECONDS_SHARED", "1"),
    ];
    let site = Site::start_with(on, &settings);
    let node = Node::active(&site, "gpu-1");
    let skip = |stage: &str, reason: &str| json!({"skip": [{"stage": stage, "comment": reason}]});
    let unreasoned = site.admin().post(&node.path("/actions/retire"), &skip("drain_node", ""));
    assert_eq!(unreasoned.wrong_fields(), ["skip[0].comment"]);
    node.becomes("offline");
    node.act("retire", &skip("drain_node", "the board burnt"));
    node.becomes("retired");
    let run = node.run();
    let skipped = run["attempts"].as_array().unwrap().iter().find(|attempt| attempt["outcome"] == "skipped");
    assert_eq!(skipped.unwrap()["evidence"], "the board burnt");
    node.act("remove", &skip("remove_gpuaas_node_record", "the board burnt"));
    node.becomes("deleted");
}

fn a_drain_survives_its_server(on: Backend) {
    let mut site = Site::start(on);
    let (id, credential) = {
        let node = Node::active(&site, "gpu-1");
        node.act("retire", &json!({}));
        node.becomes("draining");
        // A server that dies with the run in its hands keeps it until its lease has expired.
        wait_for("the run to wait", || (!node.run()["waiting"].is_null()).then_some(()));
        (node.id, node.credential)
    };
    site.servers[0].kill();
    site.restart(0);
    let node = Node { site: &site, id, credential };
    assert_eq!(node.state(), "draining");
    node.does("node.drain");
    node.becomes("retired");
}

fn a_drain_can_be_stopped_and_resumed_by_many(on: Backend) {
    let site = Site::start(on);
    let node = Node::active(&site, "gpu-1");
    node.act("retire", &json!({}));
    let task = node.claims("node.drain");
    let replies = at_once(6, |_| node.act("resume", &json!({})));
    assert!(replies.iter().all(|reply| reply["did"] == "task_live"), "{replies:?}");
    node.answers(&task, "refused");
    let run = node.run_becomes("failed_manual_intervention");
    assert_eq!(run["recommended"]["action"]["action"], "retry_stage");
    assert_eq!(node.state(), "draining");
    let replies = at_once(6, |_| node.act("resume", &json!({"comment": "asked again"})));
    let moved = replies.iter().filter(|reply| reply["did"] == "run_resumed").count();
    assert_eq!(moved, 1, "{replies:?}");
    let task = node.claims("node.drain");
    at_once(4, |_| node.act("stop_drain", &json!({"comment": "needed after all"})));
    node.becomes("offline");
    assert_eq!(node.run()["status"], "cancelled");
    let path = node.path(&format!("/tasks/{}/result", task["id"].as_str().unwrap()));
    let late = json!({"epoch": task["epoch"], "outcome": "succeeded"});
    node.agent().post(&path, &late).problem(409);
    assert_eq!(node.beat(true)["status"], "active");
}

fn a_node_that_is_not_clean_is_quarantined(on: Backend) {
    let site = Site::start(on);
    let node = Node::active(&site, "gpu-1");
    site.admin().post(&node.path("/decommissions"), &json!({"mode": "storage_cleanup"})).expect(201);
    node.does("node.drain");
    node.does("node.cleanup_storage");
    let task = node.claims("node.validate_clean");
    node.answers(&task, "failed");
    node.becomes("quarantined");
    let run = node.run_becomes("failed_manual_intervention");
    assert_eq!(run["failure"]["stage"], "validate_clean_node");
    assert_eq!(node.beat(true)["status"], "quarantined", "a beat does not bring it back");
    let run = run["id"].as_str().unwrap();
    site.admin()
        .post(&format!("/api/v1/runs/{run}/actions/cancel"), &json!({"comment": "wiped by hand"}))
        .expect(200);
    node.run_becomes("cancelled");
    node.beat(true);
    site.admin().post(&node.path("/actions/recover"), &json!({})).expect(409);
    let wiped = json!({"unproven": true, "comment": "wiped by hand"});
    assert_eq!(node.act("recover", &wiped)["status"], "active");
}

fn a_run_says_what_to_do_next(on: Backend) {
    let site = Site::start(on);
    let (id, _) = announce(&site, "gpu-1");
    let runs = site.admin().get(&format!("/api/v1/runs?node_id={id}")).expect(200);
    let run = format!("/api/v1/runs/{}", runs["data"][0]["id"].as_str().unwrap());
    let waits = wait_for("the run to wait", || {
        let seen = site.admin().get(&run).expect(200);
        (!seen["data"]["waiting"].is_null()).then_some(seen)
    });
    assert_eq!(waits["data"]["stage"], "wait_for_agent_enrollment");
    assert!(waits["data"]["recommended"]["action"].is_null());
    let act = |action: &str, body: &Value| site.admin().post(&format!("{run}/actions/{action}"), body);
    let refused = act("rerun", &json!({"comment": "x"}));
    // It is at its first stage, so the rerun happened already.
    assert_eq!(refused.expect(200)["data"]["result"], "already_queued");
    assert_eq!(act("dance", &json!({})).wrong_fields(), ["action"]);
    assert_eq!(act("cancel", &json!({"abandon": true})).wrong_fields(), ["comment"]);
    let marked = act("mark_manual_intervention_required", &json!({"comment": "hold on"})).expect(200);
    assert_eq!(marked["data"]["run"]["status"], "failed_manual_intervention");
    let problem = act("adopt_observed_state", &json!({})).problem(409);
    assert_eq!(problem["code"], "nothing_observed");
    assert!(
        problem["allowed_actions"].as_array().unwrap().iter().any(|action| action["action"] == "resume"),
        "{problem}"
    );
    assert_eq!(act("resume", &json!({})).expect(200)["data"]["result"], "resume");
    // Whether a worker has it just now decides how soon it turns back.
    let cancelled = act("cancel", &json!({}));
    assert!(matches!(cancelled.status, 200 | 202), "{}", cancelled.text());
    wait_for("the run to be cancelled", || {
        (site.admin().get(&run).expect(200)["data"]["status"] == "cancelled").then_some(())
    });
    assert_eq!(act("resume", &json!({})).problem(409)["code"], "run_is_over");
    let history = site.admin().get(&format!("/api/v1/history?kind=run&id={}", &run[13..])).expect(200);
    let rows = history["data"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["comment"] == "hold on" && !row["user_id"].is_null()));
}
