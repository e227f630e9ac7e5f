//! Agents: enrolment, heartbeats and tasks.

use serde_json::{Value, json};
use wardroom_core::{
    Named as _,
    gpu_node::{action::Action, task::Kind as TaskKind},
    run::{action::Goal, plan::Stage},
};
use wardroom_workflow::Record;

use super::{
    super::{action::Order, begin, data::Data, document, owners, resume, task},
    rig::{Reply, Rig, verbs},
};
use crate::platform::{
    app::{Decided, by_system},
    identity::auth::{Caller, Principal},
};

pub(super) async fn enrolled(rig: &Rig, number: u32) -> (String, String) {
    let (id, token) = rig.by_hand(number).await;
    let reply = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
    (id, reply["credential"].as_str().unwrap().to_owned())
}

/// Moves the run of a node as if it had come to a stage; answers its id.
pub(super) async fn arrive(rig: &Rig, id: &str, state: &str, change: impl Fn(&mut Record<Data>)) -> String {
    let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
    let moved = |run: &wardroom_store::Resource| {
        let mut content = run.content.clone();
        let mut record: Record<Data> = content.document.read()?;
        change(&mut record);
        state.clone_into(&mut content.state);
        content.document = wardroom_store::Document::of(&record)?;
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "transition", Value::Null))), ()))
    };
    rig.app.change("run", &run, moved).await.unwrap();
    run
}

pub(super) async fn beat(rig: &Rig, id: &str, credential: &str, body: Value) -> Value {
    rig.as_agent(credential, &format!("/api/v1/gpu-nodes/{id}/heartbeat"), body).await.ok()
}

/// Brings the run of a node to a stage that has ordered its task; answers the ids of run and task.
async fn ordered(rig: &Rig, id: &str, stage: Stage, kind: TaskKind) -> (String, String) {
    let run = arrive(rig, id, "running", |run| run.progress.stage = stage).await;
    let ask = task::Ask { node: id, run: &run, stage, kind, round: 1, force: false };
    let made = task::ensure(&rig.app, ask).await.unwrap().content.id;
    (run, made)
}

/// Claims a task as the agent of a node; null if there is none.
async fn claim(rig: &Rig, id: &str, credential: &str, holder: &str) -> Value {
    let path = format!("/api/v1/gpu-nodes/{id}/tasks/claim");
    rig.as_agent(credential, &path, json!({"holder": holder})).await.ok()["task"].clone()
}

/// Reports the result of a claimed task.
async fn report(rig: &Rig, id: &str, credential: &str, task: &Value, outcome: &str) -> Reply {
    let path = format!("/api/v1/gpu-nodes/{id}/tasks/{}/result", task["id"].as_str().unwrap());
    rig.as_agent(credential, &path, json!({"epoch": task["epoch"], "outcome": outcome})).await
}

async fn a_token_works_once_and_a_lost_answer_can_be_asked_for_again() {
    let rig = Rig::new().await;
    let (id, token) = rig.by_hand(1).await;
    assert_eq!(rig.state(&id).await, "bootstrap_issued");
    let enroll =
        |token: &str, exchange: &str| json!({"token": token, "exchange": exchange, "hostname": "gpu-1"});
    let path = "/api/v1/gpu-nodes/enroll";
    let first = rig.as_agent("", path, enroll(&token, "x")).await.ok();
    assert_eq!(rig.state(&id).await, "enrolling");
    let again = rig.as_agent("", path, enroll(&token, "x")).await.ok();
    assert_eq!(first, again, "the same exchange");
    assert_eq!(rig.as_agent("", path, enroll(&token, "y")).await.status, 401, "another exchange");
    assert_eq!(rig.as_agent("", path, json!({"token": token})).await.status, 401, "no name at all");
    assert_eq!(rig.as_agent("", path, enroll("wrb_guess", "x")).await.status, 401);
    let credential = first["credential"].as_str().unwrap();
    assert_eq!(beat(&rig, &id, credential, json!({})).await["status"], "enrolling");
}

async fn a_bootstrap_by_hand_ends_with_a_healthy_heartbeat() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, credential) = enrolled(&rig, 1).await;
    beat(&rig, &id, &credential, json!({"checks": [{"name": "gpu", "ok": false, "message": "fell off"}]}))
        .await;
    let run = rig.until_run(&id, "running").await;
    assert_eq!(run["stage"], "wait_for_agent_enrollment");
    beat(&rig, &id, &credential, json!({"checks": [{"name": "gpu", "ok": true}]})).await;
    rig.until(&id, "active").await;
    beat(&rig, &id, &credential, json!({"checks": [{"name": "gpu", "ok": false}]})).await;
    let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
    assert_eq!((&node["status"], &node["schedulable"]), (&json!("active"), &json!(false)));
}

