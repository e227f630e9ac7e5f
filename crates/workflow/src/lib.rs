//! Runs stage plans durably: leases, retries, undo and operator actions.
//!
//! A run works on a [`Subject`], a resource with a lifecycle of its own. The run is a resource too: its state is
//! [`wardroom_core::run::State`], its document a typed [`Record`], its `due_at` the time of the next look. Any server may
//! take any run: it claims the lease, executes the stage, and commits the result together with the subject's move.
//!
//! What must stay true:
//! - The intent to execute a stage is committed before the stage is executed. What follows after a crash is
//!   another attempt that observes first, never a blind repeat.
//! - Every write of a worker is conditional on the run's version and carries the fence of its lease: a worker that
//!   was paused and wakes up late writes nothing.
//! - A lease that expires changes nothing, except that another server may take the run.
//! - The subject moves in the commit that moves the run, and every committed pair of states is sound.
//! - A move that carries out a person's request names that person in the history.
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
mod subject;
mod undo;
mod worker;

pub use act::{Actor, Adoption, Answer, Ask, Did, Problem, act, facts};
pub use breaker::Breaker;
pub use engine::{Engine, Settings};
pub use limits::{Limits, Rate, Turn};
pub use record::{Execution, Failure, Frozen, Hold, Order, Plan, Progress, Record, Run, Waiting};
pub use slots::Slots;
pub use stages::{Attempt, Budget, Data, Lost, Outcome, Stages};
pub use subject::{Subject, SubjectRef};
pub use worker::jitter;

/// The kind of a run in the store.
pub const RUN: &str = "run";
