//! A status report, as an adapter sends it and as it may be relied on.
//!
//! `data` and `metadata` mean nothing to the lifecycle and stay with the caller.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AVAILABLE, Status};

/// A report as it arrives: every field may be missing, so that a missing one can be named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RawReport {
    /// The adapter that reports.
    pub adapter: Option<String>,
    /// The generation that was acted on.
    pub observed_generation: Option<i64>,
    /// When the adapter looked.
    pub observed_time: Option<String>,
    /// What it saw.
    pub conditions: Option<Vec<RawCondition>>,
}

/// A condition as it arrives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RawCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// Whether it holds.
    pub status: Option<String>,
    /// Why, as one word.
    pub reason: Option<String>,
    /// Why, as a sentence.
    pub message: Option<String>,
}

/// A report that passed [`validate`](fn@super::validate).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The adapter that reports.
    pub adapter: String,
    /// The generation that was acted on.
    pub observed_generation: i64,
    /// When the adapter looked.
    pub observed_time: Timestamp,
    /// What it saw, types outside the contract included.
    pub conditions: Vec<ReportedCondition>,
}

/// A condition of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, as one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Report {
    /// What the adapter says about being available.
    #[must_use]
    pub fn available(&self) -> Status {
        let available = self.conditions.iter().find(|condition| condition.type_ == AVAILABLE);
        available.map_or(Status::Unknown, |condition| condition.status)
    }
}
