//! Recommended actions, followed to the end: fixing the named cause and doing the recommended action brings
//! the node into use, or to a clear end.

use jiff::SignedDuration;
use serde_json::{Value, json};
use wardroom_core::{
    gpu_node::maas::Status,
    run::{failure::Class, plan::Stage},
};
use wardroom_fakes::maas::{Change, Fault, FaultKind, Outcome};

use super::{
    super::document::Document,
    agents::{arrive, beat, carry_out, cleaning},
    harness::{Trick, Tricky},
    rig::{Rig, line, quick, verbs},
    trouble::{meanwhile, needs_person, seeded},
};
use crate::platform::app::{Decided, by_system};

/// How many recommendations may follow on each other before they lead in a circle.
const STEPS: usize = 4;

/// Does the recommended action, on which the node and its run agree; returns it.
pub(super) async fn follow(rig: &Rig, id: &str) -> String {
    step(rig, id).await.0
}

/// The same, with what came of it.
async fn step(rig: &Rig, id: &str) -> (String, Value) {
    let lifecycle = rig.lifecycle(id).await;
    let path = format!("/api/v1/runs/{}", lifecycle["run"]["id"].as_str().unwrap());
    let run = rig.get(&path).await["data"].clone();
    let action = run["recommended"]["action"]["action"].as_str().unwrap().to_owned();
    assert_eq!(lifecycle["recommended"]["action"], run["recommended"]["action"], "{lifecycle:#}");
    assert!(run["allowed_actions"].as_array().unwrap().contains(&run["recommended"]["action"]), "{run:#}");
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone();
    for why in [&why[0], &why[1]] {
        assert_eq!(line(&why["next"]), line(&lifecycle["recommended"]["action"]), "{why:#}");
        assert_eq!(why["next"]["precondition"], lifecycle["recommended"]["why"], "{why:#}");
    }
    let digest = run["observed"]["digest"].clone();
    let body = match action.as_str() {
        "adopt_observed_state" => json!({"comment": "looked", "expected_observation_digest": digest}),
        _ => json!({"comment": "seen to"}),
    };
    let acted = rig.post(&format!("{path}/actions/{action}"), body).await.ok();
    (action, acted["data"].clone())
}

/// Does the recommended actions until the run is over, fixing the named cause before each; returns them.
pub(super) async fn to_the_end(rig: &Rig, id: &str, see_to: impl AsyncFn(&str)) -> Vec<String> {
    let mut done = Vec::new();
    while done.len() < STEPS {
        let run = rig.lifecycle(id).await["run"].clone();
        see_to(run["failure"].as_str().unwrap()).await;
        done.push(follow(rig, id).await);
        for look in 0.. {
            let run = rig.lifecycle(id).await["run"].clone();
            assert!(look < 1500, "{done:?}: {run}");
            match run["status"].as_str().unwrap() {
                "completed" | "reconciled" | "cancelled" => return done,
                "failed_retryable" | "failed_manual_intervention" => break,
                _ => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    }
    panic!("{done:?} leads in a circle: {:#}", rig.lifecycle(id).await);
}

/// Nothing is left to be seen to.
pub(super) async fn nothing(_: &str) {}

/// What the site says of the boot disk is wrong, and is corrected.
async fn wrong_settings_lead_on() {
    let mut rig = Rig::with(quick(), |site| site.boot_disk.model = Some("Nothing".to_owned())).await;
    let (id, run) = needs_person(&mut rig, "configure_storage").await;
    assert_eq!(run["failure_class"], "settings");
    boots_from(&rig, "BOSS").await;
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["rerun"]);
    rig.until(&id, "active").await;
}

/// The machine is deleted, or released while its agent is waited for.
async fn a_machine_that_was_taken_away_has_a_way_out() {
    for stage in [Stage::WaitForDeployed, Stage::WaitForAgentEnrollment] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        let once = std::sync::Once::new();
        meanwhile(&mut rig, stage, move |maas| {
            once.call_once(|| {
                let status = Some(Status::Ready);
                if stage == Stage::WaitForDeployed {
                    assert!(maas.vanish(&system_id));
                } else {
                    assert!(maas.change(&system_id, &Change { status, ..Change::default() }));
                }
            });
        });
        rig.agents();
        let id = rig.onboard(1).await;
        let run = rig.until_run(&id, "failed_manual_intervention").await;
        assert_eq!(run["failure_class"], "disagreement", "{run}");
        assert_eq!(to_the_end(&rig, &id, nothing).await, ["restart_clean"]);
        rig.until(&id, "active").await;
    }
}

