//! What needs a person; and drift.
//!
//! The triggers of section 7 of the design document, and the tests that show them:
//!
//! | trigger                                       | test                                                            |
//! |-----------------------------------------------|-----------------------------------------------------------------|
//! | conflicting discovery candidates              | `conflicting_candidates_…`, `a_machine_of_another_node_…`       |
//! | BOSS disk not found                           | `a_missing_or_ambiguous_boot_disk_…`                            |
//! | PXE interface not fixable automatically       | `an_interface_that_cannot_be_fixed_…`, `triggers::a_foreign_interface_…` |
//! | machine deleted from MAAS during workflow     | `a_machine_that_is_deleted_in_the_middle_…`, `…_on_its_way_out_…`, `triggers::…_at_any_stage_on_its_way_out_…`, `drift_under_a_run_…` |
//! | repeated datasource or cloud-init failure     | `onboarding::a_datasource_failure_is_repaired_and_bounded`, `triggers::…_of_a_reimage_…` |
//! | repeated hardware-sync or SSH seed failure    | `onboarding::hardware_sync_…`, `triggers::a_machine_without_hardware_sync_…`; nothing is seeded over SSH |
//! | disagreement that cannot safely be adopted    | `a_status_that_the_run_did_not_cause_…`, `triggers::a_status_that_no_run_causes_…`, `a_foreign_machine_…` |

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use wardroom_api::site::Budget;
use wardroom_core::{
    gpu_node::maas::Status,
    run::plan::{Kind, Stage, When},
};
use wardroom_fakes::{
    maas::{Change, DiskSpec, Fake as Maas, Fault, FaultKind, Outcome, Seed},
    redfish,
};
use wardroom_store::Rows;
use wardroom_workflow::{Attempt, Lost, Outcome as Origin, Stages};

use super::{
    super::{data::Data, drift, stages::Workers},
    recommended::follow,
    rig::{LOOPBACK, Rig, mac, quick},
};

/// Onboards a machine that was prepared, and expects that a person is needed at a stage.
pub(super) async fn needs_person(rig: &mut Rig, stage: &str) -> (String, Value) {
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], stage, "{run}");
    assert!(matches!(rig.state(&id).await.as_str(), "enrolling" | "quarantined"));
    let recommended = rig.lifecycle(&id).await["recommended"].clone();
    assert!(recommended["action"].is_object(), "{recommended}");
    (id, run)
}

pub(super) fn seeded(rig: &Rig) -> String {
    rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() })
}

async fn conflicting_candidates_need_a_person() {
    let mut rig = Rig::new().await;
    let _ = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    let _ = rig.maas.seed(&Seed { macs: vec![mac(2)], ..Seed::default() });
    rig.work();
    let body = json!({"hostname": "gpu-1", "site": "berlin", "macs": [mac(1), mac(2)]});
    let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
    let id = made["data"]["id"].as_str().unwrap().to_owned();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "create_or_find_in_maas", "{run}");
}

/// Two nodes that lead to one machine: the first has it, the second is told whose it is and does nothing to it.
async fn a_machine_of_another_node_needs_a_person() {
    let mut rig = Rig::new().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1), mac(2), mac(3)], ..Seed::default() });
    rig.work();
    rig.agents();
    let first = rig.onboard(1).await;
    rig.until(&first, "active").await;
    // Also when another site leads to it, whose MAAS is the same.
    let (mut settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    settings.url.push('/');
    rig.site("paris", &settings).await;
    let body = json!({"hostname": "gpu-3", "site": "paris", "macs": [mac(3)]});
    let third = rig.post("/api/v1/gpu-nodes", body).await.ok()["data"]["id"].as_str().unwrap().to_owned();
    let run = rig.until_run(&third, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "create_or_find_in_maas", "{run}");
    assert!(run["failure"].as_str().unwrap().contains(&first), "{run}");
    let second = rig.onboard(2).await;
    let run = rig.until_run(&second, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "create_or_find_in_maas", "{run}");
    assert!(run["failure"].as_str().unwrap().contains(&first), "{run}");
    super::decommission::cancel(&rig, run["id"].as_str().unwrap()).await;
    rig.until_run(&second, "cancelled").await;
    assert_eq!(rig.state(&first).await, "active");
    for op in ["commission", "deploy"] {
        assert_eq!(rig.did(&system_id, op), 1, "{op}");
    }
    assert_eq!(rig.did(&system_id, "release"), 0);
    // A node that is gone has let its machine go.
    rig.post(&format!("/api/v1/gpu-nodes/{first}/decommissions"), json!({"mode": "full_decommission"}))
        .await
        .ok();
    rig.until(&first, "deleted").await;
    rig.post(&format!("/api/v1/gpu-nodes/{second}/onboardings"), json!({})).await.ok();
    rig.until_run(&second, "completed").await;
    assert_eq!(rig.system_id(&second).await, system_id);
}

