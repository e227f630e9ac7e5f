//! Actions of operators on a node: idempotent, recorded, and refused with what is allowed.

use serde_json::json;
use wardroom_core::gpu_node::State;
use wardroom_fakes::maas::{Change, Outcome, Seed};

use super::{
    super::{begin, document::KIND, owners, resume, task},
    rig::{Rig, line, mac, verbs},
};
use crate::platform::{
    app::{Decided, by_system},
    http::error::Error,
};

/// Puts a node into a state as if something had gone wrong: without an owner.
async fn put(rig: &Rig, id: &str, state: State) {
    let moved = |node: &wardroom_store::Resource| {
        let mut document = super::super::document::Document::of(node)?;
        document.run = None;
        let content = document.into_content_of(node, state)?;
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "transition", json!(null)))), ()))
    };
    rig.app.change(KIND, id, moved).await.unwrap();
    if let Some(run) = rig.app.store.get_by_key("run", &format!("gpu-node/{id}")).await.unwrap() {
        let over = |run: &wardroom_store::Resource| {
            let mut content = run.content.clone();
            content.keys.clear();
            content.due_at = None;
            "cancelled".clone_into(&mut content.state);
            Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "transition", json!(null)))), ()))
        };
        rig.app.change("run", &run.content.id, over).await.unwrap();
    }
}

/// Tries every action in every state. An action that the table does not allow is refused, and the refusal
/// names the allowed ones; a node that never enrolled is neither recovered nor reactivated.
async fn a_refused_action_names_the_allowed_ones() {
    use wardroom_core::{Named as _, gpu_node::action::Action};
    let rig = Rig::new().await;
    let (id, _) = rig.by_hand(1).await;
    let decommissions = format!("/api/v1/gpu-nodes/{id}/decommissions");
    for &state in State::ALL {
        if state == State::Deleted {
            continue;
        }
        put(&rig, &id, state).await;
        for &action in Action::ALL {
            if action.is_allowed(state) || action.is_done(state) {
                continue;
            }
            let reply = rig.act(&id, action.as_str(), json!({})).await;
            assert_eq!(
                (reply.status.as_u16(), reply.code()),
                (409, "no_such_move"),
                "{action} in {state}: {reply:?}"
            );
            let expected = rig.lifecycle(&id).await["allowed_actions"].clone();
            assert_eq!(reply.body["allowed_actions"], expected, "{action} in {state}");
        }
        // What starts a run says the same.
        let reply = rig.post(&decommissions, json!({"mode": "full_decommission"})).await;
        let expected = rig.lifecycle(&id).await["allowed_actions"].clone();
        assert_eq!((reply.code(), &reply.body["allowed_actions"]), ("no_site", &expected), "{state}");
        let modes = rig.lifecycle(&id).await["allowed_decommissions"].clone();
        let reply = rig.post(&decommissions, json!({"mode": "soft_reset"})).await;
        let accepted =
            if reply.status.as_u16() == 201 { json!(["soft_reset", "storage_cleanup"]) } else { json!([]) };
        assert_eq!(modes, accepted, "{state}: {reply:?}");
        if !matches!(state, State::Active | State::Offline | State::Quarantined) {
            assert_eq!(
                (reply.code(), &reply.body["allowed_actions"]),
                ("no_such_move", &expected),
                "{state}"
            );
        }
    }
}