/// The output of a command cannot be corrected on the node: it is cut, not refused.
async fn a_long_output_never_costs_a_heartbeat() {
    let rig = Rig::new().await;
    let (id, token) = rig.by_hand(1).await;
    let enroll = json!({"token": token, "hostname": "gpu\u{1b}[1", "model": "x".repeat(300)});
    let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", enroll).await.ok();
    let credential = enrolled["credential"].as_str().unwrap();
    let odd = json!({"name": "a\u{7}b", "ok": true, "message": format!("{}\u{0}", "x".repeat(700))});
    let mut checks = vec![odd; 70];
    checks.push(json!({"name": "", "ok": false, "message": "fell off"}));
    beat(&rig, &id, credential, json!({"checks": checks})).await;
    let health = rig.lifecycle(&id).await["health"].clone();
    assert_eq!(health["healthy"], false, "the check that failed is among those that are kept");
    let kept = health["checks"].as_array().unwrap();
    assert_eq!((kept.len(), &kept[0]["message"], &kept[1]["name"]), (64, &json!("fell off"), &json!("a b")));
}

/// A number that makes no sense costs itself, never the beat; nor does it make a node well that is not.
async fn a_bad_number_never_costs_a_heartbeat() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let checks = async |body| {
        beat(&rig, &id, &credential, body).await;
        rig.lifecycle(&id).await["health"]["checks"].clone()
    };
    let unread = checks(json!({"checks": [{"name": "gpu", "ok": 1e300}]})).await;
    assert_eq!(
        (&unread[0]["name"], &unread[0]["ok"]),
        (&json!("checks"), &json!(false)),
        "never proven well"
    );
    let hot = checks(json!({"checks": [{"name": "gpu", "ok": false, "message": -273.5}]})).await;
    assert_eq!(hot[0]["message"], "-273.5");
    for odd in [
        json!({"checks": -1}),
        json!({"checks": [{"name": 7, "ok": true}]}),
        json!({"checks": [{"name": "gpu", "ok": -1}]}),
    ] {
        assert_eq!(checks(odd.clone()).await, hot, "what was known stays: {odd}");
    }
    for odd in [
        json!({"interval": -5}),
        json!({"interval": "@every -5s"}),
        json!({"interval": "@every 999999999h00m00s"}),
        json!({"tasks": [{"task": "x", "epoch": 1e30}]}),
        json!({"tasks": [{"task": -1, "epoch": 1}]}),
        json!({"tasks": 3}),
    ] {
        let well = json!([{"name": "gpu", "ok": true}]);
        let mut body = odd.clone();
        body["checks"] = well.clone();
        assert_eq!(checks(body).await, well, "the rest is heard: {odd}");
    }
}

async fn an_agent_speaks_only_of_its_own_node() {
    let rig = Rig::new().await;
    let (first, credential) = enrolled(&rig, 1).await;
    let (second, _) = enrolled(&rig, 2).await;
    for path in ["heartbeat", "tasks/claim"] {
        let body = json!({"holder": "a"});
        let other =
            rig.as_agent(&credential, &format!("/api/v1/gpu-nodes/{second}/{path}"), body.clone()).await;
        assert_eq!(other.status, 403, "{path}");
        let wrong =
            rig.as_agent("wrg_guess.guess", &format!("/api/v1/gpu-nodes/{first}/{path}"), body.clone()).await;
        assert_eq!(wrong.status, 401, "{path}");
        let person = rig.post(&format!("/api/v1/gpu-nodes/{first}/{path}"), body).await;
        assert_eq!(person.status, 401, "a person is not an agent: {path}");
    }
    let not_for_agents = rig.as_agent(&credential, "/api/v1/gpu-nodes", json!({"hostname": "x"})).await;
    assert_eq!(not_for_agents.status, 401);
}

async fn a_new_token_voids_the_old_one() {
    let rig = Rig::new().await;
    let (id, old) = rig.by_hand(1).await;
    let resumed = rig.act(&id, "resume", json!({})).await.ok()["data"].clone();
    assert_eq!(resumed["did"], "token_issued");
    let path = "/api/v1/gpu-nodes/enroll";
    assert_eq!(rig.as_agent("", path, json!({"token": old})).await.status, 401);
    rig.as_agent("", path, json!({"token": resumed["token"]})).await.ok();
    assert_eq!(rig.state(&id).await, "enrolling");
}

/// Two operators that see the same token and press `resume` have one effect: the second voids nothing.
async fn a_token_is_issued_once_for_two_requests() {
    let rig = Rig::new().await;
    let (id, _) = rig.by_hand(1).await;
    let seen = begin::read(&rig.app, &id).await.unwrap();
    let address = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    let caller = Caller { principal: Principal::Anonymous, address, request_id: "test".into() };
    let (app, action) = (&rig.app, Action::Resume);
    let order = Order { app, caller: &caller, id: &id, action, reason: None, unproven: false };
    let first = resume::reissue(&order, &seen).await.unwrap();
    let second = resume::reissue(&order, &seen).await.unwrap();
    assert_eq!((first.did, second.did), ("token_issued", "token_fresh"));
    assert_eq!(second.token, None);
    rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": first.token})).await.ok();
    // The agent enrolled in between: there is no token to issue any more.
    let late = resume::reissue(&order, &seen).await.unwrap_err();
    assert!(late.to_string().contains("no run of it waits for a token"), "{late}");
}

