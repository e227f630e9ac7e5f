//! Triggers of manual intervention where they may come up: at every stage, and in every plan.

use serde_json::json;
use wardroom_core::{
    gpu_node::maas::Status,
    run::plan::{Kind, Stage, When},
};
use wardroom_fakes::maas::{Change, Outcome, Seed};
use wardroom_upstream::maas::{LinkMode, NewLink};

use super::{
    harness::{Trick, Tricky, check, elaborate, stages, start},
    life::{Meddle, Meddled},
    recommended::to_the_end,
    rig::{Rig, mac, quick},
};

/// Nodes whose machines MAAS has, one for each case.
async fn nodes<T>(rig: &Rig, cases: impl IntoIterator<Item = T>) -> Vec<(T, String, String)> {
    let mut nodes = Vec::new();
    for (number, case) in (1..).zip(cases) {
        let system_id = rig.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() });
        nodes.push((case, rig.onboard(number).await, system_id));
    }
    nodes
}

/// Whichever stage of whichever plan its run has come to. What looks at MAAS no more gets to its end.
async fn a_machine_that_is_deleted_at_any_stage_on_its_way_out_needs_a_person() {
    let mut rig = elaborate().await;
    let tricky = Tricky::new(&rig);
    let meddled = Meddled::new(&rig, &tricky);
    rig.beat = std::time::Duration::from_millis(200);
    rig.work_with(meddled.clone());
    rig.agents();
    let unused = [When::OnFailure, When::OnRequest];
    let of = |kind| stages(kind, &unused).into_iter().map(move |stage| (kind, stage));
    let nodes = nodes(&rig, of(Kind::Reimage).chain(of(Kind::FullDecommission))).await;
    for ((kind, stage), id, system_id) in &nodes {
        rig.until(id, "active").await;
        meddled.plan(id, system_id, *stage, Meddle::Delete);
        start(&rig, id, *kind).await;
    }
    for ((kind, stage), id, _) in &nodes {
        if *kind == Kind::FullDecommission && kind.is_past(*stage, Stage::RemoveMaasRecord) {
            rig.until_run(id, "completed").await;
            rig.until(id, "deleted").await;
        } else {
            let run = rig.until_run(id, "failed_manual_intervention").await;
            let said = run["failure"].as_str().unwrap();
            assert!(said.contains("does not have the machine"), "{kind} at {stage}: {run}");
            assert_eq!(run["failure_class"], "disagreement", "{kind} at {stage}: {run}");
            assert_eq!(rig.state(id).await, "retired", "{kind} at {stage}");
        }
        check(&rig, id).await;
    }
}

/// The machine is put into a status that no stage causes, at any stage of its run: it is not adopted, and
/// nothing more is done to the machine.
async fn a_status_that_no_run_causes_needs_a_person_at_any_stage() {
    let mut rig = elaborate().await;
    let tricky = Tricky::new(&rig);
    let meddled = Meddled::new(&rig, &tricky);
    rig.beat = std::time::Duration::from_millis(200);
    let with_machine = stages(Kind::Onboarding, &[When::OnFailure]);
    let with_machine =
        with_machine.into_iter().filter(|stage| Kind::Onboarding.is_past(*stage, Stage::CommissionNode));
    let nodes = nodes(&rig, with_machine).await;
    for (stage, id, system_id) in &nodes {
        meddled.plan(id, system_id, *stage, Meddle::Put(Status::RescueMode));
    }
    rig.work_with(meddled.clone());
    rig.agents();
    for (stage, id, system_id) in &nodes {
        let run = rig.until_run(id, "failed_manual_intervention").await;
        assert_eq!(run["failure_class"], "disagreement", "{stage}: {run}");
        assert_eq!(rig.state(id).await, "enrolling", "{stage}");
        for (op, by) in [
            ("commission", Stage::CommissionNode),
            ("link_subnet", Stage::EnsurePxeInterfaceAuto),
            ("deploy", Stage::DeployViaMaas),
            ("lock", Stage::WaitForAgentEnrollment),
        ] {
            let before = *stage != by && Kind::Onboarding.is_past(*stage, by);
            assert_eq!(rig.did(system_id, op), u64::from(before), "{op} at {stage}");
        }
        check(&rig, id).await;
    }
}

