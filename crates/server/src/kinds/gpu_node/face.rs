//! How GPU nodes and their runs look in the console.

use serde_json::Value;
use wardroom_api::{
    gpu_node::{GpuNode, Lifecycle, ObservedMachine},
    run::Run,
    site::Site,
};
use wardroom_console::face::{self, Cell, Chip, Face, Fact, Group, Layer, Layers, Member, Seen, Selects};
use wardroom_core::{
    Named,
    gpu_node::action::Action as Asked,
    run,
    tone::{self, Tone},
};
use wardroom_workflow::RUN;

use super::{FIELDS, document, sites};

/// GPU nodes.
pub(super) static NODES: Face = Face {
    kind: document::KIND,
    segment: "gpu-nodes",
    many: "GPU nodes",
    one: "GPU node",
    icon: "chip",
    group: Group::Members,
    path: "/api/v1/gpu-nodes",
    work: Some(RUN),
    pages: face::BY_AGE,
    renamed: false,
    named_by: &[],
    more: Some("lifecycle"),
    states: || face::states(document::KIND),
    selects: Selects::All,
    calls: &[],
    effect: meaning::<Asked>,
    fields: FIELDS,
    ask: |ask| face::asked("status", ask),
    read: face::page,
    heads: ["Site", "Model", "Run"],
    member,
    facts,
    layers,
    panels: |_, _| Vec::new(),
    about: (
        "A GPU node is bare metal behind MAAS",
        "It is onboarded and decommissioned by durable runs, whose stages you can retry, skip, adopt and undo. Without a site it is bootstrapped by hand.",
    ),
    start: &[
        ("Name the MAAS that manages the machines.", "wardroom create site --help"),
        (
            "Register a machine. With a site it is onboarded at once.",
            "wardroom create gpu-node gpu-a01 --site berlin --mac 52:54:00:12:34:56",
        ),
        ("Watch its run.", "wardroom get runs --watch"),
    ],
};

/// Runs.
pub(super) static RUNS: Face = Face {
    kind: RUN,
    segment: "runs",
    many: "Runs",
    one: "run",
    icon: "branch",
    group: Group::Work,
    path: "/api/v1/runs",
    work: None,
    pages: face::BY_AGE,
    renamed: false,
    named_by: &[],
    more: None,
    states: || face::states(RUN),
    selects: Selects::State,
    calls: &[],
    effect: meaning::<run::action::Action>,
    fields: &[],
    ask: |ask| face::asked("status", ask),
    read: face::page,
    heads: ["Kind", "Stage", "Site"],
    member: of_run,
    facts: run_facts,
    layers: run_layers,
    panels: super::run::panels::panels,
    about: (
        "A run is work on a GPU node",
        "Onboardings, decommissions and removals run in stages. A run that needs a person stands still and says why.",
    ),
    start: &[("Start one.", "wardroom gpu-node onboard NAME --site SITE")],
};

fn member(value: &Value) -> Member {
    let Some(node) = face::typed::<GpuNode>(value) else { return Member::default() };
    let idle = (node.state == "active" && !node.schedulable).then(|| Chip::of(Tone::Over, "not schedulable"));
    let run = node.run.as_ref().map_or(Cell::None, |run| link(run, "newest run"));
    Member {
        key: if node.deleted { node.id.clone() } else { node.hostname.clone() },
        id: node.id,
        name: node.hostname,
        called: None,
        work: node.run,
        state: node.state,
        chips: idle.into_iter().collect(),
        cells: [Cell::text(node.site), Cell::text(node.model), run],
        seen: Seen::of(node.last_seen),
        since: Some(node.state_changed_at),
        labels: node.labels,
        deleted: node.deleted,
    }
}

/// What an action of a table of actions does.
fn meaning<A: Named>(verb: &str) -> Option<&'static str> {
    A::ALL.iter().find(|action| action.as_str() == verb).map(|action| action.meaning())
}

fn link(run: &str, words: &str) -> Cell {
    Cell::Link(RUNS.page(run), words.to_owned())
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(node) = face::typed::<GpuNode>(value) else { return Vec::new() };
    vec![
        ("Site", Cell::text(node.site)),
        ("MAAS id", Cell::mono(node.system_id)),
        ("Model", Cell::text(node.model)),
        ("Serial", Cell::mono(node.serial_number)),
        ("MACs", Cell::mono(Some(node.macs.join(" ")))),
        ("BMC", Cell::mono(node.bmc.map(|bmc| bmc.address))),
        ("Enrolled", Cell::text(Some(if node.enrolled { "yes" } else { "no" }))),
        ("Schedulable", Cell::text(Some(if node.schedulable { "yes" } else { "no" }))),
        ("Registered", Cell::Time(node.created_at)),
    ]
}

fn layers(value: &Value, more: Option<&Value>) -> Layers {
    let Some(node) = face::typed::<GpuNode>(value) else { return Layers::default() };
    let more = more.map(|more| &more["data"]).and_then(face::typed::<Lifecycle>);
    let desired = match &node.site {
        Some(site) => Layer::of(format!("managed by {site}")),
        None => Layer::of("bootstrapped by hand"),
    };
    let desired = desired.line(Cell::text(node.model));
    let Some(more) = more else { return Layers { desired, ..Layers::default() } };
    let observed = match &more.maas {
        Some(machine) => of_machine(machine, more.fits),
        None => Layer::of("not observed yet"),
    };
    let health = more
        .health
        .map(|health| if health.healthy { "agent: all checks passed" } else { "agent: a check failed" });
    let work = match more.run {
        Some(run) => Layer::of(run.state.clone())
            .toned(RUN, &run.state)
            .line(link(&run.id, &run.kind))
            .line(Cell::text(Some(format!("stage {}", run.stage))))
            .line(Cell::text(run.failure_class)),
        None => Layer::of("no run"),
    };
    Layers { desired, observed: observed.line(Cell::text(health)), work }
}

