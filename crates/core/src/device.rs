//! Device: an edge machine whose statuses are derived from what its agent last reported.
//!
//! A status is never stored as truth: each is a function of [`Facts`] and the clock, so after a reconnect all
//! of them are right at once, without a new report and without a sweep. The one exception is `lifecycle`,
//! which never goes backwards: the furthest status reached is itself a fact.
//!
//! An info text names the cause of a status and the way out of it. It gives points in time, never ages: a
//! cached copy must not grow wrong while it lies in a database.

use std::borrow::Cow;

use jiff::Timestamp;

pub mod applications;
pub mod condition;
mod facts;
pub mod fleet;
pub mod hook;
pub mod lifecycle;
pub mod resource;
pub mod summary;
mod text;
pub mod update;
pub mod updated;
mod why;

pub use facts::{DEFAULT_TIMEOUT, Facts, Fleet, Report, disconnection_timeout};
pub use why::{RULES, why};

/// A derived status and, for people, why it is that one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Derived<S> {
    /// The status.
    pub status: S,
    /// The cause of the status, and what the device waits for.
    pub info: Cow<'static, str>,
}

impl<S> Derived<S> {
    fn new(status: S, info: impl Into<Cow<'static, str>>) -> Self {
        Self { status, info: info.into() }
    }
}

/// Everything that is derived about one device, named as in its API status.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statuses {
    /// Availability and health of the hardware and the operating system.
    pub summary: Derived<summary::Status>,
    /// Whether the device runs what its spec and its fleet want.
    pub updated: Derived<updated::Status>,
    /// Availability and health of all applications together.
    pub application_summary: Derived<applications::Status>,
    /// Where the device is between enrolment and its end of life.
    pub lifecycle: Derived<lifecycle::Status>,
}

/// Derives all statuses of a device at once.
#[must_use]
pub fn derive(facts: &Facts<'_>, now: Timestamp) -> Statuses {
    Statuses {
        summary: summary::derive(facts, now),
        updated: updated::derive(facts, now),
        application_summary: applications::derive(facts, now),
        lifecycle: lifecycle::derive(facts),
    }
}
