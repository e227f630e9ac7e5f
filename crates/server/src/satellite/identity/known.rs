//! One satellite as its requests are judged: which names are its own, which credentials count, what it is answered.

use std::sync::Arc;

use jiff::Timestamp;
use wardroom_core::{
    liveness::Interval,
    satellite::{Credential, Presented, Reply, State, heartbeat_reply},
};
use wardroom_store::Resource;

use super::{Moment, UNKNOWN};
use crate::{
    error::Error,
    satellite::{
        document::{self, Document, Refresh},
        secret::{self, Hash},
    },
    secret::same,
};

/// A satellite as far as its requests are judged by it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) state: State,
    pub(crate) given: Option<Interval>,
    pub(crate) zone: Option<Box<str>>,
    pub(crate) refresh: Option<Refresh>,
    svid_after: Option<Timestamp>,
    /// Whether an older credential is still let in until the newest is used.
    pub(crate) overlaps: bool,
    pub(super) version: i64,
    pub(super) deleted: bool,
    current: Option<Hash>,
    previous: Option<Hash>,
    /// The names it shows itself by: the one we would give it, its robot's, its SPIFFE ID.
    pub(super) handles: Vec<Box<str>>,
    /// Whether it has a robot in a registry, which has the say about its name.
    has_robot: bool,
    pub(super) read_at: Moment,
}

/// What a caller shows to be who it says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shown {
    /// A secret, hashed.
    Secret(Hash),
    /// A certificate, which the listener has checked, and when it begins.
    Svid(Timestamp),
}

/// Which credential a satellite showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The newest.
    Current,
    /// The one before.
    Previous,
}

/// A satellite that may be answered, as it is now.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    pub(crate) known: Arc<Known>,
    pub(crate) which: Which,
    pub(crate) reply: Reply,
}

impl Known {
    pub(super) fn of(resource: &Resource, read_at: Moment, zone: &str) -> Result<Self, Error> {
        let Document { credential, refresh, heartbeat_interval, robot, spiffe_id, svid_after, .. } =
            Document::of(resource)?;
        let content = &resource.content;
        let mut handles = vec![handle_of(&content.name).into_boxed_str()];
        let has_robot = robot.is_some();
        // The robot's first, because that is how it is called.
        handles.splice(0..0, robot.map(|robot| robot.name.into_boxed_str()));
        handles.dedup();
        handles.extend(spiffe_id.map(String::into_boxed_str));
        let previous = credential.as_ref().and_then(|credential| credential.previous_hash.as_deref());
        let previous = previous.and_then(secret::hash_of);
        Ok(Self {
            id: content.id.as_str().into(),
            name: content.name.as_str().into(),
            state: document::state(resource)?,
            given: heartbeat_interval.and_then(|text| Interval::parse("", &text).ok()),
            zone: content.labels.get(zone).map(|zone| zone.as_str().into()),
            refresh,
            svid_after,
            overlaps: previous.is_some(),
            version: resource.version,
            deleted: content.deleted,
            current: credential.as_ref().and_then(|credential| secret::hash_of(&credential.hash)),
            previous,
            handles,
            has_robot,
            read_at,
        })
    }

    /// Whether a name stays with this satellite when another one is found by it. Their ids say nothing about which came
    /// first: they begin with the time, and clocks go back.
    pub(super) fn goes_before(&self, other: &Self, handle: &str) -> bool {
        self.claim(handle) > other.claim(handle)
    }

    /// How much a name is this satellite's: a registry may call its robot as we would call another one.
    fn claim(&self, handle: &str) -> Claim {
        let is_robots = self.has_robot && *handle == *self.handles[0];
        match self.has_robot {
            _ if self.deleted => Claim::Gone,
            _ if is_robots || handle.starts_with("spiffe://") => Claim::Named,
            false => Claim::Unnamed,
            true => Claim::Renamed,
        }
    }

    /// Whether this is a credential of it, whatever it is answered.
    pub(super) fn has(&self, shown: Shown, now: Timestamp) -> bool {
        self.accepts(shown, now).is_some()
    }

    /// Which credential this is, if it is one.
    fn accepts(&self, shown: Shown, now: Timestamp) -> Option<Which> {
        let hash = match shown {
            Shown::Secret(hash) => hash,
            Shown::Svid(from) => {
                let is_void = self.deleted || crate::spiffe::is_void(from, self.svid_after);
                return (!is_void).then_some(Which::Current);
            }
        };
        let is = |known: Option<Hash>| known.is_some_and(|known| same(&known, &hash));
        // Both are compared, so that the time it takes tells nothing.
        let (current, previous) = (is(self.current), is(self.previous));
        let in_time = self.refresh.is_some_and(|refresh| now < refresh.until);
        // One that was revoked in that time is told so, whichever it has.
        let in_time = in_time || self.state == State::Revoked;
        match (current, previous) {
            _ if self.deleted => None,
            (true, _) => Some(Which::Current),
            (false, true) if in_time => Some(Which::Previous),
            (false, _) => None,
        }
    }

    /// What the document's table answers, and by which credential.
    pub(super) fn standing(self: &Arc<Self>, shown: Shown, now: Timestamp) -> Result<Standing, Error> {
        let which = self.accepts(shown, now).ok_or(UNKNOWN)?;
        let refreshing = self.refresh.is_some_and(|refresh| now < refresh.until);
        let credential = if refreshing { Credential::RefreshRequired } else { Credential::InForce };
        let reply = heartbeat_reply(Presented { state: self.state, deleted: self.deleted, credential });
        match reply {
            Reply::Ok | Reply::BackOnline | Reply::Refresh => {
                Ok(Standing { known: Arc::clone(self), which, reply })
            }
            Reply::Unauthorized => Err(UNKNOWN),
            Reply::Forbidden => Err(Error::Revoked),
        }
    }
}

/// How much a name is a satellite's, from the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// It is deleted.
    Gone,
    /// It would be called so, had its registry not called it otherwise.
    Renamed,
    /// It would be called so, and no registry has called it anything.
    Unnamed,
    /// It is called so.
    Named,
}

/// The user name of a satellite where no registry gives it another.
pub(crate) fn handle_of(name: &str) -> String {
    format!("robot${name}")
}
