//! How incidents look in the console.

use serde_json::Value;
use wardroom_api::liveness::Incident;
use wardroom_console::face::{self, Cell, Face, Fact, Group, Member, Seen};

use super::incident;

/// Incidents.
pub(crate) static FACE: Face = Face {
    kind: incident::KIND,
    segment: "incidents",
    many: "Incidents",
    one: "incident",
    icon: "bell",
    group: Group::Record,
    path: "/api/v1/incidents",
    pages: face::BY_AGE,
    ask: |ask| face::asked("", ask),
    heads: ["Silent", "Raised", "Ended"],
    member,
    facts,
    about: (
        "No members fell silent together",
        "When more than half of a zone falls silent within one window, the server doubts itself first: it holds their judgement and raises one incident.",
    ),
    start: &[("See how the server listens, judges and guards.", "wardroom liveness")],
    ..Face::PLAIN
};

fn member(value: &Value) -> Member {
    let Some(incident) = face::typed::<Incident>(value) else { return Member::default() };
    let zone = incident.zone.map_or_else(|| "the fleet".to_owned(), |zone| format!("zone {zone}"));
    Member {
        key: incident.id.clone(),
        id: incident.id,
        name: zone,
        state: incident.state,
        cells: [
            Cell::Text(format!("{} of {}", incident.silent, incident.watched)),
            Cell::Time(incident.raised_at),
            Cell::time(incident.ended_at),
        ],
        seen: Seen::Unknown,
        ..Member::default()
    }
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(incident) = face::typed::<Incident>(value) else { return Vec::new() };
    vec![
        ("What", Cell::Text(incident.why)),
        ("Silent", Cell::Text(format!("{} of {}", incident.silent, incident.watched))),
        ("Raised", Cell::Time(incident.raised_at)),
        ("Holds until", Cell::time(incident.held_until)),
        ("Ended", Cell::time(incident.ended_at)),
    ]
}