async fn a_foreign_machine_needs_a_person() {
    let mut rig = Rig::new().await;
    let _ = rig.maas.seed(&Seed { macs: vec![mac(1)], status: Some(Status::Deployed), ..Seed::default() });
    needs_person(&mut rig, "create_or_find_in_maas").await;
}

async fn a_missing_or_ambiguous_boot_disk_needs_a_person() {
    let disk = |name: &str, model: &str| DiskSpec {
        name: name.to_owned(),
        model: model.to_owned(),
        serial: name.to_owned(),
        size: 1 << 40,
    };
    for disks in [vec![disk("a", "NVMe")], vec![disk("a", "DELLBOSS VD"), disk("b", "DELLBOSS VD")]] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        rig.maas.change(&system_id, &Change { disks: Some(disks), ..Change::default() });
        needs_person(&mut rig, "configure_storage").await;
        assert_eq!(rig.did(&system_id, "set_storage_layout"), 0);
    }
}

/// A site's budget for a stage replaces the default: one failed answer stops the run.
async fn a_site_says_how_much_its_stages_bear() {
    let budget = Budget { retries: Some(0), ..Budget::default() };
    let mut rig =
        Rig::with(quick(), |site| site.budgets = [("deploy_via_maas".to_owned(), budget)].into()).await;
    seeded(&rig);
    rig.maas.fault(Fault::of("deploy", FaultKind::Status(503)).times(1));
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    let run = rig.until_run(&id, "failed_retryable").await;
    assert_eq!(run["stage"], "deploy_via_maas", "{run}");
    assert_eq!(follow(&rig, &id).await, "retry_stage");
    rig.until(&id, "active").await;

    let (settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    for (stage, wrong, field) in [
        ("paint", json!({}), "settings.budgets.paint"),
        ("deploy_via_maas", json!({"retries": 1001}), "settings.budgets.deploy_via_maas.retries"),
        ("drain_node", json!({"patience_minutes": 0}), "settings.budgets.drain_node.patience_minutes"),
        ("drain_node", json!({"patience_seconds": 60}), "settings.budgets.drain_node.patience_seconds"),
        (
            "drain_node",
            json!({"patience_minutes": 1, "patience_seconds": 5}),
            "settings.budgets.drain_node.patience_seconds",
        ),
    ] {
        let mut body = json!({"name": "berlin", "settings": settings});
        body["settings"]["budgets"] = json!({stage: wrong});
        let refused = rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", body).await;
        assert_eq!((refused.status.as_u16(), &refused.body["errors"][0]["field"]), (400, &json!(field)));
    }
    let mut body = json!({"name": "berlin", "settings": settings});
    body["settings"]["user_data"] = json!("#cloud-config {{secret}}");
    let refused = rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", body).await;
    let error = &refused.body["errors"][0];
    assert_eq!((refused.status.as_u16(), &error["field"]), (400, &json!("settings.user_data")));
    assert!(error["message"].as_str().unwrap().contains("token, server, node, hostname"), "{error}");
}

async fn an_interface_that_cannot_be_fixed_needs_a_person() {
    let mut rig =
        Rig::with(super::rig::quick(), |site| site.provisioning_subnet = "nowhere".to_owned()).await;
    seeded(&rig);
    needs_person(&mut rig, "ensure_pxe_interface_auto").await;
}

/// A change of a machine in MAAS as soon as its run comes to a stage.
#[derive(Clone)]
struct Meanwhile {
    workers: Workers,
    stage: Stage,
    happens: Arc<dyn Fn() + Send + Sync>,
}

impl Stages for Meanwhile {
    type Data = Data;

    async fn perform(&self, attempt: Attempt<'_, Data>) -> Result<Origin<Data>, Lost> {
        if attempt.stage == self.stage && attempt.number == 1 {
            (self.happens)();
        }
        self.workers.perform(attempt).await
    }

    async fn undo(&self, attempt: Attempt<'_, Data>) -> Result<Origin<Data>, Lost> {
        self.workers.undo(attempt).await
    }
}

/// Makes a change of a run's machine outside of Wardroom when the run comes to a stage.
pub(super) fn meanwhile(rig: &mut Rig, stage: Stage, happens: impl Fn(&Maas) + Send + Sync + 'static) {
    let maas = Arc::clone(&rig.maas);
    let stages = Meanwhile { workers: rig.workers.clone(), stage, happens: Arc::new(move || happens(&maas)) };
    rig.work_with(stages);
}

/// At whichever stage its run is: the machine is looked at again before a node is taken for active.
async fn a_machine_that_is_deleted_in_the_middle_needs_a_person() {
    let with_machine = Kind::Onboarding.plan().iter().map(|step| step.stage);
    for stage in with_machine.filter(|stage| Kind::Onboarding.is_past(*stage, Stage::CommissionNode)) {
        let mut rig = Rig::with(quick(), |site| site.hardware_sync = true).await;
        let system_id = seeded(&rig);
        if Kind::Onboarding.plan().iter().any(|step| step.stage == stage && step.when == When::OnFailure) {
            let failure = Outcome::Fail("timed out: searching for network DataSource".to_owned());
            let outcomes = [("deploying".to_owned(), vec![failure])].into();
            rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        }
        // A stage that waits is executed more than once.
        meanwhile(&mut rig, stage, move |maas| {
            let _ = maas.vanish(&system_id);
        });
        rig.agents();
        let id = rig.onboard(1).await;
        let run = rig.until_run(&id, "failed_manual_intervention").await;
        assert!(run["failure"].as_str().unwrap().contains("does not have the machine"), "{stage}: {run}");
        assert_eq!(rig.state(&id).await, "enrolling", "{stage}");
    }
}

/// A machine that was released or taken while its agent was waited for is not reported as in use.
async fn a_machine_that_is_released_while_its_agent_is_waited_for_needs_a_person() {
    for (mode, agents) in [(None, true), (None, false), (Some("reimage"), true)] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        let releases = Arc::new(AtomicU32::new(u32::from(mode.is_none())));
        let count = Arc::clone(&releases);
        meanwhile(&mut rig, Stage::WaitForAgentEnrollment, move |maas| {
            let status = Some(Status::Ready);
            if count.load(Ordering::SeqCst) == 1 {
                assert!(maas.change(&system_id, &Change { status, ..Change::default() }));
            }
        });
        if agents {
            rig.agents();
        }
        let id = rig.onboard(1).await;
        if let Some(mode) = mode {
            rig.until(&id, "active").await;
            releases.store(1, Ordering::SeqCst);
            rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": mode})).await.ok();
        }
        let run = rig.until_run(&id, "failed_manual_intervention").await;
        assert_eq!(
            (&run["stage"], &run["failure_class"]),
            (&json!("wait_for_agent_enrollment"), &json!("disagreement")),
            "{run}"
        );
        assert!(run["failure"].as_str().unwrap().contains("Ready"), "{run}");
        assert_ne!(rig.state(&id).await, "active");
    }
}