/// Does what a run says that has found its machine in use: releases it in MAAS.
async fn release(rig: &Rig, system_id: &str, said: &str) {
    if said.contains("release it in MAAS") {
        let free = Change { status: Some(Status::Ready), ..Change::default() };
        assert!(rig.maas.change(system_id, &free));
    }
}

/// The machine is deployed or allocated outside of Wardroom while its run stands still: that system cannot
/// enrol for the run, so it is not adopted.
async fn a_machine_with_a_foreign_system_has_a_way_out() {
    for (status, stage) in [
        (Status::Deployed, Stage::ConfigureStorage),
        (Status::Deploying, Stage::ConfigureStorage),
        (Status::Deployed, Stage::DeployViaMaas),
        (Status::Allocated, Stage::ConfigureStorage),
    ] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        let (once, machine) = (std::sync::Once::new(), system_id.clone());
        meanwhile(&mut rig, stage, move |maas| {
            let taken = Change { status: Some(status), ..Change::default() };
            once.call_once(|| assert!(maas.change(&machine, &taken)));
        });
        rig.agents();
        let id = rig.onboard(1).await;
        let run = rig.until_run(&id, "failed_manual_intervention").await;
        assert_eq!(run["failure_class"], "disagreement", "{run}");
        super::super::drift::sweep(&rig.workers, "test").await.unwrap();
        let done = to_the_end(&rig, &id, async |said: &str| release(&rig, &system_id, said).await).await;
        assert_eq!(done, ["rerun", "retry_stage"], "{status:?} at {stage}");
        rig.until(&id, "active").await;
    }
}

/// Every day: a node was retired and removed, which leaves its machine deployed, and is registered anew.
async fn a_machine_that_a_removed_node_left_deployed_leads_on() {
    let mut rig = Rig::new().await;
    let first = rig.active(1).await;
    let system_id = rig.system_id(&first).await;
    rig.act(&first, "retire", json!({})).await.ok();
    rig.until(&first, "retired").await;
    rig.act(&first, "remove", json!({})).await.ok();
    rig.until(&first, "deleted").await;
    let id = rig.onboard(1).await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "create_or_find_in_maas", "{run}");
    assert_eq!(rig.did(&system_id, "release"), 0, "no operator agreed to erase it");
    let done = to_the_end(&rig, &id, async |said: &str| release(&rig, &system_id, said).await).await;
    assert_eq!(done, ["retry_stage"]);
    rig.until(&id, "active").await;
    assert_eq!(rig.system_id(&id).await, system_id);
}

/// A release that is still going on is waited for.
async fn a_machine_that_is_being_released_is_waited_for() {
    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    let releasing = Change { status: Some(Status::Releasing), ..Change::default() };
    assert!(rig.maas.change(&system_id, &releasing));
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "create_or_find_in_maas", "never").await;
    for _ in 0..1500 {
        if !rig.lifecycle(&id).await["run"]["waiting_for"].is_null() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let ready = Change { status: Some(Status::Ready), ..Change::default() };
    assert!(rig.maas.change(&system_id, &ready));
    rig.until(&id, "active").await;
}

/// MAAS is away for longer than the run bears; the data source does not answer, time and again.
async fn a_passing_failure_has_a_way_out() {
    let mut rig = Rig::new().await;
    let _ = seeded(&rig);
    rig.maas.fault(Fault::of("whoami", FaultKind::Status(500)).times(50));
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    let run = rig.until_run(&id, "failed_retryable").await;
    assert_eq!(run["failure_class"], "unanswered");
    rig.maas.clear_faults();
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["retry_stage"]);
    rig.until(&id, "active").await;

    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    let failure = Outcome::Fail("timed out: searching for network DataSource".to_owned());
    let outcomes = [("deploying".to_owned(), vec![failure; 3])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    let (id, run) = needs_person(&mut rig, "classify_deploy_failure").await;
    assert_eq!(run["failure_class"], "datasource");
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["retry_stage"]);
    rig.until(&id, "active").await;
}

