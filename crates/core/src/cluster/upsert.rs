//! What is known of one adapter: its last report, and since when each condition has been as it is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{FINALIZED, Report, ReportedCondition, Status};

/// Replaces what an adapter said before by a report that [`classify`](fn@super::classify) wants stored.
///
/// All times are the adapter's observations. The moment of arrival is the caller's to keep, beside this.
#[must_use]
pub fn upsert(stored: Option<&AdapterStatus>, report: Report) -> AdapterStatus {
    let Report { adapter, observed_generation, observed_time, conditions } = report;
    let since = |new: &ReportedCondition| {
        let old = stored.and_then(|stored| stored.condition(&new.type_));
        old.filter(|old| old.status == new.status).map_or(observed_time, |old| old.last_transition_time)
    };
    let dated = |new: ReportedCondition| AdapterCondition {
        last_transition_time: since(&new),
        type_: new.type_,
        status: new.status,
        reason: new.reason,
        message: new.message,
    };

    AdapterStatus {
        adapter,
        observed_generation,
        created_time: stored.map_or(observed_time, |stored| stored.created_time),
        last_report_time: observed_time,
        conditions: conditions.into_iter().map(dated).collect(),
    }
}

/// The last stored report of one adapter about one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterStatus {
    /// The adapter that reported.
    pub adapter: String,
    /// The generation it speaks of.
    pub observed_generation: i64,
    /// The observation of the adapter's first stored report.
    pub created_time: Timestamp,
    /// The observation of its last stored report.
    pub last_report_time: Timestamp,
    /// What the last stored report said; conditions it left out are gone.
    pub conditions: Vec<AdapterCondition>,
}

/// One condition of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this condition's status last moved.
    pub last_transition_time: Timestamp,
}

impl AdapterStatus {
    /// The condition of this type, if the last report had one.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&AdapterCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the adapter says that nothing of its own is left at this generation.
    #[must_use]
    pub fn finalized_at(&self, generation: i64) -> bool {
        self.observed_generation == generation
            && self.condition(FINALIZED).is_some_and(|condition| condition.status == Status::True)
    }
}
