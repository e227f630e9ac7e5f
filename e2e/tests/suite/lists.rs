//! Lists: pages, selectors, and errors that list the valid choices.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::{Api, Backend, Site, mac, on_both};

on_both! {
    pages_join_while_the_list_changes,
    selectors_select,
    wrong_selectors_are_told_what_there_is,
    limits_have_bounds,
    pages_of_one_history_join_while_it_grows,
    a_damaged_cursor_is_refused_by_every_list,
}

fn register(api: &Api, number: usize, labels: &serde_json::Value) -> String {
    let create = json!({"mac_address": mac(number), "hostname": format!("n{number}"), "labels": labels});
    api.post("/api/v1/nodes", &create).expect(201)["data"]["id"].as_str().unwrap().to_owned()
}

fn pages_join_while_the_list_changes(on: Backend) {
    let site = Site::start(on);
    let ids: Vec<_> = (0..25).map(|number| register(&site.admin(), number, &json!({}))).collect();
    let (mut seen, mut next) = (Vec::new(), String::new());
    for page in 0..20 {
        let listed = site.admin_at(page).get(&format!("/api/v1/nodes?limit=4{next}")).expect(200);
        let nodes = listed["data"].as_array().unwrap();
        assert!(nodes.len() <= 4);
        seen.extend(nodes.iter().map(|node| node["id"].as_str().unwrap().to_owned()));
        // Moving or deleting an item between two pages hides no other item.
        let last = seen.last().unwrap().clone();
        site.admin().to_state(&last, "retired").expect(200);
        site.admin().delete(&format!("/api/v1/nodes/{last}")).expect(200);
        match listed["continue"].as_str() {
            Some(cursor) => next = format!("&continue={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ids, "oldest first, each once");
}

fn selectors_select(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    register(&api, 0, &json!({"site": "berlin", "rack": "a"}));
    register(&api, 1, &json!({"site": "berlin", "rack": "b"}));
    register(&api, 2, &json!({"site": "paris"}));
    let last = register(&api, 3, &json!({}));
    api.to_state(&last, "pending").expect(200);
    for (query, expected) in [
        ("labelSelector=site=berlin", "0 1"),
        ("labelSelector=site==berlin,rack=b", "1"),
        ("labelSelector=site!=berlin", "2 3"),
        ("labelSelector=site%20in%20(berlin,paris)", "0 1 2"),
        ("labelSelector=rack%20notin%20(a)", "1 2 3"),
        ("labelSelector=rack", "0 1"),
        ("labelSelector=!rack,site", "2"),
        ("labelSelector=nothing=here", ""),
        ("state=pending", "3"),
        ("fieldSelector=state=pending", "3"),
        ("fieldSelector=hostname=n2", "2"),
        ("fieldSelector=hostname=n2,state=pending", ""),
        ("fieldSelector=mac_address=52:54:00:00:00:01", "1"),
        ("state=discovered&labelSelector=site=berlin&fieldSelector=hostname=n1", "1"),
        ("limit=1&labelSelector=site=paris", "2"),
        ("group_id=missing", ""),
    ] {
        let listed = site.admin().get(&format!("/api/v1/nodes?{query}")).expect(200);
        let found: BTreeSet<_> = listed["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["hostname"].as_str().unwrap())
            .collect();
        let expected: Vec<_> = expected.split_whitespace().map(|number| format!("n{number}")).collect();
        assert_eq!(found, expected.iter().map(|name| &**name).collect(), "{query}");
    }
}

fn wrong_selectors_are_told_what_there_is(on: Backend) {
    let site = Site::start(on);
    for (query, field, told) in [
        ("fieldSelector=colour=red", "fieldSelector", "state, mac_address, workflow_id, group_id, hostname"),
        ("fieldSelector=state", "fieldSelector", "state, mac_address, workflow_id, group_id, hostname"),
        ("fieldSelector=state=asleep", "state", "discovered"),
        ("state=asleep", "state", "discovered"),
        ("labelSelector=a%20b%20c", "labelSelector", "key in (a,b)"),
        ("labelSelector==x", "labelSelector", "key=value"),
        ("labelSelector=rack%20in%20a", "labelSelector", "key in (a,b)"),
        ("colour=red", "", "labelSelector"),
        ("limit=1&limit=2", "limit", "more than once"),
        ("continue=%00", "continue", "cursor"),
        ("continue=%ff", "", ""),
    ] {
        let reply = site.admin().get(&format!("/api/v1/nodes?{query}"));
        let problem = reply.problem(400);
        let error = &problem["errors"][0];
        assert!(error["field"].as_str().unwrap().contains(field), "{query}: {problem}");
        assert!(error["message"].as_str().unwrap().contains(told), "{query}: {problem}");
    }
}

/// A damaged cursor that is read as another place would omit items unnoticed.
fn a_damaged_cursor_is_refused_by_every_list(on: Backend) {
    let site = Site::start(on);
    let api = site.admin();
    let ids = [0, 1].map(|number| register(&api, number, &json!({})));
    api.to_state(&ids[0], "pending").expect(200);
    let group = json!({"group": "edge", "registry": "https://registry.example.com", "artifacts": []});
    let made = api.post("/api/groups/sync", &group);
    assert!(made.status < 300, "{}", made.text());
    let one = format!("/api/v1/history?kind=node&id={}", ids[0]);
    let given = |path: &str| {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page = api.get(&format!("{path}{separator}limit=1")).expect(200);
        let cursor = page["continue"].as_str().unwrap().to_owned();
        api.get(&format!("{path}{separator}continue={cursor}")).expect(200);
        cursor
    };
    let cursors = ["/api/v1/nodes", "/api/v1/history", &one].map(given);
    let document = api.get("/openapi.json").expect(200);
    let paged = |operation: &serde_json::Value| {
        let parameters = operation["get"]["parameters"].as_array();
        parameters.is_some_and(|all| all.iter().any(|parameter| parameter["name"] == "continue"))
    };
    let lists = document["paths"].as_object().unwrap().iter().filter(|(_, operation)| paged(operation));
    let mut lists: Vec<_> = lists.map(|(path, _)| path.replace("{group}", "edge") + "?").collect();
    assert!(lists.len() >= 15, "{lists:?}");
    lists.push(one + "&");
    for list in lists {
        let refused = |cursor: &str| {
            let reply = api.get(&format!("{list}continue={cursor}"));
            // Clients of Flight Control understand only its own way of refusing.
            if list.starts_with("/flightctl/") {
                assert_eq!(reply.status, 400, "{list} {cursor}");
                assert!(reply.text().contains("continue: "), "{}", reply.text());
            } else {
                assert_eq!(reply.wrong_fields(), ["continue"], "{list} {cursor}");
            }
            assert!(reply.text().contains("start again without it"), "{}", reply.text());
        };
        ["", "zzz", "0", "-1", "%00", "x.00000000", &ids[0]].into_iter().for_each(refused);
        for cursor in &cursors {
            refused(&cursor[1..]);
            refused(&cursor[..cursor.len() - 1]);
            refused(&format!("{cursor}0"));
            let other = if cursor.starts_with('1') { "2" } else { "1" };
            refused(&format!("{other}{}", &cursor[1..]));
        }
    }
    // A whole cursor of another list is as wrong.
    for (path, cursor) in
        [("/api/v1/groups", &cursors[0]), ("/api/v1/nodes", &cursors[1]), ("/api/v1/history", &cursors[2])]
    {
        assert_eq!(api.get(&format!("{path}?continue={cursor}")).wrong_fields(), ["continue"], "{path}");
    }
}

fn limits_have_bounds(on: Backend) {
    let site = Site::start(on);
    for path in ["nodes", "workflows", "groups", "tokens", "history", "events?wait=0&continue=start"] {
        for limit in ["0", "-1", "1001", "1.5", "ten", "99999999999999999999999", ""] {
            let separator = if path.contains('?') { '&' } else { '?' };
            let reply = site.admin().get(&format!("/api/v1/{path}{separator}limit={limit}"));
            assert_eq!(reply.wrong_fields(), ["limit"], "{path} {limit}");
        }
        let separator = if path.contains('?') { '&' } else { '?' };
        site.admin().get(&format!("/api/v1/{path}{separator}limit=1000")).expect(200);
    }
    let id = register(&site.admin(), 1, &json!({}));
    let history = format!("/api/v1/nodes/{id}/history");
    for (query, field) in
        [("limit=-1", "limit"), ("limit=0", "limit"), ("offset=-1", "offset"), ("offset=x", "offset")]
    {
        assert_eq!(site.admin().get(&format!("{history}?{query}")).wrong_fields(), [field]);
    }
    assert_eq!(site.admin().get(&format!("{history}?offset=1000000")).expect(200)["data"], json!([]));
    for (query, field) in [("wait=-1", "wait"), ("wait=61", "wait"), ("wait=x", "wait")] {
        assert_eq!(site.admin().get(&format!("/api/v1/events?{query}")).wrong_fields(), [field]);
    }
    for (query, field) in [
        ("id=x", "kind"),
        ("since=x", "since"),
        ("kind=node&id=x&who=ada", "id"),
        ("kind=node&id=x&continue=y", "continue"),
    ] {
        assert_eq!(site.admin().get(&format!("/api/v1/history?{query}")).wrong_fields(), [field]);
    }
    // A kind alone is a filter.
    site.admin().get("/api/v1/history?kind=node").expect(200);
}

fn pages_of_one_history_join_while_it_grows(on: Backend) {
    let site = Site::start(on);
    let id = register(&site.admin(), 1, &json!({}));
    for state in ["pending", "installing", "installed", "active", "migrating", "active"] {
        site.admin().to_state(&id, state).expect(200);
    }
    let (mut sequences, mut next) = (Vec::new(), String::new());
    for page in 0..10 {
        let path = format!("/api/v1/history?kind=node&id={id}&limit=2{next}");
        let rows = site.admin_at(page).get(&path).expect(200);
        sequences
            .extend(rows["data"].as_array().unwrap().iter().map(|row| row["sequence"].as_i64().unwrap()));
        site.admin()
            .patch(&format!("/api/v1/nodes/{id}"), &json!({"labels": {"page": page.to_string()}}))
            .expect(200);
        match rows["continue"].as_str() {
            Some(cursor) => next = format!("&continue={cursor}"),
            None => break,
        }
    }
    assert_eq!(sequences, [7, 6, 5, 4, 3, 2, 1], "newest first, each once");
}