async fn a_quarantined_node_recovers_when_it_is_proven_healthy() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    assert_eq!(
        rig.act(&id, "quarantine", json!({"comment": "odd noises"})).await.ok()["data"]["did"],
        "moved"
    );
    assert_eq!(rig.act(&id, "quarantine", json!({})).await.ok()["data"]["did"], "already_there");
    let (rows, _) = rig.app.store.history(KIND, &id, wardroom_store::Rows::Transitions, 10, 0).await.unwrap();
    assert_eq!(rows[0].entry.comment.as_deref(), Some("odd noises"));
    assert_eq!(rows[0].entry.user_id.as_deref(), Some("admin"));
    // Its agent beats on, so the proof comes by itself.
    for _ in 0..200 {
        let reply = rig.act(&id, "recover", json!({})).await;
        if reply.status.is_success() {
            break;
        }
        assert_eq!(reply.code(), "not_proven", "{reply:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(rig.state(&id).await, "active");
}

/// Work in progress without an owner gets one, whether a person or the sweeper looks first.
async fn work_in_progress_always_gets_its_owner_back() {
    for state in [State::Enrolling, State::Draining, State::Removing] {
        for by_person in [true, false] {
            let rig = Rig::new().await;
            let (id, _) = rig.by_hand(1).await;
            put(&rig, &id, state).await;
            if by_person {
                assert_eq!(
                    rig.act(&id, "resume", json!({})).await.ok()["data"]["did"],
                    "run_created",
                    "{state}"
                );
            } else {
                owners::sweep(&rig.app).await.unwrap();
            }
            let lifecycle = rig.lifecycle(&id).await;
            assert_eq!(lifecycle["run"]["status"], "pending", "{state} {lifecycle}");
            let first = lifecycle["run"]["id"].clone();
            owners::sweep(&rig.app).await.unwrap();
            rig.act(&id, "resume", json!({})).await;
            assert_eq!(rig.lifecycle(&id).await["run"]["id"], first, "never a second one");
        }
    }
}

/// A listed node may be outdated: a run that has ended since needs no successor.
async fn a_run_that_ended_meanwhile_gets_no_successor() {
    for (was, is) in [(State::Draining, State::Offline), (State::Enrolling, State::Quarantined)] {
        let rig = Rig::new().await;
        let (id, _) = rig.by_hand(1).await;
        put(&rig, &id, was).await;
        let seen = rig.app.store.get(KIND, &id).await.unwrap().unwrap();
        put(&rig, &id, is).await;
        owners::look_after(&rig.app, &seen).await.unwrap();
        // Nor when it ends between the look and the start.
        let (plan, entry) =
            (resume::owner_for(was, &seen).unwrap(), by_system(&rig.app, "changed", json!(null)));
        let begun = begin::begin(&rig.app, &entry, &id, &plan).await;
        assert!(matches!(begun, Err(Error::Conflict { code: "no_such_move", .. })), "{was}: {begun:?}");
        assert_eq!(
            (rig.lifecycle(&id).await["run"].clone(), rig.state(&id).await),
            (json!(null), is.to_string())
        );
    }
}

/// `resume` of a drain finds the task: queued, live, or lapsed and queued again.
async fn resume_says_which_branch_it_took() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, token) = rig.by_hand(1).await;
    let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
    let credential = enrolled["credential"].as_str().unwrap().to_owned();
    rig.as_agent(&credential, &format!("/api/v1/gpu-nodes/{id}/heartbeat"), json!({})).await.ok();
    rig.until(&id, "active").await;
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until(&id, "draining").await;
    let task = loop {
        let task = rig.lifecycle(&id).await["task"]["id"].clone();
        if let Some(task) = task.as_str() {
            break task.to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let resume =
        async || rig.act(&id, "resume", json!({})).await.ok()["data"]["did"].as_str().unwrap().to_owned();
    assert_eq!(resume().await, "task_queued");
    let claim = format!("/api/v1/gpu-nodes/{id}/tasks/claim");
    rig.as_agent(&credential, &claim, json!({"holder": "a"})).await.ok();
    assert_eq!(resume().await, "task_live");
    let lease = rig.app.store.lease(&task::lease(&task)).await.unwrap().unwrap();
    rig.app.store.release_lease(&lease).await.unwrap();
    assert_eq!(resume().await, "task_requeued");
    assert_eq!(rig.state(&id).await, "draining", "a lease that lapsed changes nothing");
    let again = rig.as_agent(&credential, &claim, json!({"holder": "a"})).await.ok();
    assert_eq!(again["task"]["id"], json!(task));
    let path = format!("/api/v1/gpu-nodes/{id}/tasks/{task}/result");
    let result = json!({"epoch": again["task"]["epoch"], "outcome": "succeeded"});
    rig.as_agent(&credential, &path, result).await.ok();
    rig.until(&id, "retired").await;
}

async fn a_drain_is_stopped_short_of_retirement() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, token) = rig.by_hand(1).await;
    let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
    let credential = enrolled["credential"].as_str().unwrap().to_owned();
    let beat = format!("/api/v1/gpu-nodes/{id}/heartbeat");
    rig.as_agent(&credential, &beat, json!({})).await.ok();
    rig.until(&id, "active").await;
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until(&id, "draining").await;
    assert_eq!(
        rig.act(&id, "stop_drain", json!({"comment": "not today"})).await.ok()["data"]["did"],
        "run_cancelling"
    );
    rig.until(&id, "offline").await;
    assert_eq!(rig.act(&id, "stop_drain", json!({})).await.ok()["data"]["did"], "already_there");
    rig.as_agent(&credential, &beat, json!({})).await.ok();
    rig.until(&id, "active").await;
    assert_eq!(rig.lifecycle(&id).await["task"], json!(null), "the drain was withdrawn");
}

