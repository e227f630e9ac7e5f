//! The tables as data, for everything that shows them: the API, the console, the documentation.

use serde::Serialize;

use crate::{
    Named,
    action::Call,
    device,
    gpu_node::{self, maas, mapping},
    node,
    run::{
        self,
        plan::{Kind, Step},
    },
    satellite,
    table::{Event, Owner, State, Table},
    tone::{Tone, Toned},
};

/// One lifecycle as data.
#[derive(Debug, Clone, Serialize)]
pub struct Lifecycle {
    /// What it is the lifecycle of.
    pub name: &'static str,
    /// Its states, in the order of a life.
    pub states: Vec<StateView>,
    /// Its moves; the first of a state is the one to prefer.
    pub moves: Vec<MoveView>,
}

/// One state as data.
#[derive(Debug, Clone, Serialize)]
pub struct StateView {
    /// The name on the wire.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// A resource may start here.
    pub initial: bool,
    /// Everything is well here.
    pub service: bool,
    /// Nothing leaves it.
    pub terminal: bool,
    /// How it is shown.
    pub tone: Tone,
    /// How long work in progress is expected to take.
    pub patience_seconds: Option<i64>,
    /// The call that gets stuck work going again.
    pub remedy: Option<Call>,
}

/// One move as data.
#[derive(Debug, Clone, Serialize)]
pub struct MoveView {
    /// The state before.
    pub from: &'static str,
    /// The event.
    pub on: &'static str,
    /// The state after.
    pub to: &'static str,
    /// The person or program that makes it happen in the normal course.
    pub by: Owner,
    /// The condition.
    pub when: &'static str,
    /// The call by which a person causes it.
    pub call: Option<Call>,
    /// Why it exists, for a move that the design document does not have.
    pub reason: Option<&'static str>,
}

/// Everything about the lifecycles that is data.
#[derive(Debug, Clone, Serialize)]
pub struct Published {
    /// Every lifecycle that is a table.
    pub lifecycles: Vec<Lifecycle>,
    /// The stages of each kind of run, in order.
    pub plans: Vec<PlanView>,
    /// Which states of a GPU node and of its current run go together.
    pub gpu_node_runs: &'static [mapping::Fit],
    /// What MAAS should say of a GPU node.
    pub gpu_node_maas: &'static [maas::Expectation],
}

/// One plan as data.
#[derive(Debug, Clone, Serialize)]
pub struct PlanView {
    /// What the run is for.
    pub kind: Kind,
    /// Its meaning.
    pub meaning: &'static str,
    /// Its stages.
    pub steps: &'static [Step],
}

/// All that is published.
#[must_use]
pub fn published() -> Published {
    let plan = |&kind: &Kind| PlanView { kind, meaning: kind.meaning(), steps: kind.plan() };
    Published {
        lifecycles: all(),
        plans: Kind::ALL.iter().map(plan).collect(),
        gpu_node_runs: mapping::FITS,
        gpu_node_maas: maas::EXPECTATIONS,
    }
}

/// Every lifecycle that is a table.
#[must_use]
pub fn all() -> Vec<Lifecycle> {
    vec![
        view("device-update", device::update::TABLE),
        view("node", node::TABLE),
        view("gpu-node", gpu_node::TABLE),
        view("run", run::TABLE),
        view("satellite", satellite::TABLE),
    ]
}

fn view<S: State + Toned, E: Event>(name: &'static str, table: Table<S, E>) -> Lifecycle {
    let states = S::ALL.iter().map(|&state| StateView {
        name: state.as_str(),
        meaning: state.meaning(),
        initial: S::INITIAL.contains(&state),
        service: S::SERVICE.contains(&state),
        terminal: S::TERMINAL.contains(&state),
        tone: state.tone(),
        patience_seconds: state.patience().map(|patience| patience.as_secs()),
        remedy: state.remedy(),
    });
    let moves = table.0.iter().map(|row| MoveView {
        from: row.from.as_str(),
        on: row.on.as_str(),
        to: row.to.as_str(),
        by: row.by,
        when: row.on.meaning(),
        call: row.on.call(),
        reason: row.reason,
    });
    Lifecycle { name, states: states.collect(), moves: moves.collect() }
}
