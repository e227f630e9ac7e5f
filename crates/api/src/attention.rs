//! What needs a person, over all kinds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::action::Action;

/// What needs a person: one line for each cause, the longest overdue first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attention {
    /// The causes.
    pub needs: Vec<Need>,
    /// Members that were not looked at, because there are very many in their state.
    pub left_out: usize,
}

/// One cause, and the member that it concerns, or the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Need {
    /// The kind of the member.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its state.
    pub state: String,
    /// How urgent it is: stuck, silent, person or soon.
    pub urgency: String,
    /// Since when it is in this state.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// When its patience ran out.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub overdue_since: Option<Timestamp>,
    /// The cause.
    pub why: String,
    /// What a person can do about it now; null where no action is advised.
    pub next: Option<Action>,
    /// How many members have this cause.
    pub count: usize,
}