async fn a_machine_that_is_deleted_on_its_way_out_needs_a_person() {
    for mode in ["reimage", "full_decommission"] {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let system_id = rig.system_id(&id).await;
        let outcomes = [("releasing".to_owned(), vec![Outcome::Stall])].into();
        rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
        rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": mode})).await.ok();
        rig.until_stage_or(&id, "release_maas_node", "deleted").await;
        assert!(rig.maas.vanish(&system_id));
        let run = rig.until_run(&id, "failed_manual_intervention").await;
        assert!(run["failure"].as_str().unwrap().contains("does not have the machine"), "{mode} {run}");
        assert_eq!(rig.state(&id).await, "retired", "{mode}");
    }
}

async fn a_commissioning_that_fails_twice_needs_a_person_and_once_does_not() {
    for (failures, ends_well) in [(1, true), (2, false)] {
        let mut rig = Rig::new().await;
        let system_id = seeded(&rig);
        let outcomes =
            [("commissioning".to_owned(), vec![Outcome::Fail("a script failed".to_owned()); failures])];
        rig.maas.change(&system_id, &Change { outcomes: outcomes.into(), ..Change::default() });
        if ends_well {
            rig.work();
            rig.agents();
            let id = rig.onboard(1).await;
            rig.until(&id, "active").await;
            assert_eq!(rig.did(&system_id, "commission"), 2);
        } else {
            needs_person(&mut rig, "wait_for_ready").await;
            assert_eq!(rig.did(&system_id, "commission"), 2);
        }
    }
}