/// A token whose run is being cancelled is not issued: its agent would not be waited for.
async fn no_token_is_issued_for_a_run_that_turns_back() {
    let rig = Rig::new().await;
    let (id, old) = rig.by_hand(1).await;
    arrive(&rig, &id, "running", |run| run.plan.goal = Goal::Cancel).await;
    let refused = rig.act(&id, "resume", json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "run_open"), "{refused:?}");
    rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": old})).await.ok();
}

/// A task is made once; only the newest epoch of its lease can end it; what ended is not ended again.
async fn a_task_has_one_holder_and_one_end() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let run = arrive(&rig, &id, "running", |run| run.progress.stage = Stage::DrainNode).await;
    let ask = |round| task::Ask {
        node: &id,
        run: &run,
        stage: Stage::DrainNode,
        kind: TaskKind::Drain,
        round,
        force: false,
    };
    let made = task::ensure(&rig.app, ask(1)).await.unwrap();
    let again = task::ensure(&rig.app, ask(1)).await.unwrap();
    assert_eq!(made.content.id, again.content.id);
    assert_ne!(task::ensure(&rig.app, ask(2)).await.unwrap().content.id, made.content.id);
    task::withdraw(&rig.app, &run, Stage::DrainNode, 2).await.unwrap();

    let first = claim(&rig, &id, &credential, "a").await;
    assert_eq!(first["kind"], "node.drain");
    let held = rig.app.store.lease(&task::lease(first["id"].as_str().unwrap())).await.unwrap().unwrap();
    assert!(held.remaining > std::time::Duration::from_secs(120), "as configured: {held:?}");
    let other = claim(&rig, &id, &credential, "b").await;
    assert_eq!(other, Value::Null, "another claim has it");
    let mine = claim(&rig, &id, &credential, "a").await;
    assert_eq!(mine, first, "a repeated claim gets its own task back");
    let held = json!({"tasks": [{"task": first["id"], "epoch": first["epoch"]}]});
    assert_eq!(beat(&rig, &id, &credential, held).await["lost"], json!([]));

    let task = first["id"].as_str().unwrap();
    let path = format!("/api/v1/gpu-nodes/{id}/tasks/{task}/result");
    // What a command wrote is cut where it must be, not refused.
    let details =
        json!([{"name": "nv\u{7}me0", "method": "x".repeat(300), "ok": true}, {"name": "", "ok": true}]);
    let result =
        |epoch: i64| json!({"epoch": epoch, "outcome": "succeeded", "output": "ok", "details": details});
    let epoch = first["epoch"].as_i64().unwrap();
    let wrong = rig.as_agent(&credential, &path, result(epoch + 1)).await;
    assert_eq!((wrong.status.as_u16(), wrong.code()), (409, "task_lost"));
    assert_eq!(rig.as_agent(&credential, &path, result(epoch)).await.ok()["repeated"], false);
    assert_eq!(rig.as_agent(&credential, &path, result(epoch)).await.ok()["repeated"], true);
    let late = rig.as_agent(&credential, &path, json!({"epoch": epoch, "outcome": "failed"})).await;
    assert_eq!(late.code(), "task_lost", "an end is an end");
}

/// A lease that lapsed makes the task claimable, and its holder is told.
async fn a_lapsed_lease_fences_its_holder_off() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let (_, made) = ordered(&rig, &id, Stage::DrainNode, TaskKind::Drain).await;
    let first = claim(&rig, &id, &credential, "a").await;
    let lease = rig.app.store.lease(&task::lease(&made)).await.unwrap().unwrap();
    rig.app.store.release_lease(&lease).await.unwrap();
    let second = claim(&rig, &id, &credential, "b").await;
    assert_eq!(second["id"], first["id"]);
    assert_ne!(second["epoch"], first["epoch"]);
    let held = json!({"tasks": [{"task": first["id"], "epoch": first["epoch"]}]});
    assert_eq!(beat(&rig, &id, &credential, held).await["lost"], json!([made]));
    assert_eq!(report(&rig, &id, &credential, &first, "succeeded").await.code(), "task_lost");
    report(&rig, &id, &credential, &second, "succeeded").await.ok();
}

/// An agent that was restarted in the middle of a task does not say that it has it: the task is there to be claimed
/// again, with its lease or without.
async fn a_task_that_its_agent_forgot_can_be_claimed_again() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let (_, made) = ordered(&rig, &id, Stage::DrainNode, TaskKind::Drain).await;
    assert_eq!(beat(&rig, &id, &credential, json!({})).await["has_tasks"], true);
    let first = claim(&rig, &id, &credential, "a").await;
    let held = json!({"tasks": [{"task": first["id"], "epoch": first["epoch"]}]});
    assert_eq!(beat(&rig, &id, &credential, held).await["has_tasks"], false, "it is at it");
    assert_eq!(beat(&rig, &id, &credential, json!({})).await["has_tasks"], true, "it forgot");
    let again = claim(&rig, &id, &credential, "a").await;
    assert_eq!(again, first);
    let lease = rig.app.store.lease(&task::lease(&made)).await.unwrap().unwrap();
    rig.app.store.release_lease(&lease).await.unwrap();
    assert_eq!(beat(&rig, &id, &credential, json!({})).await["has_tasks"], true, "the lease lapsed");
    let other = claim(&rig, &id, &credential, "b").await;
    assert_eq!(other["id"], json!(made));
}

