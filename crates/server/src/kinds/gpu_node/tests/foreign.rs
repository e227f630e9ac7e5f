//! Machines in use by others, with the same key: nothing of theirs is adopted, released or kept.

use serde_json::{Value, json};
use wardroom_core::gpu_node::maas::Status;
use wardroom_fakes::maas::{Change, Fault, FaultKind, Outcome, Seed};

use super::{
    super::{site, stages::Workers},
    rig::{Rig, mac, quick},
    trouble::seeded,
};

/// Acts on the run of a node, and waits for where that leads.
async fn act(rig: &Rig, id: &str, action: &str, state: &str) -> Value {
    let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
    rig.post(&format!("/api/v1/runs/{run}/actions/{action}"), json!({"comment": "as scripted"})).await.ok();
    rig.until_run(id, state).await
}

fn deployed() -> Change {
    Change { status: Some(Status::Deployed), ..Change::default() }
}

/// MAAS refused to deploy for the run: what is deployed there later is not its own, whatever is done with the run then.
async fn a_foreign_system_after_a_refused_deployment_is_left_alone() {
    for (action, stage) in [
        (None, "deploy_via_maas"),
        (Some("retry_stage"), "deploy_via_maas"),
        (Some("rerun"), "create_or_find_in_maas"),
    ] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        rig.maas.fault(Fault::of("deploy", FaultKind::Status(403)).times(1));
        rig.work();
        rig.agents();
        let id = rig.onboard(1).await;
        let mut run = rig.until_run(&id, "failed_manual_intervention").await;
        assert!(rig.maas.change(&system_id, &deployed()));
        if let Some(action) = action {
            run = act(&rig, &id, action, "failed_manual_intervention").await;
        }
        assert_eq!(run["stage"], stage, "{action:?}: {run}");
        act(&rig, &id, "cancel", "cancelled").await;
        assert_eq!((rig.did(&system_id, "release"), rig.did(&system_id, "delete")), (0, 0), "{action:?}");
    }
}

/// The same while a deployment is repaired: the machine was released, and another user took it.
async fn a_foreign_system_during_a_refused_repair_is_left_alone() {
    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    let failure = Outcome::Fail("timed out: searching for network DataSource".to_owned());
    let outcomes = [("deploying".to_owned(), vec![failure])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    // The first deployment is the one that fails, the second one is the repair's.
    rig.maas.fault(Fault { skip: 1, ..Fault::of("deploy", FaultKind::Status(403)) });
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    rig.until_run(&id, "failed_manual_intervention").await;
    assert!(rig.maas.change(&system_id, &deployed()));
    let run = act(&rig, &id, "retry_stage", "failed_manual_intervention").await;
    assert_eq!(
        (&run["stage"], &run["failure_class"]),
        (&json!("recover_for_datasource_retry"), &json!("disagreement"))
    );
    act(&rig, &id, "cancel", "cancelled").await;
    assert_eq!(rig.did(&system_id, "release"), 1, "that of the repair");
}

/// The machine was deleted in the middle of the run, and there is another one with its MAC: the run knows nothing of it.
async fn another_machine_in_its_place_is_looked_at_anew() {
    for status in [Status::Deployed, Status::Ready] {
        let mut rig = Rig::new().await;
        let first = seeded(&rig);
        let outcomes = [("deploying".to_owned(), vec![Outcome::Stall])].into();
        rig.maas.change(&first, &Change { outcomes, ..Change::default() });
        rig.work();
        rig.agents();
        let id = rig.onboard(1).await;
        rig.until_stage_or(&id, "wait_for_deployed", "never").await;
        assert!(rig.maas.vanish(&first));
        rig.until_run(&id, "failed_manual_intervention").await;
        let second = rig.maas.seed(&Seed { macs: vec![mac(1)], status: Some(status), ..Seed::default() });
        if status == Status::Ready {
            act(&rig, &id, "rerun", "completed").await;
            rig.until(&id, "active").await;
            assert_eq!((rig.did(&second, "commission"), rig.did(&second, "deploy")), (1, 1));
        } else {
            let run = act(&rig, &id, "rerun", "failed_manual_intervention").await;
            assert_eq!(run["stage"], "create_or_find_in_maas", "{run}");
            act(&rig, &id, "cancel", "cancelled").await;
            assert_eq!(rig.maas.effects().get(&second), None, "nothing was done to it");
        }
    }
}

/// The tag, pool and zone of a machine.
async fn belongs(workers: &Workers, system_id: &str) -> (bool, String, String) {
    let (settings, _) = site::load(&workers.app, "berlin").await.unwrap().unwrap();
    let session = workers.clients.session("berlin", &settings, &workers.limits).unwrap();
    let seen = session.turn().await.machine(system_id).await.unwrap();
    let tagged = seen.has_tag(&settings.tag);
    (tagged, seen.pool.unwrap().name, seen.zone.unwrap().name)
}

/// A machine that was there before is what it was when the run that found it is cancelled, also twice.
async fn a_machine_that_was_found_is_given_back_as_it_was() {
    let mut rig = Rig::with(quick(), |site| {
        (site.pool, site.zone) = (Some("gpu".to_owned()), Some("rack-1".to_owned()));
    })
    .await;
    let system_id = seeded(&rig);
    let before = belongs(&rig.workers, &system_id).await;
    rig.maas.fault(Fault::of("deploy", FaultKind::Status(403)).times(2));
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    for _ in 0..2 {
        rig.until_run(&id, "failed_manual_intervention").await;
        let ours = (true, "gpu".to_owned(), "rack-1".to_owned());
        assert_eq!(belongs(&rig.workers, &system_id).await, ours);
        act(&rig, &id, "cancel", "cancelled").await;
        assert_eq!(belongs(&rig.workers, &system_id).await, before);
        rig.post(&format!("/api/v1/gpu-nodes/{id}/onboardings"), json!({})).await.ok();
    }
    rig.until_run(&id, "completed").await;
}

on_both! {
    a_foreign_system_after_a_refused_deployment_is_left_alone
    a_foreign_system_during_a_refused_repair_is_left_alone
    another_machine_in_its_place_is_looked_at_anew
    a_machine_that_was_found_is_given_back_as_it_was
}
