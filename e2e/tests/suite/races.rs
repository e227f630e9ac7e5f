//! Races between a check and a change: never do both sides win.

use serde_json::{Value, json};

use crate::support::{Backend, Reply, Site, at_once, fleet::workflow, mac, node_in, on_both};

on_both! {
    a_tree_gets_no_circle_from_two_sides,
    a_workflow_goes_or_is_used,
    a_group_goes_or_is_used,
    the_last_two_admins_do_not_both_go,
}

const ROUNDS: usize = 8;

fn a_tree_gets_no_circle_from_two_sides(on: Backend) {
    let site = Site::start(on);
    for round in 0..ROUNDS {
        let names = ["a", "b", "c"].map(|name| format!("{name}{round}"));
        for name in &names {
            site.admin().post("/api/v1/groups", &json!({"name": name})).expect(201);
        }
        let replies = at_once(3, |index| {
            let (name, parent) = (&names[index], &names[(index + 1) % 3]);
            let spec = json!({"name": name, "parent_id": parent});
            site.admin_at(index).put(&format!("/api/v1/groups/{name}"), &spec)
        });
        for reply in replies.iter().filter(|reply| reply.status != 200) {
            assert_eq!(reply.wrong_fields(), ["parent_id"], "{}", reply.text());
        }
        let parents = names.each_ref().map(|name| {
            site.admin().get(&format!("/api/v1/groups/{name}")).expect(200)["data"]["parent_id"].clone()
        });
        assert!(parents.iter().any(Value::is_null), "round {round}: a circle of {parents:?}");
    }
}

fn a_workflow_goes_or_is_used(on: Backend) {
    let site = Site::start(on);
    let node = node_in(&site.admin(), "active", 0);
    for round in 0..ROUNDS {
        let name = format!("w{round}");
        workflow(&site.admin(), &name);
        let replies = at_once(5, |index| match index {
            0 => site.admin_at(0).delete(&format!("/api/v1/workflows/{name}")),
            1 => site.admin_at(1).patch(&format!("/api/v1/nodes/{node}"), &json!({"workflow_id": name})),
            _ => {
                let create = json!({"mac_address": mac(1 + round * 10 + index), "workflow_id": name});
                site.admin_at(index).post("/api/v1/nodes", &create)
            }
        });
        let users = site.admin().get(&format!("/api/v1/nodes?fieldSelector=workflow_id%3D{name}"));
        one_side_won(round, &replies, users.expect(200)["data"].as_array().unwrap().len());
    }
}

fn a_group_goes_or_is_used(on: Backend) {
    let site = Site::start(on);
    for round in 0..ROUNDS {
        let name = format!("g{round}");
        site.admin().post("/api/v1/groups", &json!({"name": name})).expect(201);
        let replies = at_once(4, |index| match index {
            0 => site.admin_at(0).delete(&format!("/api/v1/groups/{name}")),
            1 => {
                let child = json!({"name": format!("child{round}"), "parent_id": name});
                site.admin_at(1).post("/api/v1/groups", &child)
            }
            _ => {
                let create = json!({"mac_address": mac(1 + round * 10 + index), "group_id": name});
                site.admin_at(index).post("/api/v1/nodes", &create)
            }
        });
        let nodes = site.admin().get(&format!("/api/v1/nodes?group_id={name}")).expect(200);
        let child = site.admin().get(&format!("/api/v1/groups/child{round}")).status == 200;
        one_side_won(round, &replies, nodes["data"].as_array().unwrap().len() + usize::from(child));
    }
}

/// The first reply is that of the deletion.
fn one_side_won(round: usize, replies: &[Reply], users: usize) {
    let using = replies[1..].iter().filter(|reply| reply.status < 300).count();
    assert_eq!(using, users, "round {round}: what was acknowledged is there");
    match replies[0].status {
        200 => assert_eq!(users, 0, "round {round}: it is gone, and still used"),
        _ => {
            assert_eq!(replies[0].problem(409)["code"], "in_use");
            assert!(users > 0, "round {round}: nobody used it");
        }
    }
    for refused in replies[1..].iter().filter(|reply| reply.status >= 300) {
        assert_eq!(refused.wrong_fields().len(), 1, "{}", refused.text());
    }
}

fn the_last_two_admins_do_not_both_go(on: Backend) {
    let site = Site::start(on);
    let tokens = site.admin().get("/api/v1/tokens").expect(200);
    let first = tokens["data"][0]["id"].as_str().unwrap().to_owned();
    let mut left = (first, site.token.clone());
    for round in 0..ROUNDS {
        let made = site
            .caller(round, Some(&left.1))
            .post("/api/v1/tokens", &json!({"name": format!("admin-{round}"), "role": "admin"}));
        let made = made.expect(201)["data"].clone();
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        let pair = [left.clone(), (text("id"), text("secret"))];
        let replies = at_once(2, |index| {
            let (own, other) = (&pair[index], &pair[1 - index]);
            site.caller(index, Some(&own.1)).delete(&format!("/api/v1/tokens/{}", other.0))
        });
        let gone = replies.iter().filter(|reply| reply.status == 200).count();
        assert_eq!(gone, 1, "round {round}: {:?}", replies.iter().map(Reply::text).collect::<Vec<_>>());
        for reply in replies.iter().filter(|reply| reply.status != 200) {
            assert!([401, 409].contains(&reply.status), "{}", reply.text());
        }
        // The remaining admin can make tokens for others.
        left = pair[usize::from(replies[1].status == 200)].clone();
    }
    site.caller(0, Some(&left.1)).get("/api/v1/tokens").expect(200);
}
