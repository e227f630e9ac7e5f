//! How nodes look in the console.

use serde_json::Value;
use wardroom_api::node::Node;
use wardroom_console::face::{self, Cell, Chip, Face, Fact, Group, Layer, Layers, Member, Seen};
use wardroom_core::tone::Tone;

use super::{FIELDS, document};

/// Nodes.
pub(super) static FACE: Face = Face {
    kind: document::KIND,
    segment: "nodes",
    many: "Nodes",
    one: "node",
    icon: "server",
    group: Group::Members,
    path: "/api/v1/nodes",
    more: None,
    states: || face::states(document::KIND),
    fields: FIELDS,
    ask: |ask| face::asked("state", ask),
    read: face::page,
    heads: ["MAC", "Workflow", "Attempts"],
    member,
    facts,
    layers,
    about: (
        "A node is a machine that is installed over the network",
        "It boots over PXE and is discovered, gets a workflow, is approved, installs itself and reports how that went. After three failed attempts it waits for a person.",
    ),
    start: &[
        ("Create a workflow: what a node installs.", "wardroom create workflow --help"),
        ("Create the node, or let it boot: it is discovered by itself.", "wardroom create node --help"),
        ("Approve it. At its next boot it installs.", "wardroom node move NAME --to pending"),
    ],
};

fn member(value: &Value) -> Member {
    let Some(node) = face::typed::<Node>(value) else { return Member::default() };
    let progress = node.install_progress.filter(|_| node.state == "installing");
    let failed = (node.install_attempts > 0).then(|| format!("{} failed", node.install_attempts));
    Member {
        key: node.id.clone(),
        id: node.id,
        name: node.hostname.unwrap_or_else(|| node.mac_address.clone()),
        state: node.state,
        chips: progress.map(|percent| Chip::of(Tone::Work, format!("{percent} %"))).into_iter().collect(),
        cells: [Cell::Mono(node.mac_address), Cell::text(node.workflow_id), Cell::text(failed)],
        seen: node.last_boot_at.map_or(Seen::Unknown, Seen::At),
        since: Some(node.state_changed_at),
        labels: node.labels,
        deleted: node.deleted,
    }
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(node) = face::typed::<Node>(value) else { return Vec::new() };
    vec![
        ("MAC", Cell::Mono(node.mac_address)),
        ("Address", Cell::mono(node.ip_address)),
        ("Vendor", Cell::text(node.vendor)),
        ("Model", Cell::text(node.model)),
        ("Serial", Cell::mono(node.serial_number)),
        ("Workflow", Cell::text(node.workflow_id)),
        ("Group", Cell::text(node.group_id)),
        ("Last boot", Cell::time(node.last_boot_at)),
        ("Registered", Cell::Time(node.created_at)),
    ]
}

fn layers(value: &Value, _: Option<&Value>) -> Layers {
    let Some(node) = face::typed::<Node>(value) else { return Layers::default() };
    let desired = match node.workflow_id {
        Some(workflow) => Layer::of(workflow).line(Cell::text(Some("workflow"))),
        None => Layer::of("no workflow"),
    };
    let observed = match node.last_boot_at {
        Some(at) => Layer::of("booted").at(Some(at)).line(Cell::mono(node.ip_address)),
        None => Layer::of("never booted"),
    };
    let work = match (node.install_progress.filter(|_| node.state == "installing"), node.install_attempts) {
        (Some(percent), _) => Layer::of(format!("installing, {percent} %")),
        (None, 0) => Layer::of("nothing under way"),
        (None, failed) => Layer::of(format!("{failed} of 3 attempts failed")).toned("attempt", "failed"),
    };
    Layers { desired, observed, work: work.line(Cell::text(node.last_install_error)) }
}
