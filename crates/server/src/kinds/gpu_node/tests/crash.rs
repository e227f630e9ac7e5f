//! Workers that crash at any moment: the next one observes first, so nothing is done twice.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use serde_json::json;
use tokio::task::JoinSet;
use wardroom_fakes::maas::{Fault, FaultKind, Seed};
use wardroom_workflow::{Engine, Settings};

use super::{
    super::{document::KIND, work},
    rig::{Rig, mac},
};
use crate::platform::clock::Clock;

/// Lives for a moment, and dies without a word.
async fn live(rig: &Rig, number: u64, life: Duration) {
    let mut settings = Settings::new(format!("server {number}"));
    settings.lease = Duration::from_millis(60);
    settings.first_backoff = SignedDuration::from_millis(5);
    settings.longest_backoff = SignedDuration::from_millis(20);
    settings.poll = Duration::from_millis(10);
    // Crashed engines do not count for long.
    settings.presence = Duration::from_millis(1);
    let (_never, stop) = tokio::sync::watch::channel(false);
    let engine = Engine::new(rig.app.store.clone(), rig.workers.clone(), settings, || Clock.now());
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::new(engine).run(stop.clone()));
    tasks.spawn(work::polling(rig.workers.clone()).run(rig.app.clone(), stop));
    tokio::time::sleep(life).await;
    tasks.shutdown().await;
}

async fn servers_that_die_all_the_time_do_nothing_twice() {
    let mut rig = Rig::new().await;
    let system_id = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
    rig.agents();
    let id = rig.onboard(1).await;
    let mut number = 0;
    while rig.state(&id).await != "active" {
        number += 1;
        assert!(number < 400, "{:#}", rig.lifecycle(&id).await);
        live(&rig, number, Duration::from_millis(20 + number * 37 % 180)).await;
        // So many crashes at one stage need a person, who sends the run on.
        if rig.lifecycle(&id).await["run"]["status"] == "failed_manual_intervention" {
            let failure = rig.lifecycle(&id).await["run"]["failure_class"].clone();
            assert_eq!(failure, "crashed", "{:#}", rig.lifecycle(&id).await);
            rig.act(&id, "resume", json!({"comment": "the server died"})).await.ok();
        }
    }
    assert!(number > 3, "no worker crashed");
    for op in ["commission", "deploy"] {
        assert_eq!(rig.did(&system_id, op), 1, "{op}");
    }
    assert_eq!(rig.maas.machines().len(), 1);
}

/// A run is frozen while MAAS makes its machine. The worker hears of the machine, and writes nothing of it down: neither
/// the run nor the node changes until a person sends the run on, which then finds what was made.
async fn nothing_of_a_frozen_run_is_written_by_its_worker() {
    let mut rig = Rig::new().await;
    let answered = Duration::from_millis(1500);
    let slow = u64::try_from(answered.as_millis()).unwrap();
    rig.maas.fault(Fault::of("create", FaultKind::Slow(slow)).after());
    rig.work();
    rig.agents();
    let id = rig.onboard(1).await;
    while rig.maas.machines().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
    let path = |action: &str| format!("/api/v1/runs/{run}/actions/{action}");
    rig.post(&path("mark_manual_intervention_required"), json!({"comment": "everything stops"})).await.ok();
    let versions = async || {
        let node = rig.app.store.get(KIND, &id).await.unwrap().unwrap().version;
        (rig.app.store.get(wardroom_workflow::RUN, &run).await.unwrap().unwrap().version, node)
    };
    let frozen = versions().await;
    // Until its answer has come, and more.
    tokio::time::sleep(answered * 2).await;
    assert_eq!(versions().await, frozen, "{:#}", rig.get(&format!("/api/v1/gpu-nodes/{id}")).await);
    rig.post(&path("resume"), json!({})).await.ok();
    rig.until(&id, "active").await;
    assert_eq!(rig.maas.machines().len(), 1);
}

on_both! {
    servers_that_die_all_the_time_do_nothing_twice
    nothing_of_a_frozen_run_is_written_by_its_worker
}