/// An agent that enrolled, beat and fell silent before its run waited for it makes no node active.
async fn an_old_heartbeat_proves_nothing() {
    let mut rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    beat(&rig, &id, &credential, json!({"checks": []})).await;
    let said = rig.app.store.observations("gpu-node", &id).await.unwrap().remove(0);
    let long_ago = rig.app.now() - jiff::SignedDuration::from_mins(10);
    let old = wardroom_store::Observation { version: said.version + 1, received_at: long_ago, ..said };
    rig.app.store.observe(&old).await.unwrap();
    rig.work();
    for look in 0.. {
        let run = rig.lifecycle(&id).await["run"].clone();
        assert!(look < 1500 && run["status"] != "completed", "{run}");
        if run["waiting_for"].as_str().is_some_and(|waits| waits.contains("silent")) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    beat(&rig, &id, &credential, json!({"checks": []})).await;
    rig.until(&id, "active").await;
}

/// An agent that claims a task while `resume` is about to queue it again keeps it: `resume` decided on an
/// older state.
async fn a_task_that_was_claimed_in_between_is_not_queued_again() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let (_, made) = ordered(&rig, &id, Stage::DrainNode, TaskKind::Drain).await;
    claim(&rig, &id, &credential, "a").await;
    let lapsed = rig.app.store.lease(&task::lease(&made)).await.unwrap().unwrap();
    rig.app.store.release_lease(&lapsed).await.unwrap();

    // `resume` reads the task, takes the lapsed lease, and is overtaken before it writes.
    let read = rig.app.store.get(task::KIND, &made).await.unwrap().unwrap();
    let length = std::time::Duration::from_millis(1);
    let fencing = rig.app.store.acquire_lease(&task::lease(&made), "resume", length).await.unwrap().unwrap();
    rig.app.store.release_lease(&fencing).await.unwrap();
    let second = claim(&rig, &id, &credential, "b").await;
    assert_eq!(second["id"], json!(made));
    let entry = by_system(&rig.app, "transition", Value::Null);
    resume::queue(&rig.app, read, fencing, entry).await.unwrap_err();

    report(&rig, &id, &credential, &second, "succeeded").await.ok();
}

/// A node that is not proven clean goes to quarantine by way of `offline`. Neither a healthy beat between the
/// two commits nor an operator who gives the run up there brings it into use.
async fn a_node_on_its_way_to_quarantine_is_not_brought_back() {
    use wardroom_core::{gpu_node::State, run::plan::Kind};
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let run = arrive(&rig, &id, "failed_manual_intervention", |run| {
        (run.plan.kind, run.progress.stage, run.hold.quarantine_pending) =
            (Kind::SoftReset, Stage::ValidateCleanNode, true);
    })
    .await;
    let offline = |node: &wardroom_store::Resource| {
        let content = document::Document::of(node)?.into_content_of(node, State::Offline)?;
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "transition", Value::Null))), ()))
    };
    rig.app.change(document::KIND, &id, offline).await.unwrap();
    for _ in 0..3 {
        assert_eq!(beat(&rig, &id, &credential, json!({})).await["status"], "offline");
    }
    super::decommission::cancel(&rig, &run).await;
    assert_eq!(rig.lifecycle(&id).await["run"]["status"], "cancelled");
    assert_eq!(beat(&rig, &id, &credential, json!({})).await["status"], "quarantined");
}

/// A beat that fails in the server says that its agent is there, and excuses no other.
async fn a_beat_that_fails_is_one_of_its_agent_alone() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let mut broken = crate::platform::work::jobs::server_record(task::KIND, "broken");
    broken.document = wardroom_store::Document::of(&json!({"node": 7})).unwrap();
    rig.app.create(broken, by_system(&rig.app, "registered", Value::Null)).await.unwrap();
    assert!(rig.app.liveness.refused().is_none());
    let path = format!("/api/v1/gpu-nodes/{id}/heartbeat");
    let reply = rig.as_agent(&credential, &path, json!({"tasks": [{"task": "broken", "epoch": 1}]})).await;
    assert_eq!(reply.status, 500, "{reply:?}");
    assert!(rig.app.liveness.refused().is_none(), "no other member was refused");
}

/// What becomes of a run.
type Turn = fn(&mut Record<Data>);

