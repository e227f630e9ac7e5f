//! The errors of a call.

use crate::Problem;

/// The code of a problem about an unknown route.
pub const NO_ROUTE: &str = "no_route";

/// A refusal, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option cannot be used; nothing was sent.
    #[error("{0}")]
    Setup(String),
    /// The server refused, with a problem.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The server did not answer in time; the request may have taken effect.
    #[error("the server did not answer in time")]
    Timeout,
    /// The server cannot be reached, or the connection was cut.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// A change of a rehearsal; nothing was sent.
    #[error("nothing was sent: this is a rehearsal")]
    Unsent(Box<super::Unsent>),
    /// An answer that this client does not understand.
    #[error("{detail}")]
    Unexpected {
        /// The status code of the answer.
        status: u16,
        /// The reason.
        detail: String,
    },
}

impl Error {
    /// The status code of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Unexpected { status, .. } => Some(*status),
            Self::Setup(_) | Self::Timeout | Self::Unreachable(_) | Self::Unsent(_) => None,
        }
    }

    /// Returns whether the resource does not exist. A 404 of a proxy says nothing about resources, nor does that
    /// of a listener that does not have the route.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Problem(problem) if problem.status == 404 && problem.code != NO_ROUTE)
    }

    pub(super) fn network(error: &reqwest::Error) -> Self {
        if error.is_timeout() && !error.is_connect() {
            Self::Timeout
        } else {
            Self::Unreachable(chain(error))
        }
    }
}

/// Returns the innermost cause, which is the informative one.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match error.url() {
        Some(url) => format!("{}: {cause}", url.origin().ascii_serialization()),
        None => cause.to_string(),
    }
}