async fn a_status_that_the_run_did_not_cause_needs_a_person() {
    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    let outcomes = [("deploying".to_owned(), vec![Outcome::Stall])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    rig.work();
    let id = rig.onboard(1).await;
    while rig.lifecycle(&id).await["run"]["stage"] != "wait_for_deployed" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    rig.maas.change(&system_id, &Change { status: Some(Status::RescueMode), ..Change::default() });
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert!(run["failure"].as_str().unwrap().contains("did not cause"), "{run}");
}

async fn a_failure_that_nothing_explains_needs_a_person() {
    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    let outcomes = [("deploying".to_owned(), vec![Outcome::Fail("the moon was full".to_owned())])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    needs_person(&mut rig, "classify_deploy_failure").await;
    assert_eq!(rig.did(&system_id, "deploy"), 1);
}

/// The key of MAAS is tried twice, never more.
async fn a_refused_key_needs_a_person() {
    let mut rig = Rig::new().await;
    rig.maas.fault(Fault::of("whoami", FaultKind::Unauthorized).times(50));
    let (_, run) = needs_person(&mut rig, "load_site_config").await;
    assert_eq!(run["failure_class"], "credentials");
    assert!(!run["failure"].as_str().unwrap().contains("secret"), "{run}");
}

/// Onboards a node whose BMC refuses this login; answers the file of the login, the node, and its stopped run.
async fn refused_by(bmc: &redfish::Fake, login: &str) -> (Rig, std::path::PathBuf, String, Value) {
    let mut rig = Rig::new().await;
    let credential = "file:bmc/rack";
    let file = rig.secret(credential);
    std::fs::write(&file, login).unwrap();
    rig.work();
    rig.agents();
    let body = json!({
        "hostname": "gpu-1", "site": "berlin", "macs": [mac(1)],
        "bmc": {"address": bmc.url(), "credential": credential, "system": "1"},
    });
    let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
    let id = made["data"]["id"].as_str().unwrap().to_owned();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    (rig, file, id, run)
}

/// A wrong password of a BMC is tried twice by all runs together, and not once more after a restart of the run.
async fn a_wrong_password_is_tried_twice_and_no_more() {
    let bmc =
        redfish::Fake::start(redfish::Config { lock_after: Some(3), ..redfish::Config::default() }, LOOPBACK)
            .await
            .unwrap();
    let (rig, file, id, run) = refused_by(&bmc, "root:wrong").await;
    assert_eq!(run["failure_class"], "credentials", "{run}");
    // A resume with the same password does not ask the BMC.
    rig.act(&id, "resume", json!({})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "resolve_power_credentials");
    std::fs::write(&file, "root:calvin").unwrap();
    assert_eq!(follow(&rig, &id).await, "retry_stage");
    rig.until(&id, "active").await;
    let stored = format!(
        "{:?}",
        rig.app.store.history("gpu-node", &id, wardroom_store::Rows::All, 100, 0).await.unwrap()
    );
    assert!(!stored.contains("calvin") && !stored.contains("wrong"), "no secret in history");
}

/// An operator who corrected the password of the BMC confirms that by repeating the stage; the server's own
/// retries confirm nothing.
#[tokio::test]
async fn a_refused_password_is_tried_again_when_a_person_repeats_the_stage() {
    let bmc = redfish::Fake::start(redfish::Config::default(), LOOPBACK).await.unwrap();
    let (rig, _, id, run) = refused_by(&bmc, "root:another").await;
    let retry = format!("/api/v1/runs/{}/actions/retry_stage", run["id"].as_str().unwrap());
    assert_eq!(bmc.wrong_passwords(), 2);
    rig.act(&id, "resume", json!({})).await.ok();
    rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(bmc.wrong_passwords(), 2, "no person allowed another try");
    rig.post(&retry, json!({"comment": "once more"})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!((bmc.wrong_passwords(), &run["failure_class"]), (4, &json!("credentials")), "{run}");
    bmc.set_password("another");
    rig.post(&retry, json!({"comment": "the account has this password now"})).await.ok();
    rig.until(&id, "active").await;
}

/// A node whose machine was released outside of Wardroom is quarantined, never silently adopted.
async fn drift_quarantines() {
    for change in [Some(Status::Ready), Some(Status::Broken), None] {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let system_id = rig.system_id(&id).await;
        match change {
            Some(status) => {
                assert!(rig.maas.change(&system_id, &Change { status: Some(status), ..Change::default() }))
            }
            None => assert!(rig.maas.vanish(&system_id)),
        }
        drift::sweep(&rig.workers, "test").await.unwrap();
        assert_eq!(rig.state(&id).await, "quarantined", "{change:?}");
        assert_eq!(rig.act(&id, "recover", json!({})).await.code(), "not_proven");
    }
}

/// A MAAS that misses most of its machines at once, such as one that was restored empty, is doubted, and not the nodes; a
/// machine that is missing beside others is drift.
async fn a_maas_that_lost_its_machines_is_doubted() {
    let mut rig = Rig::new().await;
    rig.work();
    rig.agents();
    let mut nodes = Vec::new();
    for number in 1..=5 {
        let system_id = rig.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() });
        if number == 5 {
            rig.maas.fault(Fault::of("deploy", FaultKind::Status(500)).times(100));
        }
        let id = rig.onboard(number).await;
        match number {
            5 => _ = rig.until_run(&id, "failed_retryable").await,
            _ => rig.until(&id, "active").await,
        }
        nodes.push((system_id, id));
    }
    let why = async |id: &str| rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await.to_string();
    assert!(rig.maas.vanish(&nodes[0].0));
    sweep(&rig).await;
    assert_eq!(rig.state(&nodes[0].1).await, "quarantined");
    for place in [1, 2, 4] {
        assert!(rig.maas.vanish(&nodes[place].0));
    }
    for _ in 0..2 {
        sweep(&rig).await;
        for place in [1, 2, 4] {
            let why = why(&nodes[place].1).await;
            assert!(why.contains("3 of the 4 machines of site berlin are missing from it at once"), "{why}");
        }
        assert_eq!(rig.state(&nodes[1].1).await, "active");
        assert_eq!(rig.state(&nodes[2].1).await, "active");
        assert_eq!(rig.lifecycle(&nodes[4].1).await["run"]["status"], "failed_retryable");
        assert!(!why(&nodes[3].1).await.contains("at once"));
    }
}

/// A site that was given another MAAS, perhaps by mistake, takes no node out of use: that one knows nothing of its machines.
async fn another_maas_is_no_drift() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    let other = Maas::start(quick(), LOOPBACK).await.unwrap();
    let mut settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
    let there = std::mem::replace(&mut settings["url"], json!(other.url()));
    let changed = json!({"name": "berlin", "settings": settings});
    rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", changed).await.ok();
    drift::sweep(&rig.workers, "test").await.unwrap();
    assert_eq!(rig.state(&id).await, "active");
    settings["url"] = there;
    let changed = json!({"name": "berlin", "settings": settings});
    rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", changed).await.ok();
    assert!(rig.maas.vanish(&system_id));
    sweep(&rig).await;
    assert_eq!(rig.state(&id).await, "quarantined");
}

