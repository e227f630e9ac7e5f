//! Runs stage plans durably: leases, retries, undo and operator actions.
//!
//! A run is a resource like any other. Its state is [`wardroom_core::run::State`], its document a typed [`Record`],
//! its `due_at` the time at which somebody has to look at it again. Any server may take any run: it claims the
//! lease, executes the stage, and commits what came of it together with what that does to the node.
//!
//! What must stay true:
//! - The intent to execute a stage is committed before the stage is executed. What follows after a crash is
//!   another attempt that observes first, never a blind repeat.
//! - Every write of a worker is conditional on the run's version and carries the fence of its lease: a worker that
//!   was paused and wakes up late writes nothing.
//! - A lease that expires changes nothing but who may take the run.
//! - The node moves in the commit that moves the run, and every committed pair passes the core's mapping.
//! - Waiting costs a row and a due time, not a task.

mod act;
mod begin;
mod breaker;
mod commit;
mod conclude;
mod engine;
mod limits;
mod presence;
mod record;
mod slots;
mod stages;
mod step;
mod undo;
mod worker;

pub use act::{Actor, Adoption, Answer, Ask, Did, Problem, act, facts};
pub use breaker::Breaker;
pub use engine::{Engine, Settings};
pub use limits::{Limits, Rate, Turn};
pub use record::{AtWork, Failure, Frozen, Order, Record, Run, Waiting};
pub use slots::Slots;
pub use stages::{Attempt, Budget, Data, Lost, Outcome, Stages};

/// The kind of a run in the store.
pub const RUN: &str = "run";
/// The kind of the nodes that runs work on.
pub const NODE: &str = "gpu-node";
