//! What needs a person: causes that no stored state shows by itself.

use serde_json::{Value, json};

use crate::support::{
    Backend, Site,
    cluster::{REQUIRED, cluster, report, tell},
    on_both, satellite, wait_for,
};

on_both! {
    a_revoked_satellite_that_keeps_asking_is_seen,
    a_silent_adapter_is_one_cause,
}

/// The causes, as the first server sees them.
fn needs(site: &Site, query: &str) -> Vec<Value> {
    let found = site.admin_at(0).get(&format!("/api/v1/attention{query}")).expect(200);
    found["data"]["needs"].as_array().unwrap().clone()
}

fn of<'a>(needs: &'a [Value], kind: &str) -> Vec<&'a Value> {
    needs.iter().filter(|need| need["kind"] == kind).collect()
}

fn a_revoked_satellite_that_keeps_asking_is_seen(on: Backend) {
    let site = Site::start(on);
    let edge = satellite::online(&site, "edge");
    satellite::revoke(&site, "edge");
    assert_eq!(needs(&site, ""), Vec::<Value>::new(), "a satellite that obeys needs nobody");
    for _ in 0..3 {
        edge.beat(&site, 0).problem(403);
    }
    let found = needs(&site, "?kind=satellite");
    let [need] = &of(&found, "satellite")[..] else { panic!("{found:?}") };
    let why = need["why"].as_str().unwrap();
    assert!(why.contains("refused 3 times"), "{why}");
    let explained = site.admin_at(0).get("/api/v1/resources/satellite/edge/why").expect(200);
    assert_eq!(explained["data"][0]["next"]["action"], "reenable", "{explained}");

    satellite::reenable(&site, "edge", "refresh");
    edge.refresh(&site, 0).expect(200);
    assert_eq!(needs(&site, ""), Vec::<Value>::new());
    // What it did before counts no more.
    satellite::revoke(&site, "edge");
    assert_eq!(needs(&site, ""), Vec::<Value>::new());
}

fn a_silent_adapter_is_one_cause(on: Backend) {
    let settings = [
        (REQUIRED, "dns"),
        ("WARDROOM_CLUSTERS_ADAPTER_PATIENCE_SECONDS", "2"),
        ("WARDROOM_LIVENESS_GRACE_SECONDS", "1"),
    ];
    let site = Site::start_with(on, &settings);
    let clusters = ["east", "west"].map(|name| {
        let made = cluster(&site.admin(), name);
        made["id"].as_str().unwrap().to_owned()
    });
    let report = || {
        for id in &clusters {
            tell(&site.admin_at(0), id, &report("dns", 1, "True", None)).expect(200);
        }
    };
    report();
    let found = wait_for("the silence", || {
        let found = needs(&site, "?kind=adapter");
        let all = found.first().is_some_and(|need| need["why"].as_str().unwrap().contains("2 resources"));
        all.then_some(found)
    });
    let [need] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (&need["id"], &need["state"], &need["urgency"]),
        (&json!("dns"), &json!("silent"), &json!("stuck"))
    );
    assert_eq!(of(&needs(&site, ""), "cluster"), Vec::<&Value>::new(), "the clusters are its cause");
    let explained =
        || site.admin_at(0).get("/api/v1/resources/adapter/dns/why").expect(200)["data"][0].clone();
    assert_eq!(explained()["next"]["do"], "mend", "nothing is known of its token");
    let create = json!({"name": "dns-1", "role": "adapter", "adapter": "dns"});
    let token = site.admin_at(0).post("/api/v1/tokens", &create).expect(201)["data"]["id"].clone();
    assert_eq!(explained()["next"]["do"], "mend", "its token is valid");
    site.admin_at(0).delete(&format!("/api/v1/tokens/{}", token.as_str().unwrap())).expect(200);
    let next = explained()["next"].clone();
    assert_eq!(
        (&next["action"], &next["body"]["adapter"], &next["body"]["name"]),
        (&json!("create"), &json!("dns"), &json!("dns-2"))
    );
    site.admin_at(0).post(next["path"].as_str().unwrap(), &next["body"]).expect(201);
    assert_eq!(explained()["next"]["do"], "mend", "it has another one");
    wait_for("the adapter to be heard", || {
        report();
        needs(&site, "?kind=adapter").is_empty().then_some(())
    });
    assert_eq!(site.admin_at(0).get("/api/v1/attention?kind=wall").wrong_fields(), ["kind"]);
}
