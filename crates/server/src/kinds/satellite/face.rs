//! How satellites look in the console.

use serde_json::Value;
use wardroom_api::satellite::{EffectProgress, Reported, Satellite};
use wardroom_console::face::{
    self, Cell, Chip, Face, Fact, Group, Layer, Layers, Member, Panel, Seen, Selects,
};
use wardroom_core::{
    action::Call,
    tone::{self, Tone},
};

use super::{document, view::FIELDS};

/// Ends a satellite for good.
const DELETE: Call = Call::new(document::KIND, "delete", "DELETE", "/api/satellites/{name}")
    .when("its credential, groups and config are gone for good; its history stays");

/// Satellites.
pub(super) static FACE: Face = Face {
    kind: document::KIND,
    segment: "satellites",
    many: "Satellites",
    one: "satellite",
    icon: "radio",
    group: Group::Members,
    path: "/api/satellites",
    work: None,
    pages: face::BY_AGE,
    renamed: false,
    named_by: &[],
    more: Some("effects"),
    states: || face::states(document::KIND),
    selects: Selects::All,
    calls: &[DELETE],
    effect: |verb| {
        (verb == "delete")
            .then_some("Its credential, groups and config are gone for good; its history stays.")
    },
    fields: FIELDS,
    ask: |ask| face::asked("status", ask),
    read: face::page,
    heads: ["Groups", "Config", "Activity"],
    member,
    facts,
    layers,
    panels,
    about: (
        "A satellite is a registry at the edge",
        "It registers with a one-time token, beats, and replicates the groups it is given. Here you see whether it is heard, and take its access away at once.",
    ),
    start: &[
        ("Create it. Its token is shown once.", "wardroom create satellite ware-oslo-1 --label zone=osl"),
        (
            "Hand the token to the satellite. It registers and goes from pending to online.",
            "satellite --token \"$TOKEN\" --ground-control-url URL",
        ),
        ("See them all.", "wardroom get satellites"),
    ],
};

fn member(value: &Value) -> Member {
    let Some(satellite) = face::typed::<Satellite>(value) else { return Member::default() };
    let silence = satellite.silence.as_ref().map(|silence| Chip::of(tone::of("silence", silence), silence));
    let refresh = satellite.refresh_required.then(|| Chip::of(Tone::Wait, "refresh required"));
    let activity = satellite.reported.as_ref().and_then(|said| said.activity.clone());
    Member {
        key: if satellite.deleted { satellite.id.clone() } else { satellite.name.clone() },
        id: satellite.id,
        name: satellite.name,
        called: None,
        work: None,
        state: satellite.state,
        chips: silence.into_iter().chain(refresh).collect(),
        cells: [
            Cell::text(Some(satellite.groups.join(", "))),
            Cell::text(satellite.config_name),
            Cell::text(activity),
        ],
        seen: Seen::of(satellite.last_seen),
        since: Some(satellite.state_changed_at),
        labels: satellite.labels,
        deleted: satellite.deleted,
    }
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(satellite) = face::typed::<Satellite>(value) else { return Vec::new() };
    vec![
        ("Flow", Cell::text(Some(satellite.flow))),
        ("SPIFFE ID", Cell::mono(satellite.spiffe_id)),
        ("Region", Cell::text(satellite.region)),
        ("Interval", Cell::text(satellite.interval_in_force)),
        ("Token ends", Cell::time(satellite.token_expires_at)),
        ("Refresh until", Cell::time(satellite.refresh_until)),
        ("Groups", Cell::text(Some(satellite.groups.join(", ")))),
        ("Config", Cell::text(satellite.config_name)),
        ("Created", Cell::Time(satellite.created_at)),
    ]
}

fn layers(value: &Value, more: Option<&Value>) -> Layers {
    let Some(satellite) = face::typed::<Satellite>(value) else { return Layers::default() };
    let groups = match satellite.groups.len() {
        0 => "no groups".to_owned(),
        1 => "1 group".to_owned(),
        many => format!("{many} groups"),
    };
    let desired = Layer::of(groups)
        .line(Cell::text(Some(satellite.groups.join(", "))))
        .line(Cell::text(satellite.config_name.map(|name| format!("config {name}"))));
    Layers { desired, observed: observed(satellite.reported.as_ref()), work: work(more) }
}

fn observed(reported: Option<&Reported>) -> Layer {
    let Some(said) = reported else { return Layer::of("no report yet") };
    let images = said.image_count.map(|count| format!("{count} images"));
    Layer::of(said.activity.clone().unwrap_or_else(|| "reports".to_owned()))
        .at(Some(said.received_at))
        .line(Cell::text(images))
        .line(Cell::mono(said.latest_state_digest.clone()))
}

/// What Harbor, SPIRE and the state artifact were told.
fn panels(_: &Value, more: Option<&Value>) -> Vec<Panel> {
    let all =
        more.map(|more| more["data"].clone()).and_then(|data| face::typed::<Vec<EffectProgress>>(&data));
    let row = |effect: &EffectProgress| {
        vec![
            Cell::Mono(effect.type_.clone()),
            Cell::State("effect", effect.progress.clone()),
            Cell::Text(effect.attempts.to_string()),
            Cell::whole(effect.last_error.clone()),
            Cell::Time(effect.created_at),
            Cell::time(effect.done_at.or(effect.next_attempt_at)),
        ]
    };
    let rows: Vec<_> = all.iter().flatten().map(row).collect();
    let panel = Panel {
        title: "Told to other systems",
        note: "denial here does not depend on them".to_owned(),
        heads: &["What", "Progress", "Tries", "Error", "Asked", "Done, or next try"],
        rows,
        current: None,
    };
    Some(panel).filter(|panel| !panel.rows.is_empty()).into_iter().collect()
}

/// What other systems were told.
fn work(more: Option<&Value>) -> Layer {
    let all =
        more.map(|more| more["data"].clone()).and_then(|data| face::typed::<Vec<EffectProgress>>(&data));
    let Some(all) = all.filter(|all| !all.is_empty()) else { return Layer::of("nothing under way") };
    let open: Vec<_> = all.iter().filter(|effect| effect.progress != "done").collect();
    let Some(first) = open.first() else {
        return Layer::of("other systems were told").at(all.last().and_then(|effect| effect.done_at));
    };
    Layer::of(format!("{} {}", first.type_, first.progress))
        .toned("effect", &first.progress)
        .at(Some(first.created_at))
        .line(Cell::text(first.last_error.clone()))
        .line(Cell::text((open.len() > 1).then(|| format!("and {} more", open.len() - 1))))
}
