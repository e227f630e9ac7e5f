//! The kinds that beat, one row each.

use std::pin::Pin;

use wardroom_core::{gpu_node, satellite};
use wardroom_store::{Fence, Resource};

use super::stale;
use crate::{app::App, error::Error};

/// A kind that beats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beating {
    /// The kind.
    pub(crate) kind: &'static str,
    /// The states in which a member has to beat.
    pub(crate) states: &'static [&'static str],
    /// The interval that a member was given.
    pub(crate) given: fn(&Resource) -> Option<wardroom_core::liveness::Interval>,
    /// Marks members that fell silent; what it answers is no longer watched.
    pub(crate) go_stale: GoStale,
}

/// Marks members and says who need not be watched any more: those that were marked, and those that are gone.
/// Who is left out is judged again by the next sweep.
pub(crate) type GoStale = for<'a> fn(
    &'a App,
    Vec<String>,
    Option<Fence>,
)
    -> Pin<Box<dyn Future<Output = Result<Vec<String>, Error>> + Send + 'a>>;

/// Every kind that beats.
pub(crate) const BEATING: &[Beating] = &[
    Beating {
        kind: "satellite",
        states: &[satellite::State::Online.as_str()],
        given: stale::given_interval,
        go_stale: |app, ids, fence| Box::pin(crate::satellite::stale::go_stale(app, ids, fence)),
    },
    Beating {
        kind: wardroom_workflow::NODE,
        states: &[gpu_node::State::Active.as_str()],
        given: |_| None,
        go_stale: |app, ids, fence| Box::pin(crate::gpu_node::offline::go_offline(app, ids, fence)),
    },
];
