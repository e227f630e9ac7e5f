//! The five lifecycles of Wardroom, as tables and derivations.
mod invalid;
mod names;
pub mod satellite;
pub mod table;

pub use invalid::Invalid;
pub use names::{Named, UnknownName};
