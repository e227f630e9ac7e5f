//! The agent of a GPU node.
//!
//! It enrols once, keeps its credential where only its owner can read it, beats as it is told, and executes one task at
//! a time. What must stay true: a result is written down before it is reported and forgotten only when the server has
//! it, so a restart loses none, and a disk that takes none costs only that; a task whose result is held is not executed
//! again; a task that is not this agent's any more is not executed any longer.

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
mod orphan;

use config::Config;
use enrol::enrol;
use keep::Keeper;

/// What the agent is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The URL of the server.
    #[arg(long)]
    server: String,
    /// The file with the one-time token; needed until the agent has enrolled.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// Where the agent keeps its credential and results that are not reported yet.
    #[arg(long)]
    state_dir: PathBuf,
    /// The commands for each task, and the health checks, as TOML.
    #[arg(long)]
    config: PathBuf,
    /// Certificates to trust instead of the system's, as PEM.
    #[arg(long)]
    ca_file: Option<PathBuf>,
}

/// How long to wait before a server that does not answer is asked again.
const PAUSE: Duration = Duration::from_secs(5);

/// What a run asks for next comes a moment after a result: so often, and after so long, it is asked for at once instead of
/// with the next beat.
const EAGER: u32 = 5;
const SOON: Duration = Duration::from_secs(2);

/// Speaks for the node until it is told to stop, or its identity is gone.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let config = Config::read(&options.config)?;
    let keeper = Keeper::open(&options.state_dir)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    if let Err(left) = orphan::end(keeper.running(), orphan::PATIENCE).await {
        tracing::error!("{left}: no task is begun until it has");
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
            if let Some(told) = enrol::is_told_otherwise(options, &kept) {
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
    Ok(Client::new(&ClientOptions { server, token, certificates, timeout: None })?)
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
    /// When to beat next, as the server last said: the interval that this agent keeps.
    told: Option<String>,
    /// The checks that failed when they last ran.
    failing: BTreeSet<String>,
    /// How often it still asks soon whether there is another task.
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
                    tracing::warn!(%error, "the server did not answer; it is asked again");
                    PAUSE
                }
            };
            self.wait(pause).await?;
        }
    }

    /// Reports, beats and claims once; says when to come again, or nothing when the agent was uninstalled.
    async fn round(&mut self) -> Result<Option<Duration>, Error> {
        if self.report().await? {
            return Ok(None);
        }
        let checks = execute::checks(&self.config.checks).await;
        self.tell(&checks);
        let holding =
            self.work.iter().map(|work| Holding { task: work.task.id.clone(), epoch: work.task.epoch });
        let mut heartbeat = Heartbeat { checks, interval: self.told.clone(), tasks: holding.collect() };
        // What this agent was at before it was restarted is still its own.
        let first = self.told.is_none();
        let beat = match self.client.gpu_node_heartbeat(&self.node, &heartbeat).await {
            Err(error) if is_unreadable(&error) => {
                tracing::warn!(%error, "the server does not take what the checks said; it is told how they ended");
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

    /// Writes down which checks began to fail and which are well again; what goes on as it was is no news.
    fn tell(&mut self, checks: &[Check]) {
        for check in turned(&self.failing, checks) {
            let (name, message) = (&check.name, check.message.as_deref().unwrap_or_default());
            if check.ok {
                tracing::info!(check = name, "a check is well again");
                self.failing.remove(name);
            } else {
                tracing::warn!(check = name, message, "a check fails");
                self.failing.insert(name.clone());
            }
        }
    }

    /// Claims the next task. One that this agent is at goes on if it gets it back, and is ended if it does not.
    async fn claim(&mut self) -> Result<(), Error> {
        let holder = self.keeper.installation().unwrap_or_default();
        let claimed = self.client.claim_gpu_node_task(&self.node, &holder).await?.task;
        let Some(task) = claimed else {
            if self.work.take().is_some() {
                tracing::warn!("the task is not this agent's any more; it is ended");
            }
            return Ok(());
        };
        if let Some(work) = self.work.as_mut().filter(|work| work.task.id == task.id) {
            work.task.epoch = task.epoch;
            return Ok(());
        }
        if let Some(result) = self.keeper.result(&task.id) {
            // Done before, and the server had not heard of it.
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
                "a result is not on disk, and a restart would lose it: {error:#}"
            );
        }
    }

    /// A result that the server cannot read is a failure: its run must not wait for it for ever, and nothing else of this
    /// agent may wait behind it. One that it does not take as a failure either is held all the same, or its task would be
    /// executed again.
    fn replace(&self, task: &Task, result: &TaskResult, error: &Error) {
        tracing::error!(task = task.id, %error, "the server cannot read a result; the task is reported as failed");
        let plain = unreadable(result, &error.to_string());
        if *result == plain {
            self.keeper.set_aside(&task.id);
        } else {
            self.keep(task, plain);
        }
    }

    /// Reports what is not reported yet. True: the agent was uninstalled, and the server knows it.
    async fn report(&self) -> Result<bool, Error> {
        let mut uninstalled = false;
        for (task, result) in self.keeper.results() {
            match self.client.report_gpu_node_task(&self.node, &task.id, &result).await {
                Ok(_) => {
                    self.keeper.forget_result(&task.id);
                    let is_uninstall = task.kind == Kind::Uninstall.as_str();
                    uninstalled |= is_uninstall && result.outcome == "succeeded";
                }
                // Not this epoch's any more: if the task comes back, its result is reported then.
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

/// The checks that are not as they were.
fn turned<'a>(failing: &BTreeSet<String>, checks: &'a [Check]) -> Vec<&'a Check> {
    checks.iter().filter(|check| check.ok == failing.contains(&check.name)).collect()
}

/// How checks ended, and no more: what the server cannot take of what they said must not cost the beat. Those that failed
/// come first, as a server keeps only so many.
fn brief(mut checks: Vec<Check>) -> Vec<Check> {
    checks.sort_by_key(|check| check.ok);
    checks.truncate(64);
    for check in &mut checks {
        check.message = None;
        check.name = check.name.chars().filter(|c| !c.is_control()).take(100).collect();
    }
    checks
}

/// When to beat next. While a task waits to be claimed, at once.
fn pause(beat: &Beat) -> Duration {
    let interval = Interval::parse("next", &beat.next).ok();
    let told = interval.and_then(|interval| Duration::try_from(interval.duration()).ok());
    told.unwrap_or(Duration::from_secs(30))
}

/// Whether the agent is not known any more, or never was. Anything else that the server says against one message says
/// nothing against the agent, which goes on.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 401 | 403 | 404))
        || matches!(error, Error::Setup(_))
}

/// Whether the server would never take a message as it is.
fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Problem(problem) if matches!(problem.status, 400 | 413 | 422))
}

/// What is reported instead of a result that the server cannot read.
fn unreadable(result: &TaskResult, why: &str) -> TaskResult {
    TaskResult {
        epoch: result.epoch,
        outcome: "failed".to_owned(),
        exit_code: result.exit_code,
        output: format!("the server did not take the result of this task: {why}")
            .chars()
            .take(1000)
            .collect(),
        details: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
