//! The limits of a site hold, and no run occupies more than it uses.

use std::time::Duration;

use serde_json::{Value, json};
use wardroom_core::gpu_node::maas::Status;
use wardroom_fakes::maas::{
    Change, Fake as Maas, Fault, FaultKind, Outcome, OverLimit, Pace, Recorded, Seed,
};

use super::{
    super::{drift, listing::Listing, upstream::Reader},
    rig::{LOOPBACK, Rig, mac, quick},
};

/// How often MAAS did something, to all machines together.
fn total(rig: &Rig, op: &str) -> u64 {
    rig.maas.effects().values().filter_map(|ops| ops.get(op)).sum()
}

/// Six machines at a site that deploys two at once: never more, and in the end all of them.
async fn no_more_deployments_are_under_way_than_the_site_allows() {
    let moment = Duration::from_millis(20);
    let pace = Pace { deploying: None, ..Pace::all(moment) };
    let config = wardroom_fakes::maas::Config { pace, ..quick() };
    let mut rig = Rig::with(config, |site| site.deploys_at_once = 2).await;
    rig.work();
    rig.agents();
    let mut ids = Vec::new();
    for number in 1..=6 {
        ids.push(rig.onboard(number).await);
    }
    // Every node has come to the deployment, and has it or waits for it.
    for id in &ids {
        for look in 0.. {
            assert!(look < 500, "{:#}", rig.lifecycle(id).await);
            let run = rig.lifecycle(id).await["run"].clone();
            if run["stage"] == "wait_for_deployed"
                || (run["stage"] == "deploy_via_maas" && run["waiting_for"].is_string())
            {
                break;
            }
            tokio::time::sleep(moment).await;
        }
    }
    assert_eq!(total(&rig, "deploy"), 2);
    let mut ended = Vec::new();
    while ended.len() < ids.len() {
        let begun: Vec<_> =
            rig.maas.effects().into_iter().filter(|(_, ops)| ops.contains_key("deploy")).collect();
        assert!(begun.len() - ended.len() <= 2, "{} begun, {} ended", begun.len(), ended.len());
        if let Some((machine, _)) = begun.into_iter().find(|(machine, _)| !ended.contains(machine)) {
            ended.push(machine.clone());
            rig.maas.finish(&machine, &Outcome::Pass);
        }
        tokio::time::sleep(moment).await;
    }
    for id in &ids {
        rig.until(id, "active").await;
    }
    assert_eq!(total(&rig, "deploy"), 6);
}

/// A MAAS that does not answer is not asked by each of many callers for the same answer; one that cannot list
/// its machines is.
#[tokio::test]
async fn a_failed_request_is_shared_by_its_callers() {
    /// The first few callers have none to share with; from then on many are answered at once.
    const FEW: usize = 16;
    let config = wardroom_fakes::maas::Config { record: true, ..quick() };
    let rig = Rig::with(config, |site| site.requests_per_second = 100.0).await;
    let machines: Vec<_> =
        (1..=32).map(|number| rig.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() })).collect();
    let (settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    let session = rig.workers.clients.session("berlin", &settings, &rig.workers.limits).unwrap();
    let look = async || {
        drop(rig.maas.take_requests());
        let seen = futures_util::future::join_all(machines.iter().map(|id| session.observe(id))).await;
        (seen.iter().filter(|seen| seen.is_ok()).count(), rig.maas.take_requests().len())
    };
    let (seen, requests) = look().await;
    assert!(seen == 32 && requests < FEW, "{seen} by {requests}");
    // It hears the question, so that it can be counted, and does not answer.
    let down = |op: &str| Fault::of(op, FaultKind::Status(500)).times(1000).after();
    rig.maas.fault(down("list"));
    rig.maas.fault(down("read"));
    let (seen, requests) = look().await;
    assert!(seen == 0 && requests < FEW, "{seen} by {requests}");
    rig.maas.clear_faults();
    let (seen, requests) = look().await;
    assert!(seen == 32 && requests < FEW, "all of them try again at once: {seen} by {requests}");
    rig.maas.fault(down("list"));
    let (seen, requests) = look().await;
    assert!(seen == 32 && requests > 32, "each machine by itself: {seen} by {requests}");
}

