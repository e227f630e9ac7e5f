//! How devices look in the console.

use std::collections::BTreeMap;

use serde_json::Value;
use wardroom_api::device::{
    ApplicationStatus, Condition, Device, EnrollmentRequest, RENDERED_VERSION, StatusOf,
};
use wardroom_console::face::{
    self, Ask, Cell, Chip, Face, Fact, Group, Layer, Layers, Listed, Member, Panel, Seen, Selects,
};
use wardroom_core::{
    Named as _,
    action::{Call, Fixed},
    device::summary::Status,
    table::Role,
    tone::{self, Tone},
};

use super::{document, request};

/// Devices.
pub(super) static FACE: Face = Face {
    kind: document::KIND,
    segment: "devices",
    many: "Devices",
    one: "device",
    icon: "screen",
    group: Group::Members,
    path: "/api/v1/devices",
    work: None,
    pages: face::BY_NAME,
    renamed: true,
    named_by: &[],
    more: None,
    states: || Status::ALL.iter().map(|status| status.as_str()).collect(),
    selects: Selects::All,
    calls: &[REBOOT, REVOKE, DECOMMISSION],
    effect: |verb| match verb {
        "reboot" => Some("Asks the agent to reboot the device."),
        "revoke" => Some("Its certificate is refused from its next request on."),
        "decommission" => Some("Takes it out of service for good; its agent wipes keys and data."),
        _ => None,
    },
    fields: &["status.updated.status", "status.applicationSummary.status", "status.lifecycle.status"],
    ask,
    read,
    heads: ["Updated", "Applications", "Fleet"],
    member,
    facts,
    layers,
    panels,
    about: (
        "A device is an edge machine with an agent",
        "The agent applies a spec and reports what it runs. Whether it can be heard, is up to date and healthy is derived from that.",
    ),
    start: &[
        ("Make a token with which devices ask to be enrolled.", "wardroom create enrollmenttoken --help"),
        ("Start the agent on the device.", "wardroom-agent device --help"),
        ("Approve its request.", "wardroom device approve NAME"),
    ],
};

