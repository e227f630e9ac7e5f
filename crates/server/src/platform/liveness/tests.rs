//! The machinery against a real store, with a clock that the tests turn.

mod excused;
mod excuses;
mod guard;
mod memory;
mod nodes;
mod overdue;
mod replicas;
mod site;
mod unwatched;
