//! Failures of calls to a BMC, by the caller's next step.

use std::time::Duration;

/// A call that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {class}")]
pub struct Error {
    /// The request.
    pub op: &'static str,
    /// Whether asking for it twice is asking for it once.
    pub harmless: bool,
    /// The class of the failure.
    pub class: Class,
}

/// The classes of failures. Texts are the BMC's own, cut short.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Class {
    /// Nothing was sent: the BMC does not answer at its address.
    #[error("the BMC cannot be reached: {0}")]
    Unreachable(String),
    /// Nothing was sent: the password may not go where the address leads.
    #[error("the BMC was not called: {0}")]
    Elsewhere(String),
    /// Nothing was sent: the machine that answered does not have the expected certificate.
    #[error("the certificate of the BMC is not the expected one: {0}")]
    Untrusted(String),
    /// 401: wrong user or password, or a locked account. Another try may lock it. The text of the BMC is not kept.
    #[error("the BMC does not accept user and password")]
    Credentials,
    /// 403: the user may not.
    #[error("the BMC does not permit it: {0}")]
    Forbidden(String),
    /// 404: there is no such system.
    #[error("the BMC does not know it")]
    Gone,
    /// The BMC cannot do that, now or ever.
    #[error("the BMC refuses ({status}): {said}")]
    Refused {
        /// The status of the answer.
        status: u16,
        /// The text of the BMC.
        said: String,
    },
    /// 429 or 503: the BMC has too much to do, and did nothing.
    #[error("the BMC is busy")]
    Busy {
        /// When to try again.
        after: Duration,
    },
    /// It was sent, and the BMC may have done it.
    #[error("the BMC did not answer, and may have done it: {0}")]
    Ambiguous(String),
    /// It was done, but the answer is not Redfish.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

/// Whether the same request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Yes, without looking first, after this long if the BMC named a time.
    Blind(Option<Duration>),
    /// Only after looking at the power.
    Observe,
    /// No: the answer would be the same, or the account would be locked.
    Never,
}

impl Error {
    /// Returns whether the same request may be sent again, and whether an observation must come first.
    #[must_use]
    pub const fn repeat(&self) -> Repeat {
        match self.class {
            Class::Unreachable(_) => Repeat::Blind(None),
            Class::Busy { after } => Repeat::Blind(Some(after)),
            Class::Ambiguous(_) | Class::Unreadable(_) if self.harmless => Repeat::Blind(None),
            Class::Ambiguous(_) | Class::Unreadable(_) => Repeat::Observe,
            Class::Elsewhere(_)
            | Class::Untrusted(_)
            | Class::Credentials
            | Class::Forbidden(_)
            | Class::Gone
            | Class::Refused { .. } => Repeat::Never,
        }
    }
}
