//! Many sites on one MAAS that bears little: together they keep to its rate, as it is now, and all get on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Backend, Site, long_on_both, maas::Maas, mac, wait_for, wait_long_for};

long_on_both! {
    twelve_sites_share_a_slow_maas,
}

const SITES: usize = 12;
const SLOW: f64 = 0.2;
/// The burst of requests that a MAAS takes before its rate counts.
const BURST: f64 = 4.0;

fn name(site: usize) -> String {
    format!("site-{site}")
}

/// All sites have another rate from now on.
fn rate(site: &Site, maas: &Maas, per_second: f64) {
    for number in 0..SITES {
        let spec = maas.spec(&name(number), &settings(per_second));
        site.admin().put(&format!("/api/v1/sites/{}", name(number)), &spec).expect(200);
    }
}

fn settings(per_second: f64) -> Value {
    json!({"requests_per_second": per_second, "poll_millis": 500})
}

/// Two nodes at each site.
fn register(site: &Site, round: usize) {
    for number in (0..2 * SITES).map(|number| round * 2 * SITES + number) {
        let macs = [mac(number)];
        let body = json!({"hostname": format!("gpu-{number}"), "site": name(number % SITES), "macs": macs});
        site.admin().post("/api/v1/gpu-nodes", &body).expect(201);
    }
}

/// All runs, none of which has failed in anything.
fn runs(site: &Site) -> Vec<Value> {
    let runs = site.admin().get("/api/v1/runs?limit=1000").expect(200)["data"].as_array().unwrap().clone();
    assert!(runs.iter().all(|run| run["failure"].is_null()), "{runs:#?}");
    runs
}

/// Asks are counted for a while: no more than the slow rate allows in the time that it took.
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is measured")]
fn keeps_to_the_slow_rate(maas: &Maas, seconds: u64) {
    let (began, before) = (Instant::now(), maas.answered());
    std::thread::sleep(Duration::from_secs(seconds));
    let asked = maas.answered() - before;
    let most = BURST + 1.0 + SLOW * began.elapsed().as_secs_f64();
    assert!(f64::from(u32::try_from(asked).unwrap()) <= most, "{asked} requests, not {most}");
}

fn twelve_sites_share_a_slow_maas(on: Backend) {
    let (maas, site) = (Maas::start(), Site::start(on));
    for number in 0..SITES {
        maas.serves(&site, &name(number), &settings(SLOW));
    }
    register(&site, 0);
    keeps_to_the_slow_rate(&maas, 10);
    let waits = |run: &&Value| run["stage"] != "wait_for_agent_enrollment";
    assert_eq!(runs(&site).iter().filter(waits).count(), 2 * SITES);

    rate(&site, &maas, 200.0);
    let before = maas.answered();
    // At the slow rate it would take half an hour.
    wait_for("the faster rate to be kept to", || (maas.answered() > before + 20).then_some(()));
    wait_long_for("all to wait for their agents", || {
        (runs(&site).iter().filter(waits).count() == 0).then_some(())
    });

    rate(&site, &maas, SLOW);
    // Each server looks at its sites every few seconds.
    std::thread::sleep(Duration::from_secs(7));
    register(&site, 1);
    keeps_to_the_slow_rate(&maas, 10);
    assert_eq!(runs(&site).iter().filter(waits).count(), 2 * SITES);
}