/// In another VLAN than the provisioning subnet, or with an address of its own: neither is for automation to change.
async fn a_foreign_interface_needs_a_person() {
    let mut rig = Rig::with(quick(), |site| site.provisioning_subnet = "roce".to_owned()).await;
    super::trouble::seeded(&rig);
    let (id, run) = super::trouble::needs_person(&mut rig, "ensure_pxe_interface_auto").await;
    assert_eq!(run["failure_class"], "settings", "{run}");
    assert!(run["failure"].as_str().unwrap().contains("VLAN"), "{run}");
    assert_eq!(rig.did(&rig.system_id(&id).await, "link_subnet"), 0);

    let mut rig = Rig::new().await;
    let tricky = Tricky::new(&rig);
    let nodes = nodes(&rig, [()]).await;
    let ((), id, system_id) = &nodes[0];
    tricky.plan(id, Trick::Stop, Some(Stage::ApplyRocePhase2));
    rig.work_with(tricky.clone());
    rig.until_run(id, "failed_manual_intervention").await;
    let (settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    let session = rig.workers.clients.session("berlin", &settings, &rig.workers.limits).unwrap();
    let boot = session.turn().await.machine(system_id).await.unwrap().boot_interface.unwrap().id;
    let fixed = NewLink { mode: LinkMode::Static, subnet: 1, ip_address: Some("10.20.0.99") };
    session.turn().await.link_subnet(system_id, boot, fixed).await.unwrap();
    rig.act(id, "resume", json!({})).await.ok();
    rig.until_stage_or(id, "ensure_pxe_interface_auto", "active").await;
    let run = rig.until_run(id, "failed_manual_intervention").await;
    assert!(run["failure"].as_str().unwrap().contains("static link"), "{run}");
    assert_eq!(rig.did(system_id, "unlink_subnet"), 0, "it is not ours to remove");
}

/// A machine that was deployed without hardware sync, time and again: only another deployment helps, which a person asks for.
async fn a_machine_without_hardware_sync_needs_a_person() {
    let mut rig = Rig::new().await;
    let tricky = Tricky::new(&rig);
    let nodes = nodes(&rig, [()]).await;
    let ((), id, system_id) = &nodes[0];
    tricky.plan(id, Trick::Stop, Some(Stage::DeployViaMaas));
    rig.work_with(tricky.clone());
    rig.agents();
    let run = rig.until_run(id, "failed_manual_intervention").await;
    // The site wants it now, and the run that is entered again goes by that.
    let (mut settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    settings.hardware_sync = true;
    let body = json!({"name": "berlin", "settings": settings});
    rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", body).await.ok();
    rig.post(&format!("/api/v1/runs/{}/actions/rerun", run["id"].as_str().unwrap()), json!({})).await.ok();
    rig.until_stage_or(id, "ensure_hardware_sync_configured", "active").await;
    let run = rig.until_run(id, "failed_manual_intervention").await;
    assert_eq!(
        (&run["stage"], &run["failure_class"]),
        (&json!("ensure_hardware_sync_configured"), &json!("redeploy"))
    );
    assert_eq!((rig.did(system_id, "deploy"), rig.did(system_id, "release")), (1, 0));
    let done = to_the_end(&rig, id, async |_: &str| {}).await;
    assert_eq!(done, ["restart_clean"]);
    rig.until(id, "active").await;
    assert_eq!((rig.did(system_id, "deploy"), rig.did(system_id, "release")), (2, 1));
}

/// The same bound as for an onboarding.
async fn a_datasource_failure_of_a_reimage_is_repaired_twice() {
    for (failures, repaired) in [(2, true), (3, false)] {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let system_id = rig.system_id(&id).await;
        let failure = Outcome::Fail("timed out: searching for network DataSource".to_owned());
        let outcomes = [("deploying".to_owned(), vec![failure; failures])].into();
        rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        start(&rig, &id, Kind::Reimage).await;
        if repaired {
            rig.until_run(&id, "completed").await;
            rig.until(&id, "active").await;
        } else {
            let run = rig.until_run(&id, "failed_manual_intervention").await;
            assert_eq!(run["failure_class"], "datasource", "{run}");
            assert_eq!(rig.state(&id).await, "retired");
        }
        // The first one, that of the reimage, and two rounds.
        assert_eq!(rig.did(&system_id, "deploy"), 4);
        check(&rig, &id).await;
    }
}

long_on_both! {
    threads:
    a_machine_that_is_deleted_at_any_stage_on_its_way_out_needs_a_person
    a_status_that_no_run_causes_needs_a_person_at_any_stage
}

long_on_both! {
    a_foreign_interface_needs_a_person
    a_machine_without_hardware_sync_needs_a_person
    a_datasource_failure_of_a_reimage_is_repaired_twice
}
