//! How nodes look in the console.

use serde_json::Value;
use wardroom_api::{group::Group, node::Node, workflow::Workflow};
use wardroom_console::face::{self, Cell, Chip, Face, Fact, Layer, Layers, Member, Seen, Selects};
use wardroom_core::{action::Call, node::ASSIGN, tone::Tone};

use super::{FIELDS, document, group, workflow};

/// Deletes a node that was registered by mistake, or is retired.
const DELETE: Call = Call::new(document::KIND, "delete", "DELETE", "/api/v1/nodes/{id}");

/// Nodes.
pub(super) static FACE: Face = Face {
    kind: document::KIND,
    segment: "nodes",
    many: "Nodes",
    one: "node",
    icon: "server",
    group: face::Group::Members,
    path: "/api/v1/nodes",
    work: None,
    pages: face::BY_AGE,
    renamed: false,
    named_by: &[],
    more: None,
    states: || face::states(document::KIND),
    selects: Selects::All,
    calls: &[ASSIGN, DELETE],
    effect: |verb| match verb {
        "assign" => Some("Gives the node a workflow: what it installs next."),
        "delete" => Some(
            "Deletes the record of a node that was registered by mistake, or is retired; its history stays.",
        ),
        _ => None,
    },
    fields: FIELDS,
    ask: |ask| face::asked("state", ask),
    read: face::page,
    heads: ["MAC", "Workflow", "Attempts"],
    member,
    facts,
    layers,
    panels: |_, _| Vec::new(),
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
        called: None,
        work: None,
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

/// Workflows.
pub(super) static WORKFLOWS: Face = Face {
    kind: workflow::KIND,
    segment: "workflows",
    many: "Workflows",
    one: "workflow",
    path: "/api/v1/workflows",
    named_by: &["workflow_id"],
    ask: |ask| face::asked("", ask),
    calls: &[Call::new(workflow::KIND, "delete", "DELETE", "/api/v1/workflows/{id}")],
    heads: ["Kernel", "Promotes", "Changed"],
    member: |value| {
        let Some(workflow) = face::typed::<Workflow>(value) else { return Member::default() };
        Member {
            key: workflow.id.clone(),
            id: workflow.id,
            name: workflow.name,
            cells: [
                Cell::Mono(workflow.kernel),
                Cell::text(workflow.promote.then_some("yes")),
                Cell::Time(workflow.updated_at),
            ],
            ..Member::default()
        }
    },
    facts: |value, _| {
        let Some(workflow) = face::typed::<Workflow>(value) else { return Vec::new() };
        vec![
            ("Kernel", Cell::Mono(workflow.kernel)),
            ("Initrd", Cell::mono(Some(workflow.initrd.join(" ")))),
            ("Arguments", Cell::mono(Some(workflow.arguments))),
            ("Image", Cell::mono(workflow.image)),
            ("Promotes", Cell::text(Some(if workflow.promote { "yes" } else { "no" }))),
            ("Created", Cell::Time(workflow.created_at)),
            ("Changed", Cell::Time(workflow.updated_at)),
        ]
    },
    about: (
        "A workflow is what nodes install",
        "It names a kernel, its RAM disks and its arguments, and whether an installed node is promoted by itself.",
    ),
    start: &[("Create one.", "wardroom create workflow --help")],
    ..Face::PLAIN
};

/// Groups of nodes and of users.
pub(super) static GROUPS: Face = Face {
    kind: group::KIND,
    segment: "groups",
    many: "Groups",
    one: "group",
    path: "/api/v1/groups",
    named_by: &["group_id"],
    ask: |ask| face::asked("", ask),
    calls: &[Call::new(group::KIND, "delete", "DELETE", "/api/v1/groups/{id}")],
    heads: ["Of", "Parent", "Promotes"],
    member: |value| {
        let Some(group) = face::typed::<Group>(value) else { return Member::default() };
        Member {
            key: group.id.clone(),
            id: group.id,
            name: group.name,
            cells: [
                Cell::text(value["type"].as_str()),
                Cell::text(group.parent_id),
                Cell::text(Some(if group.effective_auto_promote { "yes" } else { "no" })),
            ],
            ..Member::default()
        }
    },
    facts: |value, _| {
        let Some(group) = face::typed::<Group>(value) else { return Vec::new() };
        vec![
            ("Of", Cell::text(value["type"].as_str())),
            ("Parent", Cell::text(group.parent_id)),
            ("Promotes", Cell::text(Some(if group.effective_auto_promote { "yes" } else { "no" }))),
            ("Created", Cell::Time(group.created_at)),
            ("Changed", Cell::Time(group.updated_at)),
        ]
    },
    about: (
        "A group holds nodes or users",
        "Groups of nodes are a tree; settings such as the promotion of installed nodes are inherited.",
    ),
    start: &[("Create one.", "wardroom create group --help")],
    ..Face::PLAIN
};
