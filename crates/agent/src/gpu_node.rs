//! The agent of a GPU node.
//!
//! It enrols once, stores its credential readable only by its owner, sends heartbeats at the given interval, and
//! executes one task at a time. Invariants: a result is stored before it is reported, and dropped only when the server
//! has it, so a restart loses none (on a disk that takes no writes, a restart may). A task whose result is held is not
//! executed again. A task that no longer belongs to this agent is ended.

use std::{collections::BTreeSet, future::Future, path::PathBuf, pin::Pin, time::Duration};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use wardroom_api::{
    client::{Client, Error, Options as ClientOptions},
    gpu_node::agent::{Beat, Check, Heartbeat, Holding, Task, TaskResult},
};
use wardroom_core::{gpu_node::task::Kind, liveness::Interval};

mod config;
mod enrol;
mod execute;
mod keep;

use config::Config;
use enrol::enrol;
use keep::Keeper;

use crate::orphan;

/// The options of the agent.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The URL of the server.
    #[arg(long)]
    server: String,
    /// The file with the one-time token; needed until the agent has enrolled.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// The folder for the credential and for results that are not reported yet.
    #[arg(long)]
    state_dir: PathBuf,
    /// The commands for each task, and the health checks, as TOML.
    #[arg(long)]
    config: PathBuf,
    /// PEM certificates to trust instead of the system's.
    #[arg(long)]
    ca_file: Option<PathBuf>,
}

/// The pause before the next request to a server that did not answer.
const PAUSE: Duration = Duration::from_secs(5);

/// A run's next task comes shortly after a result. The agent asks for it this often, at this interval, instead of waiting
/// for the next heartbeat.
const EAGER: u32 = 5;
const SOON: Duration = Duration::from_secs(2);

/// Runs the agent until it is stopped or its identity ends.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let config = Config::read(&options.config)?;
    let keeper = Keeper::open(&options.state_dir)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    if let Err(left) = orphan::end(keeper.running(), orphan::PATIENCE).await {
        tracing::error!("{left}: no task starts until it has ended");
    }
    tokio::select! {
        ended = speak(&options, &config, &keeper) => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn speak(options: &Options, config: &Config, keeper: &Keeper) -> anyhow::Result<()> {
    let kept = match keeper.credential()? {
        Some(kept) => {
            if let Some(told) = enrol::other_token_warning(options, &kept) {
                tracing::warn!("{told}");
            }
            kept
        }
        None => enrol(options, keeper).await?,
    };
    let client = client(options, Some(kept.credential.clone()))?;
    let (node, work, told, failing, eager) = (kept.node, None, None, BTreeSet::new(), 0);
    Agent { client, config, keeper, node, work, told, failing, eager }.live().await
}

fn client(options: &Options, token: Option<String>) -> anyhow::Result<Client> {
    let certificates = options.ca_file.as_ref().map(std::fs::read).transpose().context("the CA file")?;
    let server = options.server.clone();
    Ok(Client::new(&ClientOptions { server, token, certificates, timeout: None, warned: None })?)
}

/// A task that is being executed.
struct Work<'a> {
    task: Task,
    execution: Pin<Box<dyn Future<Output = TaskResult> + 'a>>,
}

struct Agent<'a> {
    client: Client,
    config: &'a Config,
    keeper: &'a Keeper,
    node: String,
    work: Option<Work<'a>>,
    /// The interval of heartbeats that the server last gave.
    told: Option<String>,
    /// The checks that failed when they last ran.
    failing: BTreeSet<String>,
    /// How many early requests for another task are left.
    eager: u32,
}

