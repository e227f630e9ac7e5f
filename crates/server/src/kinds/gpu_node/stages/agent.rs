//! Stages that the agent carries out: a task for each, and the outcome of its result.

use jiff::SignedDuration;
use wardroom_api::gpu_node::agent::TaskResult;
use wardroom_core::{
    gpu_node::task::{Kind as TaskKind, State as TaskState},
    run::{
        failure::Class,
        plan::{Kind, Stage},
    },
};
use wardroom_store::Resource;
use wardroom_workflow::Outcome;

use super::{StageError, StageResult, Try, Workers, again, done, is_left_out, needs_person, wait_until};
use crate::{
    kinds::gpu_node::{
        document::{self, Document},
        silence,
        task::{self, Ask},
    },
    platform::app::{Decided, by_system},
};

const LOOK: SignedDuration = SignedDuration::from_secs(2);
/// How often GPUs are scrubbed before the node is quarantined.
const SCRUBS: u32 = 3;

/// How an agent's identity ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The agent uninstalled itself. Its record stays until the secrets are removed, because a repeated stage
    /// looks for it.
    Uninstalled,
    /// The disk is released, and with it every agent that enrolled from it: credentials of the old system are
    /// void, and no run may mistake its agent for the next one.
    Released,
}

impl End {
    fn as_str(self) -> &'static str {
        match self {
            Self::Uninstalled => "uninstalled",
            Self::Released => "released",
        }
    }
}

impl Workers {
    /// Drain, cleanup, scrub and proof.
    pub(super) async fn ask_agent(&self, attempt: &mut Try<'_>) -> StageResult {
        if is_left_out(attempt) {
            return done(attempt);
        }
        self.task(attempt).await?;
        done(attempt)
    }

    /// Has the agent uninstall itself, which ends the identity on the host.
    pub(super) async fn uninstall(&self, attempt: &mut Try<'_>) -> StageResult {
        self.task(attempt).await?;
        self.end_identity(attempt, End::Uninstalled).await?;
        done(attempt)
    }

    /// Ends the identity on the host for good.
    pub(super) async fn end_identity(&self, attempt: &Try<'_>, end: End) -> Result<(), StageError> {
        let gone = |node: &Resource| {
            let mut document = Document::of(node)?;
            let agent = document.agent.take_if(|_| end == End::Released);
            if agent.is_none() && !document.identity_kept {
                return Ok(Decided::Nothing(()));
            }
            document.identity_kept = false;
            let content = document.into_content_of(node, document::state(node)?)?;
            let metadata = serde_json::json!({"identity": end.as_str()});
            Ok(Decided::Commit(Box::new((content, by_system(&self.app, "changed", metadata))), ()))
        };
        self.change(attempt, gone).await?;
        // From here on no server accepts the credential.
        crate::kinds::gpu_node::identity::Agents::of(&self.app).settle().await;
        Ok(())
    }

    pub(super) async fn undo_task(&self, attempt: &mut Try<'_>) -> StageResult {
        let stage = attempt.stage;
        task::withdraw(&self.app, attempt.run, stage, attempt.data.task_round(stage)).await?;
        attempt.data.next_task(stage);
        done(attempt)
    }

    /// Waits for the task of the stage, and stores its evidence.
    async fn task(&self, attempt: &mut Try<'_>) -> Result<(), StageError> {
        let stage = attempt.stage;
        let kind = TaskKind::of(stage).ok_or_else(|| needs_person("the stage has no task for an agent"))?;
        let (round, force) = (attempt.data.task_round(stage), attempt.data.force);
        // A task that the agent completed for this run counts, even if its system was released since.
        if !self.node(attempt).await?.has_agent()
            && !task::has_succeeded(&self.app, attempt.run, stage, round).await?
        {
            return Err(super::failed(Class::NoAgent, no_agent(attempt.kind, stage)));
        }
        let ask = Ask { node: attempt.subject, run: attempt.run, stage, kind, round, force };
        attempt.hold().await?;
        let mut found = task::ensure(&self.app, ask).await?;
        if task::state(&found)? == TaskState::Withdrawn {
            // The task was withdrawn while the run was stopped, which proves nothing: create a new one.
            attempt.data.next_task(stage);
            attempt.save().await?;
            found = task::ensure(&self.app, Ask { round: attempt.data.task_round(stage), ..ask }).await?;
        }
        let document: task::Document = found.content.document.read()?;
        let state = task::state(&found)?;
        if state.is_open() {
            let until = attempt.now.saturating_add(LOOK).unwrap_or(attempt.now);
            let mut reason = if state == TaskState::Queued {
                format!("{kind} waits for the agent")
            } else {
                format!("the agent is at {kind}")
            };
            // The text stays the same while the agent is silent, because each new reason is a history row.
            if let Some(since) = silence::since(&self.app, attempt.subject, attempt.since).await? {
                let way = past_the_dead(attempt.kind, stage);
                reason =
                    format!("{reason}; the agent is silent since {since:.0}: if the host is dead, {way}");
            }
            return Err(StageError::Outcome(Box::new(wait_until(until, &reason))));
        }
        let result = document.result.unwrap_or_default();
        let whole = result.details.iter().all(|detail| detail.ok);
        if state == TaskState::Succeeded && whole {
            let proof = evidence(kind, state, &TaskResult { output: String::new(), ..result });
            attempt.data.proofs.insert(stage, proof);
            return Ok(());
        }
        // The next attempt creates a new task, so that this result is reported once.
        attempt.data.next_task(stage);
        attempt.data.failed_scrubs += u32::from(stage == Stage::ScrubGpu);
        let failed_scrubs = attempt.data.failed_scrubs;
        if failed_scrubs >= SCRUBS {
            // A person who continues the run allows as many attempts again.
            attempt.data.failed_scrubs = 0;
        }
        attempt.save().await?;
        let evidence = evidence(kind, state, &result);
        Err(failed(stage, state, failed_scrubs, evidence))
    }
}

