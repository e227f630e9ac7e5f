//! Adapters: what they are told, when they are called silent, and how they stand.

use std::{thread, time::Duration};

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::support::{
    Backend, Site,
    cluster::{CLUSTERS, REQUIRED, REQUIRED_OF_POOLS, cluster, condition, now, pool, report, status, tell},
    http::{Events, Sent},
    on_both, wait_for,
};

on_both! {
    an_adapter_is_told_of_every_generation_and_of_no_report,
    an_adapter_is_told_again_until_it_is_done,
    an_adapter_that_was_cut_off_resumes_at_a_restarted_server,
    a_token_of_one_adapter_is_let_in_as_that_adapter,
    a_silent_adapter_is_named_in_time,
    an_outage_of_the_server_makes_no_adapter_silent,
    adapters_show_what_waits_for_them,
}

const PATIENCE: &str = "WARDROOM_CLUSTERS_ADAPTER_PATIENCE_SECONDS";
const RECHECK: &str = "WARDROOM_CLUSTERS_RECHECK_SECONDS";

/// No re-check comes while a test runs.
const SELDOM: (&str, &str) = (RECHECK, "3600");

fn token(site: &Site, adapter: &str) -> String {
    let create = json!({"name": format!("{adapter} of the test"), "role": "adapter", "adapter": adapter});
    site.new_token(&create).1
}

/// The next event with its id; comments and the place where the stream begins are passed over.
fn next(events: &mut Events) -> (String, Value) {
    loop {
        match events.next() {
            Sent::Event { id, row } => return (id, row),
            Sent::Place { .. } | Sent::Comment => {}
            Sent::End => panic!("the stream ended"),
        }
    }
}

fn brief(event: &Value) -> (String, i64) {
    (event["data"]["id"].as_str().unwrap().to_owned(), event["data"]["generation"].as_i64().unwrap())
}

fn an_adapter_is_told_of_every_generation_and_of_no_report(on: Backend) {
    let site = Site::start_with(on, &[(REQUIRED, "validation,dns"), (REQUIRED_OF_POOLS, "dns"), SELDOM]);
    let dns = site.caller(1, Some(&token(&site, "dns")));
    let mut events = dns.follow("/api/v1/events?adapter=dns");
    let made = cluster(&site.admin(), "east");
    let id = made["id"].as_str().unwrap().to_owned();
    let (_, event) = next(&mut events);
    assert_eq!(
        (&event["specversion"], &event["type"], &event["subject"]),
        (&json!("1.0"), &json!("com.wardroom.cluster.reconcile"), &made["id"])
    );
    let href = format!("{CLUSTERS}/{id}");
    assert_eq!(event["data"], json!({"id": id, "kind": "Cluster", "href": href, "generation": 1}));
    assert_eq!(dns.get(event["data"]["href"].as_str().unwrap()).expect(200)["name"], "east");

    tell(&dns, &id, &report("dns", 1, "False", None)).expect(200);
    tell(&site.admin(), &id, &report("validation", 1, "True", None)).expect(200);
    tell(&dns, &id, &report("dns", 1, "True", None)).expect(200);
    assert_eq!(status(&site.admin().get(&href).expect(200), "Reconciled"), "True");
    site.admin().patch(&href, &json!({"spec": {"region": "us"}})).expect(200);
    let workers = pool(&site.admin(), "east", "workers");
    site.admin().delete(&href).expect(202);
    let told: Vec<_> = (0..4).map(|_| next(&mut events).1).collect();
    let briefs: Vec<_> = told.iter().map(brief).collect();
    let pool_id = workers["id"].as_str().unwrap().to_owned();
    // No report woke it, its own as little as that of another adapter. The order of a deletion is that of its rows.
    assert_eq!(briefs[..2], [(id.clone(), 2), (pool_id.clone(), 1)], "{told:?}");
    assert!(briefs[2..].contains(&(id.clone(), 3)) && briefs[2..].contains(&(pool_id, 2)), "{told:?}");
    assert_eq!(told[1]["type"], "com.wardroom.nodepool.reconcile");
    assert_eq!(told[1]["data"]["owner_references"]["id"], id);
    assert_eq!(told[1]["data"]["href"], workers["href"]);
}

