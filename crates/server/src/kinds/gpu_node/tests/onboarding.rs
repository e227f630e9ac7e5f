//! Machines come in.

use std::time::Duration;

use serde_json::json;
use wardroom_core::gpu_node::maas::Status;
use wardroom_fakes::maas::{Change, Fault, FaultKind, Outcome, Seed};

use super::{
    super::{begin, enroll},
    rig::{Rig, mac, quick},
};

/// Everything that MAAS was made to do for one machine, once each.
const ONCE: &[&str] = &["create", "commission", "deploy"];

async fn a_machine_is_found_nowhere_created_and_onboarded() {
    let mut rig = Rig::new().await;
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    assert_eq!(rig.state(&id).await, "enrolling");
    rig.until(&id, "active").await;
    let system_id = rig.system_id(&id).await;
    for op in ONCE {
        assert_eq!(rig.did(&system_id, op), 1, "{op}");
    }
    let lifecycle = rig.lifecycle(&id).await;
    assert_eq!(lifecycle["run"]["status"], "completed");
    assert_eq!(lifecycle["maas"]["status_name"], "Deployed");
    assert_eq!(lifecycle["fits"], true);
    let why = rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await["data"].clone();
    assert_eq!(why[0]["state"], "active", "{why}");
    let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await;
    assert_eq!(node["data"]["schedulable"], true);
    assert_eq!(node["data"]["enrolled"], true);
}

async fn a_machine_that_maas_discovered_is_adopted_and_not_created() {
    let mut rig = Rig::new().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    rig.until(&id, "active").await;
    assert_eq!(rig.system_id(&id).await, system_id);
    assert_eq!(rig.maas.machines().len(), 1);
}

/// A machine that was ready before is commissioned once for this run: not skipped because a call that never arrived was
/// meant to be sent, and not done twice because the answer to one that did got lost.
async fn a_ready_machine_is_commissioned_once_whatever_became_of_the_call() {
    let faults: [fn() -> Fault; 3] = [
        || Fault::of("commission", FaultKind::Later(503, 1)),
        || Fault::of("commission", FaultKind::HangUp),
        || Fault::of("commission", FaultKind::HangUp).after(),
    ];
    for (number, fault) in (1..).zip(faults) {
        let mut rig = Rig::new().await;
        let seed =
            Seed { macs: vec![mac(1)], status: Some(Status::Ready), configured: true, ..Seed::default() };
        let system_id = rig.maas.seed(&seed);
        rig.maas.fault(fault());
        rig.work();
        rig.agents();
        let id = rig.onboard(1).await;
        rig.until(&id, "active").await;
        assert_eq!(rig.did(&system_id, "commission"), 1, "fault {number}");
    }
}

/// Whatever reply gets lost, and whatever breaks once, nothing is done twice upstream.
async fn no_effect_is_applied_twice_when_replies_get_lost() {
    for op in [
        "create",
        "commission",
        "deploy",
        "link_subnet",
        "update_nodes",
        "set_storage_layout",
        "read",
        "list",
    ] {
        for kind in [FaultKind::HangUp, FaultKind::Status(504), FaultKind::Status(500)] {
            let mut rig = Rig::new().await;
            rig.maas.fault(Fault::of(op, kind).after());
            rig.work();
            rig.agents();
            let id = rig.onboard(1).await;
            rig.until(&id, "active").await;
            let system_id = rig.system_id(&id).await;
            for once in ONCE {
                assert_eq!(
                    rig.did(&system_id, once),
                    1,
                    "{once} after the reply to {op} was lost ({kind:?})"
                );
            }
            assert_eq!(rig.maas.machines().len(), 1, "{op} {kind:?}");
        }
    }
}

async fn a_busy_maas_is_asked_again() {
    for kind in
        [409, 429, 503].map(|status| FaultKind::Later(status, 1)).into_iter().chain([FaultKind::Status(502)])
    {
        let mut rig = Rig::new().await;
        for op in ["whoami", "commission", "deploy"] {
            rig.maas.fault(Fault::of(op, kind).times(2));
        }
        rig.work();
        rig.agents();
        let id = rig.onboard(1).await;
        rig.until(&id, "active").await;
    }
}

/// A data source that does not answer is repaired twice by releasing and deploying again.
async fn a_datasource_failure_is_repaired_and_bounded() {
    const DEPLOYING: &str = "deploying";
    let failure =
        || Outcome::Fail("Node operation 'Deploying' timed out: searching for network DataSource".to_owned());
    for (failures, end) in [(1, "active"), (2, "active"), (3, "failed_manual_intervention")] {
        let mut rig = Rig::new().await;
        let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
        let outcomes = [(DEPLOYING.to_owned(), vec![failure(); failures])].into();
        rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        rig.work();
        rig.agents();
        let id = rig.onboard(1).await;
        if end == "active" {
            rig.until(&id, end).await;
            assert_eq!(rig.did(&system_id, "deploy"), u64::try_from(failures).unwrap() + 1);
        } else {
            let run = rig.until_run(&id, end).await;
            assert_eq!(run["failure_class"], "datasource", "{run}");
            assert_eq!(rig.did(&system_id, "deploy"), 3, "the first and two rounds");
            assert_eq!(rig.state(&id).await, "enrolling");
        }
    }
}

