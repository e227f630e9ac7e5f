//! How things stand: the summary, and why one resource is where it is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Client, Error};
use crate::action::Action;

/// Counts by kind and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// For each kind, how many are in each state.
    pub kinds: BTreeMap<String, BTreeMap<String, i64>>,
}

/// The explanation of one state or status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The subject: `state`, `run` for the open run of the resource, or the name of a derived status.
    pub about: String,
    /// Where the resource is.
    pub state: String,
    /// Its meaning.
    pub meaning: String,
    /// Since when; absent if unknown.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// When patience runs out, for work in progress.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub patience_ends: Option<Timestamp>,
    /// Whether it has run out.
    pub overdue: bool,
    /// The causes that keep this resource in its state, beyond those of the state itself.
    pub blockers: Vec<Blocker>,
    /// The ways out, the preferred one first.
    pub exits: Vec<Exit>,
    /// The next step.
    pub next: Next,
}

/// A fact that keeps a resource where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blocker {
    /// What is in the way.
    pub what: String,
    /// The action that clears it, when a person can.
    pub fix: Option<Action>,
}

/// One way out of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exit {
    /// The event that takes it; nothing for what moves no stored state.
    pub on: Option<String>,
    /// Where it leads.
    pub to: String,
    /// The condition.
    pub when: String,
    /// The person or program that makes it happen in the normal course.
    pub by: String,
    /// The call by which a person causes it.
    pub call: Option<Action>,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Next {
    /// Nothing to do.
    Nothing,
    /// Wait for another person or program to act.
    Wait {
        /// The person or program that acts.
        by: String,
        /// The awaited event.
        until: String,
    },
    /// Make this call.
    Call(Box<Action>),
    /// Look at what is in the way; no call clears it.
    Mend {
        /// What is in the way.
        what: String,
    },
}

impl Client {
    /// How many of what are where.
    ///
    /// # Errors
    /// As for every call.
    pub async fn summary(&self) -> Result<Summary, Error> {
        self.one(&["summary"]).await
    }

    /// Why a resource is where it is.
    ///
    /// # Errors
    /// As for every call.
    pub async fn why(&self, kind: &str, id: &str) -> Result<Vec<Why>, Error> {
        self.one(&["resources", kind, id, "why"]).await
    }
}
