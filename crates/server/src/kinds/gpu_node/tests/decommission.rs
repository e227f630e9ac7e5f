//! Nodes go out, wholly or for a while.

use serde_json::{Value, json};
use wardroom_fakes::maas::{Change, Fault, FaultKind, Outcome};

use super::rig::{Rig, line, quick};

async fn decommission(rig: &Rig, id: &str, mode: &str) {
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": mode})).await.ok();
}

async fn a_reset_and_a_cleanup_bring_the_node_back() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    for mode in ["soft_reset", "storage_cleanup"] {
        decommission(&rig, &id, mode).await;
        let run = rig.until_run(&id, "completed").await;
        assert_eq!(run["kind"], mode);
        // Health proves it, by way of offline.
        rig.until(&id, "active").await;
    }
    let system_id = rig.system_id(&id).await;
    assert_eq!(rig.did(&system_id, "release"), 0, "MAAS is not touched");
}

async fn a_reimage_installs_anew_under_the_same_identity() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    decommission(&rig, &id, "reimage").await;
    rig.until(&id, "retired").await;
    let run = rig.until_run(&id, "completed").await;
    assert_eq!(run["kind"], "reimage");
    rig.until(&id, "active").await;
    assert_eq!(rig.did(&system_id, "deploy"), 2);
    assert_eq!(rig.did(&system_id, "release"), 1);
    assert_eq!(rig.system_id(&id).await, system_id);
}

async fn a_full_decommission_ends_the_identity_and_keeps_the_machine_by_policy() {
    for removes in [false, true] {
        let mut rig = Rig::with(quick(), |site| site.remove_machine = removes).await;
        let id = rig.active(1).await;
        let system_id = rig.system_id(&id).await;
        decommission(&rig, &id, "full_decommission").await;
        rig.until(&id, "deleted").await;
        let lifecycle = rig.lifecycle(&id).await;
        assert_eq!(lifecycle["run"]["status"], "completed", "the run outlives the node");
        assert_eq!(lifecycle["allowed_actions"], json!([]));
        assert_eq!(rig.maas.machines().contains(&system_id), !removes);
        let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
        assert_eq!(node["enrolled"], false);
        assert_eq!(node["identity_kept"], false);
        assert_eq!(node["bmc"], Value::Null);
        let again = rig.act(&id, "reactivate", json!({})).await;
        assert_eq!(again.status, 404, "nothing leaves deleted: {again:?}");
        // The machine may come back, as another node.
        let anew = rig.onboard(1).await;
        assert_ne!(anew, id);
        rig.until(&anew, "active").await;
    }
}

async fn retire_reactivate_and_remove() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    assert_eq!(rig.act(&id, "retire", json!({})).await.ok()["data"]["did"], "run_created");
    rig.until(&id, "retired").await;
    assert_eq!(rig.act(&id, "retire", json!({})).await.ok()["data"]["did"], "already_there");
    assert_eq!(rig.act(&id, "reactivate", json!({})).await.ok()["data"]["did"], "moved");
    rig.until(&id, "active").await;
    rig.act(&id, "retire", json!({})).await.ok();
    rig.until(&id, "retired").await;
    rig.act(&id, "remove", json!({})).await.ok();
    rig.until(&id, "deleted").await;
}