/// The MAAS of a site under another name is followed, and judged by from then on; one that only calls another machine the
/// same is not.
async fn a_maas_that_moved_is_followed() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    let strange = quick();
    let other = Maas::start(strange, LOOPBACK).await.unwrap();
    assert_eq!(other.seed(&Seed { macs: vec![mac(7)], ..Seed::default() }), system_id, "called the same");
    let why = async || rig.get(&format!("/api/v1/resources/gpu-node/{id}/why")).await.to_string();
    let mut settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
    let here = settings["url"].as_str().unwrap().to_owned();
    for (url, found) in [(other.url(), false), (here.replace("127.0.0.1", "localhost"), true)] {
        settings["url"] = json!(url);
        let changed = json!({"name": "berlin", "settings": settings});
        rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", changed).await.ok();
        assert!(why().await.contains("does not count until"), "{}", why().await);
        sweep(&rig).await;
        assert_eq!(rig.state(&id).await, "active", "{url}");
        assert_eq!(!why().await.contains("does not count until"), found, "{url}: {}", why().await);
    }
    let (rows, _) = rig.app.store.history("gpu-node", &id, Rows::All, 100, 0).await.unwrap();
    let told = |row: &&wardroom_store::HistoryRow| {
        row.entry.comment.as_deref().is_some_and(|said| said.contains("at another address now"))
    };
    let row = rows.iter().find(told).expect("it is written down");
    assert_eq!(row.entry.metadata["was"], json!(super::super::document::address(&here)));
    assert!(rig.maas.vanish(&system_id));
    sweep(&rig).await;
    assert_eq!(rig.state(&id).await, "quarantined", "what is missing there is missing");
}

