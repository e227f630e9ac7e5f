//! The machinery against a real store, with a clock that the tests turn.

mod guard;
mod memory;
mod nodes;
mod replicas;
mod site;
