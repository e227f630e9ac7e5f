//! The failures of a call, in classes that decide the next step.
//!
//! No variant holds a secret: texts of an upstream are shortened and cleared of sent secrets, and the text of a
//! refused login is dropped.

use std::time::Duration;

/// A call that failed, or may have failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An option cannot be used; nothing was sent.
    #[error("{0}")]
    Setup(String),
    /// No connection was made; nothing was sent.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The upstream asks for patience and did nothing.
    #[error("is busy")]
    Busy {
        /// How long it asks to wait, where it says so.
        after: Option<Duration>,
    },
    /// The upstream understood and refused; nothing was applied.
    #[error("refused with {status}: {detail}")]
    Refused {
        /// The HTTP status, or the one that stands for a gRPC code.
        status: u16,
        /// The text, without secrets.
        detail: String,
    },
    /// The object exists already, or another writer changed it first; nothing was applied.
    #[error("conflict: {0}")]
    Conflict(String),
    /// There is no such thing.
    #[error("there is no such thing")]
    NotFound,
    /// The upstream failed; the request may have been applied.
    #[error("failed with {status}: {detail}")]
    Failed {
        /// The HTTP status, or the one that stands for a gRPC code.
        status: u16,
        /// The text, without secrets.
        detail: String,
    },
    /// The request was sent and no complete answer came back; it may have been applied.
    #[error("no answer: {0}")]
    Ambiguous(String),
    /// An answer that this client does not understand; the request may have been applied.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
}

/// Whether asking again helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Nothing was applied and the cause may pass: the same call may be sent again.
    Safe,
    /// It may have been applied: look first whether it was, unless the call is idempotent by nature.
    AfterLook,
    /// The same call will be answered in the same way: something else must change first.
    Useless,
}

impl Failure {
    /// Whether asking again helps.
    #[must_use]
    pub fn repeat(&self) -> Repeat {
        match self {
            Self::Unreachable(_) | Self::Busy { .. } => Repeat::Safe,
            Self::Failed { .. } | Self::Ambiguous(_) | Self::Unexpected(_) => Repeat::AfterLook,
            Self::Setup(_) | Self::Refused { .. } | Self::Conflict(_) | Self::NotFound => Repeat::Useless,
        }
    }

    /// Returns whether the credentials were refused.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Refused { status: 401 | 403, .. })
    }
}

/// Returns a text of an upstream for an error: one short line without secrets.
pub(crate) fn fit(text: &str, secrets: &[&str]) -> String {
    const LONGEST: usize = 200;
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "…");
    }
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Failure, Repeat, fit};

    #[test]
    fn texts_of_others_are_short_and_hold_no_secret() {
        assert_eq!(fit("wrong password hunter2\nfor x", &["hunter2", ""]), "wrong password … for x");
        assert_eq!(fit(&"ä".repeat(1000), &[]).chars().count(), 200);
    }

    #[test]
    fn only_what_cannot_have_been_applied_is_repeated_blindly() {
        let texts = String::new;
        let refused = |status| Failure::Refused { status, detail: texts() };
        for (failure, repeat) in [
            (Failure::Unreachable(texts()), Repeat::Safe),
            (Failure::Busy { after: None }, Repeat::Safe),
            (Failure::Ambiguous(texts()), Repeat::AfterLook),
            (Failure::Failed { status: 500, detail: texts() }, Repeat::AfterLook),
            (Failure::Unexpected(texts()), Repeat::AfterLook),
            (refused(400), Repeat::Useless),
            (Failure::Conflict(texts()), Repeat::Useless),
            (Failure::NotFound, Repeat::Useless),
            (Failure::Setup(texts()), Repeat::Useless),
        ] {
            assert_eq!(failure.repeat(), repeat, "{failure:?}");
        }
        assert!(refused(401).is_denied() && !refused(400).is_denied());
    }
}