/// The token of a node expires now.
async fn expire(rig: &Rig, id: &str) {
    let expired = |node: &wardroom_store::Resource| {
        let mut document = Document::of(node)?;
        let state = super::super::document::state(node)?;
        document.enrollment.as_mut().unwrap().expires_at = rig.app.now() - SignedDuration::from_secs(1);
        let content = document.into_content_of(node, state)?;
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "credential", Value::Null))), ()))
    };
    rig.app.change("gpu-node", id, expired).await.unwrap();
}

/// A token that expired before an agent enrolled: by hand another one is issued and shown; one that is in the user data
/// of a deployed system takes another deployment.
async fn an_expired_token_leads_on() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, old) = rig.by_hand(1).await;
    expire(&rig, &id).await;
    rig.until_run(&id, "failed_manual_intervention").await;
    let (action, acted) = step(&rig, &id).await;
    assert_eq!(action, "retry_stage");
    let enroll = "/api/v1/gpu-nodes/enroll";
    assert_eq!(rig.as_agent("", enroll, json!({"token": old})).await.status, 401);
    let enrolled = rig.as_agent("", enroll, json!({"token": acted["token"]})).await.ok();
    let credential = enrolled["credential"].as_str().unwrap();
    rig.as_agent(credential, &format!("/api/v1/gpu-nodes/{id}/heartbeat"), json!({"checks": []})).await.ok();
    rig.until(&id, "active").await;

    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_agent_enrollment", "never").await;
    expire(&rig, &id).await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["failure_class"], "redeploy", "{run}");
    rig.agents();
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["restart_clean"]);
    rig.until(&id, "active").await;

    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "reimage"})).await.ok();
    rig.until_stage_or(&id, "wait_for_deployed", "never").await;
    rig.silence(&id);
    rig.until_stage_or(&id, "wait_for_agent_enrollment", "never").await;
    expire(&rig, &id).await;
    rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["cancel"]);
    assert_eq!((rig.state(&id).await.as_str(), rig.did(&system_id, "release")), ("retired", 3));
}

/// Nothing in MAAS explains why a deployment failed: an operator who has looked has it tried once more, also
/// after having released the machine in MAAS.
async fn a_failure_that_nothing_explains_leads_on() {
    for (released, unanswered) in [(false, false), (true, false), (false, true)] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        let outcomes = [("deploying".to_owned(), vec![Outcome::Fail("the moon was full".to_owned())])].into();
        rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        let (id, run) = needs_person(&mut rig, "classify_deploy_failure").await;
        assert_eq!(run["failure_class"], "manual", "{run}");
        // An operator who was shown another failure has not looked.
        let run = arrive(&rig, &id, "failed_retryable", |run| {
            run.progress.failure.as_mut().unwrap().class = Class::Unanswered;
        });
        rig.post(&format!("/api/v1/runs/{}/actions/retry_stage", run.await), json!({})).await.ok();
        rig.until_run(&id, "failed_manual_intervention").await;
        assert_eq!(rig.did(&system_id, "deploy"), 1);
        if released {
            let free = Change { status: Some(Status::Ready), ..Change::default() };
            assert!(rig.maas.change(&system_id, &free));
        }
        if unanswered {
            rig.maas.fault(Fault::of("events", FaultKind::Status(502)));
        }
        assert_eq!(to_the_end(&rig, &id, nothing).await, ["retry_stage"]);
        rig.until(&id, "active").await;
        assert_eq!(rig.did(&system_id, "deploy"), 2);
    }
}

/// Sets what the site says of the boot disk.
async fn boots_from(rig: &Rig, model: &str) {
    let (mut settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    settings.boot_disk.model = Some(model.to_owned());
    let body = json!({"name": "berlin", "settings": settings});
    rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", body).await.ok();
}

/// The mistake is found after the machine was released, and its agent with it: the earlier proofs of the
/// agent count.
async fn wrong_settings_of_a_reimage_lead_on() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    boots_from(&rig, "Nothing").await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "reimage"})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!((&run["stage"], &run["failure_class"]), (&json!("configure_storage"), &json!("settings")));
    let lifecycle = rig.lifecycle(&id).await;
    assert!(lifecycle["health"].is_null(), "the node has no agent any more: {lifecycle:#}");
    boots_from(&rig, "BOSS").await;
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["rerun"]);
    rig.until(&id, "active").await;
    assert_eq!(rig.did(&rig.system_id(&id).await, "release"), 1);
}

