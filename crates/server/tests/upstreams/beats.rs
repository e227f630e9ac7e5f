//! Heartbeats as clients really send them.

use serde_json::{Value, json};

use crate::site::{Credential, Site, on_both, send};

on_both! {
    a_beat_counts_however_much_it_says,
    fields_missing_in_a_beat_stay_known,
    a_revoked_satellite_that_knocks_is_named,
}

/// A satellite that has registered.
async fn registered(site: &Site) -> Credential {
    let token = site.create("edge", &[]).await;
    site.register(&token).await
}

async fn say(site: &Site, edge: &Credential, said: &Value) -> reqwest::Response {
    let request = site.http.post(format!("{}/satellites/sync", site.url)).json(said);
    edge.sign(request).send().await.unwrap()
}

async fn seen(site: &Site) -> Value {
    site.get("/api/satellites/edge").await["data"].clone()
}

/// The client lists every image that it holds, and may hold many.
async fn a_beat_counts_however_much_it_says() {
    let site = Site::start("").await;
    let edge = registered(&site).await;
    let image = json!({"reference": format!("host/repo:tag@sha256:{}", "0".repeat(64)), "size_bytes": 352});
    let said = json!({
        "cached_images": vec![image; 5_000], "image_count": 5_000,
        "state_report_interval": "@every 00h00m40s",
    });
    let answer = say(&site, &edge, &said).await;
    assert_eq!(answer.status(), 200);
    let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
    assert!(warning.contains("only state_report_interval was read"), "{warning}");
    let seen = seen(&site).await;
    assert_eq!(seen["interval_in_force"], "@every 00h00m40s", "{seen}");
    assert_eq!(seen["reported"]["image_count"], Value::Null, "{seen}");
    let wrong = json!({"state_report_interval": "often", "activity": "x".repeat(70_000)});
    assert_eq!(say(&site, &edge, &wrong).await.status(), 400, "what it decides on must be right");
}

async fn fields_missing_in_a_beat_stay_known() {
    let site = Site::start("").await;
    let edge = registered(&site).await;
    let image = json!({"reference": "host/repo:tag", "size_bytes": 352});
    let said = json!({
        "image_count": 3, "activity": "syncing", "cached_images": [image], "state_report_interval": "@every 30s",
    });
    say(&site, &edge, &said).await;
    for quiet in [json!({}), json!({"cpu_percent": 0.5})] {
        assert_eq!(say(&site, &edge, &quiet).await.status(), 200);
        let reported = seen(&site).await["reported"].clone();
        assert_eq!((&reported["image_count"], &reported["activity"]), (&json!(3), &json!("syncing")));
        assert_eq!(reported["cached_images"].as_array().unwrap().len(), 1);
    }
    assert_eq!(say(&site, &edge, &json!({"activity": "", "cached_images": []})).await.status(), 200);
    let reported = seen(&site).await["reported"].clone();
    assert_eq!((&reported["activity"], &reported["cached_images"]), (&Value::Null, &json!([])), "{reported}");

    // A server that has just started knows only stored reports.
    let site = site.restart("").await;
    assert_eq!(say(&site, &edge, &json!({})).await.status(), 200);
    assert_eq!(seen(&site).await["reported"]["image_count"], 3);
}

/// The metrics of denials name the revoked satellite that keeps calling.
async fn a_revoked_satellite_that_knocks_is_named() {
    let site = Site::start("").await;
    let edge = registered(&site).await;
    site.post("/api/satellites/edge/revoke", json!({})).await.expect(200);
    assert_eq!(site.beat(&edge).await, 403);
    let stranger = site.http.post(format!("{}/satellites/sync", site.url)).basic_auth("robot$who", Some("x"));
    assert_eq!(send(stranger).await.status, 401);
    // Denials are written down at the latest when the server ends.
    let site = site.restart("").await;
    let rows = site.get("/api/v1/history?kind=server&id=access").await;
    let denials = rows["data"][0]["metadata"]["denials"].as_array().unwrap().clone();
    let by = |status: u16| {
        let found = denials.iter().find(|denial| denial["status"] == status);
        found.unwrap_or_else(|| panic!("{denials:?}"))["caller"].clone()
    };
    assert_eq!((by(403), by(401)), (json!(edge.username), json!("anonymous")));
}