/// A host that never enrolled, or is dead, can be got rid of: what needs its agent is skipped, with a reason.
async fn a_dead_host_is_retired_and_removed_with_a_reason() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, _) = rig.by_hand(1).await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/onboardings"), json!({})).await.ok();
    rig.until(&id, "enrolling").await;
    rig.act(&id, "quarantine", json!({"comment": "the host is dead"})).await.ok();
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    let refused = rig.act(&id, "retire", json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "run_open"));
    cancel(&rig, &run).await;
    rig.until_run(&id, "cancelled").await;
    let skip = json!({"skip": [{"stage": "drain_node", "comment": "the host is dead"}]});
    rig.act(&id, "retire", skip).await.ok();
    rig.until(&id, "retired").await;
    // No machine of a site could be reimaged, and the refusal names the possible actions.
    let gone = rig.act(&id, "reactivate", json!({})).await;
    assert_eq!((gone.status.as_u16(), gone.code()), (409, "identity_gone"), "{gone:?}");
    let remove = format!("POST /api/v1/gpu-nodes/{id}/actions/remove");
    let allowed = gone.body["allowed_actions"].as_array().unwrap();
    assert_eq!(allowed.iter().map(line).collect::<Vec<_>>(), [remove], "{gone:?}");
    let recommended = rig.lifecycle(&id).await["recommended"].to_string();
    assert!(!format!("{gone:?} {recommended}").contains("reimage"), "{gone:?} {recommended}");
    let wrong = json!({"skip": [{"stage": "drain_node", "comment": "the host is dead"}]});
    assert_eq!(rig.act(&id, "remove", wrong).await.status, 400, "a removal drains nothing");
    let skip = json!({"skip": [{"stage": "remove_gpuaas_node_record", "comment": "the host is dead"}]});
    rig.act(&id, "remove", skip).await.ok();
    rig.until(&id, "deleted").await;
}

/// A bootstrap that was given up is no dead end: the document's own moves lead on from there, to a new token and to the
/// end of the node.
async fn a_bootstrap_that_was_given_up_leads_on_and_out() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, old) = rig.by_hand(1).await;
    let given_up = async || {
        let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
        rig.post(&format!("/api/v1/runs/{run}/actions/cancel"), json!({})).await.ok();
        rig.until_run(&id, "cancelled").await;
    };
    given_up().await;
    assert_eq!(rig.state(&id).await, "bootstrap_issued");
    let lifecycle = rig.lifecycle(&id).await;
    assert_eq!(lifecycle["recommended"]["action"]["action"], "resume", "{lifecycle}");
    let resumed = rig.act(&id, "resume", json!({})).await.ok()["data"].clone();
    assert_eq!(resumed["did"], "token_issued");
    assert_eq!(rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": old})).await.status, 401);
    given_up().await;
    let begun = rig.post(&format!("/api/v1/gpu-nodes/{id}/onboardings"), json!({})).await.ok();
    assert!(begun["data"]["token"].is_string(), "{begun}");
    rig.until(&id, "enrolling").await;
    rig.act(&id, "quarantine", json!({"comment": "never arrived"})).await.ok();
    given_up().await;
    let skip = |stage: &str| json!({"skip": [{"stage": stage, "comment": "never arrived"}]});
    rig.act(&id, "retire", skip("drain_node")).await.ok();
    rig.until(&id, "retired").await;
    rig.act(&id, "remove", skip("remove_gpuaas_node_record")).await.ok();
    rig.until(&id, "deleted").await;
}

/// A host whose agent is gone is reimaged or decommissioned all the same: an operator states why nothing was
/// proven. That is refused as long as it answers, and where it would be used again as it is.
async fn a_dead_host_is_reimaged_and_decommissioned_with_a_reason() {
    let skip = |stages: &[&str]| -> Vec<Value> {
        stages.iter().map(|stage| json!({"stage": stage, "comment": "the board burnt"})).collect()
    };
    let proofs = ["drain_node", "scrub_gpu", "validate_clean_node"];
    let all =
        ["drain_node", "cleanup_storage", "scrub_gpu", "validate_clean_node", "remove_gpuaas_node_record"];
    for (mode, stages, end) in
        [("reimage", &proofs[..], "active"), ("full_decommission", &all[..], "deleted")]
    {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let path = format!("/api/v1/gpu-nodes/{id}/decommissions");
        let body = json!({"mode": mode, "skip": skip(stages)});
        let early = rig.post(&path, body.clone()).await;
        assert_eq!((early.status.as_u16(), early.code()), (409, "no_such_move"), "{early:?}");
        // Nor is anything erased there before it is drained.
        for mode in [mode, "soft_reset", "storage_cleanup"] {
            let early = rig.post(&path, json!({"mode": mode, "skip": skip(&["drain_node"])})).await;
            assert_eq!((early.status.as_u16(), early.code()), (409, "no_such_move"), "{early:?}");
        }
        rig.act(&id, "quarantine", json!({"comment": "the board burnt"})).await.ok();
        let wrong = rig.post(&path, json!({"mode": "soft_reset", "skip": skip(&["scrub_gpu"])})).await;
        assert_eq!(wrong.status, 400, "{wrong:?}");
        rig.long_silence(&id).await;
        rig.post(&path, body).await.ok();
        rig.until_stage_or(&id, "wait_for_agent_enrollment", end).await;
        rig.hear(&id);
        if mode == "reimage" {
            rig.until_run(&id, "completed").await;
            rig.recover(&id).await;
        }
        rig.until(&id, end).await;
        let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
        let (rows, _) = rig.app.store.history("run", &run, wardroom_store::Rows::All, 500, 0).await.unwrap();
        for stage in stages {
            let told = rows.iter().map(|row| &row.entry.metadata).any(|told| {
                told["stage"] == *stage && told["outcome"] == "skipped" && told["reason"] == "the board burnt"
            });
            assert!(told, "{mode} {stage}");
        }
    }
}

