//! Tables: a stored state is moved by events, one row per legal move.
//!
//! Everything that needs the possible moves reads the rows: the writer, the answer to an illegal request,
//! `why`, the documentation, the diagram and the console's buttons. Nothing is true only in code beside a
//! table: "any state" is written out, a row per state.

use jiff::SignedDuration;

use crate::{Named, action::Call, names::names};

/// One legal move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<S, E> {
    /// The state the resource is in.
    pub from: S,
    /// What happens.
    pub on: E,
    /// The state it is in afterwards.
    pub to: S,
    /// The person or program that makes it happen in the normal course.
    pub by: Owner,
    /// Why it exists, for a move that the design document does not have.
    pub reason: Option<&'static str>,
}

impl<S: Copy, E: Copy> Row<S, E> {
    /// The same row, with the reason why it exists.
    #[must_use]
    pub const fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

/// Writes a row in the order it is read: from, event, to, owner.
pub const fn row<S, E>(from: S, on: E, to: S, by: Owner) -> Row<S, E> {
    Row { from, on, to, by, reason: None }
}

/// The legal moves of one lifecycle. The first row of a state is the move to prefer.
#[derive(Debug, Clone, Copy)]
pub struct Table<S: 'static, E: 'static>(pub &'static [Row<S, E>]);

impl<S: State, E: Event> Table<S, E> {
    /// The move that this event makes from this state, if there is one.
    pub fn find(&self, from: S, on: E) -> Option<&'static Row<S, E>> {
        self.0.iter().find(|row| row.from == from && row.on == on)
    }

    /// The preferred move between two states, for requests that name the state they want.
    pub fn between(&self, from: S, to: S) -> Option<&'static Row<S, E>> {
        self.0.iter().find(|row| row.from == from && row.to == to)
    }

    /// Every move out of a state, the preferred one first.
    pub fn moves_from(&self, from: S) -> impl Iterator<Item = &'static Row<S, E>> {
        self.0.iter().filter(move |row| row.from == from)
    }
}

/// The place of a state in the diagram of its lifecycle, on a grid that begins at the top left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place<S> {
    /// The state.
    pub state: S,
    /// The column; between two columns with a fraction.
    pub column: f64,
    /// The row; between two rows with a fraction.
    pub row: f64,
}

/// Writes a place in the order it is read: state, column, row.
pub const fn at<S>(state: S, column: f64, row: f64) -> Place<S> {
    Place { state, column, row }
}

/// A state of a table.
pub trait State: Named {
    /// Where a resource may start.
    const INITIAL: &'static [Self];

    /// Where it is when everything is well; every state has a way there, or the lifecycle has a dead end.
    const SERVICE: &'static [Self];

    /// Where it ends; no row leaves such a state.
    const TERMINAL: &'static [Self];

    /// Where each state stands in the diagram.
    const PLACES: &'static [Place<Self>];

    /// How long work in progress is expected to take before `why` calls it overdue; nothing for states to rest in.
    fn patience(self) -> Option<SignedDuration>;

    /// The call that gets stuck work going again without moving the state, if there is one.
    fn remedy(self) -> Option<Call> {
        None
    }
}

/// An event of a table; its meaning says what must happen for it to occur.
pub trait Event: Named {
    /// The call by which a person causes it; none for events of machines.
    fn call(self) -> Option<Call>;
}

names! {
    /// The person or program that makes a move happen in the normal course.
    pub enum Owner {
        /// A person, or automation with a person's rights, through the API.
        Admin = "admin",
        /// The machine being installed, through its install reports.
        NodeReport = "node_report",
        /// The agent on the member, by registering, beating or reporting.
        Agent = "agent",
        /// An adapter, by its status reports.
        Adapter = "adapter",
        /// A timer of the server that notices silence or lost patience.
        Sweep = "sweep",
        /// The reconciler, which compares our record with what is observed.
        Reconciler = "reconciler",
        /// The workflow engine, at the end of a stage or of a run.
        Workflow = "workflow",
        /// The server itself, following a setting.
        System = "system",
    }
}

names! {
    /// What a caller may do; every call of the API names the least role that may make it.
    pub enum Role {
        /// Reads everything but secrets.
        Viewer = "viewer",
        /// Moves resources and recovers what is stuck.
        Operator = "operator",
        /// Everything, including tokens and settings.
        Admin = "admin",
        /// Approves new members and nothing else.
        Installer = "installer",
        /// Reports status and nothing else.
        Adapter = "adapter",
        /// Reads history and verifies it.
        Auditor = "auditor",
    }
}