/// However a quarantined node was drained, it is not used before a person has recovered it.
async fn a_quarantine_outlives_a_drain_and_a_retirement() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.act(&id, "quarantine", json!({"comment": "odd noises"})).await.ok();
    let reset = format!("/api/v1/gpu-nodes/{id}/decommissions");
    rig.post(&reset, json!({"mode": "soft_reset"})).await.ok();
    rig.until_run(&id, "completed").await;
    assert_eq!(rig.state(&id).await, "quarantined", "cleaned, and still set aside");

    rig.act(&id, "retire", json!({})).await.ok();
    rig.until_run(&id, "completed").await;
    rig.silence(&id);
    rig.act(&id, "remove", json!({})).await.ok();
    rig.until(&id, "removing").await;
    rig.act(&id, "rollback_remove", json!({})).await.ok();
    rig.until_run(&id, "cancelled").await;
    assert_eq!(rig.state(&id).await, "retired");
    rig.act(&id, "reactivate", json!({})).await.ok();
    assert_eq!(rig.state(&id).await, "quarantined", "taken back, and still set aside");

    rig.act(&id, "retire", json!({})).await.ok();
    rig.until_stage_or(&id, "drain_node", "never").await;
    rig.act(&id, "stop_drain", json!({})).await.ok();
    rig.until_run(&id, "cancelled").await;
    assert_eq!(rig.state(&id).await, "quarantined", "the drain was stopped");
    assert_eq!(rig.act(&id, "stop_drain", json!({})).await.ok()["data"]["did"], "already_there");

    rig.hear(&id);
    rig.recover(&id).await;
    assert_eq!(rig.state(&id).await, "active");
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until(&id, "retired").await;
    rig.until_run(&id, "completed").await;
    rig.act(&id, "reactivate", json!({})).await.ok();
    rig.until(&id, "active").await;
}

/// A node that never enrolled has no agent that could prove it healthy.
async fn a_node_that_never_enrolled_stays_in_quarantine() {
    let mut rig = Rig::new().await;
    let (id, _) = rig.by_hand(1).await;
    put(&rig, &id, State::Quarantined).await;
    rig.work();
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until(&id, "draining").await;
    rig.act(&id, "stop_drain", json!({})).await.ok();
    rig.until_run(&id, "cancelled").await;
    assert_eq!(rig.state(&id).await, "quarantined");
}