/// A state of a device is its summary.
fn ask(ask: &Ask<'_>) -> Vec<(&'static str, String)> {
    let state = ask.state.map(|state| format!("status.summary.status={state}"));
    let fields = [state, ask.fields.map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>().join(",");
    let fields = Some(&*fields).filter(|fields| !fields.is_empty());
    face::asked("", &Ask { state: None, fields, ..*ask })
}

fn read(mut answer: Value, _: &Ask<'_>) -> Listed {
    let next = answer["metadata"]["continue"].as_str().map(str::to_owned);
    Listed { items: face::items(answer["items"].take()), next }
}

fn member(value: &Value) -> Member {
    let Some(device) = face::typed::<Device>(value) else { return Member::default() };
    let (metadata, status) = (device.metadata, device.status.unwrap_or_default());
    let revoked = status.revoked.then(|| Chip::of(Tone::Held, "revoked"));
    let lifecycle = (status.lifecycle.status != "Enrolled" && !status.lifecycle.status.is_empty())
        .then(|| Chip::of(tone::of("device.lifecycle", &status.lifecycle.status), &*status.lifecycle.status));
    let fleet =
        metadata.owner.as_deref().map(|owner| owner.strip_prefix("Fleet/").unwrap_or(owner).to_owned());
    Member {
        key: metadata.name.clone(),
        id: metadata.name.clone(),
        name: alias(&metadata.labels).unwrap_or_else(|| metadata.name.clone()),
        called: Some(metadata.name),
        work: None,
        state: status.summary.status,
        chips: revoked.into_iter().chain(lifecycle).collect(),
        cells: [
            Cell::State("device.updated", status.updated.status),
            Cell::State("device.applications", status.application_summary.status),
            Cell::text(fleet),
        ],
        seen: Seen::of(status.last_seen),
        since: None,
        labels: metadata.labels,
        deleted: metadata.deletion_timestamp.is_some(),
    }
}

/// What people call a device: its own name is the digest of its key.
fn alias(labels: &BTreeMap<String, String>) -> Option<String> {
    labels.get("alias").filter(|alias| !alias.is_empty()).cloned()
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(device) = face::typed::<Device>(value) else { return Vec::new() };
    let (metadata, status) = (device.metadata, device.status.unwrap_or_default());
    let info = |name: &str| status.reported.system_info.get(name).cloned();
    vec![
        ("Fleet", Cell::text(metadata.owner.clone())),
        ("Updated", Cell::State("device.updated", status.updated.status.clone())),
        ("Applications", Cell::State("device.applications", status.application_summary.status.clone())),
        ("Lifecycle", Cell::State("device.lifecycle", status.lifecycle.status.clone())),
        ("System", Cell::text(info("operatingSystem"))),
        ("Architecture", Cell::text(info("architecture"))),
        ("Agent", Cell::text(info("agentVersion"))),
        ("Certificate", Cell::time(status.certificate_expires_at)),
        ("Enrolled", Cell::time(metadata.creation_timestamp)),
    ]
}

/// Each of the four statuses with its cause, then what the agent reports.
fn panels(value: &Value, _: Option<&Value>) -> Vec<Panel> {
    let Some(status) = face::typed::<Device>(value).and_then(|device| device.status) else {
        return Vec::new();
    };
    let derived = |name: &str, what: &'static str, of: &StatusOf| {
        vec![
            Cell::Text(name.to_owned()),
            Cell::State(what, of.status.clone()),
            Cell::whole(Some(of.info.clone())),
        ]
    };
    let statuses = Panel {
        title: "Statuses",
        note: "derived from its reports and the clock".to_owned(),
        heads: &["Status", "Is", "Because"],
        rows: vec![
            derived("Summary", "device.summary", &status.summary),
            derived("Updated", "device.updated", &status.updated),
            derived("Applications", "device.applications", &status.application_summary),
            derived("Lifecycle", "device.lifecycle", &status.lifecycle),
        ],
        current: None,
    };
    let application = |one: &ApplicationStatus| {
        vec![
            Cell::Mono(one.name.clone()),
            Cell::State("application", one.status.clone()),
            Cell::text(Some(one.ready.clone())),
            Cell::Text(one.restarts.to_string()),
            Cell::whole(Some(one.message.clone())),
        ]
    };
    let applications = Panel {
        title: "Applications",
        heads: &["Name", "Status", "Ready", "Restarts", "Message"],
        rows: status.reported.applications.iter().map(application).collect(),
        ..Panel::default()
    };
    let condition = |one: &Condition| {
        vec![
            Cell::Mono(one.r#type.clone()),
            Cell::Mono(one.status.clone()),
            Cell::text(Some(one.reason.clone())),
            Cell::whole(Some(one.message.clone())),
            Cell::time(one.last_transition_time),
        ]
    };
    let conditions = Panel {
        title: "Conditions",
        note: "as the agent reports them".to_owned(),
        heads: &["Type", "Status", "Reason", "Message", "Since"],
        rows: status.reported.conditions.iter().map(condition).collect(),
        current: None,
    };
    [statuses, applications, conditions].into_iter().filter(|panel| !panel.rows.is_empty()).collect()
}

fn layers(value: &Value, _: Option<&Value>) -> Layers {
    let Some(device) = face::typed::<Device>(value) else { return Layers::default() };
    let (metadata, status) = (device.metadata, device.status.unwrap_or_default());
    let wanted = metadata.annotations.get(RENDERED_VERSION).cloned().unwrap_or_default();
    let runs = status.reported.config.rendered_version.clone();
    let said = |of: &StatusOf| Cell::text(Some(of.info.clone()));
    Layers {
        desired: Layer::of(if wanted.is_empty() {
            "no spec yet".to_owned()
        } else {
            format!("version {wanted}")
        })
        .line(Cell::text(metadata.owner)),
        observed: Layer::of(if runs.is_empty() {
            "runs no version".to_owned()
        } else {
            format!("runs version {runs}")
        })
        .at(status.last_seen)
        .line(said(&status.summary)),
        work: Layer::of(status.updated.status.clone())
            .toned("device.updated", &status.updated.status)
            .line(said(&status.updated)),
    }
}

/// Requests of devices to be enrolled.
pub(super) static REQUESTS: Face = Face {
    kind: request::KIND,
    segment: "enrolment",
    many: "Enrolment",
    one: "enrolment request",
    icon: "person",
    group: Group::Work,
    path: "/api/v1/enrollmentrequests",
    renamed: true,
    selects: Selects::State,
    states: || vec!["pending", "approved", "denied"],
    ask: |ask| face::asked("state", ask),
    read,
    calls: &[APPROVE, DENY],
    heads: ["Token", "Model", "Decided by"],
    member: |value| {
        let Some(request) = face::typed::<EnrollmentRequest>(value) else { return Member::default() };
        let status = request.status.unwrap_or_default();
        let state = match &status.approval {
            None => "pending",
            Some(approval) if approval.approved => "approved",
            Some(_) => "denied",
        };
        let info = request.spec.device_status.map(|status| status.system_info).unwrap_or_default();
        let alias = alias(&request.spec.labels).or_else(|| info.get("hostname").cloned());
        Member {
            key: request.metadata.name.clone(),
            id: request.metadata.name.clone(),
            name: alias.unwrap_or_else(|| request.metadata.name.clone()),
            called: Some(request.metadata.name),
            state: state.to_owned(),
            cells: [
                Cell::text(Some(status.token)),
                Cell::text(info.get("productName").cloned()),
                Cell::text(status.approval.map(|approval| approval.approved_by)),
            ],
            since: request.metadata.creation_timestamp,
            labels: request.metadata.labels,
            ..Member::default()
        }
    },
    facts: |value, _| {
        let Some(request) = face::typed::<EnrollmentRequest>(value) else { return Vec::new() };
        let status = request.status.unwrap_or_default();
        vec![
            ("Token", Cell::text(Some(status.token))),
            ("Asked", Cell::time(request.metadata.creation_timestamp)),
            ("Decided by", Cell::text(status.approval.as_ref().map(|approval| approval.approved_by.clone()))),
        ]
    },
    panels: |value, _| {
        let info = face::typed::<EnrollmentRequest>(value).and_then(|request| request.spec.device_status);
        let rows: Vec<_> = info
            .map(|info| info.system_info)
            .into_iter()
            .flatten()
            .map(|(name, value)| vec![Cell::Mono(name), Cell::whole(Some(value))])
            .collect();
        let panel = Panel {
            title: "Hardware facts",
            note: "as the device says them".to_owned(),
            heads: &["Fact", "Value"],
            rows,
            current: None,
        };
        Some(panel).filter(|panel| !panel.rows.is_empty()).into_iter().collect()
    },
    about: (
        "No device asks to be enrolled",
        "A device asks with an enrolment token and waits here until a person, or its token, lets it in.",
    ),
    start: &[
        ("Make a token with which devices ask.", "wardroom create enrollmenttoken --help"),
        ("Start the agent on the device.", "wardroom-agent device --help"),
    ],
    ..Face::PLAIN
};

/// Reboots a device.
const REBOOT: Call = Call::new(document::KIND, "reboot", "POST", "/api/v1/devices/{name}/actions/reboot");

/// Takes its access away.
const REVOKE: Call = Call::new(document::KIND, "revoke", "POST", "/api/v1/devices/{name}/revoke");

/// Takes a device out of service.
const DECOMMISSION: Call =
    Call::new(document::KIND, "decommission", "PUT", "/api/v1/devices/{name}/decommission");

/// Lets a device in.
const APPROVE: Call =
    Call::new(request::KIND, "approve", "PUT", "/api/v1/enrollmentrequests/{name}/approval")
        .body(&[("approved", Fixed::Flag(true))])
        .by(Role::Installer);

/// Keeps a device out.
const DENY: Call = Call::new(request::KIND, "deny", "PUT", "/api/v1/enrollmentrequests/{name}/approval")
    .body(&[("approved", Fixed::Flag(false))])
    .by(Role::Installer);
