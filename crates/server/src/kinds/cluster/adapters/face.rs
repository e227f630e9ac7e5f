//! How adapters look in the console.

use serde_json::Value;
use wardroom_api::adapter::{Adapter, Concern};
use wardroom_console::face::{self, Cell, Face, Fact, Group, Member, Panel, Seen};

use super::KIND;

/// Adapters.
pub(crate) static FACE: Face = Face {
    kind: KIND,
    segment: "adapters",
    many: "Adapters",
    one: "adapter",
    icon: "grid",
    group: Group::Work,
    path: "/api/v1/adapters",
    ask: |ask| face::asked("", ask),
    heads: ["Waiting", "Failing", "Silent"],
    member,
    facts,
    panels,
    about: (
        "No adapter is required",
        "Adapters bring about what clusters want, and report conditions. Which ones have to is a setting of the server.",
    ),
    start: &[(
        "Name the adapters that clusters wait for, in clusters.required_adapters.",
        "wardroom config print",
    )],
    ..Face::PLAIN
};

fn count(concern: &Concern) -> Cell {
    let more = if concern.or_more { "+" } else { "" };
    if concern.count == 0 { Cell::None } else { Cell::Text(format!("{}{more}", concern.count)) }
}

fn member(value: &Value) -> Member {
    let Some(adapter) = face::typed::<Adapter>(value) else { return Member::default() };
    Member {
        key: adapter.name.clone(),
        id: adapter.name.clone(),
        name: adapter.name,
        state: adapter.state,
        cells: [count(&adapter.waiting), count(&adapter.failing), count(&adapter.silent)],
        seen: Seen::of(adapter.last_heard),
        ..Member::default()
    }
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(adapter) = face::typed::<Adapter>(value) else { return Vec::new() };
    vec![
        ("Required for", Cell::text(Some(adapter.required_for.join(", ")))),
        ("Listening", Cell::Text(format!("{} here", adapter.listening))),
    ]
}

/// What it has to do, the most serious first.
fn panels(value: &Value, _: Option<&Value>) -> Vec<Panel> {
    let Some(adapter) = face::typed::<Adapter>(value) else { return Vec::new() };
    let panel = |title, concern: &Concern| {
        let rows = concern.examples.iter().map(|one| {
            let name = match one.kind.as_str() {
                "cluster" => Cell::Link(super::super::face::FACE.page(&one.id), one.name.clone()),
                _ => Cell::Text(one.name.clone()),
            };
            vec![
                name,
                Cell::Text(one.kind.clone()),
                Cell::whole(Some(one.detail.clone())),
                Cell::time(one.since),
            ]
        });
        let more = if concern.or_more { " or more" } else { "" };
        Panel {
            title,
            note: format!("{}{more}", concern.count),
            heads: &["Name", "Kind", "What it said", "Since"],
            rows: rows.collect(),
            current: None,
        }
    };
    let all = [
        panel("Silent", &adapter.silent),
        panel("Failing", &adapter.failing),
        panel("Waiting", &adapter.waiting),
    ];
    all.into_iter().filter(|panel| !panel.rows.is_empty()).collect()
}
