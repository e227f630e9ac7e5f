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
    /// What is as it should be, as far as that rules out a cause.
    pub fine: Vec<String>,
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

/// The explanations of a resource, and the same in ten lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// Always true.
    pub success: bool,
    /// The whole explanations: of the resource, and of the run that works on it.
    pub data: Vec<Why>,
    /// The explanation in ten lines, as the command line and the console show it.
    pub brief: Brief,
}

/// The short explanation of a resource and of the work on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Brief {
    /// What people call the resource, as the sentence begins.
    pub name: String,
    /// Where it is.
    pub state: String,
    /// Where it is, for how long, and whether that is too long.
    pub sentence: String,
    /// What that means.
    pub meaning: String,
    /// What keeps it there, each cause once.
    pub blockers: Vec<String>,
    /// How many causes are left out.
    pub more_blockers: usize,
    /// What is as it should be.
    pub fine: Vec<String>,
    /// What to do next.
    pub next: Step,
    /// What could be done instead.
    pub others: Vec<Step>,
    /// How many ways out there are.
    pub ways: usize,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// The action; nothing where there is none to take.
    pub action: Option<Action>,
    /// What it does, or what to wait for.
    pub what: String,
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
    pub async fn why(&self, kind: &str, id: &str) -> Result<Explained, Error> {
        self.get(&["resources", kind, id, "why"], &[]).await
    }
}
