//! The cache entry of one satellite: its names, its valid credentials, and the result of a request.

use std::sync::Arc;

use jiff::Timestamp;
use wardroom_core::{
    liveness::Interval,
    satellite::{Credential, Presented, Reply, State, heartbeat_reply},
};
use wardroom_store::Resource;

use super::{UNKNOWN, Zones};
use crate::{
    kinds::satellite::{
        document::{self, Document, KIND, Refresh},
        secret::{self, Hash},
    },
    platform::{
        app::App,
        clock::Moment,
        http::error::Error,
        identity::{
            cache::{Cached, Record},
            secret::same,
            spiffe,
        },
    },
};

/// The prefix of user names, unless a registry chooses another.
const HANDLE: &str = "robot$";

/// The part of a satellite that requests are judged by. There may be a million, so rare fields are stored
/// separately.
#[derive(Debug)]
pub(crate) struct Known {
    record: Record,
    pub(crate) state: State,
    pub(crate) given: Option<Interval>,
    pub(crate) zone: Option<Arc<str>>,
    current: Option<Hash>,
    /// Our user name for it, which ends with its name.
    handle: Box<str>,
    rare: Option<Box<Rare>>,
}

/// Fields that few satellites have.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rare {
    /// The name of its robot, as the registry chose it.
    robot: Option<Box<str>>,
    spiffe_id: Option<Box<str>>,
    refresh: Option<Refresh>,
    svid_after: Option<Timestamp>,
    previous: Option<Hash>,
}

/// The proof of identity that a caller shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shown {
    Secret(Hash),
    /// A certificate, which the listener has checked, and when it begins.
    Svid(Timestamp),
}

/// Which credential a satellite showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
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
    pub(crate) fn id(&self) -> String {
        self.record.id.to_string()
    }

    pub(crate) fn name(&self) -> &str {
        &self.handle[HANDLE.len()..]
    }

    #[cfg(test)]
    pub(super) fn version(&self) -> i64 {
        self.record.version
    }

    /// Whether an older credential is still let in until the newest is used.
    pub(crate) fn overlaps(&self) -> bool {
        self.previous().is_some()
    }

    pub(crate) fn refresh(&self) -> Option<Refresh> {
        self.rare.as_ref().and_then(|rare| rare.refresh)
    }

    fn previous(&self) -> Option<Hash> {
        self.rare.as_ref().and_then(|rare| rare.previous)
    }

    fn robot(&self) -> Option<&str> {
        self.rare.as_ref().and_then(|rare| rare.robot.as_deref())
    }

    /// How strong this satellite's claim to a user name is: a registry may choose the name that we would give
    /// to another one.
    fn claim(&self, handle: &str) -> Claim {
        let robot = self.robot();
        match robot {
            _ if self.record.deleted => Claim::Gone,
            _ if robot == Some(handle) || handle.starts_with("spiffe://") => Claim::Named,
            None => Claim::Unnamed,
            Some(_) => Claim::Renamed,
        }
    }

    /// Returns which of its credentials is shown, if any.
    fn accepts(&self, shown: Shown, now: Timestamp) -> Option<Which> {
        let hash = match shown {
            Shown::Secret(hash) => hash,
            Shown::Svid(from) => {
                let after = self.rare.as_ref().and_then(|rare| rare.svid_after);
                let is_void = self.record.deleted || spiffe::is_void(from, after);
                return (!is_void).then_some(Which::Current);
            }
        };
        let is = |known: Option<Hash>| known.is_some_and(|known| same(&known, &hash));
        // Compare both, in constant time.
        let (current, previous) = (is(self.current), is(self.previous()));
        let in_time = self.refresh().is_some_and(|refresh| now < refresh.until);
        // A satellite that was revoked in that time is recognised by either credential.
        let in_time = in_time || self.state == State::Revoked;
        match (current, previous) {
            _ if self.record.deleted => None,
            (true, _) => Some(Which::Current),
            (false, true) if in_time => Some(Which::Previous),
            (false, _) => None,
        }
    }
}

impl Cached for Known {
    const KIND: &'static str = KIND;
    const MOST: Option<usize> = None;
    const UNKNOWN: Error = UNKNOWN;
    type Setup = Zones;
    type Shown = Shown;
    type Standing = Standing;

    fn read(zones: &Zones, resource: &Resource, read_at: Moment) -> Result<Self, Error> {
        let Document { credential, refresh, heartbeat_interval, robot, spiffe_id, svid_after, .. } =
            Document::of(resource)?;
        let previous = credential.as_ref().and_then(|credential| credential.previous_hash.as_deref());
        let rare = Rare {
            robot: robot.map(|robot| robot.name.into_boxed_str()),
            spiffe_id: spiffe_id.map(String::into_boxed_str),
            refresh,
            svid_after,
            previous: previous.and_then(secret::hash_of),
        };
        Ok(Self {
            record: Record::of(resource, read_at),
            state: document::state(resource)?,
            given: heartbeat_interval.and_then(|text| Interval::parse("", &text).ok()),
            zone: zones.zone_of(resource),
            current: credential.as_ref().and_then(|credential| secret::hash_of(&credential.hash)),
            handle: handle_of(&resource.content.name).into_boxed_str(),
            rare: (rare != Rare::default()).then(|| Box::new(rare)),
        })
    }

    async fn look_up(app: &App, name: &str) -> Result<Option<Resource>, Error> {
        super::look_up(app, name).await
    }

    fn record(&self) -> &Record {
        &self.record
    }

    /// The name of its robot first, which it uses.
    fn known_as(&self, number: u8) -> Option<&str> {
        let robot = self.robot().filter(|robot| **robot != *self.handle);
        let spiffe_id = self.rare.as_ref().and_then(|rare| rare.spiffe_id.as_deref());
        robot.into_iter().chain([&*self.handle]).chain(spiffe_id).nth(usize::from(number))
    }

    /// Ids do not tell which of two satellites is newer: they begin with the time, and clocks may go back.
    fn goes_before(&self, other: &Self, name: &str) -> bool {
        self.claim(name) > other.claim(name)
    }

    fn has(&self, shown: Shown, now: Timestamp) -> bool {
        self.accepts(shown, now).is_some()
    }

    /// Judges a request by the document's table.
    fn judge(self: &Arc<Self>, shown: Shown, now: Timestamp) -> Result<Standing, Error> {
        let which = self.accepts(shown, now).ok_or(UNKNOWN)?;
        let refreshing = self.refresh().is_some_and(|refresh| now < refresh.until);
        let credential = if refreshing { Credential::RefreshRequired } else { Credential::InForce };
        let presented = Presented { state: self.state, deleted: self.record.deleted, credential };
        let reply = heartbeat_reply(presented);
        match reply {
            Reply::Ok | Reply::BackOnline | Reply::Refresh => {
                Ok(Standing { known: Arc::clone(self), which, reply })
            }
            Reply::Unauthorized => Err(UNKNOWN),
            Reply::Forbidden => Err(Error::Revoked),
        }
    }
}

/// The strength of a claim to a user name, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Gone,
    /// Our name for it, but its registry chose another.
    Renamed,
    /// Our name for it, and it has no robot.
    Unnamed,
    /// It is called so.
    Named,
}

/// Our user name for a satellite.
pub(crate) fn handle_of(name: &str) -> String {
    format!("{HANDLE}{name}")
}
