//! Runs that are cancelled, or begun again, from every stage: what they did is taken back in reverse, and nothing else.

use serde_json::{Value, json};
use wardroom_core::{
    gpu_node::maas::Status,
    run::plan::{Kind, Stage, When},
};
use wardroom_fakes::maas::{Change, Fault, FaultKind, Outcome, Seed};

use super::{
    super::drift,
    harness::{Trick, Tricky, elaborate, start},
    rig::{Rig, line, mac},
};

/// The stages that a run passes when nothing fails.
fn course(kind: Kind) -> Vec<Stage> {
    let always = kind.plan().iter().filter(|step| !matches!(step.when, When::OnFailure | When::OnRequest));
    always.map(|step| step.stage).collect()
}

async fn run_action(rig: &Rig, id: &str, action: &str) -> Value {
    let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/runs/{run}/actions/{action}");
    rig.post(&path, json!({"comment": "as scripted"})).await.ok();
    rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone()
}

/// What was undone, in order.
async fn undone(rig: &Rig, id: &str) -> Vec<Stage> {
    let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
    let run = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
    let attempts = run["attempts"].as_array().unwrap().iter().rev();
    let undone = attempts.filter(|attempt| attempt["outcome"] == "undone");
    undone.map(|attempt| attempt["stage"].as_str().unwrap().parse().unwrap()).collect()
}

/// One node for each stage, whose run needs a person when it has done what the stage does. Every second machine is
/// created by its run, the others were there before.
async fn stopped(rig: &mut Rig, tricky: &Tricky) -> Vec<(Stage, String, Option<String>)> {
    let mut nodes = Vec::new();
    for (number, stage) in (1..).zip(course(Kind::Onboarding)) {
        let there = number % 2 == 0;
        let machine = there.then(|| rig.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() }));
        let id = rig.onboard(number).await;
        tricky.plan(&id, Trick::Stop, Some(stage));
        nodes.push((stage, id, machine));
    }
    rig.work_with(tricky.clone());
    rig.agents();
    for (stage, id, _) in &nodes {
        let run = rig.until_run(id, "failed_manual_intervention").await;
        assert_eq!(run["stage"], stage.to_string(), "{run}");
    }
    nodes
}

