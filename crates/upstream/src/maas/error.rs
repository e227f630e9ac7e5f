//! Failures of calls to MAAS, by the caller's next step.

use std::{collections::BTreeMap, time::Duration};

use super::Effect;

/// A call that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {class}")]
pub struct Error {
    /// MAAS's name of the operation.
    pub op: &'static str,
    /// The effect of the operation on MAAS.
    pub effect: Effect,
    /// The class of the failure.
    pub class: Class,
}

/// The classes of failures. Texts are MAAS's own, shortened and without secrets from the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Class {
    /// Nothing was sent: no route, no name, no TLS, or no such address.
    #[error("MAAS cannot be reached: {0}")]
    Unreachable(String),
    /// Nothing was sent: the key may not go where the address leads.
    #[error("MAAS was not called: {0}")]
    Elsewhere(String),
    /// It was sent, and MAAS may have done it: time ran out, the connection ended, or the answer was a 5xx. A
    /// change of status is committed before power is touched, so also a 500 may mean "accepted".
    #[error("MAAS did not answer, and may have done it: {0}")]
    Ambiguous(String),
    /// 409 with `Retry-After`: MAAS's database was too busy, and nothing was done.
    #[error("MAAS is busy")]
    Busy {
        /// When to try again.
        after: Duration,
    },
    /// 429: too many requests, and nothing was done.
    #[error("MAAS limits its requests")]
    Throttled {
        /// When to try again.
        after: Duration,
    },
    /// 503: a rack controller cannot be reached, or there is no address left.
    #[error("MAAS cannot do it now: {said}")]
    Unavailable {
        /// When to try again.
        after: Duration,
        /// The text of MAAS.
        said: String,
    },
    /// 409 without `Retry-After`: the machine is not in a status that allows it.
    #[error("the status does not allow it: {0}")]
    WrongState(String),
    /// 401: a wrong key, or clocks that differ. The text of MAAS is not kept.
    #[error("MAAS does not accept the API key, or the clocks differ by minutes")]
    Credentials,
    /// 403: the user may not, or the machine is locked.
    #[error("MAAS does not permit it: {0}")]
    Forbidden(String),
    /// 404 by MAAS itself: the object does not exist, or no longer.
    #[error("MAAS does not know it")]
    Gone,
    /// 400 with fields: the request is impossible for this machine or this site.
    #[error("MAAS refuses: {}", listed(.0))]
    Refused(BTreeMap<String, Vec<String>>),
    /// Any other refusal: the request itself is wrong, or something between us and MAAS is.
    #[error("MAAS does not understand the request ({status}): {said}")]
    Malformed {
        /// The status of the answer.
        status: u16,
        /// The text of MAAS.
        said: String,
    },
    /// It was done, but the answer is too large or malformed.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

/// Whether the same request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Yes, without looking first, after this long if MAAS named a time.
    Blind(Option<Duration>),
    /// Only after an observation: it may have been done, or another user changed the machine.
    Observe,
    /// No: the answer would be the same.
    Never,
}

impl Error {
    /// Returns whether the same request may be sent again, and whether an observation must come first.
    #[must_use]
    pub fn repeat(&self) -> Repeat {
        let harmless = self.effect != Effect::Once;
        match &self.class {
            Class::Unreachable(_) => Repeat::Blind(None),
            Class::Busy { after } | Class::Throttled { after } => Repeat::Blind(Some(*after)),
            Class::Unavailable { after, .. } if harmless => Repeat::Blind(Some(*after)),
            Class::Ambiguous(_) | Class::Unreadable(_) if harmless => Repeat::Blind(None),
            Class::Ambiguous(_) | Class::Unavailable { .. } | Class::Unreadable(_) | Class::WrongState(_) => {
                Repeat::Observe
            }
            // The refusal of a second create is how a lost reply to the first one shows.
            Class::Refused(_) if self.is_taken() => Repeat::Observe,
            Class::Elsewhere(_)
            | Class::Credentials
            | Class::Forbidden(_)
            | Class::Gone
            | Class::Refused(_)
            | Class::Malformed { .. } => Repeat::Never,
        }
    }

    /// Whether MAAS has certainly not done it: it was not sent, or refused.
    #[must_use]
    pub const fn did_nothing(&self) -> bool {
        match &self.class {
            Class::Unreachable(_)
            | Class::Elsewhere(_)
            | Class::Busy { .. }
            | Class::Throttled { .. }
            | Class::WrongState(_)
            | Class::Credentials
            | Class::Forbidden(_)
            | Class::Gone
            | Class::Refused(_)
            | Class::Malformed { .. } => true,
            Class::Ambiguous(_) | Class::Unavailable { .. } | Class::Unreadable(_) => false,
        }
    }

    /// Whether a machine with these MACs or this name exists: perhaps ours, from a create whose reply was lost.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.op == "create"
            && (self.says("mac_addresses", "already in use") || self.says("hostname", "already exists"))
    }

    fn says(&self, field: &str, words: &str) -> bool {
        let Class::Refused(fields) = &self.class else { return false };
        fields.get(field).is_some_and(|said| said.iter().any(|text| text.contains(words)))
    }
}

fn listed(fields: &BTreeMap<String, Vec<String>>) -> String {
    let fields: Vec<_> = fields.iter().map(|(name, said)| format!("{name}: {}", said.join(" "))).collect();
    fields.join("; ")
}
