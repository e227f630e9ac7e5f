//! What is seen of machines: it is believed of MAAS only, and of the machine that the node has.

use std::time::Duration;

use serde_json::{Value, json};
use wardroom_fakes::maas::{Change, Fault, FaultKind, Outcome, Seed};

use super::{
    super::{cache, drift, proof, site},
    rig::{Rig, mac, quick, verbs},
};

/// A proxy that has lost its way to MAAS says 404 to everything: no machine is gone because of that.
async fn a_server_that_is_not_maas_takes_no_machine_away() {
    let mut rig = Rig::new().await;
    let active = rig.active(1).await;
    let stalls = rig.maas.seed(&Seed { macs: vec![mac(2)], ..Seed::default() });
    let outcomes = [("commissioning".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&stalls, &Change { outcomes, ..Change::default() });
    let waiting = rig.onboard(2).await;
    rig.until_stage_or(&waiting, "wait_for_ready", "never").await;
    for op in ["read", "list"] {
        let mut fault = Fault::of(op, FaultKind::Status(404));
        fault.times = 10_000;
        rig.maas.fault(fault);
    }
    drift::sweep(&rig.workers, "test").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    drift::sweep(&rig.workers, "test").await.unwrap();
    assert_eq!(rig.state(&active).await, "active", "{:#}", rig.lifecycle(&active).await);
    assert_eq!(rig.lifecycle(&waiting).await["run"]["status"], "running");
    rig.maas.clear_faults();
    assert!(rig.maas.finish(&stalls, &Outcome::Pass));
    rig.until(&waiting, "active").await;
}

/// A machine was deleted, and the node has another one now: observations of the first one do not count for
/// the node.
async fn an_observation_of_an_earlier_machine_is_not_the_nodes() {
    let mut rig = Rig::new().await;
    let first = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let outcomes = [("commissioning".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&first, &Change { outcomes, ..Change::default() });
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_ready", "never").await;
    assert!(rig.maas.vanish(&first));
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    let restart = format!("/api/v1/runs/{}/actions/restart_clean", run["id"].as_str().unwrap());
    rig.post(&restart, json!({"comment": "a new one"})).await.ok();
    rig.until(&id, "active").await;
    let second = rig.system_id(&id).await;
    assert_ne!(first, second);
    for _ in 0..20 {
        let late = cache::seen("berlin", &first, None);
        proof::note(&rig.app, &id, &late, rig.app.now()).await.unwrap();
        let seen = rig.lifecycle(&id).await["maas"].clone();
        assert_eq!((&seen["system_id"], &seen["present"]), (&json!(second), &Value::Bool(true)), "{seen}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (settings, _) = site::load(&rig.app, "berlin").await.unwrap().unwrap();
    let session = rig.workers.clients.session("berlin", &settings, &rig.workers.limits).unwrap();
    let late = cache::seen("berlin", &first, None);
    drift::judge(&rig.workers, &session, &settings.tag, &id, late).await.unwrap();
    assert_eq!(rig.state(&id).await, "active", "it was judged by the machine of before");
}

/// MAAS writes a report by itself when a machine is deployed: it proves nothing of one that a person adopted then.
async fn a_report_from_before_an_adoption_does_not_count() {
    let mut config = quick();
    config.sync_interval = Duration::from_secs(900);
    let mut rig = Rig::with(config, |site| site.hardware_sync = true).await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let outcomes = [("deploying".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_deployed", "never").await;
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    let act = |action: &str| format!("/api/v1/runs/{run}/actions/{action}");
    rig.post(&act("mark_manual_intervention_required"), json!({"comment": "I look myself"})).await.ok();
    assert!(rig.maas.finish(&system_id, &Outcome::Pass));
    let seen = loop {
        drift::sweep(&rig.workers, "test").await.unwrap();
        let seen = rig.lifecycle(&id).await["maas"].clone();
        if seen["status"] == "deployed" || seen["status_name"] == "Deployed" {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let adopt = json!({"comment": "it is deployed", "expected_observation_digest": seen["digest"]});
    rig.post(&act("adopt_observed_state"), adopt).await.ok();
    rig.until_stage_or(&id, "wait_for_hardware_sync_healthy", "never").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.lifecycle(&id).await["run"]["stage"], "wait_for_hardware_sync_healthy");
}

/// A MAAS that was restored empty ends no node: that its machine is gone is adopted when MAAS is believed.
async fn a_doubtful_answer_of_maas_is_not_adopted() {
    let mut rig = Rig::new().await;
    let mut machines = Vec::new();
    let mut leaving = String::new();
    for number in 1..=4 {
        leaving = rig.active(number).await;
        machines.push(rig.system_id(&leaving).await);
    }
    rig.maas.fault(Fault::of("release", FaultKind::Status(403)).times(1));
    rig.post(&format!("/api/v1/gpu-nodes/{leaving}/decommissions"), json!({"mode": "full_decommission"}))
        .await
        .ok();
    let run = rig.until_run(&leaving, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "release_maas_node");
    let offered = async || {
        tokio::time::sleep(Duration::from_millis(150)).await;
        drift::sweep(&rig.workers, "test").await.unwrap();
        let run = rig.get(&format!("/api/v1/runs/{}", run["id"].as_str().unwrap())).await["data"].clone();
        verbs(&run["allowed_actions"]).as_array().unwrap().contains(&json!("adopt_observed_state"))
    };
    assert!(!offered().await, "it is there");
    assert!(machines.pop().is_some_and(|machine| rig.maas.vanish(&machine)));
    assert!(offered().await, "it is gone");
    assert!(machines.iter().all(|machine| rig.maas.vanish(machine)));
    assert!(!offered().await, "all others are gone as well");
}

on_both! {
    a_doubtful_answer_of_maas_is_not_adopted
    a_server_that_is_not_maas_takes_no_machine_away
    an_observation_of_an_earlier_machine_is_not_the_nodes
    a_report_from_before_an_adoption_does_not_count
}
