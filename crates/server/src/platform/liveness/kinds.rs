//! The facts that liveness needs of a kind that beats.

use std::pin::Pin;

use jiff::Timestamp;
use wardroom_core::liveness::Interval;
use wardroom_store::Resource;

use super::{Settings, stale::Target, unwatched::Back};
use crate::platform::{app::App, http::error::Error};

/// A kind that beats.
#[derive(Debug, Clone, Copy)]
pub struct Beating {
    /// The kind.
    pub(crate) kind: &'static str,
    /// The states in which a member has to beat.
    pub(crate) states: &'static [&'static str],
    /// The event of a member that falls silent.
    pub(crate) event: &'static str,
    /// The interval that a member was given.
    pub(crate) given: fn(&Resource, &Settings) -> Option<Interval>,
    /// When a member was last heard that came to such a state; nothing for one that came by being heard.
    pub(crate) heard: Ask,
    /// The states without a way back.
    pub(crate) ends: &'static [&'static str],
    /// Where members that fell silent go.
    pub(crate) targets: Targets,
    /// The states of members that were marked and that a beat alone brings back.
    pub(crate) marked: &'static [&'static str],
    /// Where such a member goes that was heard nevertheless.
    pub(crate) back: fn(&Resource) -> Result<Option<Back>, Error>,
}

impl Beating {
    /// Whether a member is in a state in which it has to beat.
    pub(crate) fn must_beat(&self, member: &Resource) -> bool {
        !member.content.deleted && self.states.contains(&member.content.state.as_str())
    }
}

/// A kind's record of when a member was heard.
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
