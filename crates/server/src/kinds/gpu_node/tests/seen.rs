//! When an agent was last heard, and what its silence means, whatever the state of its node.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    super::{begin, silence, view},
    agents::{beat, enrolled},
    rig::Rig,
};

/// Also if the server ends before it writes down what it heard.
async fn last_seen_is_known_of_a_node_that_was_never_active() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    let shown = async || rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"]["last_seen"].clone();
    assert_eq!(shown().await, Value::Null, "it was never heard");
    beat(&rig, &id, &credential, json!({})).await;
    assert!(shown().await.is_string(), "it is {}", rig.state(&id).await);
    let next = rig.another().await;
    let seen = view(&next, &begin::read(&next, &id).await.unwrap()).await.unwrap().last_seen;
    assert!(seen.is_some_and(|seen| seen <= rig.app.now()), "{seen:?}");
}

/// A server that was away cannot say that a host is dead: what would be lost on a living one is not skipped for that.
async fn an_absent_server_makes_no_node_silent() {
    let rig = Rig::new().await;
    let (id, credential) = enrolled(&rig, 1).await;
    beat(&rig, &id, &credential, json!({})).await;
    rig.age(&id, SignedDuration::from_hours(1)).await;
    let node = begin::read(&rig.app, &id).await.unwrap();
    let from = rig.app.now() - SignedDuration::from_hours(2);
    assert!(!silence::is_heard(&rig.app, &node).await.unwrap(), "it listened all the time");
    assert!(silence::since(&rig.app, &id, from).await.unwrap().is_some());
    let next = rig.another().await;
    assert!(silence::is_heard(&next, &node).await.unwrap(), "it was not there");
    assert_eq!(silence::since(&next, &id, from).await.unwrap(), None);
}

/// Starting a run on an active node is no beat of its agent.
async fn an_order_is_no_heartbeat() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.fall_silent(&id).await;
    let seen = async || {
        let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
        node["last_seen"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };
    let before = seen().await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), json!({"mode": "reimage"})).await.ok();
    // Times are kept to the millisecond.
    assert!(seen().await.duration_since(before).as_millis() < 2, "{before}");
}

on_both! { an_order_is_no_heartbeat an_absent_server_makes_no_node_silent last_seen_is_known_of_a_node_that_was_never_active }