/// Nor is anything done to what another MAAS calls the same.
async fn a_machine_with_the_same_id_in_another_maas_is_left_alone() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    let other = Maas::start(quick(), LOOPBACK).await.unwrap();
    let seed = Seed { macs: vec![mac(7)], ..Seed::default() };
    assert_eq!(other.seed(&seed), system_id, "called the same");
    let mut settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
    settings["url"] = json!(other.url());
    let changed = json!({"name": "berlin", "settings": settings});
    rig.call(axum::http::Method::PUT, "/api/v1/sites/berlin", changed).await.ok();
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "reimage"})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert!(run["failure"].as_str().unwrap().contains("no MAC of the node"), "{run}");
    assert_eq!(other.effects().get(&system_id), None);
}

/// Looks at the sites once, when their time has come.
async fn sweep(rig: &Rig) {
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    drift::sweep(&rig.workers, "test").await.unwrap();
}

/// A retired node has no way to quarantine: a foreign change of its machine is recorded once, an operator is
/// asked, and taking the node back into use does not adopt it.
async fn drift_of_a_retired_node_asks_and_is_not_adopted() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until(&id, "retired").await;
    rig.maas.change(&system_id, &Change { status: Some(Status::Allocated), ..Change::default() });
    sweep(&rig).await;
    sweep(&rig).await;
    let rows = async |word: &str| {
        let (rows, _) = rig.app.store.history("gpu-node", &id, Rows::All, 100, 0).await.unwrap();
        rows.iter().filter(|row| row.entry.comment.as_deref().is_some_and(|said| said.contains(word))).count()
    };
    assert_eq!(rows("is Allocated").await, 1, "once");
    assert_eq!(rig.lifecycle(&id).await["recommended"]["action"]["action"], "remove");
    assert_eq!(rig.act(&id, "reactivate", json!({})).await.code(), "not_proven");
    assert_eq!(rig.state(&id).await, "retired");
    rig.maas.change(&system_id, &Change { status: Some(Status::Deployed), ..Change::default() });
    sweep(&rig).await;
    assert_eq!(rows("is Deployed").await, 1, "it is over");
    assert_eq!(rig.act(&id, "reactivate", json!({})).await.ok()["data"]["did"], "moved");
}

