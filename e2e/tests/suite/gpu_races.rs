//! Two operators give the same action at the same moment, a thousand times: one effect, and both get an
//! answer.

use serde_json::{Value, json};

use crate::support::{Backend, Reply, Site, at_once, on_both};

on_both! {
    two_operators_have_one_effect,
}

/// How many nodes there are, and how many are used at once.
const NODES: usize = 100;
const SIDE_BY_SIDE: usize = 5;

/// The actions on each node, and whether the run must first need a person. Otherwise the run is in progress,
/// or waits for its agent.
#[rustfmt::skip]
const PRESSED: &[(bool, &str)] = &[
    (false, "retry_stage"), (false, "resume"),
    (true,  "retry_stage"), (true,  "resume"),
    (false, "resume"),      (false, "retry_stage"),
    (true,  "resume"),      (true,  "retry_stage"),
    (false, "cancel"),      (false, "cancel"),
];

fn two_operators_have_one_effect(on: Backend) {
    let site = Site::start(on);
    let pairs: usize = at_once(SIDE_BY_SIDE, |first| {
        (first..NODES).step_by(SIDE_BY_SIDE).map(|number| press_all(&site, number)).sum::<usize>()
    })
    .into_iter()
    .sum();
    assert_eq!(pairs, 1000);
}

/// Gives every action on a new node; returns the number of pairs.
fn press_all(site: &Site, number: usize) -> usize {
    let made =
        site.admin().post("/api/v1/gpu-nodes", &json!({"hostname": format!("gpu-{number}")})).expect(201);
    let node = made["data"]["id"].as_str().unwrap().to_owned();
    let runs = site.admin().get(&format!("/api/v1/runs?node_id={node}")).expect(200);
    let run = runs["data"][0]["id"].as_str().unwrap().to_owned();
    let mut moved = 0;
    for &(by_hand, action) in PRESSED {
        let path = |action: &str| format!("/api/v1/runs/{run}/actions/{action}");
        if by_hand {
            let mark = path("mark_manual_intervention_required");
            site.admin().post(&mark, &json!({"comment": "to be pressed"})).expect(200);
        }
        let replies = at_once(2, |operator| {
            let body = json!({"comment": format!("operator {operator}")});
            site.admin_at(operator).post(&path(action), &body)
        });
        for reply in &replies {
            told(reply, action);
        }
        if by_hand {
            let won = replies.iter().filter(|reply| result(reply) == action).count();
            assert_eq!(won, 1, "{action}: {:?}", replies.iter().map(Reply::text).collect::<Vec<_>>());
            moved += 1;
        }
    }
    for look in 0.. {
        let seen = site.admin().get(&format!("/api/v1/runs/{run}")).expect(200)["data"].clone();
        if seen["status"] == "cancelled" {
            break;
        }
        assert!(look < 200, "{seen:#}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let history = site.admin().get(&format!("/api/v1/history?kind=run&id={run}&limit=1000")).expect(200);
    let rows = history["data"].as_array().unwrap();
    let effects = |action: &str| rows.iter().filter(|row| row["metadata"]["action"] == action).count();
    // The goal may be set while a worker has the run, and the run turned round when it has not: it turns once.
    let turns = |to: &str| rows.iter().filter(|row| row["to_state"] == to && row["from_state"] != to).count();
    assert_eq!((turns("compensating"), turns("cancelled")), (1, 1), "{rows:#?}");
    // No worker was lost, so no run may have been taken from one.
    assert_eq!(effects("retry_stage") + effects("resume"), moved, "{rows:#?}");
    PRESSED.len()
}

/// Checks that a reply is a success, or a refusal with its reason and the allowed moves.
fn told(reply: &Reply, action: &str) {
    match reply.status {
        200 | 202 => assert!(!result(reply).is_empty(), "{action}: {}", reply.text()),
        409 => {
            let problem: Value = serde_json::from_slice(&reply.body).unwrap();
            assert!(
                problem["code"].is_string() && problem["allowed_actions"].is_array(),
                "{action}: {problem}"
            );
        }
        status => panic!("{action}: {status} {}", reply.text()),
    }
}

fn result(reply: &Reply) -> String {
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    body["data"]["result"].as_str().unwrap_or_default().to_owned()
}
