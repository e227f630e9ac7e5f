//! What a person caused names the person, and says why, in the history of the node.

use axum::http::Method;
use serde_json::{Value, json};
use wardroom_core::run::plan::{Kind, Stage};
use wardroom_store::{HistoryRow, Rows};
use wardroom_workflow::{Data as _, Run};

use super::{
    super::{data::Data, document::KIND},
    rig::{Rig, quick},
};

/// The newest move of a resource to a state.
async fn newest(rig: &Rig, kind: &str, id: &str, to: &str) -> HistoryRow {
    let (rows, _) = rig.app.store.history(kind, id, Rows::Transitions, 100, 0).await.unwrap();
    let found = rows.into_iter().find(|row| row.to_state == to && row.from_state.as_deref() != Some(to));
    found.unwrap_or_else(|| panic!("{kind} {id} never moved to {to}"))
}

/// Waits for a move of the node, and checks that it names the person, with the event and the comment.
async fn names(rig: &Rig, id: &str, to: &str, event: &str, comment: &str) {
    for look in 0.. {
        let (rows, _) = rig.app.store.history(KIND, id, Rows::Transitions, 100, 0).await.unwrap();
        let is_it = |row: &&HistoryRow| row.to_state == to && row.entry.comment.as_deref() == Some(comment);
        if let Some(row) = rows.iter().find(is_it) {
            let told =
                (row.entry.user_id.as_deref(), row.entry.triggered_by.as_str(), &row.entry.metadata["event"]);
            assert_eq!(told, (Some("admin"), "admin", &json!(event)), "{row:?}");
            return;
        }
        assert!(look < 1500, "no move to {to} says {comment:?}: {rows:#?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn asks(rig: &Rig, id: &str, action: &str, comment: &str) {
    rig.act(id, action, json!({"comment": comment})).await.ok();
}

/// Every action on a node, one after the other.
async fn every_move_of_a_person_names_the_person() {
    let mut rig = Rig::new().await;
    let id = &rig.active(1).await;
    asks(&rig, id, "quarantine", "odd noises").await;
    names(&rig, id, "quarantined", "quarantine", "odd noises").await;
    for look in 0.. {
        if rig.act(id, "recover", json!({"comment": "a loose fan"})).await.status.is_success() {
            break;
        }
        assert!(look < 1500, "{:#}", rig.lifecycle(id).await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    names(&rig, id, "active", "recover", "a loose fan").await;

    rig.silence(id);
    asks(&rig, id, "retire", "it is old").await;
    names(&rig, id, "draining", "drain", "it is old").await;
    rig.until_stage_or(id, "drain_node", "never").await;
    let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
    asks(&rig, id, "stop_drain", "not that old").await;
    names(&rig, id, "offline", "stop_drain", "not that old").await;
    let ended = newest(&rig, "run", &run, "cancelled").await;
    assert_eq!(ended.entry.user_id.as_deref(), Some("admin"), "{ended:?}");
    rig.hear(id);
    rig.until(id, "active").await;

    asks(&rig, id, "retire", "old after all").await;
    rig.until(id, "retired").await;
    let drained = newest(&rig, KIND, id, "retired").await;
    assert_eq!(drained.entry.triggered_by, "workflow", "no person ends a drain: {drained:?}");
    asks(&rig, id, "reactivate", "short of nodes").await;
    names(&rig, id, "offline", "reactivate", "short of nodes").await;
    rig.until(id, "active").await;
    asks(&rig, id, "retire", "again").await;
    rig.until(id, "retired").await;

    rig.silence(id);
    asks(&rig, id, "remove", "sold").await;
    names(&rig, id, "removing", "remove", "sold").await;
    rig.until_stage_or(id, "remove_gpuaas_node_record", "never").await;
    asks(&rig, id, "rollback_remove", "the buyer is broke").await;
    names(&rig, id, "retired", "rollback_remove", "the buyer is broke").await;
}

/// A decommission drains the node when it comes to that, and not when it is asked for.
async fn a_decommission_names_the_person_that_asked() {
    let mut rig = Rig::new().await;
    let id = &rig.active(1).await;
    rig.silence(id);
    let path = format!("/api/v1/gpu-nodes/{id}/decommissions");
    rig.post(&path, json!({"mode": "full_decommission", "comment": "end of lease"})).await.ok();
    names(&rig, id, "draining", "drain", "end of lease").await;
    rig.until_stage_or(id, "drain_node", "never").await;
    let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
    rig.post(&format!("/api/v1/runs/{run}/actions/cancel"), json!({"comment": "one more month"})).await.ok();
    names(&rig, id, "offline", "stop_drain", "one more month").await;
}

/// A node that was registered by mistake is gone with one call, and its name is free; any other one is not.
async fn a_mistyped_node_is_deleted() {
    let mut rig = Rig::new().await;
    rig.work();
    let (id, token) = rig.by_hand(1).await;
    let delete =
        async |id: &str| rig.call(Method::DELETE, &format!("/api/v1/gpu-nodes/{id}"), Value::Null).await;
    assert_eq!(delete(&id).await.ok()["data"]["status"], "deleted");
    let row = newest(&rig, KIND, &id, "deleted").await;
    assert_eq!(
        (row.entry.user_id.as_deref(), &row.entry.metadata["event"]),
        (Some("admin"), &json!("delete"))
    );
    let enroll = json!({"token": token});
    assert_eq!(rig.as_agent("", "/api/v1/gpu-nodes/enroll", enroll).await.status, 401, "its token is void");
    assert_eq!(delete(&id).await.status, 404);
    let (again, token) = rig.by_hand(1).await;

    let enrolled = rig.as_agent("", "/api/v1/gpu-nodes/enroll", json!({"token": token})).await.ok();
    let refused = delete(&again).await;
    assert_eq!(refused.status, 409, "an agent has enrolled: {refused:?}");
    let beat = format!("/api/v1/gpu-nodes/{again}/heartbeat");
    rig.as_agent(enrolled["credential"].as_str().unwrap(), &beat, json!({"checks": []})).await.ok();
    rig.until(&again, "active").await;
    let refused = delete(&again).await;
    let leads_on = refused.body["allowed_actions"][0]["action"].clone();
    assert_eq!((refused.status.as_u16(), leads_on), (409, json!("retire")), "{refused:?}");
    assert_eq!(rig.state(&again).await, "active");
}

/// What a site says of a stage counts for the runs that load no site, too.
async fn the_budgets_of_a_site_count_for_every_kind_of_run() {
    let budget =
        wardroom_api::site::Budget { retries: Some(0), patience_minutes: Some(7), patience_seconds: None };
    let stages = ["drain_node", "remove_gpuaas_node_record"];
    let mut rig =
        Rig::with(quick(), |site| site.budgets = stages.map(|name| (name.to_owned(), budget.clone())).into())
            .await;
    let id = &rig.active(1).await;
    let check = async |kind: Kind, stage: Stage| {
        let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
        let run = Run::<Data>::read(rig.app.store.get("run", &run).await.unwrap().unwrap()).unwrap();
        assert_eq!(run.record.plan.kind, kind);
        assert_eq!(run.record.data.budget(stage).retries, Some(0), "{kind}");
        assert_eq!(run.record.patience().as_mins(), 7, "{kind}");
        run.id().to_owned()
    };
    for kind in [Kind::SoftReset, Kind::StorageCleanup] {
        rig.silence(id);
        let path = format!("/api/v1/gpu-nodes/{id}/decommissions");
        rig.post(&path, json!({"mode": kind})).await.ok();
        rig.until_stage_or(id, "drain_node", "never").await;
        super::decommission::cancel(&rig, &check(kind, Stage::DrainNode).await).await;
        rig.until_run(id, "cancelled").await;
    }
    asks(&rig, id, "retire", "old").await;
    rig.until_stage_or(id, "drain_node", "never").await;
    check(Kind::Retire, Stage::DrainNode).await;
    rig.hear(id);
    rig.until(id, "retired").await;
    rig.silence(id);
    asks(&rig, id, "remove", "sold").await;
    rig.until_stage_or(id, "remove_gpuaas_node_record", "never").await;
    check(Kind::Remove, Stage::RemoveGpuaasNodeRecord).await;
}

on_both! {
    every_move_of_a_person_names_the_person
    a_decommission_names_the_person_that_asked
    a_mistyped_node_is_deleted
    the_budgets_of_a_site_count_for_every_kind_of_run
}