/// A run that waits for a repetition is frozen when its machine is deleted: a repeat would be blind.
async fn drift_under_a_run_that_failed_for_now_needs_a_person() {
    let mut rig = Rig::new().await;
    let system_id = seeded(&rig);
    rig.maas.fault(Fault::of("deploy", FaultKind::Status(500)).times(100));
    rig.work();
    let id = rig.onboard(1).await;
    let run = rig.until_run(&id, "failed_retryable").await;
    assert_eq!(run["stage"], "deploy_via_maas", "{run}");
    sweep(&rig).await;
    assert_eq!(
        rig.lifecycle(&id).await["run"]["status"],
        "failed_retryable",
        "nothing is wrong with the machine"
    );
    assert!(rig.maas.vanish(&system_id));
    sweep(&rig).await;
    assert_eq!(rig.lifecycle(&id).await["run"]["status"], "failed_manual_intervention");
    assert_eq!(rig.state(&id).await, "enrolling");
}

/// The reconciler freezes only the version that it looked at, in the server's name, and not one that a person
/// has sent on since.
async fn drift_does_not_freeze_a_run_that_was_just_sent_on() {
    let mut rig = Rig::new().await;
    let _ = seeded(&rig);
    rig.maas.fault(Fault::of("deploy", FaultKind::Status(500)).times(100));
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_run(&id, "failed_retryable").await;
    let newest = async || {
        let node = super::super::begin::read(&rig.app, &id).await.unwrap();
        super::super::begin::newest_run(&rig.app, &node).await.unwrap().unwrap()
    };
    let seen = super::super::cache::seen("berlin", "gone", None);
    let read = newest().await;
    rig.act(&id, "resume", json!({})).await.ok();
    drift::stop(&rig.app, &read, &seen).await.unwrap();
    rig.until_run(&id, "failed_retryable").await;
    drift::stop(&rig.app, &newest().await, &seen).await.unwrap();
    assert_eq!(rig.lifecycle(&id).await["run"]["status"], "failed_manual_intervention");
    let (rows, _) = rig.app.store.history("run", read.id(), Rows::Transitions, 1, 0).await.unwrap();
    let entry = &rows[0].entry;
    assert_eq!((entry.triggered_by.as_str(), entry.user_id.as_deref()), ("system", None), "{entry:?}");
}

/// A MAAS that is restarted in the middle of a release needs no person: its answer about the machine counts,
/// not the time without one.
async fn a_maas_that_is_away_during_a_release_is_waited_for() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    for op in ["list", "read"] {
        rig.maas.fault(Fault::of(op, FaultKind::Status(502)).times(10_000));
    }
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "full_decommission"}))
        .await
        .ok();
    rig.until_stage_or(&id, "release_maas_node", "never").await;
    for look in 0.. {
        let run = rig.lifecycle(&id).await["run"].clone();
        assert!(look < 1500 && run["status"] == "running", "{run}");
        if run["attempt"].as_u64() >= Some(4) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    rig.maas.clear_faults();
    rig.until(&id, "deleted").await;
}

/// Answers to the release itself are lost, with and without its effect: the next attempts look, and the run ends well.
async fn a_release_whose_answers_are_lost_goes_on() {
    let lost = [FaultKind::Status(502), FaultKind::Later(503, 1)];
    for (kind, after) in lost.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let system_id = rig.system_id(&id).await;
        let fault = Fault::of("release", kind).times(3);
        rig.maas.fault(if after { fault.after() } else { fault });
        rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "full_decommission"}))
            .await
            .ok();
        rig.until(&id, "deleted").await;
        assert_eq!(rig.did(&system_id, "release"), 1, "{kind:?}, after: {after}");
    }
}