/// A reimage or decommission of a node without an agent names all impossible stages at once, and continues
/// when they are skipped.
async fn impossible_stages_are_skipped_at_once() {
    for (mode, end) in [("reimage", "active"), ("full_decommission", "deleted")] {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        boots_from(&rig, "Nothing").await;
        let path = format!("/api/v1/gpu-nodes/{id}/decommissions");
        rig.post(&path, json!({"mode": "reimage"})).await.ok();
        rig.until_run(&id, "failed_manual_intervention").await;
        let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
        rig.post(&format!("/api/v1/runs/{run}/actions/cancel"), json!({})).await.ok();
        rig.until_run(&id, "cancelled").await;
        assert_eq!(rig.state(&id).await, "retired");
        let why = rig.lifecycle(&id).await["recommended"]["why"].clone();
        assert!(why.as_str().unwrap().contains("no identity"), "{why}");
        boots_from(&rig, "BOSS").await;
        rig.post(&path, json!({"mode": mode})).await.ok();
        let run = rig.until_run(&id, "failed_manual_intervention").await;
        assert_eq!((&run["stage"], &run["failure_class"]), (&json!("drain_node"), &json!("no_agent")));
        let told = run["failure"].as_str().unwrap();
        assert!(told.contains("--skip drain_node=COMMENT --skip"), "{told}");
        assert!(told.contains("--skip validate_clean_node=COMMENT"), "{told}");
        rig.take(&rig.lifecycle(&id).await["recommended"]["action"]).await.ok();
        rig.until_run(&id, "completed").await;
        rig.until(&id, end).await;
    }
}

/// By hand, for a node that was onboarded without a site, and for one that is set aside: another token is issued there too.
async fn an_expired_token_of_an_onboarding_by_hand_leads_on() {
    for (aside, resumes) in [(false, false), (true, false), (false, true)] {
        let mut rig = Rig::new().await;
        rig.work();
        let (id, _) = rig.by_hand(1).await;
        rig.post(&format!("/api/v1/gpu-nodes/{id}/onboardings"), json!({})).await.ok();
        assert_eq!(rig.state(&id).await, "enrolling");
        if aside {
            rig.act(&id, "quarantine", json!({"comment": "it smells"})).await.ok();
        }
        expire(&rig, &id).await;
        rig.until_run(&id, "failed_manual_intervention").await;
        let token = match resumes {
            true => rig.act(&id, "resume", json!({})).await.ok()["data"]["token"].clone(),
            false => step(&rig, &id).await.1["token"].clone(),
        };
        assert!(token.is_string(), "no token was issued: {:#}", rig.lifecycle(&id).await);
        let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
        let credential = enrolled["credential"].as_str().unwrap();
        let beat = format!("/api/v1/gpu-nodes/{id}/heartbeat");
        rig.as_agent(credential, &beat, json!({"checks": []})).await.ok();
        rig.until_run(&id, "completed").await;
    }
}

/// Does the recommended action of a node without a run, on which `why` agrees; returns it.
async fn press(rig: &Rig, id: &str) -> String {
    let recommended = rig.lifecycle(id).await["recommended"].clone();
    let action = &recommended["action"];
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone();
    assert_eq!(line(&why[0]["next"]), line(action), "{why:#}");
    rig.take(action).await.ok();
    action["action"].as_str().unwrap().to_owned()
}

/// Returns the person and reason of a quarantine, as the node and `why` tell it.
async fn because(rig: &Rig, id: &str) -> String {
    let because = rig.lifecycle(id).await["because"].as_str().unwrap_or_default().to_owned();
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone();
    assert!(
        !because.is_empty() && why[0]["meaning"].as_str().unwrap().contains(&because),
        "{because} {why:#}"
    );
    because
}