/// A wipe that was asked for is never begun, gone on with or ended once its run is over, turns back or is elsewhere.
async fn a_task_that_its_run_does_not_want_any_more_is_lost() {
    let turns: [(&str, Turn); 7] = [
        ("cancelled", |_| {}),
        ("compensating", |run| run.progress.undoing = true),
        ("failed_manual_intervention", |run| run.progress.undoing = true),
        // Frozen, in the middle of the very stage.
        ("failed_manual_intervention", |run| run.progress.stage = Stage::CleanupStorage),
        ("failed_retryable", |run| run.progress.stage = Stage::CleanupStorage),
        ("running", |run| run.progress.stage = Stage::ReleaseMaasNode),
        ("running", |run| run.data.next_task(Stage::CleanupStorage)),
    ];
    for (number, (state, turn)) in (1..).zip(turns) {
        for claimed in [false, true] {
            let rig = Rig::new().await;
            let (id, credential) = enrolled(&rig, number).await;
            let (_, made) = ordered(&rig, &id, Stage::CleanupStorage, TaskKind::CleanupStorage).await;
            if claimed {
                let task = claim(&rig, &id, &credential, "a").await;
                arrive(&rig, &id, state, turn).await;
                let held = json!({"tasks": [{"task": made, "epoch": task["epoch"]}]});
                assert_eq!(beat(&rig, &id, &credential, held).await["lost"], json!([made]), "{state}");
                let late = report(&rig, &id, &credential, &task, "succeeded").await;
                assert_eq!(late.code(), "task_lost", "{state}");
            } else {
                arrive(&rig, &id, state, turn).await;
                assert_eq!(claim(&rig, &id, &credential, "a").await, Value::Null, "{state}");
            }
            let task = rig.app.store.get(task::KIND, &made).await.unwrap().unwrap();
            assert_eq!(task.content.state, "withdrawn", "{state}");
        }
    }
}

/// A cancel withdraws the task that its run had given to an agent at once; the sweeper withdraws tasks left
/// by a server that crashed in between.
async fn a_cancel_withdraws_the_tasks_of_its_run() {
    for swept in [false, true] {
        let rig = Rig::new().await;
        let (id, _) = enrolled(&rig, 1).await;
        let (run, made) = ordered(&rig, &id, Stage::ScrubGpu, TaskKind::ScrubGpu).await;
        owners::sweep(&rig.app).await.unwrap();
        let state = async || rig.app.store.get(task::KIND, &made).await.unwrap().unwrap().content.state;
        assert_eq!(state().await, "queued", "its run wants it");
        if swept {
            super::decommission::cancel(&rig, &run).await;
            owners::sweep(&rig.app).await.unwrap();
        } else {
            rig.post(&format!("/api/v1/runs/{run}/actions/cancel"), json!({})).await.ok();
        }
        assert_eq!(state().await, "withdrawn");
    }
}

/// A run that was told to turn back begins nothing new on the way.
async fn a_run_that_is_to_turn_back_gives_no_task_out() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    ordered(&rig, &id, Stage::ScrubGpu, TaskKind::ScrubGpu).await;
    arrive(&rig, &id, "running", |run| run.plan.goal = Goal::Cancel).await;
    assert_eq!(claim(&rig, &id, &credential, "a").await, Value::Null);
}

