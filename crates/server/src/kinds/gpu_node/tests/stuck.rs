//! A run that stands still names a way out, and the way works.

use jiff::SignedDuration;
use serde_json::{Value, json};
use wardroom_core::run::failure::Class;
use wardroom_fakes::maas::{Change, Outcome};

use super::{
    recommended::{nothing, to_the_end},
    rig::{Rig, line},
    trouble::seeded,
};
use crate::platform::app::by_system;

async fn why(rig: &Rig, id: &str) -> Value {
    rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone()
}

/// The agent of a node is dead: the run that waits for it says so and how to go on, and so does one that has waited for
/// too long.
async fn a_silent_agent_is_told_with_the_way_past_it() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.silence(&id);
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until_stage_or(&id, "drain_node", "never").await;
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    // As if it had been waited for, for longer and longer.
    for (minutes, wanted) in [(10, "running"), (61, "failed_retryable")] {
        let long_ago = rig.app.now() - SignedDuration::from_mins(minutes);
        for seen in rig.app.store.observations("gpu-node", &id).await.unwrap() {
            let version = seen.version + 1;
            let seen = wardroom_store::Observation { version, received_at: long_ago, ..seen };
            rig.app.store.observe(&seen).await.unwrap();
        }
        rig.app.liveness.forget("gpu-node", &id);
        super::agents::arrive(&rig, &id, "running", |run| run.progress.since = long_ago).await;
        for look in 0.. {
            let run = rig.lifecycle(&id).await["run"].clone();
            let said = run["waiting_for"].as_str().or(run["failure"].as_str()).unwrap_or_default();
            if run["status"] == wanted && said.contains("silent") {
                assert!(said.contains("`wardroom gpu-node retire` with --skip drain_node=COMMENT"), "{said}");
                let next = agreed(&rig, &id).await;
                assert!(next.to_string().contains("drain_node"), "{next}");
                break;
            }
            assert!(look < 1500, "{run}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    let recommended = rig.lifecycle(&id).await["recommended"].clone();
    assert_eq!(recommended["action"]["action"], "retire", "{recommended}");
    let shown = rig.get(&format!("/api/v1/runs/{run}")).await["data"]["recommended"].clone();
    assert!(shown["action"].is_null() && shown["because"].as_str().unwrap().contains("--skip"), "{shown}");
    rig.take(&recommended["action"]).await.ok();
    rig.until(&id, "retired").await;
}

/// Returns the next step of a node, which is that of its run.
async fn agreed(rig: &Rig, id: &str) -> Value {
    let why = why(rig, id).await;
    assert_eq!(why[0]["next"], why[1]["next"], "{why:#}");
    why[0]["next"].clone()
}

/// A host that is dead while it cleans, and an uninstall that failed time and again, are not waited for.
async fn a_node_needs_what_its_run_needs() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.long_silence(&id).await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "soft_reset"})).await.ok();
    rig.until_stage_or(&id, "drain_node", "never").await;
    for look in 0.. {
        let next = agreed(&rig, &id).await;
        if next["do"] == "mend" {
            let what = next["what"].as_str().unwrap();
            assert!(what.contains("check the host") && what.contains("silent since"), "{next}");
            break;
        }
        assert!(look < 1500, "{next}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let recommended = rig.lifecycle(&id).await["recommended"]["why"].clone();
    assert!(recommended.as_str().unwrap().contains("check the host"), "{recommended}");

    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until(&id, "retired").await;
    rig.silence(&id);
    rig.act(&id, "remove", json!({})).await.ok();
    rig.until_stage_or(&id, "remove_gpuaas_node_record", "never").await;
    let (class, at) = (Class::Retryable, rig.app.now());
    super::agents::arrive(&rig, &id, "running", |run| {
        let (stage, evidence) = (run.progress.stage, "no space left on device".to_owned());
        run.progress.failures.insert(class, 5);
        run.progress.failure = Some(wardroom_workflow::Failure { stage, class, evidence, at });
    })
    .await;
    let next = agreed(&rig, &id).await;
    assert_eq!(next["do"], "mend", "{next}");
    let what = next["what"].as_str().unwrap();
    assert!(what.contains("failed 5 times: no space left"), "{next}");
}

/// The observation of a stage is the newest one, and recommendations depend on it: no sweep looks here.
async fn observations_of_a_stage_are_kept() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    // The machine is not waited for any more, so it is not polled either.
    let _ = rig.workers.cache.due(jiff::Timestamp::MAX);
    assert!(rig.maas.vanish(&system_id));
    let path = format!("/api/v1/gpu-nodes/{id}/decommissions");
    rig.post(&path, json!({"mode": "full_decommission"})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "release_maas_node", "{run}");
    assert_eq!(rig.lifecycle(&id).await["maas"]["present"], false);
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["adopt_observed_state"]);
    rig.until(&id, "deleted").await;
}

