//! Satellite: an edge registry, as far as the control plane can observe it.
//!
//! Deletion is a flag beside the state, not a state: a deleted satellite keeps the state it had, answers
//! 401 to everything, and never comes back.

use Event::*;
use State::*;
use jiff::SignedDuration;

use crate::{
    action::{Call, Fixed},
    names::names,
    table::{self, Owner, Place, Table, at, row},
    tone::tones,
};

/// The moves of a satellite.
#[rustfmt::skip]
pub const TABLE: Table<State, Event> = Table(&[
    //  from     on                to       by
    row(Pending, Registered,       Online,  Owner::Agent),
    row(Pending, Refreshed,        Online,  Owner::Agent),
    row(Pending, Revoke,           Revoked, Owner::Admin),
    row(Online,  HeartbeatsMissed, Stale,   Owner::Sweep),
    row(Online,  Revoke,           Revoked, Owner::Admin),
    row(Stale,   Heartbeat,        Online,  Owner::Agent),
    row(Stale,   Revoke,           Revoked, Owner::Admin),
    row(Revoked, Reenable,         Pending, Owner::Admin),
]);

names! {
    /// The control plane's knowledge of a satellite; it leaves out what cannot be observed.
    pub enum State {
        /// Created or re-enabled; it still has to register, or to exchange its credential.
        Pending = "pending",
        /// Registered and counted as alive: its heartbeats arrive, or are still waited for.
        Online = "online",
        /// Registered, but it missed too many heartbeats in a row.
        Stale = "stale",
        /// Blocked by a person; each of its requests is refused until it is re-enabled.
        Revoked = "revoked",
    }
}

names! {
    /// What moves a satellite.
    pub enum Event {
        /// The satellite registers, which counts as its first heartbeat.
        Registered = "registered",
        /// The re-enabled satellite exchanges its credential, or beats with the one that it may keep.
        Refreshed = "refreshed",
        /// The satellite beats again.
        Heartbeat = "heartbeat",
        /// The satellite misses too many heartbeats in a row.
        HeartbeatsMissed = "heartbeats_missed",
        /// A person blocks the satellite.
        Revoke = "revoke",
        /// A person lets the satellite come back.
        Reenable = "reenable",
    }
}

/// Gives a satellite a new token, for when nothing else lets it in.
pub const REISSUE: Call = REENABLE
    .body(&[("mode", Fixed::Text("reissue"))])
    .when("give the new token to the satellite; the old one is no longer valid");

/// Reads a satellite.
pub const READ: Call = Call::read("satellite", "/api/satellites/{name}");

const REVOKE: Call = Call::new("satellite", "revoke", "POST", "/api/satellites/{name}/revoke");
const REENABLE: Call = Call::new("satellite", "reenable", "POST", "/api/satellites/{name}/reenable").when(
    "mode `refresh` when the old credential may be trusted once more, `reissue` (a new token) when it leaked or the host is lost, `keep` for clients that cannot refresh",
);

tones! {
    State {
        Good: Online,
        Wait: Pending,
        Warn: Stale,
        Held: Revoked,
    }
}

impl table::State for State {
    const INITIAL: &'static [Self] = &[Pending];
    const SERVICE: &'static [Self] = &[Online];
    const TERMINAL: &'static [Self] = &[];
    #[rustfmt::skip]
    const PLACES: &'static [Place<Self>] = &[
        at(Pending, 0.0, 0.0),
        at(Online,  1.0, 0.0),
        at(Stale,   2.0, 0.0),
        at(Revoked, 1.0, 1.0),
    ];

    fn patience(self) -> Option<SignedDuration> {
        match self {
            // The registration token lives for a day: after that the registration cannot be completed.
            Self::Pending => Some(SignedDuration::from_hours(24)),
            Self::Online | Self::Stale | Self::Revoked => None,
        }
    }

    fn remedy(self) -> Option<Call> {
        match self {
            Self::Pending => Some(REISSUE),
            Self::Online | Self::Stale | Self::Revoked => None,
        }
    }
}

impl table::Event for Event {
    fn call(self) -> Option<Call> {
        match self {
            Registered | Refreshed | Heartbeat | HeartbeatsMissed => None,
            Revoke => Some(REVOKE),
            Reenable => Some(REENABLE),
        }
    }
}

/// Why a pending satellite is pending: a new one has no credential yet, a re-enabled one must refresh it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// The credential it presents is the one in force.
    InForce,
    /// It was re-enabled and has to fetch a new credential with the old one, once.
    RefreshRequired,
}

/// The reply to a satellite that presents a known credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// 200.
    Ok,
    /// 200, and the satellite is online again.
    BackOnline,
    /// 200 with the directive to call the refresh route.
    Refresh,
    /// 401: the credentials are void and nothing brings them back.
    Unauthorized,
    /// 403: blocked by an administrator; back off.
    Forbidden,
}

impl Reply {
    /// The status code of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Ok | Self::BackOnline | Self::Refresh => 200,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
        }
    }
}

/// A satellite as far as the answer to its heartbeat depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presented {
    /// The stored state.
    pub state: State,
    /// The soft-delete flag.
    pub deleted: bool,
    /// Whether the credential it presents has to be refreshed.
    pub credential: Credential,
}

/// Returns the reply to a heartbeat; deletion decides first, then the state.
///
/// A pending satellite that was never registered has no credential to beat with: a caller that presents one
/// for it gets 401.
#[must_use]
pub const fn heartbeat_reply(satellite: Presented) -> Reply {
    if satellite.deleted {
        return Reply::Unauthorized;
    }
    match (satellite.state, satellite.credential) {
        (Online, _) => Reply::Ok,
        (Stale, _) => Reply::BackOnline,
        (Revoked, _) => Reply::Forbidden,
        (Pending, Credential::RefreshRequired) => Reply::Refresh,
        (Pending, Credential::InForce) => Reply::Unauthorized,
    }
}