/// What was begun to be erased and never proven clean is erased again, and proven, before the node is used; also when
/// something else was begun and stopped meanwhile.
async fn a_cleanup_that_was_stopped_leads_on() {
    let well = json!({"outcome": "succeeded"});
    let mut rig = Rig::new().await;
    let (id, credential) = cleaning(&mut rig, "storage_cleanup").await;
    carry_out(&rig, &id, &credential, "node.drain", well.clone()).await;
    rig.until_stage_or(&id, "cleanup_storage", "never").await;
    let cancel = async || {
        let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
        rig.post(&format!("/api/v1/runs/{run}/actions/cancel"), json!({"comment": "a fire drill"}))
            .await
            .ok();
        rig.until_run(&id, "cancelled").await;
        beat(&rig, &id, &credential, json!({})).await;
        assert_eq!(rig.state(&id).await, "quarantined");
    };
    cancel().await;
    let told = because(&rig, &id).await;
    assert!(told.contains("by admin: a fire drill") && told.contains("cleanup_storage"), "{told}");
    assert!(told.contains("begun to erase"), "{told}");
    rig.act(&id, "retire", json!({})).await.ok();
    cancel().await;
    let refused = rig.act(&id, "recover", json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "not_proven"), "{refused:?}");
    assert_eq!(verbs(&rig.lifecycle(&id).await["allowed_actions"]), json!(["retire"]));
    assert_eq!(rig.act(&id, "recover", json!({"unproven": true})).await.status, 400, "not without a reason");
    let blank = rig.act(&id, "recover", json!({"unproven": true, "comment": "  "})).await;
    assert_eq!(blank.status, 400, "{blank:?}");
    assert_eq!(press(&rig, &id).await, "decommission");
    assert_eq!(rig.lifecycle(&id).await["run"]["kind"], "storage_cleanup", "the GPUs were left alone");
    for task in ["node.drain", "node.cleanup_storage", "node.validate_clean"] {
        carry_out(&rig, &id, &credential, task, well.clone()).await;
    }
    rig.until_run(&id, "completed").await;
    assert_eq!(rig.state(&id).await, "quarantined");
    beat(&rig, &id, &credential, json!({})).await;
    assert_eq!(press(&rig, &id).await, "recover");
    assert_eq!(rig.state(&id).await, "active");
}

/// A proof of clean disks says nothing of GPUs that were not scrubbed. A run that is sent on from there has
/// its tries again.
async fn a_cleanup_of_disks_proves_nothing_of_gpus() {
    let (well, failed) = (json!({"outcome": "succeeded"}), json!({"outcome": "failed"}));
    let mut rig = Rig::new().await;
    let (id, credential) = cleaning(&mut rig, "soft_reset").await;
    for task in ["node.drain", "node.cleanup_storage"] {
        carry_out(&rig, &id, &credential, task, well.clone()).await;
    }
    let act = async |action: &str| {
        let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
        rig.post(&format!("/api/v1/runs/{run}/actions/{action}"), json!({})).await.ok();
    };
    for _ in 0..2 {
        for left in [2, 1, 0] {
            assert_eq!(
                rig.lifecycle(&id).await["run"]["status"],
                "running",
                "{left} are left after this one"
            );
            carry_out(&rig, &id, &credential, "node.scrub_gpu", failed.clone()).await;
        }
        rig.until_run(&id, "failed_manual_intervention").await;
        act("retry_stage").await;
    }
    act("cancel").await;
    rig.until_run(&id, "cancelled").await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "storage_cleanup"})).await.ok();
    for task in ["node.drain", "node.cleanup_storage", "node.validate_clean"] {
        carry_out(&rig, &id, &credential, task, well.clone()).await;
    }
    rig.until_run(&id, "completed").await;
    beat(&rig, &id, &credential, json!({})).await;
    let refused = rig.act(&id, "recover", json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "not_proven"), "{refused:?}");
    assert_eq!(press(&rig, &id).await, "decommission");
    assert_eq!(rig.lifecycle(&id).await["run"]["kind"], "soft_reset");
    for task in ["node.drain", "node.cleanup_storage", "node.scrub_gpu", "node.validate_clean"] {
        carry_out(&rig, &id, &credential, task, well.clone()).await;
    }
    rig.until_run(&id, "completed").await;
    beat(&rig, &id, &credential, json!({})).await;
    assert_eq!(press(&rig, &id).await, "recover");
    assert_eq!(rig.state(&id).await, "active");
}

/// A reimage leaves the disks to the release, unless the site wants otherwise: before that, it proves nothing of them.
async fn a_reimage_proves_nothing_of_disks_that_it_leaves_alone() {
    let mut rig = Rig::new().await;
    seeded(&rig);
    let tricky = Tricky::new(&rig);
    rig.work_with(tricky.clone());
    rig.agents();
    let id = rig.onboard(1).await;
    rig.until(&id, "active").await;
    for (mode, stage) in [("soft_reset", Stage::CleanupStorage), ("reimage", Stage::RetireGpuaasNode)] {
        tricky.plan(&id, Trick::Stop, Some(stage));
        rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": mode})).await.ok();
        let run = rig.until_run(&id, "failed_manual_intervention").await;
        assert_eq!(run["stage"], stage.as_str(), "{run}");
        let run = run["id"].as_str().unwrap().to_owned();
        rig.post(&format!("/api/v1/runs/{run}/actions/cancel"), json!({"comment": "a fire drill"}))
            .await
            .ok();
        rig.until_run(&id, "cancelled").await;
        if rig.state(&id).await == "retired" {
            rig.act(&id, "reactivate", json!({})).await.ok();
        }
        rig.until(&id, "quarantined").await;
        let refused = rig.act(&id, "recover", json!({})).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (409, "not_proven"), "{mode}: {refused:?}");
        assert!(
            refused.body["detail"].as_str().unwrap().contains("never proven clean"),
            "{mode}: {refused:?}"
        );
    }
}

