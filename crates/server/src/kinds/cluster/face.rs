//! How clusters look in the console.

use serde_json::Value;
use wardroom_api::cluster::{AdapterStatus, Cluster, ClusterCondition};
use wardroom_console::face::{
    self, Ask, Cell, Chip, Face, Fact, Group, Layer, Layers, Listed, Member, Panel, Seen, Selects,
};
use wardroom_core::{
    Named as _,
    cluster::{APPLIED, AVAILABLE, HEALTH, LAST_KNOWN_RECONCILED, RECONCILED, Status},
    tone::Tone,
};

/// Clusters.
pub(super) static FACE: Face = Face {
    kind: "cluster",
    segment: "clusters",
    many: "Clusters",
    one: "cluster",
    icon: "hexagon",
    group: Group::Members,
    path: "/api/hyperfleet/v1/clusters",
    work: None,
    pages: face::NEWEST_FIRST,
    renamed: false,
    named_by: &[],
    more: Some("statuses"),
    states: || Status::ALL.iter().map(|status| status.as_str()).collect(),
    selects: Selects::All,
    calls: &[],
    effect: |_| None,
    fields: &["name"],
    ask,
    read,
    heads: ["Reason", "Generation", "Last known"],
    member,
    facts,
    layers,
    panels,
    about: (
        "A cluster is what people want adapters to bring about",
        "Adapters report conditions of each generation of it; it is reconciled when every required adapter is available at the newest one.",
    ),
    start: &[
        ("Create it: its spec is any JSON object.", "wardroom create cluster --help"),
        ("Let adapters report on it.", "wardroom-adapter run --help"),
        ("See what each adapter has to do.", "wardroom get adapters"),
    ],
};

/// Conditions and labels are searched for; a cursor is the number of a page.
fn ask(ask: &Ask<'_>) -> Vec<(&'static str, String)> {
    let quoted = |value: &str| value.trim().replace('\'', "''");
    let mut search: Vec<String> = Vec::new();
    search.extend(ask.state.map(|state| format!("status.conditions.{RECONCILED} = '{}'", quoted(state))));
    for part in ask.labels.into_iter().flat_map(|labels| labels.split(',')) {
        search.push(match part.split_once('=') {
            Some((key, value)) => format!("labels.{} = '{}'", key.trim(), quoted(value)),
            None => part.to_owned(),
        });
    }
    for part in ask.fields.into_iter().flat_map(|fields| fields.split(',')) {
        let (field, value) = part.split_once('=').unwrap_or((part, ""));
        search.push(format!("{} = '{}'", field.trim(), quoted(value)));
    }
    let mut asked = vec![("page", ask.after.unwrap_or("1").to_owned()), ("size", ask.limit.to_string())];
    if !search.is_empty() {
        asked.push(("search", search.join(" and ")));
    }
    asked
}

fn read(mut answer: Value, ask: &Ask<'_>) -> Listed {
    let number = |name: &str| answer[name].as_u64().unwrap_or_default();
    let (page, total) = (number("page"), number("total"));
    let limit = u64::try_from(ask.limit).unwrap_or(u64::MAX);
    let next = (page * limit < total).then(|| (page + 1).to_string());
    Listed { items: face::items(answer["items"].take()), next }
}

fn member(value: &Value) -> Member {
    let Some(cluster) = face::typed::<Cluster>(value) else { return Member::default() };
    let reconciled = cluster.status.condition(RECONCILED);
    let deleting = cluster.deleted_time.map(|_| Chip::of(Tone::Over, "deleting"));
    let last = cluster.status.condition(LAST_KNOWN_RECONCILED).map(|known| known.status.clone());
    Member {
        key: cluster.name.clone(),
        id: cluster.id,
        name: cluster.name,
        called: None,
        work: None,
        state: reconciled.map_or_else(|| "Unknown".to_owned(), |known| known.status.clone()),
        chips: deleting.into_iter().collect(),
        cells: [
            Cell::text(reconciled.and_then(|known| known.reason.clone())),
            Cell::text(Some(cluster.generation.to_string())),
            Cell::state("cluster", last),
        ],
        seen: Seen::Unknown,
        since: reconciled.map(|known| known.last_transition_time),
        labels: cluster.labels,
        deleted: false,
    }
}