/// Waits until the run of a node is at a stage.
async fn until_stage(rig: &Rig, id: &str, stage: &str) {
    for _ in 0..1500 {
        if rig.lifecycle(id).await["run"]["stage"] == stage {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never at {stage}: {:#}", rig.lifecycle(id).await);
}

/// Enrols as the deployed system would, with the token of the user data; answers the credential.
async fn enrol(rig: &Rig, id: &str) -> String {
    let node = begin::read(&rig.app, id).await.unwrap();
    let (token, _) = enroll::issued(&rig.app, &node).unwrap().unwrap();
    let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
    let credential = enrolled["credential"].as_str().unwrap().to_owned();
    rig.as_agent(&credential, &format!("/api/v1/gpu-nodes/{id}/heartbeat"), json!({})).await.ok();
    credential
}

/// A system that enrolled while it was being deployed is gone when the deployment fails and is done again: the run
/// waits for the new one.
async fn an_agent_goes_with_the_deployment_that_it_came_with() {
    let mut rig = Rig::new().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let outcomes = [("deploying".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    until_stage(&rig, &id, "wait_for_deployed").await;
    let old = enrol(&rig, &id).await;
    assert_eq!(rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"]["identity_kept"], true);
    let failure = Outcome::Fail("timed out: searching for network DataSource".to_owned());
    assert!(rig.maas.finish(&system_id, &failure));
    while rig.did(&system_id, "deploy") < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(rig.maas.finish(&system_id, &Outcome::Pass));
    until_stage(&rig, &id, "wait_for_agent_enrollment").await;
    let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
    assert_eq!((&node["identity_kept"], &node["enrolled"]), (&json!(false), &json!(false)), "{node}");
    let beat = format!("/api/v1/gpu-nodes/{id}/heartbeat");
    assert_eq!(rig.as_agent(&old, &beat, json!({})).await.status, 401);
    enrol(&rig, &id).await;
    rig.until(&id, "active").await;
    assert_eq!(rig.did(&system_id, "deploy"), 2);
}

/// What is undone leaves no identity that could be taken back into use.
async fn an_onboarding_that_is_undone_keeps_no_identity() {
    for vanishes in [false, true] {
        undone_keeps_no_identity(vanishes).await;
    }
}

async fn undone_keeps_no_identity(vanishes: bool) {
    let mut rig = Rig::with(quick(), |site| site.hardware_sync = true).await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    rig.maas.change(&system_id, &Change { sync_works: Some(false), ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    until_stage(&rig, &id, "wait_for_hardware_sync_healthy").await;
    enrol(&rig, &id).await;
    // There is nothing to release then, so the token's undo is what ends the identity.
    assert!(!vanishes || rig.maas.vanish(&system_id));
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    super::decommission::cancel(&rig, &run).await;
    rig.until_run(&id, "cancelled").await;
    let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
    assert_eq!((&node["identity_kept"], &node["enrolled"]), (&json!(false), &json!(false)), "{node}");
    let skip = json!({"skip": [{"stage": "drain_node", "comment": "nothing is on it"}]});
    rig.act(&id, "retire", skip).await.ok();
    rig.until(&id, "retired").await;
    assert_eq!(rig.act(&id, "reactivate", json!({})).await.code(), "identity_gone");
}

async fn a_locked_site_locks_machines_in_use_and_unlocks_them_to_release() {
    let mut rig = Rig::with(quick(), |site| site.lock = true).await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    assert_eq!(rig.did(&system_id, "lock"), 1);
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "full_decommission"}))
        .await
        .ok();
    rig.until(&id, "deleted").await;
    assert_eq!(rig.did(&system_id, "unlock"), 1);
}

/// Only a report that is newer than the deployment counts, because MAAS writes the first one by itself.
async fn hardware_sync_is_waited_for_and_a_silent_one_needs_a_person() {
    for works in [true, false] {
        let mut rig = Rig::with(quick(), |site| site.hardware_sync = true).await;
        let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
        rig.maas.change(&system_id, &Change { sync_works: Some(works), ..Change::default() });
        rig.work();
        rig.agents();
        let id = rig.onboard(1).await;
        if works {
            rig.until(&id, "active").await;
        } else {
            let run = rig.until_run(&id, "failed_manual_intervention").await;
            assert_eq!(run["stage"], "wait_for_hardware_sync_healthy", "{run}");
            assert_eq!(rig.state(&id).await, "enrolling");
            // Each time it had three intervals to report in, and not only the first time.
            let run = rig.get(&format!("/api/v1/runs/{}", run["id"].as_str().unwrap())).await;
            let silent = run["data"]["attempts"].as_array().unwrap().iter();
            let silent = silent.filter(|attempt| attempt["class"] == "retryable");
            let ended: Vec<jiff::Timestamp> =
                silent.map(|attempt| attempt["ended_at"].as_str().unwrap().parse().unwrap()).collect();
            assert_eq!(ended.len(), 3, "{run}");
            for (later, earlier) in ended.iter().zip(&ended[1..]) {
                assert!(later.duration_since(*earlier).as_secs() >= 6, "{ended:?}");
            }
        }
    }
}

long_on_both! {
    a_machine_is_found_nowhere_created_and_onboarded
    a_machine_that_maas_discovered_is_adopted_and_not_created
    a_ready_machine_is_commissioned_once_whatever_became_of_the_call
    no_effect_is_applied_twice_when_replies_get_lost
    a_busy_maas_is_asked_again
    a_datasource_failure_is_repaired_and_bounded
    an_agent_goes_with_the_deployment_that_it_came_with
    an_onboarding_that_is_undone_keeps_no_identity
    a_locked_site_locks_machines_in_use_and_unlocks_them_to_release
    hardware_sync_is_waited_for_and_a_silent_one_needs_a_person
}