/// A node with a dead host cannot be proven clean: MAAS takes its machine back, or the node leaves.
async fn an_unproven_node_whose_host_is_dead_leads_on() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.act(&id, "quarantine", json!({"comment": "it smells"})).await.ok();
    rig.long_silence(&id).await;
    let undrained = json!({"mode": "soft_reset", "skip": [{"stage": "drain_node", "comment": "it is dead"}]});
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), undrained).await.ok();
    rig.until_stage_or(&id, "cleanup_storage", "never").await;
    rig.act(&id, "stop_drain", json!({})).await.ok();
    rig.until_run(&id, "cancelled").await;
    assert_eq!(press(&rig, &id).await, "decommission");
    assert_eq!(rig.lifecycle(&id).await["run"]["kind"], "reimage");
    rig.until_stage_or(&id, "wait_for_agent_enrollment", "never").await;
    rig.hear(&id);
    rig.until_run(&id, "completed").await;
    rig.recover(&id).await;

    let mut rig = Rig::new().await;
    let (id, credential) = cleaning(&mut rig, "soft_reset").await;
    carry_out(&rig, &id, &credential, "node.drain", json!({"outcome": "succeeded"})).await;
    rig.until_stage_or(&id, "cleanup_storage", "never").await;
    rig.act(&id, "stop_drain", json!({})).await.ok();
    rig.until_run(&id, "cancelled").await;
    beat(&rig, &id, &credential, json!({})).await;
    rig.long_silence(&id).await;
    assert_eq!(press(&rig, &id).await, "retire");
    rig.until(&id, "retired").await;
}

/// The agent was uninstalled, and its record is still there: it is not waited for.
async fn a_retired_node_whose_agent_was_uninstalled_leads_on() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until_run(&id, "completed").await;
    rig.silence(&id);
    let uninstalled = |node: &wardroom_store::Resource| {
        let document = Document { identity_kept: false, ..Document::of(node)? };
        let content = document.into_content_of(node, super::super::document::state(node)?)?;
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "changed", Value::Null))), ()))
    };
    rig.app.change("gpu-node", &id, uninstalled).await.unwrap();
    assert_eq!(press(&rig, &id).await, "decommission");
    rig.until_stage_or(&id, "wait_for_agent_enrollment", "never").await;
    rig.hear(&id);
    rig.until(&id, "active").await;
}

/// An operator with another proof states it and its reason; it is not asked for again.
async fn an_unproven_node_is_used_when_a_person_says_so() {
    let mut rig = Rig::new().await;
    let (id, credential) = cleaning(&mut rig, "soft_reset").await;
    carry_out(&rig, &id, &credential, "node.drain", json!({"outcome": "succeeded"})).await;
    rig.until_stage_or(&id, "cleanup_storage", "never").await;
    rig.act(&id, "stop_drain", json!({})).await.ok();
    rig.until_run(&id, "cancelled").await;
    beat(&rig, &id, &credential, json!({})).await;
    let run = rig.lifecycle(&id).await["run"]["id"].clone();
    rig.act(&id, "recover", json!({"unproven": true, "comment": "new disks"})).await.ok();
    let (rows, _) =
        rig.app.store.history("gpu-node", &id, wardroom_store::Rows::Transitions, 1, 0).await.unwrap();
    let told = &rows[0].entry;
    assert_eq!((&told.metadata["unproven"], told.comment.as_deref()), (&run, Some("new disks")));
    rig.act(&id, "quarantine", json!({"comment": "odd noise"})).await.ok();
    assert_eq!(because(&rig, &id).await, "by admin: odd noise");
    beat(&rig, &id, &credential, json!({})).await;
    assert_eq!(press(&rig, &id).await, "recover");
}

