//! What is recommended, followed to the end: whoever sees to the cause that is named, and does what is said, gets the node
//! into use, or to a clear end.

use jiff::SignedDuration;
use serde_json::{Value, json};
use wardroom_core::{gpu_node::maas::Status, run::plan::Stage};
use wardroom_fakes::maas::{Change, Fault, FaultKind, Outcome};

use super::{
    super::document::Document,
    rig::{Rig, quick},
    trouble::{meanwhile, needs_person, seeded},
};
use crate::app::{Decided, by_system};

/// How many recommendations may follow on each other before they lead in a circle.
const STEPS: usize = 4;

/// Does what is recommended, which the node and its run agree on; answers what it was.
pub(super) async fn follow(rig: &Rig, id: &str) -> String {
    step(rig, id).await.0
}

/// The same, with what came of it.
async fn step(rig: &Rig, id: &str) -> (String, Value) {
    let lifecycle = rig.lifecycle(id).await;
    let path = format!("/api/v1/runs/{}", lifecycle["run"]["id"].as_str().unwrap());
    let run = rig.get(&path).await["data"].clone();
    let action = run["recommended"]["action"].as_str().unwrap().to_owned();
    assert_eq!(lifecycle["recommended"]["action"], json!(action), "{lifecycle:#}");
    assert!(run["allowed_actions"].as_array().unwrap().contains(&json!(action)), "{run:#}");
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await;
    assert_eq!(why[0]["next"]["do"], "mend", "{why:#}");
    assert!(why[1]["next"]["request"].as_str().unwrap().contains(&action), "{why:#}");
    let digest = run["observed"]["digest"].clone();
    let body = match action.as_str() {
        "adopt_observed_state" => json!({"reason": "looked", "expected_observation_digest": digest}),
        _ => json!({"reason": "seen to"}),
    };
    let acted = rig.post(&format!("{path}/actions/{action}"), body).await.ok();
    (action, acted["data"].clone())
}

/// Does what is recommended until the run is over, seeing to what it says before each step; answers what was done.
pub(super) async fn to_the_end(rig: &Rig, id: &str, see_to: impl AsyncFn(&str)) -> Vec<String> {
    let mut done = Vec::new();
    while done.len() < STEPS {
        let run = rig.lifecycle(id).await["run"].clone();
        see_to(run["failure"].as_str().unwrap()).await;
        done.push(follow(rig, id).await);
        for look in 0.. {
            let run = rig.lifecycle(id).await["run"].clone();
            assert!(look < 1500, "{done:?}: {run}");
            match run["state"].as_str().unwrap() {
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

/// Somebody deletes the machine, or releases it while its agent is waited for.
async fn a_machine_that_somebody_took_away_leads_on() {
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

/// Somebody else has the machine deployed, or allocates it, while its run stands still: what is on it cannot enrol for
/// the run, so that it is not adopted.
async fn a_machine_that_somebody_else_deployed_leads_on() {
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
    assert_eq!(rig.did(&system_id, "release"), 0, "nobody said that what is on it may go");
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
async fn what_passes_by_itself_leads_on() {
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

/// Nothing that MAAS says explains why a deployment failed: whoever has looked has it tried once more, also after having
/// released the machine in MAAS.
async fn a_failure_that_nothing_explains_leads_on() {
    for released in [false, true] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        let outcomes = [("deploying".to_owned(), vec![Outcome::Fail("the moon was full".to_owned())])].into();
        rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        let (id, run) = needs_person(&mut rig, "classify_deploy_failure").await;
        assert_eq!(run["failure_class"], "manual", "{run}");
        if released {
            let free = Change { status: Some(Status::Ready), ..Change::default() };
            assert!(rig.maas.change(&system_id, &free));
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

/// What is wrong is found after the machine was released, and its agent with it: what the agent had proven before counts.
async fn wrong_settings_of_a_reimage_lead_on() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    boots_from(&rig, "Nothing").await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "reimage"})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!((&run["stage"], &run["failure_class"]), (&json!("configure_storage"), &json!("settings")));
    let lifecycle = rig.lifecycle(&id).await;
    assert!(lifecycle["health"].is_null(), "nobody speaks for the node any more: {lifecycle:#}");
    boots_from(&rig, "BOSS").await;
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["rerun"]);
    rig.until(&id, "active").await;
    assert_eq!(rig.did(&rig.system_id(&id).await, "release"), 1);
}

/// A reimage or decommission of a node that nobody speaks for any more names at once all that cannot be done, and goes on
/// when that is skipped.
async fn what_nobody_can_do_is_skipped_at_once() {
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
        assert!(told.contains("--skip drain_node=REASON --skip"), "{told}");
        assert!(told.contains("--skip validate_clean_node=REASON"), "{told}");
        let request = rig.lifecycle(&id).await["recommended"]["request"].as_str().unwrap().to_owned();
        let (call, body) = request.split_once(" {").unwrap();
        let body: Value = serde_json::from_str(&format!("{{{body}")).unwrap();
        rig.post(call.strip_prefix("POST ").unwrap(), body).await.ok();
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
            rig.act(&id, "quarantine", json!({"reason": "it smells"})).await.ok();
        }
        expire(&rig, &id).await;
        rig.until_run(&id, "failed_manual_intervention").await;
        let token = match resumes {
            true => rig.act(&id, "resume", json!({})).await.ok()["token"].clone(),
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

on_both! {
    a_failure_that_nothing_explains_leads_on
    wrong_settings_of_a_reimage_lead_on
    what_nobody_can_do_is_skipped_at_once
    an_expired_token_of_an_onboarding_by_hand_leads_on
    wrong_settings_lead_on
    a_machine_that_somebody_took_away_leads_on
    a_machine_that_somebody_else_deployed_leads_on
    a_machine_that_a_removed_node_left_deployed_leads_on
    a_machine_that_is_being_released_is_waited_for
    what_passes_by_itself_leads_on
    an_expired_token_leads_on
}