/// Freezing a run withdraws its task; sending it on asks the agent again, and the node has no disadvantage by
/// it.
async fn a_run_that_is_sent_on_asks_its_agent_again() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, credential) = enrolled(&rig, 1).await;
    beat(&rig, &id, &credential, json!({})).await;
    rig.until(&id, "active").await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "soft_reset"})).await.ok();
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    let claimed = async |kind: &str| {
        for _ in 0..1500 {
            let task = claim(&rig, &id, &credential, "a").await;
            if task["kind"] == kind {
                return task;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{kind} was never asked for: {:#}", rig.lifecycle(&id).await);
    };
    for kind in ["node.drain", "node.cleanup_storage", "node.scrub_gpu", "node.validate_clean"] {
        for action in ["resume", "retry_stage", "resume"] {
            let lost = claimed(kind).await;
            let act = async |action: &str| {
                rig.post(&format!("/api/v1/runs/{run}/actions/{action}"), json!({})).await.ok();
            };
            act("mark_manual_intervention_required").await;
            assert_eq!(report(&rig, &id, &credential, &lost, "failed").await.code(), "task_lost");
            act(action).await;
        }
        let task = claimed(kind).await;
        report(&rig, &id, &credential, &task, "succeeded").await.ok();
    }
    rig.until_run(&id, "completed").await;
    beat(&rig, &id, &credential, json!({})).await;
    assert_eq!(rig.state(&id).await, "active");
    let run = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
    let failed = |attempt: &&Value| attempt["outcome"] == "failed";
    assert_eq!(run["attempts"].as_array().unwrap().iter().filter(failed).count(), 0, "{run:#}");
}

/// One unreadable record does not delay the others.
async fn an_unreadable_task_stops_no_sweep() {
    let rig = Rig::new().await;
    let (id, _) = enrolled(&rig, 1).await;
    let (run, made) = ordered(&rig, &id, Stage::ScrubGpu, TaskKind::ScrubGpu).await;
    let made = rig.app.store.get(task::KIND, &made).await.unwrap().unwrap();
    let mut torn = made.content.clone();
    torn.id = uuid::Uuid::nil().to_string();
    torn.keys.clear();
    torn.document = wardroom_store::Document::of(&json!({"torn": true})).unwrap();
    rig.app.create(torn, by_system(&rig.app, "registered", Value::Null)).await.unwrap();
    let shown = rig.get(&format!("/api/v1/runs/{run}")).await["data"]["tasks"].clone();
    assert_eq!(shown.as_array().unwrap().len(), 1, "nor the run: {shown}");
    super::decommission::cancel(&rig, &run).await;
    owners::sweep(&rig.app).await.unwrap();
    let task = rig.app.store.get(task::KIND, &made.content.id).await.unwrap().unwrap();
    assert_eq!(task.content.state, "withdrawn");
}

/// A beat that only this server would know of is refused, and counts for nothing.
async fn a_server_that_is_cut_off_takes_no_heartbeat() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let path = format!("/api/v1/gpu-nodes/{id}/heartbeat");
    rig.app.liveness.cut_off(true);
    assert_eq!(rig.as_agent(&credential, &path, json!({})).await.status, 503);
    rig.app.liveness.cut_off(false);
    assert_eq!(rig.as_agent(&credential, &path, json!({})).await.status, 200);
}

/// Puts a node without a run into a state, as of some time ago.
async fn put(rig: &Rig, id: &str, state: &str, ago: jiff::SignedDuration) {
    arrive(rig, id, "cancelled", |_| {}).await;
    let run = rig.app.store.get_by_key("run", &format!("gpu-node/{id}")).await.unwrap();
    if let Some(run) = run {
        let over = |run: &wardroom_store::Resource| {
            let mut content = run.content.clone();
            (content.keys, content.due_at) = (Default::default(), None);
            Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "changed", Value::Null))), ()))
        };
        rig.app.change("run", &run.content.id, over).await.unwrap();
    }
    let moved = |node: &wardroom_store::Resource| {
        let state = state.parse().unwrap();
        let content = document::Document::of(node)?.into_content_of(node, state)?;
        let mut entry = by_system(&rig.app, "transition", Value::Null);
        entry.at = rig.app.now() - ago;
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    };
    rig.app.change(document::KIND, id, moved).await.unwrap();
}

/// A node that was healthy and fell silent is not brought back by its old report; and a recovery is no beat.
async fn an_old_heartbeat_brings_no_node_back() {
    use jiff::SignedDuration;
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    put(&rig, &id, "quarantined", SignedDuration::from_mins(20)).await;
    beat(&rig, &id, &credential, json!({"checks": []})).await;
    rig.age(&id, SignedDuration::from_mins(10)).await;
    let refused = rig.act(&id, "recover", json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "not_proven"), "{refused:?}");
    assert!(refused.body["detail"].as_str().unwrap().contains("silent"), "{refused:?}");
    assert_eq!(verbs(&rig.lifecycle(&id).await["allowed_actions"]), json!(["retire"]));
    let node = super::super::find(&rig.app, &id).await.unwrap();
    let facts = super::super::facts::gather(&rig.app, &node).await.unwrap();
    assert!(wardroom_core::gpu_node::proof::healthy(&facts).is_err(), "the reconciler's own way");

    rig.age(&id, SignedDuration::from_secs(20)).await;
    rig.act(&id, "recover", json!({})).await.ok();
    let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
    assert_eq!(node["status"], "active");
    let seen: jiff::Timestamp = node["last_seen"].as_str().unwrap().parse().unwrap();
    let since = rig.app.now().duration_since(seen);
    assert!(since >= SignedDuration::from_secs(19), "heard {since:?} ago: {node}");
}

/// An agent that is well is silent for a while between its heartbeats, and for longer when it beats less often: what it
/// said counts until it has missed more of them than liveness allows.
async fn a_heartbeat_counts_until_the_next_ones_are_missed() {
    use jiff::SignedDuration;
    for (interval, fresh, old) in [(Value::Null, 80, 100), (json!("@every 5m"), 14 * 60, 16 * 60)] {
        let rig = Rig::new().await;
        let (id, credential) = enrolled(&rig, 1).await;
        put(&rig, &id, "quarantined", SignedDuration::from_hours(1)).await;
        beat(&rig, &id, &credential, json!({"checks": [], "interval": interval})).await;
        rig.age(&id, SignedDuration::from_secs(old)).await;
        let refused = rig.act(&id, "recover", json!({})).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (409, "not_proven"), "{interval} {refused:?}");
        rig.age(&id, SignedDuration::from_secs(fresh)).await;
        let recovered = rig.act(&id, "recover", json!({})).await;
        assert_eq!(recovered.body["data"]["did"], "moved", "{interval} {recovered:?}");
    }
}