/// The machine of an active node was released or deleted in MAAS: an agent that is well does not bring it back.
async fn a_node_that_drift_quarantined_leads_on() {
    for change in [Some(Status::Ready), None] {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let system_id = rig.system_id(&id).await;
        match change {
            Some(status) => {
                assert!(rig.maas.change(&system_id, &Change { status: Some(status), ..Change::default() }))
            }
            None => assert!(rig.maas.vanish(&system_id)),
        }
        super::super::drift::sweep(&rig.workers, "test").await.unwrap();
        rig.until(&id, "quarantined").await;
        let told = because(&rig, &id).await;
        assert!(told.contains("by the server: MAAS says that"), "{told}");
        assert_eq!(press(&rig, &id).await, "onboard", "{change:?}");
        rig.until_run(&id, "completed").await;
        rig.recover(&id).await;
    }
}

/// An onboarding that was given up left the machine deployed, without an agent: it is not free.
async fn a_machine_that_was_left_deployed_leads_on() {
    let mut rig = Rig::new().await;
    let _ = seeded(&rig);
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_agent_enrollment", "never").await;
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    for (action, body) in [
        ("mark_manual_intervention_required", json!({})),
        ("cancel", json!({"abandon": true, "comment": "the cable is cut"})),
    ] {
        rig.post(&format!("/api/v1/runs/{run}/actions/{action}"), body).await.ok();
    }
    rig.until_run(&id, "cancelled").await;
    let told = because(&rig, &id).await;
    assert!(told.contains("the cable is cut"), "{told}");
    super::super::drift::sweep(&rig.workers, "test").await.unwrap();
    assert_eq!(press(&rig, &id).await, "decommission");
    rig.agents();
    rig.until_run(&id, "completed").await;
    rig.recover(&id).await;
}

/// A node whose checks fail is not used, and says so.
async fn an_active_node_whose_checks_fail_says_so() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.silence(&id);
    let failing = |node: &wardroom_store::Resource| {
        let document = Document { unhealthy: true, ..Document::of(node)? };
        let content = document.into_content_of(node, super::super::document::state(node)?)?;
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "changed", Value::Null))), ()))
    };
    rig.app.change("gpu-node", &id, failing).await.unwrap();
    let recommended = rig.lifecycle(&id).await["recommended"].clone();
    assert!(recommended["why"].as_str().unwrap().contains("check the host"), "{recommended}");
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone();
    assert!(why[0]["meaning"].as_str().unwrap().contains("its checks fail"), "{why:#}");
}

/// A run could be repeated until its machine was deleted: then a repeat is not recommended.
async fn a_run_that_the_server_froze_leads_on() {
    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    rig.maas.fault(Fault::of("deploy", FaultKind::Status(500)).times(50));
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    rig.until_run(&id, "failed_retryable").await;
    rig.maas.clear_faults();
    assert!(rig.maas.vanish(&system_id));
    super::super::drift::sweep(&rig.workers, "test").await.unwrap();
    rig.until_run(&id, "failed_manual_intervention").await;
    let why = rig.lifecycle(&id).await["recommended"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("frozen by the server") && !why.contains("retrying is safe"), "{why}");
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["restart_clean"]);
    rig.until(&id, "active").await;
}

long_on_both! {
    a_cleanup_that_was_stopped_leads_on
    a_cleanup_of_disks_proves_nothing_of_gpus
    a_reimage_proves_nothing_of_disks_that_it_leaves_alone
    an_unproven_node_is_used_when_a_person_says_so
    an_unproven_node_whose_host_is_dead_leads_on
    a_retired_node_whose_agent_was_uninstalled_leads_on
    a_node_that_drift_quarantined_leads_on
    a_machine_that_was_left_deployed_leads_on
    an_active_node_whose_checks_fail_says_so
    a_run_that_the_server_froze_leads_on
    a_failure_that_nothing_explains_leads_on
    wrong_settings_of_a_reimage_lead_on
    impossible_stages_are_skipped_at_once
    an_expired_token_of_an_onboarding_by_hand_leads_on
    wrong_settings_lead_on
    a_machine_that_was_taken_away_has_a_way_out
    a_machine_with_a_foreign_system_has_a_way_out
    a_machine_that_a_removed_node_left_deployed_leads_on
    a_machine_that_is_being_released_is_waited_for
    a_passing_failure_has_a_way_out
    an_expired_token_leads_on
}
