//! The machinery against a real store, with a clock that the tests turn.

mod astray;
mod excuses;
mod guard;
mod memory;
mod nodes;
mod replicas;
mod site;