/// Fifty runs at once against a MAAS that takes twenty requests a second and refuses more: all end well,
/// nothing is done twice, no run is refused, and none starves. Nothing that is counted depends on how long it
/// takes.
async fn fifty_at_once_share_a_slow_maas() {
    const NODES: u32 = 50;
    /// Requests that one onboarding costs, besides those that look at machines.
    const EACH: usize = 10;
    /// And what is asked once in a minute for all of them.
    const SHARED: usize = 8;
    /// Stages of an onboarding that look at the machine, each once.
    const LOOKS: usize = 7;
    /// Stages by which another run may get ahead between two stages of a run.
    const AHEAD: usize = 8;
    let config = wardroom_fakes::maas::Config {
        requests_per_second: Some(20),
        over_limit: OverLimit::Refuse,
        record: true,
        ..quick()
    };
    let mut rig = Rig::with(config, |site| {
        site.requests_per_second = 19.0;
        site.poll_millis = 1000;
    })
    .await;
    let began = rig.app.now();
    rig.work();
    rig.agents();
    let mut ids = Vec::new();
    for number in 1..=NODES {
        ids.push(rig.onboard(number).await);
    }
    let mut runs = Vec::new();
    for id in &ids {
        for _ in 0..1200 {
            if rig.state(id).await == "active" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        rig.until(id, "active").await;
        let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
        runs.push(rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone());
    }
    let requests = rig.maas.take_requests();
    // What is asked in each second, or minute, is asked more often only when it takes longer.
    let seconds = usize::try_from(rig.app.now().duration_since(began).as_secs()).unwrap();
    let (looks, others): (Vec<_>, Vec<_>) = requests.iter().partition(|request| is_look(request));
    let polls = looks.len().saturating_sub(LOOKS * ids.len());
    println!(
        "{} looks and {} other requests for {NODES} onboardings in {seconds} s",
        looks.len(),
        others.len()
    );
    assert!(polls <= seconds + 1, "{} looks in {seconds} s", looks.len());
    assert!(
        others.len() <= EACH * ids.len() + SHARED * (1 + seconds / 60),
        "{} other requests",
        others.len()
    );
    assert_eq!(rig.maas.machines().len(), 50);
    let effects = rig.maas.effects();
    for machine in rig.maas.machines() {
        let ops = &effects[&machine];
        for op in ["create", "commission", "deploy"] {
            assert_eq!(ops.get(op), Some(&1), "{machine} {op}");
        }
    }
    let attempts = |run: &Value| run["attempts"].as_array().unwrap().clone();
    let failed: Vec<_> =
        runs.iter().flat_map(attempts).filter(|attempt| attempt["outcome"] == "failed").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let ahead = most_ahead(&runs);
    println!("between two stages of a run, no other one got further ahead than {ahead} stages");
    assert!(ahead <= AHEAD, "a run waited while another one passed {ahead} stages");
}

/// All machines of a site that runs wait for are polled with one request.
async fn machines_that_are_waited_for_are_looked_at_together() {
    const NODES: u32 = 12;
    let pace = Pace { deploying: None, ..Pace::all(Duration::from_millis(20)) };
    let mut rig = Rig::with(wardroom_fakes::maas::Config { pace, record: true, ..quick() }, |_| {}).await;
    rig.work();
    let mut ids = Vec::new();
    for number in 1..=NODES {
        ids.push(rig.onboard(number).await);
    }
    for id in &ids {
        rig.until_stage_or(id, "wait_for_deployed", "never").await;
    }
    drop(rig.maas.take_requests());
    let mut looks = Vec::new();
    for _ in 0..1500 {
        looks.extend(rig.maas.take_requests());
        // Until the first one for all of them, some may still be on their way.
        let together = looks.iter().position(|look| look.query.len() == ids.len());
        if together.is_some_and(|first| looks.len() > first + 5) {
            looks.drain(..together.unwrap_or(0));
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let sizes: Vec<_> = looks.iter().map(|look| (is_look(look), look.query.len())).collect();
    assert!(sizes.len() > 5 && sizes.iter().all(|size| *size == (true, ids.len())), "{sizes:?}");
}

/// Whether a request looks at machines by their ids.
fn is_look(request: &Recorded) -> bool {
    request.method == "GET" && !request.query.is_empty() && request.query.iter().all(|name| name == "id")
}

/// By how many stages any run advanced at most while another one did not advance at all. A run that starves would let
/// others pass all of theirs. Counted in stages and not in time, so that a slow machine changes nothing.
fn most_ahead(runs: &[Value]) -> usize {
    let steps = |run: &Value| {
        let ended =
            |attempt: &Value| attempt["ended_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let attempts = run["attempts"].as_array().unwrap();
        let done = attempts.iter().filter(|attempt| attempt["outcome"] == "done");
        let mut times: Vec<_> = done.map(ended).collect();
        times.push(run["created_at"].as_str().unwrap().parse().unwrap());
        times.sort_unstable();
        times
    };
    let steps: Vec<_> = runs.iter().map(steps).collect();
    let gaps = steps.iter().flat_map(|times| times.windows(2));
    let passed = gaps.flat_map(|gap| {
        steps.iter().map(|other| other.iter().filter(|at| gap[0] < **at && **at < gap[1]).count())
    });
    passed.max().unwrap_or(0)
}

/// A MAAS that takes requests and never answers delays no caller of another one: machines there are seen, and
/// drift there is found.
#[tokio::test]
async fn a_site_that_hangs_keeps_no_other_waiting() {
    let mut rig = Rig::new().await;
    let other = Maas::start(quick(), LOOPBACK).await.unwrap();
    let mut settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
    settings["url"] = json!(other.url());
    rig.post("/api/v1/sites", json!({"name": "hamburg", "settings": settings})).await.ok();
    let here = rig.active(1).await;
    assert!(rig.system_of(&here).await.is_some(), "there is a machine to be looked at");
    let there = async |number| {
        let body = json!({"hostname": format!("gpu-{number}"), "site": "hamburg", "macs": [mac(number)]});
        let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
        let id = made["data"]["id"].as_str().unwrap().to_owned();
        rig.until(&id, "active").await;
        id
    };
    let second = there(2).await;
    rig.maas.fault(Fault::of("list", FaultKind::Silence).times(1000));
    there(3).await;
    let system_id = rig.system_id(&second).await;
    rig.sweep();
    assert!(other.change(&system_id, &Change { status: Some(Status::Broken), ..Change::default() }));
    rig.until(&second, "quarantined").await;
}

/// Waiting for one's turn at a slow site is no failure, however many wait there.
async fn a_run_that_waits_for_a_slow_site_does_not_fail() {
    let mut rig = Rig::with(quick(), |site| site.requests_per_second = 10.0).await;
    // What eight runs wait for each of their turns is longer.
    rig.stage_limit = Some(Duration::from_millis(600));
    rig.work();
    rig.agents();
    let mut ids = Vec::new();
    for number in 1..=8 {
        ids.push(rig.onboard(number).await);
    }
    for id in &ids {
        rig.until(id, "active").await;
        let run = rig.lifecycle(id).await["run"]["id"].as_str().unwrap().to_owned();
        let run = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
        let attempts = run["attempts"].as_array().unwrap();
        assert!(attempts.iter().all(|attempt| attempt["outcome"] != "failed"), "{attempts:#?}");
    }
}

/// A run whose machine is gone deploys nothing any more, and delays no other.
async fn a_machine_that_is_gone_keeps_no_place_among_the_deployments() {
    let pace = Pace { deploying: None, ..Pace::all(Duration::from_millis(20)) };
    let config = wardroom_fakes::maas::Config { pace, ..quick() };
    let mut rig = Rig::with(config, |site| site.deploys_at_once = 1).await;
    rig.work();
    let gone = rig.onboard(1).await;
    let at = async |rig: &Rig, id: &str| {
        for _ in 0..3000 {
            if rig.lifecycle(id).await["run"]["stage"] == "wait_for_deployed" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{:#}", rig.lifecycle(id).await);
    };
    at(&rig, &gone).await;
    let machine = rig.maas.effects().into_iter().find(|(_, ops)| ops.contains_key("deploy")).unwrap().0;
    assert!(rig.maas.vanish(&machine));
    rig.until_run(&gone, "failed_manual_intervention").await;
    let next = rig.onboard(2).await;
    at(&rig, &next).await;
}

/// Two sites that have the same MAAS share what is asked of it: the strictest of both.
async fn sites_that_share_a_maas_share_its_limits() {
    let pace = Pace { deploying: None, ..Pace::all(Duration::from_millis(20)) };
    let config = wardroom_fakes::maas::Config { pace, ..quick() };
    let mut rig = Rig::with(config, |site| site.deploys_at_once = 1).await;
    let mut settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
    settings["url"] = json!(format!("{}/", settings["url"].as_str().unwrap()));
    settings["deploys_at_once"] = json!(5);
    settings["requests_per_second"] = json!(7.0);
    rig.post("/api/v1/sites", json!({"name": "potsdam", "settings": settings})).await.ok();
    // A sweep for drift polls all sites.
    drift::sweep(&rig.workers, "test").await.unwrap();
    let (settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    let session = rig.workers.clients.session("berlin", &settings, &rig.workers.limits).unwrap();
    assert!((session.rate().per_second - 7.0).abs() < 0.001, "the other site is stricter: {session:?}");
    rig.work();
    let mut ids = vec![rig.onboard(1).await, rig.onboard(2).await];
    for number in 3..=4 {
        let body = json!({"hostname": format!("gpu-{number}"), "site": "potsdam", "macs": [mac(number)]});
        let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
        ids.push(made["data"]["id"].as_str().unwrap().to_owned());
    }
    // Every node has the one deployment or waits for it.
    let mut deploying = 0;
    for id in &ids {
        for look in 0.. {
            assert!(look < 3000, "{:#}", rig.lifecycle(id).await);
            let run = rig.lifecycle(id).await["run"].clone();
            let waits = run["stage"] == "deploy_via_maas" && run["waiting_for"].is_string();
            if run["stage"] == "wait_for_deployed" || waits {
                deploying += usize::from(run["stage"] == "wait_for_deployed");
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!((deploying, total(&rig, "deploy")), (1, 1));
}

/// A MAAS that names a time is asked again after it, whatever it refused with; at most for a bounded time.
async fn a_maas_that_names_a_time_is_left_alone_until_then() {
    let year = 365 * 24 * 3600;
    for (status, asks, waits) in [
        (503, 300, 300),
        (429, 300, 300),
        (409, 300, 300),
        (503, year, 600),
        (429, year, 600),
        (409, year, 600),
    ] {
        let mut rig = Rig::new().await;
        rig.maas.fault(Fault::of("whoami", FaultKind::Later(status, asks)));
        rig.work();
        let id = rig.onboard(1).await;
        let run = loop {
            let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
            let run = rig.get(&format!("/api/v1/runs/{run}")).await["data"].clone();
            if run["failure"].is_object() || run["waiting"].is_object() {
                break run;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        // It did nothing, so that nothing failed; for how long that is borne, the engine says.
        let id = run["id"].as_str().unwrap();
        let stored = rig.app.store.get(wardroom_workflow::RUN, id).await.unwrap().unwrap();
        let record = wardroom_workflow::Run::<super::super::data::Data>::read(stored).unwrap().record;
        assert_eq!(
            record.hold.waiting.is_some_and(|waiting| waiting.busy),
            status != 503,
            "{status}: {run:#}"
        );
        let at = |name: &str| run[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let (waits, next) = (jiff::SignedDuration::from_secs(waits), at("next_attempt_at"));
        assert!(
            at("created_at") + waits <= next && next <= rig.app.now() + waits,
            "{status} {asks}: {run:#}"
        );
    }
}

/// The same holds for polls of the machines of a site.
#[tokio::test]
async fn a_maas_that_names_a_time_is_not_polled_until_then() {
    let pace = Pace { deploying: None, ..Pace::all(Duration::from_millis(20)) };
    let mut rig = Rig::with(wardroom_fakes::maas::Config { pace, record: true, ..quick() }, |_| {}).await;
    rig.work();
    let id = rig.onboard(1).await;
    rig.until_stage_or(&id, "wait_for_deployed", "never").await;
    // It hears the question, so that it can be counted.
    rig.maas.fault(Fault::of("list", FaultKind::Later(429, 300)).times(1000).after());
    drop(rig.maas.take_requests());
    while rig.maas.take_requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // One that was under way when the fault was ordered is let pass.
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(rig.maas.take_requests());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(rig.maas.take_requests().len(), 0, "twenty times it would have been its turn");
}

/// A machine that MAAS cannot list, or not even show, hides no other one: not those of its site, and not those of another
/// site that has the same MAAS. Whether a status blames the request or MAAS itself makes no difference.
#[tokio::test]
async fn a_machine_that_cannot_be_listed_hides_no_other() {
    for (status, shown) in [(400, false), (500, true)] {
        let mut rig = Rig::new().await;
        let settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
        rig.post("/api/v1/sites", json!({"name": "hamburg", "settings": settings})).await.ok();
        let machine = rig.maas.seed(&Seed { macs: vec![mac(1)], ..Seed::default() });
        let outcomes = [("commissioning".to_owned(), vec![Outcome::Stall])].into();
        rig.maas.change(&machine, &Change { outcomes, ..Change::default() });
        rig.work();
        rig.agents();
        let bad = rig.onboard(1).await;
        rig.until_stage_or(&bad, "wait_for_ready", "never").await;
        for op in ["list", "read"].into_iter().filter(|op| *op == "list" || !shown) {
            rig.maas.fault(Fault::of(op, FaultKind::Status(status)).machine(&machine).times(100_000));
        }
        assert!(rig.maas.finish(&machine, &Outcome::Pass));
        let mut others = vec![rig.onboard(2).await, rig.onboard(3).await];
        for number in 4..=6 {
            let body = json!({"hostname": format!("gpu-{number}"), "site": "hamburg", "macs": [mac(number)]});
            let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
            others.push(made["data"]["id"].as_str().unwrap().to_owned());
        }
        others.extend(shown.then(|| bad.clone()));
        for id in &others {
            rig.until(id, "active").await;
        }
        if shown {
            continue;
        }
        // Machines without a run are compared with MAAS all the same.
        let system_id = rig.system_id(&others[0]).await;
        rig.sweep();
        assert!(rig.maas.change(&system_id, &Change { status: Some(Status::Broken), ..Change::default() }));
        rig.until(&others[0], "quarantined").await;
    }
}

/// A MAAS that answers nothing but 500 is not asked for each of its machines, and what it listed before that is kept.
#[tokio::test]
async fn a_maas_that_is_down_is_not_asked_for_each_machine() {
    let config = wardroom_fakes::maas::Config { record: true, ..quick() };
    let rig = Rig::with(config, |_| {}).await;
    let machines: Vec<_> =
        (1..=150).map(|number| rig.maas.seed(&Seed { macs: vec![mac(number)], ..Seed::default() })).collect();
    let ids: Vec<_> = machines.iter().map(String::as_str).collect();
    let (settings, _) = super::super::site::load(&rig.app, "berlin").await.unwrap().unwrap();
    let session = rig.workers.clients.session("berlin", &settings, &rig.workers.limits).unwrap();
    let look = async |skip| {
        let down = |op: &str| Fault::of(op, FaultKind::Status(500)).times(1000).after();
        rig.maas.fault(Fault { skip, ..down("list") });
        rig.maas.fault(down("read"));
        drop(rig.maas.take_requests());
        let mut listing = Listing::new(&session, &ids, Reader::Poll);
        let mut seen = 0;
        while let Some((asked, found)) = listing.next().await {
            assert_eq!(asked.len(), found.len());
            seen += found.len();
        }
        assert!(listing.error().is_some());
        rig.maas.clear_faults();
        (seen, rig.maas.take_requests().len())
    };
    assert_eq!(look(0).await, (0, 9));
    let (seen, requests) = look(1).await;
    assert!(seen == 100 && requests <= 10, "{seen} by {requests}");
}

long_on_both! {
    no_more_deployments_are_under_way_than_the_site_allows
    a_maas_that_names_a_time_is_left_alone_until_then
    a_run_that_waits_for_a_slow_site_does_not_fail
    machines_that_are_waited_for_are_looked_at_together
    a_machine_that_is_gone_keeps_no_place_among_the_deployments
    sites_that_share_a_maas_share_its_limits
}

long_on_both! {
    threads:
    fifty_at_once_share_a_slow_maas
}