/// A bootstrap without a worker is not waited for.
async fn a_bootstrap_that_was_given_up_is_not_waited_for() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, _) = rig.by_hand(1).await;
    assert_eq!(why(&rig, &id).await[0]["next"]["do"], "wait");
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    super::decommission::cancel(&rig, &run).await;
    rig.until_run(&id, "cancelled").await;
    let why = why(&rig, &id).await;
    let recommended = rig.lifecycle(&id).await["recommended"]["action"].clone();
    assert_eq!(line(&why[0]["next"]), line(&recommended), "{why:#}");
}

/// A frozen run shows the person and the reason, and not what it waited for then.
async fn a_frozen_run_names_the_person_and_the_reason() {
    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    let outcomes = [("commissioning".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    for look in 0.. {
        let run = rig.lifecycle(&id).await["run"].clone();
        assert!(look < 1500, "{run}");
        if run["stage"] == "wait_for_ready" && !run["waiting_for"].is_null() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    let freeze = format!("/api/v1/runs/{run}/actions/mark_manual_intervention_required");
    rig.post(&freeze, json!({"comment": "smoke in rack 4"})).await.ok();
    let lifecycle = rig.lifecycle(&id).await;
    let shown = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
    let why = why(&rig, &id).await;
    for said in
        [&lifecycle["recommended"]["why"], &shown["recommended"]["because"], &why[1]["blockers"][0]["what"]]
    {
        let said = said.as_str().unwrap_or_default();
        assert!(said.contains("frozen by admin: smoke in rack 4"), "{said} {why:#}");
    }
    assert_eq!((&shown["waiting"], &lifecycle["run"]["waiting_for"]), (&Value::Null, &Value::Null));
    // Sent on, it is not frozen any more.
    rig.post(&format!("/api/v1/runs/{run}/actions/resume"), json!({})).await.ok();
    rig.post(&freeze, json!({})).await.ok();
    let said = rig.lifecycle(&id).await["recommended"]["why"].as_str().unwrap().to_owned();
    assert!(said.contains("frozen by admin;") && !said.contains("smoke"), "{said}");
}

/// An agent that was silent before it was waited for is told of at once, with the way past it.
async fn an_agent_that_was_silent_before_is_reported_at_once() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.long_silence(&id).await;
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until_stage_or(&id, "drain_node", "never").await;
    for look in 0.. {
        let run = rig.lifecycle(&id).await["run"].clone();
        if let Some(reason) = run["waiting_for"].as_str() {
            assert!(reason.contains("silent since") && reason.contains("--skip drain_node"), "{run}");
            break;
        }
        assert!(look < 1500, "{run}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// A run of a version that knows more than this one hides no other.
async fn a_run_that_cannot_be_read_hides_no_other() {
    let rig = Rig::new().await;
    let id = rig.onboard(1).await;
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    let mut torn = rig.app.store.get("run", &run).await.unwrap().unwrap().content;
    torn.id = uuid::Uuid::nil().to_string();
    torn.keys.clear();
    torn.document = wardroom_store::Document::of(&json!({"torn": true})).unwrap();
    rig.app.create(torn, by_system(&rig.app, "registered", Value::Null)).await.unwrap();
    let shown = rig.get("/api/v1/runs").await["data"].clone();
    let ids: Vec<_> = shown.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [run]);
}

on_both! {
    an_agent_that_was_silent_before_is_reported_at_once
    a_node_needs_what_its_run_needs
    a_run_that_cannot_be_read_hides_no_other
    a_silent_agent_is_told_with_the_way_past_it
    observations_of_a_stage_are_kept
    a_bootstrap_that_was_given_up_is_not_waited_for
    a_frozen_run_names_the_person_and_the_reason
}