/// Returns how a task ended: details, exit code and output.
fn evidence(kind: TaskKind, state: TaskState, result: &TaskResult) -> String {
    let told = result.details.iter().map(|detail| {
        let words = [detail.name.as_str(), detail.method.as_str(), if detail.ok { "done" } else { "failed" }];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let parts: Vec<_> =
        [told.as_str(), result.output.trim()].into_iter().filter(|part| !part.is_empty()).collect();
    let exit = result.exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
    let colon = if parts.is_empty() { "" } else { ": " };
    format!("{kind} {state}{exit}{colon}{}", parts.join("; "))
}

/// Returns the advice, as commands, for a stage that no agent can carry out.
fn no_agent(kind: Kind, stage: Stage) -> String {
    let way = if kind.can_skip(stage) {
        format!("repeat `wardroom gpu-node {}` with{}", command(kind), skips(kind, stage))
    } else {
        "cancel the run, and check the host".to_owned()
    };
    format!("no agent has enrolled to run {stage}: {way}")
}

/// Returns commands that get past a silent host. Stages that erase or prove are skipped at the start of a
/// run, as long as the node has an agent.
fn past_the_dead(kind: Kind, stage: Stage) -> String {
    let command = command(kind);
    if kind.gets_past(stage) {
        format!("repeat `wardroom gpu-node {command}` with{}", skips(kind, stage))
    } else if kind.can_skip(Stage::ValidateCleanNode) {
        let skips = skips(kind, kind.first());
        format!("cancel the run, then start it with `wardroom gpu-node {command}{skips}`")
    } else {
        "cancel the run, and check the host".to_owned()
    }
}

/// The command that started a run.
fn command(kind: Kind) -> String {
    match kind {
        Kind::Retire | Kind::Remove => kind.to_string(),
        Kind::Onboarding
        | Kind::Bootstrap
        | Kind::SoftReset
        | Kind::StorageCleanup
        | Kind::Reimage
        | Kind::FullDecommission => format!("decommission --mode {kind}"),
    }
}

/// The options that skip all skippable stages from a stage on.
fn skips(kind: Kind, stage: Stage) -> String {
    kind.skippable_from(stage).map(|stage| format!(" --skip {stage}=COMMENT")).collect()
}

/// The outcome of a stage whose task did not succeed.
fn failed(stage: Stage, state: TaskState, scrubs: u32, evidence: String) -> StageError {
    let quarantine = |reason| StageError::Outcome(Box::new(Outcome::Unsafe { reason }));
    match (stage, state) {
        // A node that is not proven clean is quarantined.
        (Stage::ValidateCleanNode, _) => quarantine(evidence),
        (Stage::ScrubGpu, TaskState::Refused) => quarantine(evidence),
        (Stage::ScrubGpu, _) if scrubs >= SCRUBS => quarantine(evidence),
        // An incomplete erasure always needs a person.
        (Stage::CleanupStorage, TaskState::Refused | TaskState::Succeeded) => needs_person(evidence),
        (_, TaskState::Refused) => needs_person(evidence),
        _ => again(evidence),
    }
}

#[cfg(test)]
mod tests {
    use wardroom_api::gpu_node::agent::Detail;

    use super::*;

    #[test]
    fn the_result_of_a_task_is_told_without_gaps() {
        let check = |exit_code, names: &[&str], output: &str, said: &str| {
            let named =
                |name: &&str| Detail { name: (*name).to_owned(), method: "erase".to_owned(), ok: false };
            let details = names.iter().map(named).collect();
            let result =
                TaskResult { exit_code, output: output.to_owned(), details, ..TaskResult::default() };
            assert_eq!(evidence(TaskKind::ValidateClean, TaskState::Refused, &result), said);
        };
        check(Some(69), &[], "", "node.validate_clean refused, exit code 69");
        check(Some(69), &[], "no\n", "node.validate_clean refused, exit code 69: no");
        check(None, &["a", "b"], "", "node.validate_clean refused: a erase failed, b erase failed");
        check(Some(1), &["a"], "no", "node.validate_clean refused, exit code 1: a erase failed; no");
    }
}