fn an_adapter_is_told_again_until_it_is_done(on: Backend) {
    let site = Site::start_with(on, &[(REQUIRED, "dns"), (RECHECK, "2")]);
    let dns = site.caller(1, Some(&token(&site, "dns")));
    let made = cluster(&site.admin(), "east");
    let id = made["id"].as_str().unwrap().to_owned();
    let rows = || {
        let history = site.admin().get(&format!("/api/v1/history?kind=cluster&id={id}")).expect(200);
        history["data"].as_array().unwrap().len()
    };
    let mut events = dns.follow("/api/v1/events?adapter=dns");
    for _ in 0..2 {
        let (_, event) = next(&mut events);
        assert_eq!(brief(&event), (id.clone(), 1), "it is due again although nothing changed");
    }
    assert_eq!(rows(), 1, "a re-check is no row of history");
    tell(&dns, &id, &report("dns", 1, "True", None)).expect(200);
    // Those that were under way are told; after that there is none for half an hour.
    let path = "/api/v1/events?adapter=dns&wait=8";
    wait_for("the re-checks to end", || {
        let page = dns.get(path).expect(200);
        (page["data"] == json!([])).then_some(())
    });
    tell(&dns, &id, &report("dns", 1, "False", None)).expect(200);
    let page = dns.get("/api/v1/events?adapter=dns&wait=30").expect(200);
    assert_eq!(brief(&page["data"][0]), (id.clone(), 1), "it is not reconciled any more: {page}");
}

fn an_adapter_that_was_cut_off_resumes_at_a_restarted_server(on: Backend) {
    let mut site = Site::start_with(on, &[(REQUIRED, "dns"), SELDOM]);
    let secret = token(&site, "dns");
    let mut events = site.caller(0, Some(&secret)).follow("/api/v1/events?adapter=dns");
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    let first = id(&cluster(&site.admin(), "first"));
    let (place, event) = next(&mut events);
    assert_eq!(brief(&event).0, first);
    let second = id(&cluster(&site.admin(), "second"));
    site.servers[0].kill();
    // What was under way may still come; then the stream ends.
    while !matches!(events.next(), Sent::End) {}
    site.restart(0);
    let third = id(&cluster(&site.admin_at(0), "third"));
    let mut events =
        site.caller(0, Some(&secret)).with("last-event-id", &place).follow("/api/v1/events?adapter=dns");
    let told: Vec<_> = (0..2).map(|_| brief(&next(&mut events).1).0).collect();
    assert_eq!(told, [second.clone(), third.clone()]);
    // The same page by page, from the same cursor.
    let page =
        site.caller(1, Some(&secret)).get(&format!("/api/v1/events?adapter=dns&wait=5&continue={place}"));
    let page = page.expect(200);
    let told: Vec<_> = page["data"].as_array().unwrap().iter().map(|event| brief(event).0).collect();
    assert_eq!(told, [second, third], "{page}");
}

