//! The tables as data, for everything that shows them: the API, the console, the documentation.

use serde::Serialize;

use crate::{
    Named,
    action::Call,
    cluster, device,
    gpu_node::{self, maas, mapping},
    node,
    run::{
        self,
        plan::{Kind, Step},
    },
    satellite,
    table::{Event, Owner, State, Table},
    tone::{self, Tone, Toned},
    why::Rule,
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
    /// Its column and row in the diagram; nothing for a state that was forgotten, which a test refuses.
    #[serde(skip)]
    pub place: Option<(f64, f64)>,
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

/// A lifecycle in the list of all.
struct Listed {
    name: &'static str,
    view: fn() -> Lifecycle,
    tone: fn(&str) -> Tone,
}

/// Writes the list: one line for each lifecycle.
macro_rules! tables {
    ($($name:literal => $($module:ident)::+,)+) => {
        &[$(Listed {
            name: $name,
            view: || view($name, $($module)::+::TABLE),
            tone: tone::named::<$($module)::+::State>,
        }),+]
    };
}

/// Everything about the lifecycles that is data.
#[derive(Debug, Clone, Serialize)]
pub struct Published {
    /// Every lifecycle that is a table.
    pub lifecycles: Vec<Lifecycle>,
    /// Every status that is derived from what members report.
    pub derived: Vec<Derived>,
    /// The stages of each kind of run, in order.
    pub plans: Vec<PlanView>,
    /// Which states of a GPU node and of its current run go together.
    pub gpu_node_runs: &'static [mapping::Fit],
    /// What MAAS should say of a GPU node.
    pub gpu_node_maas: &'static [maas::Expectation],
}

/// One derived status as data: no event moves it, so it has ways out instead of moves.
#[derive(Debug, Clone, Serialize)]
pub struct Derived {
    /// What it is the status of.
    pub name: &'static str,
    /// The status, where there are several.
    pub about: &'static str,
    /// Its values.
    pub statuses: Vec<StatusView>,
    /// How each value is left.
    pub exits: Vec<ExitView>,
}

/// One value of a derived status as data.
#[derive(Debug, Clone, Serialize)]
pub struct StatusView {
    /// The name on the wire.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// How it is shown.
    pub tone: Tone,
}

/// One way out of a derived status as data.
#[derive(Debug, Clone, Serialize)]
pub struct ExitView {
    /// The status before.
    pub from: &'static str,
    /// The status after.
    pub to: &'static str,
    /// What must happen.
    pub when: &'static str,
    /// The person or program that makes it happen.
    pub by: Owner,
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
        derived: derived(),
        plans: Kind::ALL.iter().map(plan).collect(),
        gpu_node_runs: mapping::FITS,
        gpu_node_maas: maas::EXPECTATIONS,
    }
}

/// Every lifecycle that is a table: its name, and the module with its `TABLE` and its `State`.
const TABLES: &[Listed] = tables! {
    "device-update" => device::update,
    "node" => node,
    "gpu-node" => gpu_node,
    "run" => run,
    "satellite" => satellite,
};

/// Every status that is derived and served.
#[must_use]
pub fn derived() -> Vec<Derived> {
    vec![
        of_rules::<cluster::Status>("cluster", cluster::RECONCILED, cluster::RULES),
        of_rules::<device::fleet::State>("fleet", device::fleet::ROLLOUT, device::fleet::RULES),
    ]
}

fn of_rules<S: Toned>(name: &'static str, about: &'static str, rules: &[Rule]) -> Derived {
    let status =
        |&status: &S| StatusView { name: status.as_str(), meaning: status.meaning(), tone: status.tone() };
    let exit = |rule: &Rule| ExitView { from: rule.status, to: rule.to, when: rule.when, by: rule.by };
    Derived {
        name,
        about,
        statuses: S::ALL.iter().map(status).collect(),
        exits: rules.iter().filter(|rule| rule.about == about).map(exit).collect(),
    }
}

impl Lifecycle {
    /// The state of this name.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<&StateView> {
        self.states.iter().find(|state| state.name == name)
    }

    /// Returns whether moves lead from one state to another; every state leads to itself.
    #[must_use]
    pub fn leads(&self, from: &str, to: &str) -> bool {
        let mut reached = vec![from];
        let mut at = 0;
        while let Some(state) = reached.get(at).copied() {
            if state == to {
                return true;
            }
            let next = self.moves.iter().filter(|row| row.from == state).map(|row| row.to);
            let new: Vec<_> = next.filter(|state| !reached.contains(state)).collect();
            reached.extend(new);
            at += 1;
        }
        false
    }
}

/// Every lifecycle that is a table.
#[must_use]
pub fn all() -> Vec<Lifecycle> {
    TABLES.iter().map(|listed| (listed.view)()).collect()
}

/// Returns the tone of a state by the names of its lifecycle and of itself; nothing for a lifecycle that is no table.
pub(crate) fn tone(lifecycle: &str, state: &str) -> Option<Tone> {
    let listed = TABLES.iter().find(|listed| listed.name == lifecycle)?;
    Some((listed.tone)(state))
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
        place: S::PLACES.iter().find(|place| place.state == state).map(|place| (place.column, place.row)),
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

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn a_state_leads_where_its_moves_lead() {
        let tables = all();
        let node = tables.iter().find(|table| table.name == "node").unwrap();
        for (from, to, expected) in [
            ("discovered", "active", true),
            ("install_failed", "active", true),
            ("active", "active", true),
            ("retired", "active", false),
            ("active", "discovered", false),
            ("nothing", "active", false),
        ] {
            assert_eq!(node.leads(from, to), expected, "{from} to {to}");
        }
        assert!(node.state("active").is_some_and(|state| state.service) && node.state("x").is_none());
    }
}