fn facts(value: &Value, more: Option<&Value>) -> Vec<Fact> {
    let Some(cluster) = face::typed::<Cluster>(value) else { return Vec::new() };
    let reported = more.map(|more| said(more).len().to_string());
    vec![
        ("Generation", Cell::text(Some(cluster.generation.to_string()))),
        ("Adapters", Cell::text(reported.map(|count| format!("{count} reported")))),
        ("Created", Cell::Time(cluster.created_time)),
        ("Created by", Cell::text(Some(cluster.created_by))),
        ("Changed", Cell::Time(cluster.updated_time)),
        ("Changed by", Cell::text(Some(cluster.updated_by))),
        ("Deletion", Cell::time(cluster.deleted_time)),
    ]
}

/// The conditions of the cluster, and what each adapter last said.
fn panels(value: &Value, more: Option<&Value>) -> Vec<Panel> {
    let Some(cluster) = face::typed::<Cluster>(value) else { return Vec::new() };
    let condition = |one: &ClusterCondition| {
        vec![
            Cell::Mono(one.type_.clone()),
            Cell::State("condition", one.status.clone()),
            Cell::text(one.reason.clone()),
            Cell::whole(one.message.clone()),
            Cell::Text(format!("{} of {}", one.observed_generation, cluster.generation)),
            Cell::Time(one.last_transition_time),
        ]
    };
    let conditions = Panel {
        title: "Conditions",
        heads: &["Type", "Status", "Reason", "Message", "Generation", "Since"],
        rows: cluster.status.conditions.iter().map(condition).collect(),
        ..Panel::default()
    };
    let adapter = |said: &AdapterStatus| {
        let status = |type_| Cell::state("condition", said.condition(type_).map(|one| one.status.clone()));
        let why =
            said.condition(AVAILABLE).and_then(|one| one.message.clone().or_else(|| one.reason.clone()));
        vec![
            Cell::Mono(said.adapter.clone()),
            status(AVAILABLE),
            status(APPLIED),
            status(HEALTH),
            Cell::Text(format!("{} of {}", said.observed_generation, cluster.generation)),
            Cell::whole(why),
            Cell::Time(said.last_report_time),
        ]
    };
    let adapters = Panel {
        title: "Adapters",
        note: "what each last said".to_owned(),
        heads: &["Adapter", "Available", "Applied", "Health", "Generation", "Why", "Reported"],
        rows: more.map(said).unwrap_or_default().iter().map(adapter).collect(),
        ..Panel::default()
    };
    [conditions, adapters].into_iter().filter(|panel| !panel.rows.is_empty()).collect()
}

fn said(more: &Value) -> Vec<AdapterStatus> {
    face::typed(&more["items"]).unwrap_or_default()
}

fn layers(value: &Value, more: Option<&Value>) -> Layers {
    let Some(cluster) = face::typed::<Cluster>(value) else { return Layers::default() };
    let said = more.map(said).unwrap_or_default();
    let newest = said.iter().map(|said| said.last_report_time).max();
    let available = |said: &&AdapterStatus| said.condition(AVAILABLE).is_some_and(|one| one.status == "True");
    let behind: Vec<_> = said
        .iter()
        .filter(|said| said.observed_generation < cluster.generation)
        .map(|said| &*said.adapter)
        .collect();
    Layers {
        desired: Layer::of(format!("generation {}", cluster.generation)).at(Some(cluster.updated_time)),
        observed: Layer::of(format!("{} of {} available", said.iter().filter(available).count(), said.len()))
            .at(newest),
        work: match behind.is_empty() {
            true => Layer::of("no adapter is behind"),
            false => Layer::of(format!("{} behind", behind.len())).line(Cell::text(Some(behind.join(", ")))),
        },
    }
}