pub(super) async fn cancel(rig: &Rig, run: &str) {
    use wardroom_core::run::action::Action;
    use wardroom_workflow::{Actor, Adoption, Ask, act};
    let actor = Actor { user: Some("admin".to_owned()), comment: None, request_id: None };
    let ask = Ask { action: Action::Cancel, abandon: false, adoption: Adoption::Nothing, at: None, actor };
    act::<super::super::data::Data>(&rig.app.store, run, &ask, rig.app.now()).await.unwrap();
}

/// Disks that are being erased are waited for; a second release would be refused.
async fn an_erase_is_joined_and_a_failed_one_is_tried_twice() {
    let mut rig = Rig::with(quick(), |site| site.erase = super::super::site::Erase::Full).await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    rig.maas.fault(Fault::of("release", FaultKind::HangUp).after());
    decommission(&rig, &id, "full_decommission").await;
    rig.until(&id, "deleted").await;
    assert_eq!(rig.did(&system_id, "release"), 1);

    let mut rig = Rig::with(quick(), |site| site.erase = super::super::site::Erase::Full).await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    let outcomes = [("erasing".to_owned(), vec![Outcome::Fail("the disk is broken".to_owned()); 5])].into();
    rig.maas.change(&system_id, &Change { outcomes, ..Change::default() });
    decommission(&rig, &id, "full_decommission").await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "release_maas_node");
    assert_eq!(rig.did(&system_id, "release"), 3, "once, and two tries");
    assert_eq!(rig.state(&id).await, "retired", "the record is kept");
}

/// Only a confirmed `off` is off, and nothing is ever switched on to repair it.
async fn an_unknown_power_is_not_off() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    rig.maas.fault(Fault::of("query_power_state", FaultKind::Status(500)).times(100));
    decommission(&rig, &id, "full_decommission").await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "power_off_maas_node", "{run}");
    assert_eq!(rig.did(&system_id, "power_on"), 0);
    rig.maas.clear_faults();
}

async fn a_node_without_a_site_is_not_decommissioned_in_maas() {
    let mut rig = Rig::new().await;
    rig.work();
    rig.agents();
    let (id, token) = rig.by_hand(1).await;
    let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await;
    assert_eq!(enrolled.status, 200, "{enrolled:?}");
    let refused =
        rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "reimage"})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "no_site"));
    let wrong = rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "burn"})).await;
    assert_eq!(wrong.status, 400);
}

/// A machine taken over by another owner is neither released nor switched off, and its identity is not
/// touched.
async fn a_foreign_machine_is_left_alone() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    rig.maas.change(&system_id, &Change { owner: Some("mallory".to_owned()), ..Change::default() });
    decommission(&rig, &id, "full_decommission").await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "release_maas_node", "{run}");
    assert!(run.to_string().contains("belongs to mallory"), "{run}");
    assert_eq!((rig.did(&system_id, "release"), rig.did(&system_id, "power_off")), (0, 0));
}

/// Once a release was asked for, no action takes the old identity back into use, whatever its answer was.
async fn a_release_ends_the_identity_before_it_is_asked_for() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.maas.fault(Fault::of("release", FaultKind::Status(400)).times(100));
    decommission(&rig, &id, "full_decommission").await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "release_maas_node", "{run}");
    let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
    assert_eq!(node["identity_kept"], false);
}

