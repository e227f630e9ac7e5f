//! Groups, configs and their assignment to satellites.

use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Site, eventually, on_both};

on_both! {
    assignments_come_and_go_and_the_last_group_really_goes,
    a_group_is_replaced_by_name_and_read_as_it_was_written,
    deleting_a_group_takes_its_satellites_out,
    a_large_group_is_gone_at_once_and_emptied_afterwards,
    no_satellite_is_left_in_a_group_that_is_deleted_at_the_same_time,
    a_config_in_use_stays_and_its_secrets_are_not_shown,
}

fn names_in(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

async fn assignments_come_and_go_and_the_last_group_really_goes() {
    let site = Site::start("").await;
    site.group("a", &["library/x"]).await;
    site.group("b", &["library/y"]).await;
    site.create("edge", &["a"]).await;
    let member = |group: &str| json!({"satellite": "edge", "group": group});
    site.post("/api/groups/satellite", member("b")).await.expect(200);
    site.post("/api/groups/satellite", member("b")).await.expect(200);
    assert_eq!(names_in(&site.get("/api/groups/b/satellites").await), ["edge"]);
    assert_eq!(site.get("/api/satellites/edge").await["data"]["groups"], json!(["a", "b"]));
    for group in ["a", "b", "b"] {
        site.ask(Method::DELETE, "/api/groups/satellite", Some(member(group))).await.expect(200);
    }
    assert_eq!(site.get("/api/satellites/edge").await["data"]["groups"], json!([]));
    assert!(names_in(&site.get("/api/groups/a/satellites").await).is_empty());

    site.post("/api/groups/satellite", member("missing")).await.expect(400);
    site.ask(Method::DELETE, "/api/groups/satellite", Some(member("missing"))).await.expect(404);
    site.post("/api/groups/satellite", json!({"satellite": "missing", "group": "a"})).await.expect(404);
    site.post("/api/satellites", json!({"name": "other", "groups": ["missing"]})).await.expect(400);
    site.ask(Method::GET, "/api/groups/missing/satellites", None).await.expect(404);
}

async fn a_group_is_replaced_by_name_and_read_as_it_was_written() {
    let site = Site::start("").await;
    let group = json!({
        "group": "g", "registry": "https://registry.example.com",
        "artifacts": [
            {"repository": "a/x", "tag": ["1", "2"], "type": "IMAGE", "digest": "", "deleted": false, "labels": null},
            {"repository": "b/x", "tag": [], "deleted": true},
        ],
    });
    let made = site.post("/api/groups/sync", group.clone()).await.expect(200);
    assert_eq!(made["data"]["projects"], json!(["a"]));
    let again = site.post("/api/groups/sync", group).await.expect(200);
    assert_eq!(again["data"]["updated_at"], made["data"]["updated_at"], "nothing changed");
    site.group("g", &["c/x"]).await;
    assert_eq!(site.get("/api/groups/g").await["data"]["projects"], json!(["c"]));
    assert_eq!(names_in(&site.get("/api/groups").await), ["g"]);
}

async fn deleting_a_group_takes_its_satellites_out() {
    let site = Site::start("").await;
    site.group("g", &["library/x"]).await;
    for name in ["one", "two"] {
        site.create(name, &["g"]).await;
    }
    site.ask(Method::DELETE, "/api/groups/g", None).await.expect(200);
    for name in ["one", "two"] {
        assert_eq!(site.get(&format!("/api/satellites/{name}")).await["data"]["groups"], json!([]));
    }
    site.ask(Method::GET, "/api/groups/g", None).await.expect(404);
    site.group("g", &["library/x"]).await;
    assert!(
        names_in(&site.get("/api/groups/g/satellites").await).is_empty(),
        "a new group of the name is empty"
    );
}

/// The work of a request is bounded for large groups: a worker does the rest.
async fn a_large_group_is_gone_at_once_and_emptied_afterwards() {
    let site = Site::start("").await;
    site.group("g", &["library/x"]).await;
    site.group("other", &["library/y"]).await;
    let names: Vec<_> = (0..160).map(|number| format!("s{number}")).collect();
    for name in &names {
        site.create(name, &["g", "other"]).await;
    }
    let told = site.ask(Method::DELETE, "/api/groups/g", None).await.expect(202);
    assert_eq!(told["data"]["state"], "removing");
    site.ask(Method::GET, "/api/groups/g", None).await.expect(404);
    assert_eq!(names_in(&site.get("/api/groups").await), ["other"]);
    site.post("/api/groups/satellite", json!({"satellite": "s0", "group": "g"})).await.expect(400);

    eventually("every satellite to be out", async || {
        let left = site.ask(Method::GET, "/api/groups/g/satellites", None).await;
        (left.status == 404).then_some(())
    })
    .await;
    for name in &names {
        let groups = site.get(&format!("/api/satellites/{name}")).await["data"]["groups"].clone();
        assert_eq!(groups, json!(["other"]), "{name}");
    }
    let rows = site.get("/api/v1/history?kind=satellite-group&id=g").await;
    let rows: Vec<_> = rows["data"].as_array().unwrap().iter().map(|row| row["type"].clone()).collect();
    assert_eq!(rows, ["deleted", "transition", "registered"]);
    site.group("g", &["library/x"]).await;
    assert!(names_in(&site.get("/api/groups/g/satellites").await).is_empty(), "a new one is empty");
}

/// A satellite that joins while the group is deleted is either refused or taken out: none is left in a
/// missing group.
async fn no_satellite_is_left_in_a_group_that_is_deleted_at_the_same_time() {
    let site = Site::start("").await;
    for name in ["s0", "s1", "s2", "s3"] {
        site.create(name, &[]).await;
    }
    for round in 0..25 {
        site.group("g", &["library/x"]).await;
        let join = async |name: &str| {
            let joined = site.post("/api/groups/satellite", json!({"satellite": name, "group": "g"})).await;
            assert!(matches!(joined.status, 200 | 400), "{}", joined.body);
        };
        let delete = async || {
            site.ask(Method::DELETE, "/api/groups/g", None).await.expect(200);
        };
        tokio::join!(join("s0"), join("s1"), delete(), join("s2"), join("s3"));
        for name in ["s0", "s1", "s2", "s3"] {
            let groups = site.get(&format!("/api/satellites/{name}")).await["data"]["groups"].clone();
            assert_eq!(groups, json!([]), "round {round}, {name}");
        }
    }
}

async fn a_config_in_use_stays_and_its_secrets_are_not_shown() {
    let site = Site::start("").await;
    let config = json!({"app_config": {"log_level": "info", "local_registry": {"password": "hunter2"}}});
    let spec = json!({"config_name": "c", "registry": "https://registry.example.com", "config": config});
    site.post("/api/configs", spec.clone()).await.expect(201);
    site.post("/api/configs", spec).await.expect(409);
    site.create("edge", &[]).await;
    site.post("/api/configs/satellite", json!({"satellite": "edge", "config_name": "c"})).await.expect(200);
    site.ask(Method::DELETE, "/api/configs/c", None).await.expect(409);
    let patch = json!({"config": {"app_config": {"log_level": null, "use_unsecure": true}}});
    let patched = site.ask(Method::PATCH, "/api/configs/c", Some(patch)).await.expect(200);
    let shown = json!({"use_unsecure": true, "local_registry": {"password": "<hidden>"}});
    assert_eq!(patched["data"]["config"]["app_config"], shown);
    let back = json!({"config": patched["data"]["config"]});
    let kept = site.ask(Method::PATCH, "/api/configs/c", Some(back)).await.expect(200);
    assert_eq!(kept["data"]["config"], patched["data"]["config"]);
    let mask = json!({"config": {"app_config": {"token": "<hidden>"}}});
    site.ask(Method::PATCH, "/api/configs/c", Some(mask)).await.expect(400);
    site.post("/api/configs/satellite", json!({"satellite": "edge", "config_name": null})).await.expect(200);
    site.ask(Method::DELETE, "/api/configs/c", None).await.expect(200);
    let history = site.get("/api/v1/history?limit=1000").await.to_string();
    assert!(!history.contains("hunter2"), "history keeps no setting");
}