/// The machine is commissioned by another user; a run that waits for it and is cancelled leaves that alone.
async fn a_commissioning_that_the_run_did_not_ask_for_goes_on() {
    let mut rig = Rig::new().await;
    let seed = Seed { macs: vec![mac(1)], status: Some(Status::Commissioning), ..Seed::default() };
    let machine = rig.maas.seed(&seed);
    let outcomes = [("commissioning".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&machine, &Change { outcomes, ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_ready", "never").await;
    run_action(&rig, &id, "cancel").await;
    rig.until_run(&id, "cancelled").await;
    assert_eq!((rig.did(&machine, "commission"), rig.did(&machine, "abort")), (0, 0));
}

/// Returns machines that no node has.
fn foreign(rig: &Rig) -> Vec<String> {
    [Status::New, Status::Ready, Status::Deployed]
        .map(|status| rig.maas.seed(&Seed { status: Some(status), ..Seed::default() }))
        .into()
}

fn nothing_was_done_to(rig: &Rig, machines: &[String]) {
    for machine in machines {
        assert!(rig.maas.machines().contains(machine), "{machine} is gone");
        assert_eq!(rig.maas.effects().get(machine), None, "{machine}");
    }
}

async fn a_cancel_undoes_the_work_of_every_stage() {
    let mut rig = elaborate().await;
    let others = foreign(&rig);
    let tricky = Tricky::new(&rig);
    for (stage, id, machine) in stopped(&mut rig, &tricky).await {
        let before = rig.system_of(&id).await;
        run_action(&rig, &id, "cancel").await;
        rig.until_run(&id, "cancelled").await;
        assert_eq!(rig.state(&id).await, "quarantined", "{stage}");
        let passed = course(Kind::Onboarding);
        let at = passed.iter().position(|passed| *passed == stage).unwrap();
        let mut expected = passed[..=at].to_vec();
        expected.retain(|stage| stage.undo().is_some());
        expected.reverse();
        assert_eq!(undone(&rig, &id).await, expected, "{stage}");
        let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
        assert_eq!(node["enrolled"], false, "{stage}: {node}");
        match (machine, before) {
            // What was there before is still there, and free.
            (Some(machine), _) => {
                assert!(rig.maas.machines().contains(&machine), "{stage}");
                let did = |op| rig.did(&machine, op);
                assert_eq!(
                    (did("delete"), did("deploy"), did("lock")),
                    (0, did("release"), did("unlock")),
                    "{stage}"
                );
            }
            (None, Some(machine)) => {
                assert!(!rig.maas.machines().contains(&machine), "{stage}: {machine} is left")
            }
            (None, None) => {}
        }
    }
    nothing_was_done_to(&rig, &others);
}

async fn a_clean_restart_begins_again_from_every_stage() {
    let mut rig = elaborate().await;
    let others = foreign(&rig);
    let tricky = Tricky::new(&rig);
    for (stage, id, machine) in stopped(&mut rig, &tricky).await {
        run_action(&rig, &id, "restart_clean").await;
        rig.until(&id, "active").await;
        assert_eq!(rig.lifecycle(&id).await["run"]["status"], "completed", "{stage}");
        let now = rig.system_id(&id).await;
        assert!(machine.is_none_or(|machine| machine == now), "{stage}: the machine that was there is used");
        let did = |op| rig.did(&now, op);
        assert_eq!(did("deploy") - did("release"), 1, "{stage}");
        assert_eq!(did("lock") - did("unlock"), 1, "{stage}");
    }
    nothing_was_done_to(&rig, &others);
}

/// A run that takes a node out can be cancelled too: the node is never left in the middle, and steps that
/// cannot be undone stay.
async fn a_decommission_is_cancelled_from_every_stage() {
    let mut rig = elaborate().await;
    let tricky = Tricky::new(&rig);
    rig.work_with(tricky.clone());
    rig.agents();
    let mut nodes = Vec::new();
    let kinds = [
        Kind::SoftReset,
        Kind::StorageCleanup,
        Kind::Reimage,
        Kind::FullDecommission,
        Kind::Retire,
        Kind::Remove,
    ];
    for kind in kinds {
        for stage in course(kind) {
            let number = u32::try_from(nodes.len()).unwrap() + 1;
            let _ = rig.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() });
            nodes.push((kind, stage, rig.onboard(number).await));
        }
    }
    for (kind, stage, id) in &nodes {
        rig.until(id, "active").await;
        if *kind == Kind::Remove {
            start(&rig, id, Kind::Retire).await;
            rig.until_run(id, "completed").await;
        }
        tricky.plan(id, Trick::Stop, Some(*stage));
        start(&rig, id, *kind).await;
    }
    for (kind, stage, id) in &nodes {
        let run = rig.until_run(id, "failed_manual_intervention").await;
        assert_eq!(run["stage"], stage.to_string(), "{run}");
        run_action(&rig, id, "cancel").await;
        rig.until_run(id, "cancelled").await;
        let state = rig.state(id).await;
        assert!(
            matches!(state.as_str(), "offline" | "active" | "retired" | "quarantined"),
            "{kind} at {stage}: {state}"
        );
        assert!(!stage.erases_or_proves() || state == "quarantined", "{kind} at {stage}: {state}");
        assert_eq!(rig.lifecycle(id).await["run"]["status"], "cancelled");
    }
}

/// A node that had a machine before keeps it when an onboarding is given up; and one whose machine is deployed is not
/// onboarded at all.
#[tokio::test]
async fn a_cancel_leaves_a_node_the_machine_it_had() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    let onboardings = format!("/api/v1/gpu-nodes/{id}/onboardings");
    let refused = rig.post(&onboardings, json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "no_such_move"), "{refused:?}");
    assert!(!refused.body.to_string().contains("recover"), "it is active: {refused:?}");
    rig.act(&id, "quarantine", json!({"comment": "it smells"})).await.ok();
    let refused = rig.post(&onboardings, json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "no_such_move"), "{refused:?}");
    assert!(refused.body["detail"].as_str().unwrap().contains("deployed"), "{refused:?}");
    let allowed = refused.body["allowed_actions"].as_array().unwrap();
    assert!(line(&allowed[0]).ends_with(r#"/decommissions {"mode":"reimage"}"#), "{refused:?}");

    rig.maas.change(&system_id, &Change { status: Some(Status::Ready), ..Change::default() });
    for _ in 0..500 {
        if rig.lifecycle(&id).await["maas"]["status_name"] == "Ready" {
            break;
        }
        drift::sweep(&rig.workers, "test").await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    rig.maas.fault(Fault::of("deploy", FaultKind::Status(403)).times(100));
    rig.post(&onboardings, json!({})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "deploy_via_maas", "{run}");
    run_action(&rig, &id, "cancel").await;
    rig.until_run(&id, "cancelled").await;
    assert_eq!(rig.system_of(&id).await, Some(system_id));
}

/// A busy or broken machine does not need a person: tests are aborted, and a machine that was marked broken
/// is released.
#[tokio::test]
async fn a_cancel_takes_back_a_machine_that_is_tested_or_broken() {
    let free = |status| Change { status: Some(status), ..Change::default() };
    for (status, at, kept) in [
        (Status::Testing, "wait_for_ready", false),
        (Status::FailedTesting, "wait_for_ready", false),
        (Status::Testing, "wait_for_ready", true),
        (Status::Broken, "wait_for_deployed", true),
        (Status::FailedDiskErasing, "wait_for_deployed", true),
    ] {
        let mut rig = Rig::new().await;
        if kept {
            let _ = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
        }
        let tricky = Tricky::new(&rig);
        let id = rig.onboard(1).await;
        tricky.plan(&id, Trick::Stop, Some(at.parse().unwrap()));
        rig.work_with(tricky.clone());
        rig.until_run(&id, "failed_manual_intervention").await;
        let system_id = rig.system_id(&id).await;
        assert!(rig.maas.change(&system_id, &free(status)));
        run_action(&rig, &id, "cancel").await;
        let run = rig.until_run(&id, "cancelled").await;
        assert_eq!(rig.did(&system_id, "delete"), u64::from(!kept), "{status:?}: {run}");
        assert_eq!(rig.did(&system_id, "abort"), u64::from(status == Status::Testing), "{status:?}");
    }
}

long_on_both! {
    a_cancel_undoes_the_work_of_every_stage
    a_clean_restart_begins_again_from_every_stage
    a_decommission_is_cancelled_from_every_stage
    a_commissioning_that_the_run_did_not_ask_for_goes_on
}
