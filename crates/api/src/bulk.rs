//! One verb on many members: the dry run, and the run itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One verb on many members. Without `dry_run` it is carried out, on exactly the members and versions that are named.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// The method of the verb.
    #[schema(pattern = "^(POST|PUT|PATCH|DELETE)$")]
    pub method: String,
    /// The path of the verb, with `{id}` in the place of the member, such as `/api/satellites/{id}/revoke`.
    pub path: String,
    /// The body of the verb, the same for every member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<serde_json::Value>,
    /// Says what would become of each member, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// The members. A run needs their versions, as its dry run said them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub members: Vec<BulkMember>,
    /// Selects the members of a dry run instead: parameters of the kind's list, such as `labelSelector` and `state`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<BTreeMap<String, String>>,
    /// Adds the answer of the verb to each item.
    #[serde(default)]
    pub answers: bool,
}

/// A member, and the version that the caller saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkMember {
    /// Its id.
    pub id: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// What became of each member, or would become of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkReport {
    /// The kind of the members.
    pub kind: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// How many were changed, or would be.
    pub changed: usize,
    /// How many stay as they are, because the verb has nothing to do.
    pub unchanged: usize,
    /// How many were refused, or would be.
    pub refused: usize,
    /// How many were left alone, because they changed since the dry run.
    pub overtaken: usize,
    /// The members that are changed, as a share of all of the kind.
    pub fleet: BulkShare,
    /// The same for each zone that has such members.
    pub zones: BTreeMap<String, BulkShare>,
    /// Each member, in the order of the request.
    pub items: Vec<BulkOutcome>,
}

/// A part of the fleet, or of a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkShare {
    /// How many are changed.
    pub members: i64,
    /// Of how many.
    pub of: i64,
    /// The same in percent.
    pub percent: f64,
}

impl BulkShare {
    /// The share of some members.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "fleets have fewer than 2^52 members")]
    pub fn new(members: i64, of: i64) -> Self {
        // A member may be registered between two counts.
        let of = of.max(members);
        let percent = if of == 0 { 0.0 } else { members as f64 * 100.0 / of as f64 };
        Self { members, of, percent: (percent * 10.0).round() / 10.0 }
    }
}

/// What became of one member, or would become of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkOutcome {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What became of it.
    pub result: BulkResultWord,
    /// Its version before; a run names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Its state before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its state after, where it is changed itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub becomes: Option<String>,
    /// Its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Why it is refused, or left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<crate::Problem>,
    /// The answer of the verb, if it was asked for or has a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub answer: Option<serde_json::Value>,
}

/// What became of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkResultWord {
    /// It was changed, or would be.
    Changed,
    /// The verb has nothing to do.
    Unchanged,
    /// The verb was refused, or would be.
    Refused,
    /// It changed since the dry run, and was left alone.
    Overtaken,
}

#[cfg(test)]
mod tests {
    use super::BulkShare;

    #[test]
    fn a_share_has_one_decimal() {
        for (members, of, percent) in
            [(1, 3, 33.3), (0, 0, 0.0), (2, 1, 100.0), (1, 1000, 0.1), (5, 100, 5.0)]
        {
            let share = BulkShare::new(members, of);
            assert!((share.percent - percent).abs() < 1e-9, "{members} of {of}: {share:?}");
        }
    }
}
