//! Many adapters that report about one cluster at the same moment, and servers that are killed meanwhile.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    Api, Backend, Site, at_once,
    chain::verify_all,
    cluster::{CLUSTERS, REQUIRED, assert_folded, cluster, condition, now, report, report_at, status},
    on_both,
};

on_both! {
    fifty_adapters_report_at_once,
    one_adapter_reports_fifty_times_at_once,
    what_was_acknowledged_outlives_a_kill,
}

const ADAPTERS: usize = 50;

fn adapters(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("adapter-{number}")).collect()
}

/// How often each test repeats itself.
fn rounds() -> i64 {
    std::env::var("WARDROOM_CLUSTER_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap())
}

/// Sends a report in one of the two ways.
fn send(api: &Api, number: usize, report: &Value) -> u16 {
    let path = format!("{CLUSTERS}/busy/statuses");
    if number.is_multiple_of(2) { api.post(&path, report).status } else { api.put(&path, report).status }
}

fn fifty_adapters_report_at_once(on: Backend) {
    let required = adapters(ADAPTERS);
    let site = Site::start_with(on, &[(REQUIRED, &required.join(","))]);
    cluster(&site.admin(), "busy");
    for round in 1..=rounds() {
        let said = at_once(ADAPTERS, |number| {
            let report = report(&required[number], round, "True", None);
            send(&site.admin_at(number), number, &report)
        });
        for (number, status) in said.iter().enumerate() {
            assert_eq!(*status, if number % 2 == 0 { 200 } else { 201 }, "round {round}: {said:?}");
        }
        let shown = assert_folded(&site.admin(), "busy", &required);
        assert_eq!(status(&shown, "Reconciled"), "True", "round {round}: {shown}");
        let stored = site.admin().get(&format!("{CLUSTERS}/busy/statuses")).expect(200);
        assert_eq!(stored["total"], ADAPTERS, "round {round}");
        site.admin().patch(&format!("{CLUSTERS}/busy"), &json!({"spec": {"round": round}})).expect(200);
        let again = site.admin().get(&format!("{CLUSTERS}/busy")).expect(200);
        assert_eq!(status(&again, "Reconciled"), "False");
        assert_eq!(status(&again, "LastKnownReconciled"), "True");
    }
}

fn one_adapter_reports_fifty_times_at_once(on: Backend) {
    let required = adapters(1);
    let site = Site::start_with(on, &[(REQUIRED, &required.join(","))]);
    cluster(&site.admin(), "busy");
    for round in 0..rounds() {
        let newest = now();
        let said = at_once(ADAPTERS, |number| {
            let behind = i64::try_from(number).unwrap();
            let at = newest.saturating_sub(jiff::SignedDuration::from_millis(behind)).unwrap();
            let available = if number == 0 { "True" } else { "False" };
            let mut report = report_at(&required[0], 1, at, available, None);
            report["metadata"] = json!({"number": number, "round": round});
            send(&site.admin_at(number), number, &report)
        });
        assert!(said.iter().all(|status| matches!(status, 200 | 201 | 204)), "{said:?}");
        let shown = assert_folded(&site.admin(), "busy", &required);
        assert_eq!(condition(&shown, "Adapter0Successful")["status"], "True", "the newest wins: {shown}");
        let stored = site.admin().get(&format!("{CLUSTERS}/busy/statuses")).expect(200);
        assert_eq!(stored["items"][0]["metadata"], json!({"number": 0, "round": round}));
    }
}

/// Adapters that report until their server is killed.
const REPORTERS: usize = 8;

fn what_was_acknowledged_outlives_a_kill(on: Backend) {
    let required = adapters(REPORTERS);
    let mut site = Site::start_with(on, &[(REQUIRED, &required.join(","))]);
    cluster(&site.admin(), "busy");
    for round in 0..rounds().min(3) {
        let is_over = AtomicBool::new(false);
        let callers: Vec<_> = (0..REPORTERS).map(|number| site.admin_at(number)).collect();
        let acknowledged: Vec<u64> = thread::scope(|scope| {
            let clients: Vec<_> = callers
                .iter()
                .zip(&required)
                .map(|(api, adapter)| {
                    let is_over = &is_over;
                    scope.spawn(move || report_until_killed(api, adapter, round, is_over))
                })
                .collect();
            thread::sleep(Duration::from_millis(300));
            for server in &mut site.servers {
                server.kill();
            }
            is_over.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(acknowledged.iter().sum::<u64>() > 0, "there was no load");
        for index in 0..site.servers.len() {
            site.restart(index);
        }
        assert_folded(&site.admin(), "busy", &required);
        let stored = site.admin().get(&format!("{CLUSTERS}/busy/statuses")).expect(200);
        for (adapter, count) in required.iter().zip(&acknowledged) {
            let kept = stored["items"].as_array().unwrap().iter().find(|item| item["adapter"] == **adapter);
            let kept = kept.map_or(0, |kept| kept["metadata"]["count"].as_u64().unwrap());
            assert!(kept >= *count, "{adapter}: {kept} is kept, {count} was acknowledged");
        }
    }
    verify_all(&site);
}

/// Reports again and again, with every other status; gives the number of the last acknowledged report.
fn report_until_killed(api: &Api, adapter: &str, round: i64, is_over: &AtomicBool) -> u64 {
    let api = api.with("content-type", "application/json");
    let mut acknowledged = 0;
    for step in 1..=2000 {
        let count = u64::try_from(round).unwrap() * 10_000 + step;
        let mut report = report(adapter, 1, if step % 2 == 0 { "True" } else { "False" }, None);
        report["metadata"] = json!({"count": count});
        let sent = api.try_send("POST", &format!("{CLUSTERS}/busy/statuses"), report.to_string().as_bytes());
        match sent {
            Ok(reply) if reply.status == 200 => acknowledged = count,
            Ok(reply) => assert_eq!(reply.status, 503, "{}", reply.text()),
            Err(_) => break,
        }
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    acknowledged
}