fn a_token_of_one_adapter_is_let_in_as_that_adapter(on: Backend) {
    let site = Site::start_with(on, &[(REQUIRED, "validation,dns"), SELDOM]);
    let dns = site.caller(0, Some(&token(&site, "dns")));
    let id = cluster(&site.admin(), "east")["id"].as_str().unwrap().to_owned();
    let refused = tell(&dns, &id, &report("validation", 1, "True", None)).problem(403);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("\"dns\"") && detail.contains("\"validation\""), "{refused}");
    let put = dns.put(&format!("{CLUSTERS}/{id}/statuses"), &report("validation", 1, "True", None));
    assert_eq!(put.problem(403)["code"], "forbidden");
    tell(&dns, &id, &report("dns", 1, "True", None)).expect(200);
    dns.get("/api/v1/events?adapter=validation&wait=0").problem(403);
    assert!(dns.get("/api/v1/events?wait=0").problem(403)["detail"].as_str().unwrap().contains("?adapter="));
    dns.get("/api/v1/events?adapter=dns&wait=0&continue=start").expect(200);
    assert_eq!(dns.get("/api/v1/events?adapter=dns&wait=0&continue=nonsense").wrong_fields(), ["continue"]);
    assert_eq!(site.admin().get("/api/v1/events?adapter=&wait=0").wrong_fields(), ["adapter"]);
    for (method, path) in [("GET", "/api/v1/nodes"), ("GET", "/api/v1/history"), ("GET", "/api/v1/tokens")] {
        dns.send(method, path, b"").problem(403);
    }
    dns.patch(&format!("{CLUSTERS}/{id}"), &json!({"spec": {}})).problem(403);
    let needless = site.admin().get("/api/v1/events?adapter=nameless&wait=0");
    assert!(needless.header("warning").unwrap().contains("nameless"), "{:?}", needless.headers);
}

fn reconciled(site: &Site, index: usize, id: &str) -> Value {
    condition(&site.admin_at(index).get(&format!("{CLUSTERS}/{id}")).expect(200), "Reconciled")
}

/// Two adapters are done; one goes on to repeat itself, the other falls silent.
fn a_silent_adapter_is_named_in_time(on: Backend) {
    let settings =
        [(REQUIRED, "validation,dns"), SELDOM, (PATIENCE, "3"), ("WARDROOM_LIVENESS_GRACE_SECONDS", "1")];
    let site = Site::start_with(on, &settings);
    let id = cluster(&site.admin(), "east")["id"].as_str().unwrap().to_owned();
    thread::sleep(Duration::from_secs(4));
    let sent = now();
    tell(&site.admin(), &id, &report("dns", 1, "True", None)).expect(200);
    let heard = now();
    let repeats = || tell(&site.admin(), &id, &report("validation", 1, "True", None)).expect(200);
    repeats();
    assert_eq!(reconciled(&site, 0, &id)["status"], "True");
    let named = loop {
        repeats();
        let reconciled = reconciled(&site, 1, &id);
        if reconciled["status"] == "Unknown" {
            break reconciled;
        }
        assert!(now().duration_since(heard) < SignedDuration::from_secs(5), "patience and 2 s: {reconciled}");
        thread::sleep(Duration::from_millis(100));
    };
    assert!(now().duration_since(sent) > SignedDuration::from_secs(3), "not before its patience ran out");
    assert_eq!(named["reason"], "ReconciledAdapterSilent");
    let message = named["message"].as_str().unwrap();
    assert!(message.contains("dns (last heard") && !message.contains("validation ("), "{message}");
    let listed = site.admin().get(CLUSTERS).expect(200);
    assert_eq!(condition(&listed["items"][0], "Reconciled")["status"], "Unknown", "{listed}");
    let why = site.admin().get(&format!("/api/v1/resources/cluster/{id}/why")).expect(200);
    assert!(why.to_string().contains("dns is silent"), "{why}");

    let dns = site.admin().get("/api/v1/adapters/dns").expect(200)["data"].clone();
    assert_eq!((&dns["state"], &dns["silent"]["count"]), (&json!("silent"), &json!(1)), "{dns}");
    assert_eq!(dns["silent"]["examples"][0]["name"], "east");
    let why = site.admin().get("/api/v1/resources/adapter/dns/why").expect(200);
    assert_eq!(why["data"][0]["state"], "silent", "{why}");
    // It reports again, and all is well by itself.
    tell(&site.admin(), &id, &report("dns", 1, "True", None)).expect(200);
    repeats();
    assert_eq!(reconciled(&site, 0, &id)["status"], "True");
}