fn of_machine(machine: &ObservedMachine, fits: Option<bool>) -> Layer {
    let status = match (&machine.status_name, machine.status) {
        _ if !machine.present => "absent from MAAS".to_owned(),
        (Some(name), Some(number)) => format!("{name} ({number})"),
        (Some(name), None) => name.clone(),
        (None, Some(number)) => format!("status {number}"),
        (None, None) => "no status".to_owned(),
    };
    let layer = Layer::of(status)
        .at(Some(machine.observed_at))
        .line(Cell::text(machine.power.as_ref().map(|power| format!("power {power}"))));
    if fits == Some(false) {
        Layer { tone: Some(Tone::Bad), ..layer.line(Cell::text(Some("does not fit its state"))) }
    } else {
        layer
    }
}

fn of_run(value: &Value) -> Member {
    let Some(run) = face::typed::<Run>(value) else { return Member::default() };
    let waits = run.waiting.as_ref().map(|_| Chip::of(Tone::Wait, "waiting"));
    let undoing = run.undoing.then(|| Chip::of(Tone::Work, "undoing"));
    let subject = run.hostname.clone().unwrap_or_else(|| run.node_id.clone());
    // A name leads to the newest run, and an open run is that.
    let is_over = matches!(tone::of(RUN, &run.state), Tone::Good | Tone::Over);
    let called = run.hostname.filter(|_| !is_over).unwrap_or_else(|| run.id.clone());
    Member {
        key: run.id.clone(),
        called: Some(called),
        work: None,
        id: run.id,
        name: format!("{} of {subject}", run.kind),
        state: run.state,
        chips: undoing.into_iter().chain(waits).collect(),
        cells: [Cell::text(Some(run.kind)), Cell::Mono(run.stage), Cell::text(run.site)],
        seen: Seen::Unknown,
        since: Some(run.state_changed_at),
        labels: Default::default(),
        deleted: false,
    }
}

fn run_facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(run) = face::typed::<Run>(value) else { return Vec::new() };
    let node = Cell::Link(NODES.page(&run.node_id), run.hostname.unwrap_or_else(|| run.node_id.clone()));
    vec![
        ("Node", node),
        ("Kind", Cell::text(Some(run.kind))),
        ("Site", Cell::text(run.site)),
        ("Stage", Cell::Mono(run.stage)),
        ("Attempt", Cell::text(Some(run.attempt.to_string()))),
        ("Goal", Cell::text(Some(run.goal))),
        ("Looks again", Cell::time(run.next_attempt_at)),
        ("Accepted", Cell::Time(run.created_at)),
    ]
}

fn run_layers(value: &Value, _: Option<&Value>) -> Layers {
    let Some(run) = face::typed::<Run>(value) else { return Layers::default() };
    let observed = &value["observed"];
    let (state, seen) = (&observed["state"], face::typed(&observed["observed_at"]));
    let power = state["power"].as_str().map(|power| format!("power {power}"));
    let machine = match (state["status_name"].as_str(), state["present"].as_bool()) {
        (_, Some(false)) => Some("absent from MAAS"),
        (Some(status), _) => Some(status),
        (None, known) => known.map(|_| "no status"),
    };
    let failed = run.failure.map(|failure| format!("{}: {}", failure.class, failure.evidence));
    let waiting = run.waiting.map(|waiting| format!("waits for {}", waiting.what));
    Layers {
        desired: Layer::of(run.goal),
        observed: match machine {
            Some(machine) => Layer::of(machine).at(seen).line(Cell::text(power)),
            None => Layer::of("not observed"),
        },
        work: Layer::of(run.stage)
            .line(Cell::text(Some(format!("attempt {}", run.attempt))))
            .line(Cell::text(failed))
            .line(Cell::text(waiting)),
    }
}

/// The MAAS servers that manage machines.
pub(super) static SITES: Face = Face {
    kind: sites::SITES.kind,
    segment: "sites",
    many: "Sites",
    one: "site",
    path: "/api/v1/sites",
    named_by: &["site"],
    ask: |ask| face::asked("", ask),
    heads: ["MAAS", "Tag", "Changed"],
    member: |value| {
        let Some(site) = face::typed::<Site>(value) else { return Member::default() };
        Member {
            key: site.name.clone(),
            id: site.name.clone(),
            name: site.name,
            cells: [
                Cell::Mono(site.settings.url),
                Cell::Mono(site.settings.tag),
                Cell::Time(site.updated_at),
            ],
            ..Member::default()
        }
    },
    facts: |value, _| {
        let Some(site) = face::typed::<Site>(value) else { return Vec::new() };
        vec![
            ("MAAS", Cell::Mono(site.settings.url)),
            ("Tag", Cell::Mono(site.settings.tag)),
            ("Pool", Cell::text(site.settings.pool)),
            ("Zone", Cell::text(site.settings.zone)),
            ("Created", Cell::Time(site.created_at)),
            ("Changed", Cell::Time(site.updated_at)),
        ]
    },
    about: (
        "A site is a MAAS that manages machines",
        "It holds where the MAAS is, how its machines are told apart, and how much is done at once. Secrets are references.",
    ),
    start: &[("Create one.", "wardroom create site --help")],
    ..Face::PLAIN
};