/// A node that was set aside for drift alone comes back when it is proven healthy; one that a person set aside, or keeps
/// aside, does not.
async fn a_node_quarantined_for_drift_comes_back_when_it_is_proven_healthy() {
    for (drifts, person) in [(true, false), (false, true), (true, true)] {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let system_id = rig.system_id(&id).await;
        if drifts {
            rig.maas.change(&system_id, &Change { status: Some(Status::Broken), ..Change::default() });
            sweep(&rig).await;
            assert_eq!(rig.state(&id).await, "quarantined");
        }
        if person {
            rig.act(&id, "quarantine", json!({"comment": "keep it"})).await.ok();
        }
        sweep(&rig).await;
        assert_eq!(rig.state(&id).await, "quarantined");
        rig.maas.change(&system_id, &Change { status: Some(Status::Deployed), ..Change::default() });
        // Its agent beats on meanwhile.
        for _ in 0..if person { 5 } else { 100 } {
            sweep(&rig).await;
            if rig.state(&id).await != "quarantined" {
                break;
            }
        }
        assert_eq!(rig.state(&id).await, if person { "quarantined" } else { "active" });
        let (rows, _) = rig.app.store.history("gpu-node", &id, Rows::Transitions, 1, 0).await.unwrap();
        let last = if person { Value::Null } else { json!("proven_healthy") };
        assert!(person || rows[0].entry.metadata["event"] == last, "{rows:?}");
    }
}

async fn a_node_that_fits_is_left_alone_and_so_is_one_when_maas_does_not_answer() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    drift::sweep(&rig.workers, "test").await.unwrap();
    rig.maas.fault(Fault::of("list", FaultKind::Status(500)).times(100));
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    drift::sweep(&rig.workers, "test").await.unwrap();
    assert_eq!(rig.state(&id).await, "active");
}

/// An undo that cannot reach the site is not done: the run keeps what it has to take back.
async fn an_undo_without_its_site_waits_for_a_person() {
    let mut key = String::new();
    let mut rig = Rig::with(quick(), |site| key.clone_from(&site.key)).await;
    let file = &rig.secret(&key);
    let _ = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    rig.maas.fault(Fault::of("deploy", FaultKind::Status(403)).times(100));
    rig.work();
    let id = rig.onboard(1).await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "deploy_via_maas", "{run}");
    let kept = std::fs::read(file).unwrap();
    std::fs::remove_file(file).unwrap();
    super::decommission::cancel(&rig, run["id"].as_str().unwrap()).await;
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        assert_ne!(rig.lifecycle(&id).await["run"]["status"], "cancelled", "nothing was undone");
    }
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    std::fs::write(file, kept).unwrap();
    super::decommission::cancel(&rig, run["id"].as_str().unwrap()).await;
    rig.act(&id, "resume", json!({})).await;
    rig.until_run(&id, "cancelled").await;
}

long_on_both! {
    conflicting_candidates_need_a_person
    a_machine_of_another_node_needs_a_person
    a_foreign_machine_needs_a_person
    a_missing_or_ambiguous_boot_disk_needs_a_person
    an_interface_that_cannot_be_fixed_needs_a_person
    a_site_says_how_much_its_stages_bear
    a_machine_that_is_deleted_in_the_middle_needs_a_person
    a_machine_that_is_released_while_its_agent_is_waited_for_needs_a_person
    a_machine_that_is_deleted_on_its_way_out_needs_a_person
    a_commissioning_that_fails_twice_needs_a_person_and_once_does_not
    a_status_that_the_run_did_not_cause_needs_a_person
    a_failure_that_nothing_explains_needs_a_person
    drift_does_not_freeze_a_run_that_was_just_sent_on
    a_maas_that_lost_its_machines_is_doubted
    a_maas_that_is_away_during_a_release_is_waited_for
    a_release_whose_answers_are_lost_goes_on
    a_refused_key_needs_a_person
    a_wrong_password_is_tried_twice_and_no_more
    drift_quarantines
    another_maas_is_no_drift
    a_machine_with_the_same_id_in_another_maas_is_left_alone
    a_maas_that_moved_is_followed
    drift_of_a_retired_node_asks_and_is_not_adopted
    drift_under_a_run_that_failed_for_now_needs_a_person
    a_node_quarantined_for_drift_comes_back_when_it_is_proven_healthy
    a_node_that_fits_is_left_alone_and_so_is_one_when_maas_does_not_answer
    an_undo_without_its_site_waits_for_a_person
}
