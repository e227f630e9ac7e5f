//! How fleets look in the console.

use serde_json::Value;
use wardroom_api::device::{Fleet, FleetStatus};
use wardroom_console::face::{
    self, Ask, Cell, Chip, Face, Fact, Group, Layer, Layers, Listed, Member, Panel, Seen, Selects,
};
use wardroom_core::{
    Named as _,
    device::fleet::{PAUSE, ROLLBACK, State},
    tone::Tone,
};

use super::document::KIND;

/// Fleets.
pub(super) static FACE: Face = Face {
    kind: KIND,
    segment: "fleets",
    many: "Fleets",
    one: "fleet",
    icon: "grid",
    group: Group::Members,
    path: "/api/v1/fleets",
    work: None,
    pages: face::BY_NAME,
    renamed: false,
    named_by: &[],
    more: None,
    states: || State::ALL.iter().map(|state| state.as_str()).collect(),
    selects: Selects::All,
    calls: &[PAUSE, ROLLBACK],
    effect: |verb| match verb {
        "pause" => Some("No further device is given the template until a person resumes the rollout."),
        "rollback" => Some("Every device is given the template that the fleet had before this one."),
        _ => None,
    },
    fields: &[],
    ask,
    read,
    heads: ["Devices", "Updated", "Failed"],
    member,
    facts,
    layers,
    panels,
    about: (
        "A fleet is one spec for many devices",
        "Its selector finds devices by their labels, and its template reaches them batch by batch. A rollout that breaks devices stops by itself.",
    ),
    start: &[
        ("Create a fleet for the devices with a label.", "wardroom create fleet --help"),
        ("Describe it in a file, with its rollout policy.", "wardroom apply -f FILE"),
    ],
};

fn ask(ask: &Ask<'_>) -> Vec<(&'static str, String)> {
    let state = ask.state.map(|state| format!("status.rollout.state={state}"));
    face::asked("", &Ask { state: None, fields: state.as_deref(), ..*ask })
}

fn read(mut answer: Value, _: &Ask<'_>) -> Listed {
    let next = answer["metadata"]["continue"].as_str().map(str::to_owned);
    Listed { items: face::items(answer["items"].take()), next }
}

fn read_one(value: &Value) -> Option<(Fleet, FleetStatus)> {
    let mut fleet = face::typed::<Fleet>(value)?;
    let status = fleet.status.take().unwrap_or_default();
    Some((fleet, status))
}

fn member(value: &Value) -> Member {
    let Some((fleet, status)) = read_one(value) else { return Member::default() };
    let (metadata, rollout) = (fleet.metadata, status.rollout);
    let back = rollout.restores.map(|version| Chip::of(Tone::Warn, format!("back to version {version}")));
    let overlap = (!status.conditions.is_empty()).then(|| Chip::of(Tone::Warn, "overlaps"));
    Member {
        key: metadata.name.clone(),
        id: metadata.name.clone(),
        name: metadata.name,
        called: None,
        work: None,
        state: rollout.state,
        chips: back.into_iter().chain(overlap).collect(),
        cells: [status.devices, rollout.updated, rollout.failed]
            .map(|count| Cell::text(Some(count.to_string()))),
        seen: Seen::Unknown,
        since: None,
        labels: metadata.labels,
        deleted: metadata.deletion_timestamp.is_some(),
    }
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some((fleet, status)) = read_one(value) else { return Vec::new() };
    let rollout = status.rollout;
    let batch =
        (rollout.current_batch > 0).then(|| format!("{} of {}", rollout.current_batch, rollout.batches));
    let overlap = status.conditions.first().map(|condition| condition.message.clone());
    vec![
        ("Devices", Cell::text(Some(status.devices.to_string()))),
        ("Batch", Cell::text(batch)),
        ("Paused by", Cell::text(rollout.paused_by)),
        ("Overlap", Cell::text(overlap)),
        ("Created", Cell::time(fleet.metadata.creation_timestamp)),
    ]
}

fn layers(value: &Value, _: Option<&Value>) -> Layers {
    let Some((fleet, status)) = read_one(value) else { return Layers::default() };
    let rollout = status.rollout;
    let version = fleet.spec.template_version.unwrap_or_default();
    let restores = rollout.restores.map(|restored| format!("the same as version {restored}"));
    Layers {
        desired: Layer::of(format!("template version {version}")).line(Cell::text(restores)),
        observed: Layer::of(format!("{} of {} devices run it", rollout.updated, status.devices))
            .line(Cell::text(rollout.causes.into_iter().next())),
        work: Layer::of(rollout.state.clone())
            .toned(KIND, &rollout.state)
            .line(Cell::text(Some(rollout.info))),
    }
}

/// What keeps the rollout from going on, each cause by itself.
fn panels(value: &Value, _: Option<&Value>) -> Vec<Panel> {
    let Some((_, status)) = read_one(value) else { return Vec::new() };
    let causes = status.rollout.causes;
    if causes.is_empty() {
        return Vec::new();
    }
    let rows = causes.into_iter().map(|cause| vec![Cell::whole(Some(cause))]).collect();
    vec![Panel { title: "In its way", heads: &["Cause"], rows, ..Panel::default() }]
}
