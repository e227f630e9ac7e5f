//! The kinds that beat, one row each.

use std::pin::Pin;

use jiff::Timestamp;
use wardroom_core::{gpu_node, liveness::Interval, satellite};
use wardroom_store::Resource;

use super::{
    Settings,
    astray::Back,
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
    /// When a member was last heard that came to such a state; nothing for one that came by being heard.
    pub(crate) heard: Ask,
    /// The states that nobody comes back from.
    pub(crate) ends: &'static [&'static str],
    /// Where members that fell silent go.
    pub(crate) targets: Targets,
    /// Where a member goes from there that was heard nevertheless, if a beat is all that it takes.
    pub(crate) back: fn(&Resource) -> Result<Option<Back>, Error>,
}

/// What a kind knows of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastHeard {
    /// When it was last heard.
    pub(crate) at: Timestamp,
    /// How often it says that it beats.
    pub(crate) every: Option<Interval>,
}

/// Asks a kind for it.
pub(crate) type Ask =
    for<'a> fn(
        &'a App,
        &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<LastHeard>, Error>> + Send + 'a>>;

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
        heard: |_, _| Box::pin(async { Ok(None) }),
        ends: &[],
        targets: |_, members| Box::pin(async { crate::satellite::stale::targets(members) }),
        back: crate::satellite::stale::back,
    },
    Beating {
        kind: wardroom_workflow::NODE,
        states: &[gpu_node::State::Active.as_str()],
        event: gpu_node::Event::HeartbeatsMissed.as_str(),
        // Agents are told this one, and beat by it.
        given: |_, settings| Some(settings.interval),
        // Runs and people bring a node there, a while after its agent proved that it is well.
        heard: |app, id| Box::pin(crate::gpu_node::proof::heard(app, id)),
        ends: &[gpu_node::State::Deleted.as_str()],
        targets: |app, members| Box::pin(crate::gpu_node::offline::targets(app, members)),
        // A beat is not all: its checks have to say that the node is well, and no run may have taken it on. The next one
        // reads the record, whatever the feed has told, and comes soon: agents beat as often as they are told.
        back: |_| Ok(None),
    },
];
