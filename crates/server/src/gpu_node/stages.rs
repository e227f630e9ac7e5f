//! What the stages of a run do: those that need the node's agent, and nothing else yet.
//!
//! A stage that gives the agent a task records the task's id before the task exists, so that a repeat finds it.

use jiff::SignedDuration;
use uuid::Uuid;
use wardroom_core::run::{
    failure::Class,
    plan::Stage,
    task::{Kind, State},
};
use wardroom_workflow::{Attempt, Lost, NODE, Outcome, Stages};

use super::document::{self, Document};
use crate::{
    agent_task::{self, Task},
    app::{App, Decided, by_system},
    error::Error,
    run::data::Known,
};

/// Executes stages.
pub(crate) struct Workshop {
    pub(crate) app: App,
}

/// How long it takes at most to look whether an agent has answered, when nothing else says so.
const LOOK: SignedDuration = SignedDuration::from_secs(15);

/// What ends an attempt early.
enum Stop {
    Lost,
    Error(Error),
}

impl From<Lost> for Stop {
    fn from(_: Lost) -> Self {
        Self::Lost
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Stages for Workshop {
    type Data = Known;

    async fn perform(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Lost> {
        let stage = attempt.stage;
        let outcome = match (stage.task(), stage) {
            (Some(kind), _) => self.ask_agent(attempt, kind).await,
            (None, Stage::WaitForAgentEnrollment) => self.enrolled(attempt).await,
            (None, Stage::CleanupSecrets) => self.revoke(attempt).await,
            // All there is to do is the node's move, which is committed with the stage.
            (None, Stage::DisableNode | Stage::RetireGpuaasNode) => Ok(Outcome::Done(attempt.data)),
            (None, _) => Ok(Outcome::NeedsOperator {
                reason: format!("{stage} needs MAAS, and the node belongs to no site"),
            }),
        };
        settled(outcome)
    }

    async fn undo(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Lost> {
        if attempt.stage == Stage::WaitForAgentEnrollment {
            return settled(self.revoke(attempt).await);
        }
        settled(self.withdraw(attempt).await)
    }
}

/// What the database could not do may work the next time.
fn settled(outcome: Result<Outcome<Known>, Stop>) -> Result<Outcome<Known>, Lost> {
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Lost) => Err(Lost),
        Err(Stop::Error(error)) => {
            Ok(Outcome::Retry { class: Class::Retryable, evidence: error.to_string() })
        }
    }
}

impl Workshop {
    async fn ask_agent(&self, mut attempt: Attempt<'_, Known>, kind: Kind) -> Result<Outcome<Known>, Stop> {
        let stage = attempt.stage;
        let id = match attempt.data.tasks.get(&stage) {
            Some(id) => id.clone(),
            None => {
                let id = Uuid::now_v7().to_string();
                attempt.data.tasks.insert(stage, id.clone());
                attempt.save().await?;
                id
            }
        };
        let Some(found) = agent_task::find(&self.app, &id).await? else {
            let (node, run) = (attempt.node.to_owned(), attempt.run.to_owned());
            agent_task::queue(&self.app, &id, &Task { node, run, stage, kind, output: None }).await?;
            return Ok(wait(&attempt, format!("the agent has not taken {kind} yet")));
        };
        let said = found.task.output.unwrap_or_else(|| "the agent did not say why".to_owned());
        match found.state {
            State::Queued => Ok(wait(&attempt, format!("the agent has not taken {kind} yet"))),
            State::Dispatched => Ok(wait(&attempt, format!("the agent has not answered {kind} yet"))),
            State::Succeeded => Ok(Outcome::Done(attempt.data)),
            State::Failed | State::Refused | State::Withdrawn => {
                // The next attempt is another task.
                attempt.data.tasks.remove(&stage);
                attempt.save().await?;
                Ok(failed(kind, found.state, said))
            }
        }
    }

    /// The agent enrolled and has said since that it is healthy.
    async fn enrolled(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Stop> {
        let node = super::find(&self.app, attempt.node).await?;
        let Some(agent) = Document::of(&node)?.agent else {
            return Ok(wait(&attempt, "the agent has not enrolled yet".to_owned()));
        };
        let health = document::health(&self.app, attempt.node).await?;
        match health.filter(|(_, seen)| seen.received_at >= agent.enrolled_at) {
            None => Ok(wait(&attempt, "the agent has not been heard since it enrolled".to_owned())),
            Some((health, _)) if health.healthy => Ok(Outcome::Done(attempt.data)),
            Some((health, _)) => {
                Ok(wait(&attempt, format!("the agent is not healthy: {}", health.problems.join(", "))))
            }
        }
    }

    /// Nobody can speak for the node any more.
    async fn revoke(&self, attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Stop> {
        let revoked = self.app.change(NODE, attempt.node, |node| {
            let document = Document::of(node)?;
            if document.agent.is_none() && document.token.is_none() {
                return Ok(Decided::Nothing(()));
            }
            let state = document::state(node)?;
            let content = Document { agent: None, token: None, ..document }.into_content_of(node, state)?;
            let mut entry = by_system(&self.app, "credential", serde_json::json!({"revoked": true}));
            "workflow".clone_into(&mut entry.triggered_by);
            Ok(Decided::Commit(Box::new((content, entry)), ()))
        });
        revoked.await?;
        self.app.liveness.unseat(NODE, attempt.node);
        Ok(Outcome::Done(attempt.data))
    }

    async fn withdraw(&self, mut attempt: Attempt<'_, Known>) -> Result<Outcome<Known>, Stop> {
        if let Some(id) = attempt.data.tasks.get(&attempt.stage) {
            agent_task::withdraw(&self.app, id).await?;
        }
        attempt.data.tasks.remove(&attempt.stage);
        Ok(Outcome::Done(attempt.data))
    }
}

fn wait(attempt: &Attempt<'_, Known>, reason: String) -> Outcome<Known> {
    // An answer has the run looked at again at once, unless it comes in the middle of a look: then the next one is
    // not far, and the further the longer it has been waited for already.
    let waited = attempt.now.duration_since(attempt.since);
    let pause = (waited / 2).clamp(SignedDuration::from_secs(1), LOOK);
    let until = attempt.now.saturating_add(pause).unwrap_or(attempt.now);
    Outcome::Wait { reason, until }
}

/// What the agent could not do. A node that is not proven clean is not used; what erases is never repeated blindly.
fn failed(kind: Kind, state: State, said: String) -> Outcome<Known> {
    match (kind, state) {
        (Kind::ValidateClean, State::Failed) => Outcome::Unsafe { reason: said },
        (Kind::CleanupStorage, State::Failed) | (_, State::Refused) => {
            Outcome::NeedsOperator { reason: said }
        }
        (_, _) => Outcome::Retry { class: Class::Retryable, evidence: said },
    }
}