/// An impossible stage is skipped at an operator's request, also while its run waits or has failed there; a
/// stage that erases is not.
async fn a_stage_of_a_run_under_way_is_skipped_with_a_reason() {
    let mut rig = Rig::new().await;
    let active = rig.active(1).await;
    let (id, _) = rig.by_hand(2).await;
    rig.silence(&id);
    put(&rig, &id, State::Quarantined).await;
    rig.act(&id, "retire", json!({})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    let told = run["failure"].as_str().unwrap();
    assert!(told.contains("repeat `wardroom gpu-node retire` with --skip drain_node=COMMENT"), "{told}");
    let skip = json!({"skip": [{"stage": "drain_node", "comment": "the board burnt"}]});
    assert_eq!(rig.act(&id, "retire", skip.clone()).await.ok()["data"]["did"], "stage_skipped");
    rig.until(&id, "retired").await;
    rig.until_run(&id, "completed").await;
    let run = rig.get(&format!("/api/v1/runs/{}", run["id"].as_str().unwrap())).await["data"].clone();
    let skipped = run["attempts"].as_array().unwrap().iter().find(|attempt| attempt["outcome"] == "skipped");
    assert_eq!(skipped.map(|attempt| &attempt["evidence"]), Some(&json!("the board burnt")), "{run:#}");

    let id = active;
    rig.silence(&id);
    let decommission = format!("/api/v1/gpu-nodes/{id}/decommissions");
    rig.post(&decommission, json!({"mode": "full_decommission"})).await.ok();
    rig.until_stage_or(&id, "drain_node", "never").await;
    let with = |stage: &str| {
        let skip = json!([{"stage": stage, "comment": "the board burnt"}]);
        json!({"mode": "full_decommission", "skip": skip})
    };
    rig.long_silence(&id).await;
    let reply = rig.post(&decommission, with("cleanup_storage")).await;
    assert_eq!((reply.status.as_u16(), reply.code()), (409, "run_open"), "{reply:?}");
    rig.post(&decommission, with("drain_node")).await.ok();
    rig.post(&decommission, with("drain_node")).await.ok();
    rig.until_stage_or(&id, "cleanup_storage", "never").await;
}

/// Many at once, and one effect.
async fn pressed_by_many_at_once_retire_starts_one_run() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let presses = (0..50).map(|_| rig.act(&id, "retire", json!({})));
    let replies = futures_util::future::join_all(presses).await;
    let created = replies.iter().filter(|reply| reply.body["data"]["did"] == "run_created").count();
    assert_eq!(created, 1, "{replies:?}");
    assert!(replies.iter().all(|reply| reply.status.is_success()), "{replies:?}");
    rig.until(&id, "retired").await;
    let runs = rig.get(&format!("/api/v1/runs?node_id={id}&kind=retire")).await;
    assert_eq!(runs["data"].as_array().unwrap().len(), 1, "{runs:#}");
}

/// The named actions of a quarantined node are possible: a node without an agent, or with a run, is not
/// recovered.
async fn a_quarantined_node_names_its_possible_actions() {
    let mut rig = Rig::new().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let outcomes = [("commissioning".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_ready", "never").await;
    rig.act(&id, "quarantine", json!({"comment": "it smells"})).await.ok();
    let next =
        async || rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"][0]["next"].clone();
    assert_eq!(next().await["do"], "wait", "{}", next().await);
    let allowed = async || verbs(&rig.lifecycle(&id).await["allowed_actions"]);
    assert_eq!(allowed().await, json!([]), "its run is in the way of all of them");
    let busy = rig.act(&id, "recover", json!({})).await;
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        busy.body["allowed_actions"].as_array().unwrap().iter().map(line).collect::<Vec<_>>(),
        [
            format!("GET /api/v1/runs/{run}"),
            format!("POST /api/v1/runs/{run}/actions/cancel"),
            format!("POST /api/v1/runs/{run}/actions/resume"),
        ]
    );
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone();
    assert_eq!(why[1]["next"]["until"], "the run goes on (MAAS commissions the machine)", "{why:#}");
    super::decommission::cancel(&rig, &run).await;
    rig.until_run(&id, "cancelled").await;
    assert_eq!(allowed().await, json!(["retire"]), "no agent proves that it is well");
    let request = format!("POST /api/v1/gpu-nodes/{id}/onboardings");
    assert_eq!(line(&rig.lifecycle(&id).await["recommended"]["action"]), request);
    assert_eq!(line(&next().await), request);
    assert!(rig.maas.vanish(&system_id), "the next one is commissioned");
    rig.post(request.strip_prefix("POST ").unwrap(), json!({})).await.ok();
    rig.until_run(&id, "completed").await;
    // Now its agent speaks for it.
    assert_eq!(rig.lifecycle(&id).await["recommended"]["action"]["action"], "recover");
    rig.recover(&id).await;
}

/// What the agent of a host that is heard can do is not given up, whatever the node is asked for.
async fn a_host_that_is_heard_is_drained() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let skip = |stage: &str| json!({"skip": [{"stage": stage, "comment": "why not"}]});
    let refused = rig.act(&id, "retire", skip("drain_node")).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body["detail"].as_str().unwrap().contains("sends heartbeats"), "{refused:?}");
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until_run(&id, "completed").await;
    assert_eq!(rig.act(&id, "retire", skip("drain_node")).await.ok()["data"]["did"], "already_there");
    let refused = rig.act(&id, "remove", skip("remove_gpuaas_node_record")).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    rig.long_silence(&id).await;
    rig.act(&id, "remove", skip("remove_gpuaas_node_record")).await.ok();
    rig.until(&id, "deleted").await;
}

