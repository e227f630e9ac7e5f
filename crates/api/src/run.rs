//! Runs: what is being done to a GPU node, how far it is, and what an operator may do about it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::action::Action;

use crate::gpu_node::agent::TaskResult;

/// A run as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Names it.
    pub id: String,
    /// The kind of run.
    pub kind: String,
    /// The node it works on.
    pub node_id: String,
    /// The name of that node.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The site whose limits it shares.
    pub site: Option<String>,
    /// Its state.
    #[serde(rename = "status")]
    pub state: String,
    /// The stage it is at.
    pub stage: String,
    /// Attempts of the stage, or of its undo, that were begun.
    pub attempt: u32,
    /// Where it is heading: to its end, to be cancelled, or to start again.
    pub goal: String,
    /// Whether it is being undone, or failed while it was.
    pub undoing: bool,
    /// Whether an operator adopted an observation.
    pub adopted: bool,
    /// The last failure of the present stage; absent once it is overcome or the run has ended.
    pub failure: Option<Failure>,
    /// The reason it waits.
    pub waiting: Option<Waiting>,
    /// The time of the next attempt or check.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_attempt_at: Option<Timestamp>,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// When it entered its state.
    #[schema(value_type = String, format = DateTime)]
    pub state_changed_at: Timestamp,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// At which stage.
    pub stage: String,
    /// Of which class.
    pub class: String,
    /// The evidence.
    pub evidence: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// The wait of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    /// What it waits for, such as an agent or a machine.
    pub what: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
}

/// Everything about a run that an operator needs to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// The last observation of the machine.
    pub observed: Option<Observed>,
    /// The actions that would not be refused now.
    pub allowed_actions: Vec<Action>,
    /// Every action, in the order of their table; one that would be refused now says why.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// The next step.
    pub recommended: Recommended,
    /// Every attempt of every stage, the newest first.
    pub attempts: Vec<Attempt>,
    /// The newest twenty tasks of the agent with their results, oldest first.
    #[serde(default)]
    pub tasks: Vec<RunTask>,
}

/// Something that a run asked of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunTask {
    /// Names the task.
    pub id: String,
    /// The kind of task, such as `node.cleanup_storage`.
    pub kind: String,
    /// The stage that asked for it.
    pub stage: String,
    /// Where it is.
    pub state: String,
    /// How it ended, in the agent's words.
    pub result: Option<TaskResult>,
    /// When it was asked for.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// An observation of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Observed {
    /// The observed state.
    #[schema(value_type = Object)]
    pub state: serde_json::Value,
    /// Identifies exactly this observation; `adopt_observed_state` sends it back.
    pub digest: String,
    /// When it was seen.
    #[schema(value_type = String, format = DateTime)]
    pub observed_at: Timestamp,
}

/// The recommended next step for a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recommended {
    /// The action to take, if any.
    pub action: Option<Action>,
    /// Why.
    pub because: String,
}

/// One attempt of a stage, or of its undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// The stage.
    pub stage: String,
    /// Which attempt.
    pub attempt: u32,
    /// Whether the stage was undone, not executed.
    pub undo: bool,
    /// `done`, `undone`, `waiting`, `failed`, `skipped`, `left_out` where the site does not ask for it, or `lost`.
    pub outcome: String,
    /// The class of the failure.
    pub class: Option<String>,
    /// The evidence, or the reason it was skipped, left out or waits.
    pub evidence: Option<String>,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    pub ended_at: Timestamp,
}

/// Asks for an action on a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunAction {
    /// Why; history keeps it.
    #[serde(default)]
    pub comment: Option<String>,
    /// For `cancel`: give the run up without undoing anything. Needs the role admin and a comment.
    #[serde(default)]
    pub abandon: bool,
    /// For `adopt_observed_state`: the digest of the observation that was looked at.
    #[serde(default)]
    pub expected_observation_digest: Option<String>,
}

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Acted {
    /// The event by which the run moved, `heading` with its new goal, `requeued`, or the reason why nothing
    /// had to be done.
    pub result: String,
    /// The run as it is now.
    pub run: Run,
    /// The new token, for a bootstrap by hand whose token has expired. It is shown only here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}
