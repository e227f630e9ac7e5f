//! The kinds that beat, one row each.

use std::pin::Pin;

use wardroom_core::{gpu_node, liveness::Interval, satellite};
use wardroom_store::Resource;

use super::{
    Settings,
    stale::{self, Target},
};
use crate::{app::App, error::Error};

/// A kind that beats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beating {
    /// The kind.
    pub(crate) kind: &'static str,
    /// The states in which a member has to beat.
    pub(crate) states: &'static [&'static str],
    /// What happens to a member that falls silent.
    pub(crate) event: &'static str,
    /// The interval that a member was given.
    pub(crate) given: fn(&Resource, &Settings) -> Option<Interval>,
    /// The states that nobody comes back from.
    pub(crate) ends: &'static [&'static str],
    /// Where members that fell silent go.
    pub(crate) targets: Targets,
}

/// Where each of these goes, in their order; nothing for one that the next sweep judges again.
pub(crate) type Targets =
    for<'a> fn(
        &'a App,
        &'a [Resource],
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Option<Target>>, Error>> + Send + 'a>>;

/// Every kind that beats.
pub(crate) const BEATING: &[Beating] = &[
    Beating {
        kind: "satellite",
        states: &[satellite::State::Online.as_str()],
        event: satellite::Event::HeartbeatsMissed.as_str(),
        given: |member, _| stale::given_interval(member),
        ends: &[],
        targets: |_, members| Box::pin(async { crate::satellite::stale::targets(members) }),
    },
    Beating {
        kind: wardroom_workflow::NODE,
        states: &[gpu_node::State::Active.as_str()],
        event: gpu_node::Event::HeartbeatsMissed.as_str(),
        // Agents are told this one, and beat by it.
        given: |_, settings| Some(settings.interval),
        ends: &[gpu_node::State::Deleted.as_str()],
        targets: |app, members| Box::pin(crate::gpu_node::offline::targets(app, members)),
    },
];