/// Longer than the patience: the servers stand still, and then they are restarted.
fn an_outage_of_the_server_makes_no_adapter_silent(on: Backend) {
    let settings = [(REQUIRED, "dns"), SELDOM, (PATIENCE, "5"), ("WARDROOM_LIVENESS_GRACE_SECONDS", "5")];
    let mut site = Site::start_with(on, &settings);
    let id = cluster(&site.admin(), "east")["id"].as_str().unwrap().to_owned();
    tell(&site.admin(), &id, &report("dns", 1, "True", None)).expect(200);
    for server in &site.servers {
        server.signal("-STOP");
    }
    thread::sleep(Duration::from_secs(9));
    for server in &site.servers {
        server.signal("-CONT");
    }
    for index in 0..2 {
        let now = reconciled(&site, index, &id);
        assert_eq!(now["status"], "True", "the first answer after the pause: {now}");
    }
    tell(&site.admin(), &id, &report("dns", 1, "True", None)).expect(200);
    for server in &mut site.servers {
        server.kill();
    }
    thread::sleep(Duration::from_secs(6));
    for index in 0..site.servers.len() {
        site.restart(index);
    }
    let now = reconciled(&site, 0, &id);
    assert_eq!(now["status"], "True", "the first answer after the restart: {now}");
    // It does not come back: that is noticed.
    wait_for("the silence to be named", || {
        (reconciled(&site, 0, &id)["reason"] == "ReconciledAdapterSilent").then_some(())
    });
}

fn adapters_show_what_waits_for_them(on: Backend) {
    let settings = [(REQUIRED, "validation,dns"), (REQUIRED_OF_POOLS, "dns"), SELDOM];
    let site = Site::start_with(on, &settings);
    let secret = token(&site, "dns");
    let dns = site.caller(0, Some(&secret));
    let one =
        |name: &str| site.admin_at(0).get(&format!("/api/v1/adapters/{name}")).expect(200)["data"].clone();
    assert_eq!((&one("dns")["state"], one("dns").get("last_heard")), (&json!("idle"), None));
    let id = |made: Value| made["id"].as_str().unwrap().to_owned();
    let (east, west) = (id(cluster(&site.admin(), "east")), id(cluster(&site.admin(), "west")));
    pool(&site.admin(), "west", "workers");
    let shown = one("dns");
    assert_eq!((&shown["state"], &shown["waiting"]["count"]), (&json!("working"), &json!(3)), "{shown}");
    assert_eq!(shown["required_for"], json!(["cluster", "nodepool"]));
    tell(&dns, &east, &report("dns", 1, "True", None)).expect(200);
    tell(&dns, &west, &report("dns", 1, "False", None)).expect(200);
    let shown = one("dns");
    assert_eq!((&shown["state"], &shown["failing"]["count"]), (&json!("failing"), &json!(1)), "{shown}");
    assert_eq!(shown["failing"]["examples"][0]["name"], "west");
    assert!(shown["failing"]["examples"][0]["detail"].as_str().unwrap().contains("dns said so"), "{shown}");
    assert_eq!(shown["waiting"]["count"], 2, "{shown}");
    assert!(shown["last_heard"].is_string(), "{shown}");
    let _events = dns.follow("/api/v1/events?adapter=dns");
    wait_for("the stream to be counted", || (one("dns")["listening"] == 1).then_some(()));
    assert_eq!(site.admin_at(0).number("wardroom_adapters_waiting"), 1.0);
    let listed = dns.get("/api/v1/adapters").expect(200);
    let names: Vec<_> = listed["data"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["dns", "validation"]);
    assert_eq!(one("validation")["waiting"]["count"], 2);
    site.admin().get("/api/v1/adapters/missing").problem(404);
    let why = site.admin().get("/api/v1/resources/adapter/dns/why").expect(200);
    assert_eq!(why["data"][0]["state"], "failing", "{why}");
    assert!(why["data"][0]["blockers"].to_string().contains("west"), "{why}");
}