/// Only a person who was asked confirms that a machine is off: a worker that crashes after asking has no
/// answer.
async fn a_machine_that_people_power_is_off_when_one_says_so() {
    use wardroom_core::run::failure::Class;

    use crate::platform::app::{Decided, by_system};
    let mut rig = Rig::new().await;
    rig.work();
    rig.agents();
    // MAAS has no such machine: it is created, without a BMC.
    let id = rig.onboard(1).await;
    rig.until(&id, "active").await;
    decommission(&rig, &id, "full_decommission").await;
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "power_off_maas_node", "{run}");
    let run = run["id"].as_str().unwrap();
    // As if it had been asked, and the worker had died before it could say so; what the run had to wait for since is not
    // charged to the stage. A person may have sent it there before, for another reason.
    let crashed = |run: &wardroom_store::Resource, sent_on: bool| {
        let mut content = run.content.clone();
        let mut record: wardroom_workflow::Record<super::super::data::Data> = content.document.read()?;
        record.progress.since += jiff::SignedDuration::from_millis(1);
        record.progress.confirmed = sent_on;
        let failure = record.progress.failure.as_mut().unwrap();
        (failure.class, failure.evidence) = (Class::Crashed, "the stage panicked".to_owned());
        content.document = wardroom_store::Document::of(&record)?;
        "pending".clone_into(&mut content.state);
        content.due_at = Some(rig.app.now());
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "transition", Value::Null))), ()))
    };
    for sent_on in [false, true] {
        rig.app.change("run", run, |run| crashed(run, sent_on)).await.unwrap();
        let again = rig.until_run(&id, "failed_manual_intervention").await;
        assert_eq!(again["stage"], "power_off_maas_node", "{again}");
    }
    // The server resumes runs too: that is no confirmation by a person.
    rig.act(&id, "resume", json!({})).await;
    let again = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(again["stage"], "power_off_maas_node", "{again}");
    // If MAAS does not answer at first, the confirmation of the person still counts.
    for op in ["read", "list"] {
        rig.maas.fault(Fault::of(op, FaultKind::Status(504)).times(1));
    }
    rig.post(&format!("/api/v1/runs/{run}/actions/retry_stage"), json!({})).await.ok();
    rig.until(&id, "deleted").await;
}

/// Steps that a site does not want are not on record as done: no disk was wiped, no machine deleted.
async fn steps_that_the_site_does_not_want_are_left_out() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    for (mode, stage, option, end) in [
        ("reimage", "cleanup_storage", "cleanup_on_reimage", "active"),
        ("full_decommission", "remove_maas_record", "remove_machine", "deleted"),
    ] {
        rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": mode})).await.ok();
        let run = rig.until_run(&id, "completed").await["id"].as_str().unwrap().to_owned();
        rig.until(&id, end).await;
        let run = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
        let mut attempts = run["attempts"].as_array().unwrap().iter();
        let attempt = attempts.find(|attempt| attempt["stage"] == stage).unwrap();
        assert_eq!(attempt["outcome"], "left_out", "{attempt}");
        assert_eq!(attempt["evidence"], format!("the setting {option} of site berlin is off"));
    }
}

long_on_both! {
    steps_that_the_site_does_not_want_are_left_out
    a_reset_and_a_cleanup_bring_the_node_back
    a_reimage_installs_anew_under_the_same_identity
    a_full_decommission_ends_the_identity_and_keeps_the_machine_by_policy
    retire_reactivate_and_remove
    a_dead_host_is_retired_and_removed_with_a_reason
    a_bootstrap_that_was_given_up_leads_on_and_out
    a_dead_host_is_reimaged_and_decommissioned_with_a_reason
    an_erase_is_joined_and_a_failed_one_is_tried_twice
    an_unknown_power_is_not_off
    a_node_without_a_site_is_not_decommissioned_in_maas
    a_foreign_machine_is_left_alone
    a_release_ends_the_identity_before_it_is_asked_for
    a_machine_that_people_power_is_off_when_one_says_so
}