/// A host that never enrolled cannot drain: the recommended action gets past that, and it works.
async fn an_impossible_drain_is_recommended_to_be_skipped() {
    let mut rig = Rig::new().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let outcomes = [("commissioning".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_ready", "never").await;
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    super::decommission::cancel(&rig, &run).await;
    rig.until_run(&id, "cancelled").await;
    assert_eq!(rig.state(&id).await, "quarantined");
    rig.act(&id, "retire", json!({})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["failure_class"], "no_agent", "{run}");
    let recommended = rig.lifecycle(&id).await["recommended"].clone();
    assert_eq!(recommended["action"]["action"], "retire", "{recommended}");
    let shown = rig.get(&format!("/api/v1/runs/{}", run["id"].as_str().unwrap())).await["data"].clone();
    assert!(shown["recommended"]["action"].is_null(), "{shown}");
    assert!(shown["recommended"]["because"].as_str().unwrap().contains("--skip drain_node"), "{shown}");
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone();
    for why in [&why[0], &why[1]] {
        assert_eq!(line(&why["next"]), line(&recommended["action"]), "{why:#}");
    }
    rig.take(&recommended["action"]).await.ok();
    rig.until(&id, "retired").await;
}

/// A node whose run is being undone names the way that there is.
async fn a_run_that_is_being_undone_is_not_to_be_cancelled_first() {
    let mut rig = Rig::new().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let outcomes = [("releasing".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_agent_enrollment", "never").await;
    rig.act(&id, "quarantine", json!({"comment": "it smells"})).await.ok();
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    super::decommission::cancel(&rig, &run).await;
    rig.until_run(&id, "compensating").await;
    let busy = rig.act(&id, "retire", json!({})).await;
    let allowed = busy.body["allowed_actions"].as_array().unwrap();
    assert!(allowed[1]["action"] == "mark_manual_intervention_required", "{busy:?}");
    for body in [json!({"comment": "x"}), json!({"comment": "it never ends", "abandon": true})] {
        let action = if body["abandon"] == true { "cancel" } else { "mark_manual_intervention_required" };
        rig.post(&format!("/api/v1/runs/{run}/actions/{action}"), body).await.ok();
    }
    rig.act(&id, "retire", json!({"skip": [{"stage": "drain_node", "comment": "no agent is there"}]}))
        .await
        .ok();
    rig.until(&id, "retired").await;
}

on_both! {
    a_host_that_is_heard_is_drained
    an_impossible_drain_is_recommended_to_be_skipped
    a_run_that_is_being_undone_is_not_to_be_cancelled_first
    a_quarantined_node_names_its_possible_actions
    a_refused_action_names_the_allowed_ones
    a_quarantined_node_recovers_when_it_is_proven_healthy
    work_in_progress_always_gets_its_owner_back
    a_run_that_ended_meanwhile_gets_no_successor
    resume_says_which_branch_it_took
    a_drain_is_stopped_short_of_retirement
    a_quarantine_outlives_a_drain_and_a_retirement
    a_node_that_never_enrolled_stays_in_quarantine
    a_stage_of_a_run_under_way_is_skipped_with_a_reason
}

on_both! {
    threads:
    pressed_by_many_at_once_retire_starts_one_run
}
