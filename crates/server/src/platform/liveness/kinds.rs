//! The description of a kind with heartbeats, for liveness.

use std::pin::Pin;

use jiff::Timestamp;
use wardroom_core::liveness::Interval;
use wardroom_store::Resource;

use super::{Settings, stale::Target, unwatched::Back};
use crate::platform::{app::App, http::error::Error};

/// A kind that beats.
#[derive(Debug, Clone, Copy)]
pub struct Beating {
    pub(crate) kind: &'static str,
    /// The states in which a member has to beat.
    pub(crate) states: &'static [&'static str],
    /// The event of a member that falls silent.
    pub(crate) event: &'static str,
    pub(crate) given: fn(&Resource, &Settings) -> Option<Interval>,
    /// When a member that came to such a state was last heard; none if a beat brought it there.
    pub(crate) heard: Ask,
    /// The states without a way back.
    pub(crate) ends: &'static [&'static str],
    /// The states that silent members move to.
    pub(crate) targets: Targets,
    /// The states from which a beat alone brings a marked member back.
    pub(crate) marked: &'static [&'static str],
    /// The state that a beat brings such a member back to.
    pub(crate) back: fn(&Resource, Timestamp) -> Result<Option<Back>, Error>,
}

impl Beating {
    /// Whether a member is in a state in which it has to beat.
    pub(crate) fn must_beat(&self, member: &Resource) -> bool {
        !member.content.deleted && self.states.contains(&member.content.state.as_str())
    }
}

/// When a kind's own records say that a member was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastHeard {
    /// When it was last heard.
    pub(crate) at: Timestamp,
    /// The interval that it reports.
    pub(crate) every: Option<Interval>,
}

/// Asks a kind for the last time that a member was heard.
pub(crate) type Ask =
    for<'a> fn(
        &'a App,
        &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<LastHeard>, Error>> + Send + 'a>>;

/// Returns the target of each member, in order; none for a member that the next sweep judges again.
pub(crate) type Targets =
    for<'a> fn(
        &'a App,
        &'a [Resource],
    ) -> Pin<Box<dyn Future<Output = Result<Vec<Option<Target>>, Error>> + Send + 'a>>;