impl Agent<'_> {
    async fn live(mut self) -> anyhow::Result<()> {
        loop {
            let pause = match self.round().await {
                Ok(Some(pause)) => pause,
                Ok(None) => return Ok(()),
                Err(error) if is_final(&error) => {
                    return Err(error).context(
                        "the server does not know this agent any more: where its node was onboarded anew, remove --state-dir \
                         and start the agent with the new token",
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "the server did not answer; retrying");
                    PAUSE
                }
            };
            self.wait(pause).await?;
        }
    }

    /// Reports, beats and claims once. Returns the time of the next turn; none if the agent was uninstalled.
    async fn round(&mut self) -> Result<Option<Duration>, Error> {
        if self.report().await? {
            return Ok(None);
        }
        let checks = execute::checks(&self.config.checks).await;
        self.log_changes(&checks);
        let holding =
            self.work.iter().map(|work| Holding { task: work.task.id.clone(), epoch: work.task.epoch });
        let mut heartbeat = Heartbeat { checks, interval: self.told.clone(), tasks: holding.collect() };
        // A task from before a restart still belongs to this agent.
        let first = self.told.is_none();
        let beat = match self.client.gpu_node_heartbeat(&self.node, &heartbeat).await {
            Err(error) if is_unreadable(&error) => {
                tracing::warn!(%error, "the server refused the output of the checks; sending only how they ended");
                heartbeat.checks = brief(heartbeat.checks);
                self.client.gpu_node_heartbeat(&self.node, &heartbeat).await
            }
            beat => beat,
        }?;
        self.told = Some(beat.next.clone());
        let lost = self.work.as_ref().is_some_and(|work| beat.lost.contains(&work.task.id));
        if lost || (self.work.is_none() && (first || beat.has_tasks)) {
            self.claim().await?;
        }
        Ok(Some(pause(&beat)))
    }

    /// Logs checks that began to fail or passed again; unchanged ones are not logged.
    fn log_changes(&mut self, checks: &[Check]) {
        for check in turned(&self.failing, checks) {
            let (name, message) = (&check.name, check.message.as_deref().unwrap_or_default());
            if check.ok {
                tracing::info!(check = name, "a check passes again");
                self.failing.remove(name);
            } else {
                tracing::warn!(check = name, message, "a check fails");
                self.failing.insert(name.clone());
            }
        }
    }

    /// Claims the next task. A running task continues if the claim returns it, and is ended otherwise.
    async fn claim(&mut self) -> Result<(), Error> {
        let holder = self.keeper.installation().unwrap_or_default();
        let claimed = self.client.claim_gpu_node_task(&self.node, &holder).await?.task;
        let Some(task) = claimed else {
            if self.work.take().is_some() {
                tracing::warn!("the task no longer belongs to this agent; ending it");
            }
            return Ok(());
        };
        if let Some(work) = self.work.as_mut().filter(|work| work.task.id == task.id) {
            work.task.epoch = task.epoch;
            return Ok(());
        }
        if let Some(result) = self.keeper.result(&task.id) {
            // Done before, but the server has no result yet.
            self.keep(&task, TaskResult { epoch: task.epoch, ..result });
            return Ok(());
        }
        tracing::info!(task = task.id, kind = task.kind, "begins");
        let execution = Box::pin(execute::task(self.config, task.clone(), self.keeper.running()));
        self.work = Some(Work { task, execution });
        Ok(())
    }

    /// Waits for the next beat, or for the task to end.
    async fn wait(&mut self, pause: Duration) -> anyhow::Result<()> {
        let Some(work) = &mut self.work else {
            let pause = if self.eager > 0 { pause.min(SOON) } else { pause };
            self.eager = self.eager.saturating_sub(1);
            tokio::time::sleep(pause).await;
            return Ok(());
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            result = &mut work.execution => {
                let task = work.task.clone();
                tracing::info!(task = task.id, kind = task.kind, outcome = result.outcome, "ended");
                self.work = None;
                self.eager = EAGER;
                self.keep(&task, TaskResult { epoch: task.epoch, ..result });
            }
        }
        Ok(())
    }

    fn keep(&self, task: &Task, result: TaskResult) {
        if let Err(error) = self.keeper.keep_result(task, &result) {
            tracing::error!(
                task = task.id,
                "a result could not be written to disk; a restart would lose it: {error:#}"
            );
        }
    }

    /// Replaces a result that the server cannot read by a failure: its run must not wait for ever, and other results must
    /// not wait behind it. If the server refuses the failure too, it is still held, because otherwise the task would be
    /// executed again.
    fn replace(&self, task: &Task, result: &TaskResult, error: &Error) {
        tracing::error!(task = task.id, %error, "the server cannot read a result; reporting the task as failed");
        let plain = unreadable(result, &error.to_string());
        if *result == plain {
            self.keeper.set_aside(&task.id);
        } else {
            self.keep(task, plain);
        }
    }

    /// Reports pending results. Returns true if the agent was uninstalled and the server knows it.
    async fn report(&self) -> Result<bool, Error> {
        let mut uninstalled = false;
        for (task, result) in self.keeper.results() {
            match self.client.report_gpu_node_task(&self.node, &task.id, &result).await {
                Ok(_) => {
                    self.keeper.forget_result(&task.id);
                    let is_uninstall = task.kind == Kind::Uninstall.as_str();
                    uninstalled |= is_uninstall && result.outcome == "succeeded";
                }
                // The task has a newer epoch: if it comes back, its result is reported then.
                Err(Error::Problem(problem)) if problem.code == "task_lost" => {
                    self.keeper.set_aside(&task.id);
                }
                Err(Error::Problem(problem)) if problem.status == 404 => self.keeper.forget_result(&task.id),
                Err(error) if is_unreadable(&error) => self.replace(&task, &result, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(uninstalled)
    }
}

/// Returns the checks whose result changed.
fn turned<'a>(failing: &BTreeSet<String>, checks: &'a [Check]) -> Vec<&'a Check> {
    checks.iter().filter(|check| check.ok == failing.contains(&check.name)).collect()
}

/// Returns only how checks ended, so that output which the server refuses does not cost the heartbeat. Failed ones
/// come first, because a server keeps a limited number.
fn brief(mut checks: Vec<Check>) -> Vec<Check> {
    checks.sort_by_key(|check| check.ok);
    checks.truncate(64);
    for check in &mut checks {
        check.message = None;
        check.name = check.name.chars().filter(|c| !c.is_control()).take(100).collect();
    }
    checks
}

/// Returns the time of the next heartbeat: at once while a task waits to be claimed.
fn pause(beat: &Beat) -> Duration {
    let interval = Interval::parse("next", &beat.next).ok();
    let told = interval.and_then(|interval| Duration::try_from(interval.duration()).ok());
    told.unwrap_or(Duration::from_secs(30))
}

/// Returns whether the server does not know the agent. Any other refusal concerns one message only, and the agent
/// continues.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 401 | 403 | 404))
        || matches!(error, Error::Setup(_))
}

/// Returns whether a retry of the same message is useless.
fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 400 | 413 | 422))
}

/// The result that replaces one which the server cannot read.
fn unreadable(result: &TaskResult, why: &str) -> TaskResult {
    TaskResult {
        epoch: result.epoch,
        outcome: "failed".to_owned(),
        exit_code: result.exit_code,
        output: format!("the server refused the result of this task: {why}").chars().take(1000).collect(),
        details: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
