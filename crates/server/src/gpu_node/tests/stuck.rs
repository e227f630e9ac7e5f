//! What stands still says what leads on, and that does.

use serde_json::json;

use super::{
    recommended::{nothing, to_the_end},
    rig::Rig,
};

/// What a stage sees for itself is what was observed last, and what is recommended goes by it: nobody else looks here.
async fn what_a_stage_sees_is_kept() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    let system_id = rig.system_id(&id).await;
    // Nobody waits for the machine any more, so that nobody else looks at it.
    let _ = rig.workers.cache.due(jiff::Timestamp::MAX);
    assert!(rig.maas.vanish(&system_id));
    let path = format!("/api/v1/gpu-nodes/{id}/decommissions");
    rig.post(&path, json!({"mode": "full_decommission"})).await.ok();
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(run["stage"], "release_maas_node", "{run}");
    assert_eq!(rig.lifecycle(&id).await["maas"]["present"], false);
    assert_eq!(to_the_end(&rig, &id, nothing).await, ["adopt_observed_state"]);
    rig.until(&id, "deleted").await;
}

on_both! {
    what_a_stage_sees_is_kept
}
