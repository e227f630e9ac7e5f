//! Deleted members: read, explained, listed and with their history, in the same way for every kind.

use serde_json::{Value, json};

use crate::support::{Api, Backend, Site, mac, node_in, on_both, wait_for};

on_both! {
    a_deleted_member_of_every_kind_is_still_known,
    deleted_members_are_listed_page_by_page_and_not_for_everybody,
}

/// A deleted member: its kind, the path of its list, its id and its name.
struct Gone {
    kind: &'static str,
    list: &'static str,
    id: String,
    name: String,
    was: &'static str,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn gone_node(api: &Api, number: usize) -> Gone {
    let id = node_in(api, "retired", number);
    api.delete(&format!("/api/v1/nodes/{id}")).expect(200);
    Gone { kind: "node", list: "/api/v1/nodes", id, name: mac(number), was: "retired" }
}

fn gone_satellite(api: &Api) -> Gone {
    let made = api.post("/api/satellites", &json!({"name": "edge"})).expect(200);
    api.delete("/api/satellites/edge").expect(200);
    let id = text(&made["data"]["id"]);
    Gone { kind: "satellite", list: "/api/satellites", id, name: "edge".to_owned(), was: "pending" }
}

fn gone_gpu_node(api: &Api) -> Gone {
    let made = api.post("/api/v1/gpu-nodes", &json!({"hostname": "gpu-1"})).expect(201);
    let id = text(&made["data"]["id"]);
    api.delete(&format!("/api/v1/gpu-nodes/{id}")).expect(200);
    Gone { kind: "gpu-node", list: "/api/v1/gpu-nodes", id, name: "gpu-1".to_owned(), was: "deleted" }
}

fn ids(api: &Api, list: &str, query: &str) -> Vec<String> {
    let page = api.get(&format!("{list}{query}")).expect(200);
    page["data"].as_array().unwrap().iter().map(|item| text(&item["id"])).collect()
}

fn a_deleted_member_of_every_kind_is_still_known(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    for Gone { kind, list, id, name, was } in [gone_node(&api, 1), gone_satellite(&api), gone_gpu_node(&api)]
    {
        let shown = api.get(&format!("{list}/{id}")).expect(200)["data"].clone();
        assert_eq!(shown["deleted"], true, "{shown}");
        for called in [&id, &name] {
            let why =
                api.get(&format!("/api/v1/resources/{kind}/{called}/why")).expect(200)["data"][0].clone();
            assert_eq!((&why["state"], &why["next"]["do"]), (&json!("deleted"), &json!("nothing")), "{why}");
            let meaning = why["meaning"].as_str().unwrap();
            assert!(meaning.starts_with("Deleted for good by "), "{why}");
            assert_eq!(meaning.contains(&format!("It was {was}.")), was != "deleted", "{why}");
            assert!(!why["since"].is_null() && why["exits"] == json!([]), "{why}");
            let history = api.get(&format!("/api/v1/history?kind={kind}&id={called}")).expect(200);
            assert_eq!(history["data"][0]["resource_id"], json!(id), "{history}");
        }
        assert!(ids(&api, list, "").is_empty());
        assert_eq!(ids(&api, list, "?deleted=true"), [id.as_str()]);
        let state = if kind == "node" { "state" } else { "status" };
        assert_eq!(ids(&api, list, &format!("?deleted=true&{state}={was}")), [id.as_str()]);
    }
    assert_eq!(ids(&api, "/api/v1/gpu-nodes", "?status=deleted").len(), 1);
    assert!(ids(&api, "/api/v1/nodes", "?deleted=true&state=active").is_empty());
    api.get("/api/v1/resources/node/never/why").problem(404);
    // The living one of a name is explained, not the deleted one before it.
    api.post("/api/satellites", &json!({"name": "edge"})).expect(200);
    let why = api.get("/api/v1/resources/satellite/edge/why").expect(200);
    assert_eq!(why["data"][0]["state"], "pending");
}

fn deleted_members_are_listed_page_by_page_and_not_for_everybody(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let gone: Vec<_> = (1..=3).map(|number| gone_node(&api, number).id).collect();
    node_in(&api, "active", 4);
    let mut listed = Vec::new();
    let mut query = "?deleted=true&limit=2".to_owned();
    wait_for("the last page", || {
        let page = api.get(&format!("/api/v1/nodes{query}")).expect(200);
        listed.extend(page["data"].as_array().unwrap().iter().map(|item| text(&item["id"])));
        let Some(next) = page["continue"].as_str() else { return Some(()) };
        query = format!("?deleted=true&limit=2&continue={next}");
        None
    });
    assert_eq!(listed, gone);
    let refused = api.get("/api/v1/nodes?deleted=true&labelSelector=rack");
    assert_eq!(refused.wrong_fields(), ["deleted"]);
    for (role, status) in [("viewer", 403), ("operator", 200), ("auditor", 200)] {
        let (_, token) = site.new_token(&json!({"name": role, "role": role}));
        let caller = site.caller(0, Some(&token));
        for list in ["/api/v1/nodes", "/api/v1/gpu-nodes", "/api/satellites"] {
            assert_eq!(caller.get(&format!("{list}?deleted=true")).status, status, "{role} {list}");
        }
    }
}