/// Each heartbeat updates when a node was last seen, also in states without a duty to beat.
async fn a_heartbeat_is_seen_in_every_state() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, credential) = enrolled(&rig, 1).await;
    beat(&rig, &id, &credential, json!({})).await;
    rig.until(&id, "active").await;
    beat(&rig, &id, &credential, json!({})).await;
    let path = format!("/api/v1/gpu-nodes/{id}");
    let seen = async || -> jiff::Timestamp {
        rig.get(&path).await["data"]["last_seen"].as_str().unwrap().parse().unwrap()
    };
    rig.act(&id, "quarantine", json!({"comment": "it smells"})).await.ok();
    let before = seen().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(beat(&rig, &id, &credential, json!({})).await["status"], "quarantined");
    let later = seen().await.duration_since(before);
    assert!(later >= jiff::SignedDuration::from_millis(200), "heard {later:?} later");
}

/// Checks that cannot be read prove nothing, however well the node was before.
async fn unreadable_checks_bring_no_node_back() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    beat(&rig, &id, &credential, json!({"checks": []})).await;
    put(&rig, &id, "offline", jiff::SignedDuration::from_mins(20)).await;
    rig.age(&id, jiff::SignedDuration::from_mins(30)).await;
    assert_eq!(beat(&rig, &id, &credential, json!({"checks": "x"})).await["status"], "offline");
    let heard = super::super::proof::latest(&rig.app, &id).await.unwrap().health.unwrap().1;
    assert!(rig.app.now().duration_since(heard) > jiff::SignedDuration::from_mins(29), "heard at {heard}");
    assert_eq!(beat(&rig, &id, &credential, json!({"checks": []})).await["status"], "active");
}

/// An active node that is to be cleaned, and its agent by hand.
pub(super) async fn cleaning(rig: &mut Rig, mode: &str) -> (String, String) {
    rig.work();
    let (id, credential) = enrolled(rig, 1).await;
    beat(rig, &id, &credential, json!({})).await;
    rig.until(&id, "active").await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": mode})).await.ok();
    (id, credential)
}

/// Nothing is erased under what runs on a node as long as its agent is heard, by whichever way its drain would be skipped.
async fn a_drain_is_not_skipped_while_the_agent_is_heard() {
    let mut rig = Rig::new().await;
    let (id, credential) = cleaning(&mut rig, "soft_reset").await;
    let path = format!("/api/v1/gpu-nodes/{id}/decommissions");
    let undrained =
        json!({"mode": "soft_reset", "skip": [{"stage": "drain_node", "comment": "it takes too long"}]});
    let refused = async || {
        let refused = rig.post(&path, undrained.clone()).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (409, "no_such_move"), "{refused:?}");
        assert!(refused.body["detail"].as_str().unwrap().contains("sends heartbeats"), "{refused:?}");
    };
    rig.until_stage_or(&id, "drain_node", "never").await;
    refused().await;
    rig.act(&id, "stop_drain", json!({})).await.ok();
    rig.until_run(&id, "cancelled").await;
    rig.act(&id, "quarantine", json!({"comment": "it smells"})).await.ok();
    refused().await;
    beat(&rig, &id, &credential, json!({})).await;
    refused().await;
    rig.long_silence(&id).await;
    rig.post(&path, undrained.clone()).await.ok();
    rig.until_stage_or(&id, "cleanup_storage", "never").await;
}

