//! Reports of adapters, and what is stored of them.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Exact;

/// What an adapter says of a cluster or node pool. It replaces what the adapter said before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StatusReport {
    /// The adapter that reports.
    pub adapter: String,
    /// The generation of the cluster that the adapter acted on.
    pub observed_generation: i64,
    /// When the adapter looked: at most 5 minutes ahead of the server, and at most 30 minutes behind it.
    #[schema(value_type = String, format = DateTime)]
    pub observed_time: Timestamp,
    /// `Available`, `Applied` and `Health`, and up to 61 others.
    pub conditions: Vec<ReportedCondition>,
    /// What other components may need to know; comes back as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub data: Option<Exact>,
    /// More about the adapter's work; comes back as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Exact>,
}

/// A condition of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportedCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The last stored report of one adapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdapterStatus {
    /// The adapter that reported.
    pub adapter: String,
    /// The generation it speaks of.
    pub observed_generation: i64,
    /// The observation of the adapter's first stored report.
    #[schema(value_type = String, format = DateTime)]
    pub created_time: Timestamp,
    /// The observation of its last stored report.
    #[schema(value_type = String, format = DateTime)]
    pub last_report_time: Timestamp,
    /// What the last stored report said.
    pub conditions: Vec<AdapterCondition>,
    /// What other components may need to know, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub data: Option<Exact>,
    /// More about the adapter's work, as it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Exact>,
}

impl AdapterStatus {
    /// Returns the condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&AdapterCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// One condition of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdapterCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When its status last moved.
    #[schema(value_type = String, format = DateTime)]
    pub last_transition_time: Timestamp,
}

impl From<wardroom_core::cluster::AdapterCondition> for AdapterCondition {
    fn from(condition: wardroom_core::cluster::AdapterCondition) -> Self {
        let wardroom_core::cluster::AdapterCondition { type_, status, reason, message, last_transition_time } =
            condition;
        Self { type_, status: status.to_string(), reason, message, last_transition_time }
    }
}

/// The answer to a valid report: what was stored, or why nothing was.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ReportAnswer {
    /// The report changed nothing.
    Discarded(Discarded),
    /// The report was stored.
    Stored(AdapterStatus),
}

/// Not derived: an untagged enum would lose the text of what is kept as it was sent.
impl<'de> Deserialize<'de> for ReportAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let answer = Box::<RawValue>::deserialize(deserializer)?;
        if let Ok(discarded) = serde_json::from_str(answer.get()) {
            return Ok(Self::Discarded(discarded));
        }
        serde_json::from_str(answer.get()).map(Self::Stored).map_err(de::Error::custom)
    }
}

/// A valid report that changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Discarded {
    /// The adapter that reported.
    pub adapter: String,
    /// The generation of its report.
    pub observed_generation: i64,
    /// Why: `future_generation`, `older_generation`, `older_observed_time` or `repeated_unknown`.
    pub discarded: String,
    /// The generation of the cluster.
    pub generation: i64,
}

#[cfg(test)]
mod tests {
    use super::ReportAnswer;

    #[test]
    fn both_answers_are_read_as_they_were_written() {
        let stored = r#"{"adapter":"dns","observed_generation":1,"created_time":"2026-11-19T12:00:00Z",
            "last_report_time":"2026-11-19T12:00:00Z","conditions":[],"data":{"b":1.0,"a":1e400}}"#;
        let ReportAnswer::Stored(read) = serde_json::from_str(stored).expect("stored") else {
            panic!("discarded")
        };
        assert_eq!(read.data.expect("it was sent").as_str(), r#"{"b":1.0,"a":1e400}"#);

        let discarded =
            r#"{"adapter":"dns","observed_generation":9,"discarded":"future_generation","generation":1}"#;
        let ReportAnswer::Discarded(read) = serde_json::from_str(discarded).expect("discarded") else {
            panic!("stored")
        };
        assert_eq!(read.discarded, "future_generation");
    }
}
