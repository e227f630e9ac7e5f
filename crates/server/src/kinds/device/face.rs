//! How devices look in the console.

use serde_json::Value;
use wardroom_api::device::{Device, RENDERED_VERSION, StatusOf};
use wardroom_console::face::{self, Ask, Cell, Chip, Face, Fact, Group, Layer, Layers, Listed, Member, Seen};
use wardroom_core::{
    Named as _,
    device::summary::Status,
    tone::{self, Tone},
};

use super::document;

/// Devices.
pub(super) static FACE: Face = Face {
    kind: document::KIND,
    segment: "devices",
    many: "Devices",
    one: "device",
    icon: "screen",
    group: Group::Members,
    path: "/api/v1/devices",
    more: None,
    states: || Status::ALL.iter().map(|status| status.as_str()).collect(),
    fields: &["status.updated.status", "status.applicationSummary.status", "status.lifecycle.status"],
    ask,
    read,
    heads: ["Updated", "Applications", "Fleet"],
    member,
    facts,
    layers,
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
        name: metadata.name,
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