/// Does a task once it is asked for; says how it ended.
pub(super) async fn carry_out(rig: &Rig, id: &str, credential: &str, kind: &str, mut result: Value) {
    for _ in 0..1500 {
        let task = claim(rig, id, credential, "a").await;
        if task["kind"] == kind {
            result["epoch"] = task["epoch"].clone();
            let path = format!("/api/v1/gpu-nodes/{id}/tasks/{}/result", task["id"].as_str().unwrap());
            rig.as_agent(credential, &path, result).await.ok();
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{kind} was never asked for: {:#}", rig.lifecycle(id).await);
}

/// A node whose cleanup failed, was refused or is stopped halfway is not used before a person has recovered it, however
/// well its agent is.
async fn a_node_that_is_not_proven_clean_is_set_aside_when_its_run_is_stopped() {
    let well = json!({"outcome": "succeeded"});
    let torn =
        json!({"outcome": "succeeded", "details": [{"name": "nvme1", "method": "crypto", "ok": false}]});
    let refused = json!({"outcome": "refused"});
    let cases = [
        ("storage_cleanup", "node.cleanup_storage", Some(torn), "stop_drain"),
        ("soft_reset", "node.cleanup_storage", Some(refused), "cancel"),
        ("soft_reset", "node.scrub_gpu", None, "stop_drain"),
        ("soft_reset", "node.validate_clean", None, "rerun"),
    ];
    for (mode, last, result, way) in cases {
        let mut rig = Rig::new().await;
        let (id, credential) = cleaning(&mut rig, mode).await;
        for kind in ["node.drain", "node.cleanup_storage", "node.scrub_gpu", "node.validate_clean"] {
            if kind == last {
                break;
            }
            carry_out(&rig, &id, &credential, kind, well.clone()).await;
        }
        let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
        let act = async |action: &str| {
            rig.post(&format!("/api/v1/runs/{run}/actions/{action}"), json!({})).await.ok();
        };
        match result {
            Some(result) => {
                carry_out(&rig, &id, &credential, last, result).await;
                rig.until_run(&id, "failed_manual_intervention").await;
            }
            None => {
                let at = TaskKind::ALL.iter().find(|kind| kind.as_str() == last).unwrap();
                let stage = Stage::ALL.iter().find(|stage| TaskKind::of(**stage) == Some(*at)).unwrap();
                rig.until_stage_or(&id, stage.as_str(), "never").await;
            }
        }
        match way {
            "stop_drain" => drop(rig.act(&id, "stop_drain", json!({})).await.ok()),
            // Entered again from the top, it is no cleaner.
            "rerun" => {
                act("mark_manual_intervention_required").await;
                act("rerun").await;
                act("cancel").await;
            }
            action => act(action).await,
        }
        rig.until_run(&id, "cancelled").await;
        assert_eq!(beat(&rig, &id, &credential, json!({})).await["status"], "quarantined", "{mode} {last}");
        // It is not proven clean: using it as it is takes a statement and a reason.
        let refused = rig.act(&id, "recover", json!({})).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code()),
            (409, "not_proven"),
            "{mode} {last} {refused:?}"
        );
        rig.act(&id, "recover", json!({"unproven": true, "comment": "erased by hand"})).await.ok();
        assert_eq!(rig.state(&id).await, "active", "{mode} {last}");
    }
}

/// What an agent did to each disk can be read with the run, as evidence of the attempt and with the task itself.
async fn tasks_of_an_agent_can_be_read_with_its_run() {
    let mut rig = Rig::new().await;
    let (id, credential) = cleaning(&mut rig, "storage_cleanup").await;
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    carry_out(&rig, &id, &credential, "node.drain", json!({"outcome": "succeeded"})).await;
    let details = json!([{"name": "nvme0", "method": "crypto erase", "ok": true}]);
    let wiped =
        json!({"outcome": "succeeded", "exit_code": 0, "output": "wiped one disk", "details": details});
    carry_out(&rig, &id, &credential, "node.cleanup_storage", wiped).await;
    carry_out(&rig, &id, &credential, "node.validate_clean", json!({"outcome": "succeeded"})).await;
    rig.until_run(&id, "completed").await;
    let run = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
    let done = |attempt: &&Value| attempt["stage"] == "cleanup_storage" && attempt["outcome"] == "done";
    let attempt = run["attempts"].as_array().unwrap().iter().find(done).unwrap();
    assert!(attempt["evidence"].as_str().unwrap().contains("nvme0 crypto erase done"), "{attempt}");
    let tasks = run["tasks"].as_array().unwrap();
    let kinds: Vec<_> = tasks.iter().map(|task| task["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["node.drain", "node.cleanup_storage", "node.validate_clean"]);
    assert_eq!((&tasks[1]["stage"], &tasks[1]["state"]), (&json!("cleanup_storage"), &json!("succeeded")));
    assert_eq!(tasks[1]["result"]["output"], "wiped one disk");
    assert_eq!(tasks[1]["result"]["details"], details);
}

on_both! {
    an_old_heartbeat_brings_no_node_back
    a_heartbeat_counts_until_the_next_ones_are_missed
    a_drain_is_not_skipped_while_the_agent_is_heard
    a_heartbeat_is_seen_in_every_state
    unreadable_checks_bring_no_node_back
    a_node_that_is_not_proven_clean_is_set_aside_when_its_run_is_stopped
    tasks_of_an_agent_can_be_read_with_its_run
    a_server_that_is_cut_off_takes_no_heartbeat
    a_run_that_is_sent_on_asks_its_agent_again
    an_unreadable_task_stops_no_sweep
    a_token_works_once_and_a_lost_answer_can_be_asked_for_again
    a_bootstrap_by_hand_ends_with_a_healthy_heartbeat
    a_long_output_never_costs_a_heartbeat
    a_bad_number_never_costs_a_heartbeat
    an_agent_speaks_only_of_its_own_node
    a_new_token_voids_the_old_one
    a_token_is_issued_once_for_two_requests
    no_token_is_issued_for_a_run_that_turns_back
    a_task_has_one_holder_and_one_end
    a_lapsed_lease_fences_its_holder_off
    a_task_that_its_agent_forgot_can_be_claimed_again
    an_old_heartbeat_proves_nothing
    a_task_that_was_claimed_in_between_is_not_queued_again
    a_node_on_its_way_to_quarantine_is_not_brought_back
    a_beat_that_fails_is_one_of_its_agent_alone
    a_task_that_its_run_does_not_want_any_more_is_lost
    a_cancel_withdraws_the_tasks_of_its_run
    a_run_that_is_to_turn_back_gives_no_task_out
}
