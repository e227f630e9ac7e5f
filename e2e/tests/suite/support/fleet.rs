//! Nodes for tests.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::http::Api;

/// The states of document 002.
pub(crate) const STATES: &[&str] = &[
    "discovered",
    "pending",
    "installing",
    "install_failed",
    "installed",
    "active",
    "reprovision",
    "deprovisioning",
    "migrating",
    "retired",
];

/// The moves of document 002.
pub(crate) const MOVES: &[(&str, &[&str])] = &[
    ("discovered", &["pending", "retired"]),
    ("pending", &["installing", "retired"]),
    ("installing", &["installed", "install_failed", "retired"]),
    ("install_failed", &["pending", "retired"]),
    ("installed", &["active", "retired"]),
    ("active", &["reprovision", "deprovisioning", "migrating", "retired"]),
    ("reprovision", &["pending", "retired"]),
    ("deprovisioning", &["retired"]),
    ("migrating", &["active", "retired"]),
    ("retired", &[]),
];

/// The moves an administrator takes to bring a new node into a state.
fn path_to(state: &str) -> &'static [&'static str] {
    match state {
        "discovered" => &[],
        "pending" => &["pending"],
        "installing" => &["pending", "installing"],
        "install_failed" => &["pending", "installing", "install_failed"],
        "installed" => &["pending", "installing", "installed"],
        "active" => &["pending", "installing", "installed", "active"],
        "reprovision" => &["pending", "installing", "installed", "active", "reprovision"],
        "deprovisioning" => &["pending", "installing", "installed", "active", "deprovisioning"],
        "migrating" => &["pending", "installing", "installed", "active", "migrating"],
        "retired" => &["retired"],
        other => panic!("no such state: {other}"),
    }
}

/// A conflict names exactly the moves that the state has now.
#[track_caller]
pub(crate) fn assert_names_moves_from(problem: &Value, state: &str) {
    let named = problem["allowed_actions"].as_array().unwrap().iter();
    let named = named.map(|action| action["body"]["state"].as_str().unwrap());
    let allowed = MOVES.iter().find(|(from, _)| *from == state).unwrap().1.iter().copied();
    assert_eq!(named.collect::<BTreeSet<_>>(), allowed.collect::<BTreeSet<_>>(), "{problem}");
}

/// The address of the machine with this number.
pub(crate) fn mac(number: usize) -> String {
    let [.., a, b, c] = number.to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

/// A new node in a state; gives its id.
#[track_caller]
pub(crate) fn node_in(api: &Api, state: &str, number: usize) -> String {
    let made = api.post("/api/v1/nodes", &json!({"mac_address": mac(number)})).expect(201);
    let id = made["data"]["id"].as_str().unwrap().to_owned();
    for state in path_to(state) {
        api.to_state(&id, state).expect(200);
    }
    id
}

/// A workflow of this name.
pub(crate) fn workflow(api: &Api, name: &str) {
    let spec = json!({
        "name": name, "kernel": "http://boot.example/vmlinuz", "initrd": ["http://boot.example/initrd"],
        "arguments": "quiet", "image": "http://boot.example/disk.img",
    });
    api.post("/api/v1/workflows", &spec).expect(201);
}

/// The install token in a boot script.
pub(crate) fn token_in(script: &str) -> String {
    let token = script.split_whitespace().find_map(|word| word.strip_prefix("wardroom.token="));
    token.unwrap_or_else(|| panic!("no token in {script}")).to_owned()
}
