//! The agent of a GPU node.
//!
//! It enrols once, keeps its credential where only its owner can read it, beats as it is told, and executes one task at
//! a time. What must stay true: a result is written down before it is reported and forgotten only when the server has
//! it, so a restart loses none; a task that is not this agent's any more is not executed any longer.

use std::{
    collections::BTreeSet,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use wardroom_api::{
    client::{Client, Error, Options as ClientOptions},
    gpu_node::agent::{Beat, Check, Enroll, Heartbeat, Holding, Task, TaskResult},
};
use wardroom_core::{gpu_node::task::Kind, liveness::Interval};

mod config;
mod execute;
mod keep;
mod orphan;

use config::Config;
use keep::{Keeper, Kept};

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

/// How tokens to enrol with begin.
const TOKEN: &str = "wrb_";

/// How long to wait before a server that does not answer is asked again.
const PAUSE: Duration = Duration::from_secs(5);

/// Speaks for the node until it is told to stop, or its identity is gone.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let config = Config::read(&options.config)?;
    let keeper = Keeper::open(&options.state_dir)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    orphan::end(keeper.running()).await;
    tokio::select! {
        ended = speak(&options, &config, &keeper) => ended,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn speak(options: &Options, config: &Config, keeper: &Keeper) -> anyhow::Result<()> {
    let kept = match keeper.credential()? {
        Some(kept) => kept,
        None => enrol(options, keeper).await?,
    };
    let client = client(options, Some(kept.credential.clone()))?;
    Agent { client, config, keeper, node: kept.node, work: None, told: None, failing: BTreeSet::new() }
        .live()
        .await
}

fn client(options: &Options, token: Option<String>) -> anyhow::Result<Client> {
    let certificates = options.ca_file.as_ref().map(std::fs::read).transpose().context("the CA file")?;
    let server = options.server.clone();
    Ok(Client::new(&ClientOptions { server, token, certificates, timeout: None })?)
}

/// Exchanges the token, however long the server takes to answer.
async fn enrol(options: &Options, keeper: &Keeper) -> anyhow::Result<Kept> {
    let file = options.token_file.as_ref();
    let file = file
        .context("the agent has not enrolled yet: give --token-file with the one-time token of its node")?;
    let client = client(options, None)?;
    loop {
        let token = read_token(file)?;
        let enroll = Enroll {
            token,
            exchange: Some(keeper.installation()?),
            hostname: hostname(),
            serial_number: None,
            model: None,
        };
        match client.enroll_gpu_node(&enroll).await {
            Ok(enrolled) => {
                let kept = Kept { node: enrolled.node, credential: enrolled.credential };
                keeper.keep_credential(&kept)?;
                tracing::info!(node = kept.node, "enrolled");
                return Ok(kept);
            }
            Err(error) if is_final(&error) => {
                return Err(error).with_context(|| {
                    let file = file.display();
                    format!("the server does not take the token in {file}: it works once and expires; `wardroom gpu-node resume` issues another")
                });
            }
            // The same question would get the same answer for ever.
            Err(error) if is_unreadable(&error) => {
                return Err(error).context(
                    "the server does not understand this agent's enrolment: is --server a Wardroom server, and is it as \
                     new as the agent?",
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the server did not enrol this agent; it is asked again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The one-time token of the node.
fn read_token(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let token = std::fs::read_to_string(file).with_context(|| {
        format!("cannot read --token-file {shown}, which holds the one-time token that `wardroom gpu-node create` wrote")
    })?;
    let token = token.trim();
    let fits = token.starts_with(TOKEN) && !token.contains(char::is_whitespace);
    anyhow::ensure!(
        fits,
        "--token-file {shown} holds no one-time token: it is one line that starts with {TOKEN}, as `wardroom gpu-node \
         create` wrote it"
    );
    Ok(token.to_owned())
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
}

impl Agent<'_> {
    async fn live(mut self) -> anyhow::Result<()> {
        loop {
            let pause = match self.round().await {
                Ok(Some(pause)) => pause,
                Ok(None) => return Ok(()),
                Err(error) if is_final(&error) => {
                    return Err(error).context("the server does not know this agent");
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
            tokio::time::sleep(pause).await;
            return Ok(());
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            result = &mut work.execution => {
                let task = work.task.clone();
                tracing::info!(task = task.id, kind = task.kind, outcome = result.outcome, "ended");
                self.work = None;
                self.keep(&task, TaskResult { epoch: task.epoch, ..result });
            }
        }
        Ok(())
    }

    fn keep(&self, task: &Task, result: TaskResult) {
        if let Err(error) = self.keeper.keep_result(task, &result) {
            tracing::error!(task = task.id, %error, "a result cannot be kept; a restart would lose it");
        }
    }

    /// A result that the server cannot read is a failure: its run must not wait for it for ever, and nothing else of this
    /// agent may wait behind it.
    fn replace(&self, task: &Task, result: &TaskResult, error: &Error) {
        tracing::error!(task = task.id, %error, "the server cannot read a result; the task is reported as failed");
        let plain = unreadable(result, &error.to_string());
        if *result == plain {
            self.keeper.forget_result(&task.id);
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

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        net::TcpListener,
        path::Path,
        time::Duration,
    };

    use wardroom_api::{
        Problem,
        client::Error,
        gpu_node::agent::{Check, Detail, TaskResult},
    };

    use super::{
        Agent, BTreeSet, Config, Keeper, Options, brief, client, enrol, is_final, is_unreadable, turned,
        unreadable,
    };

    /// A server that answers each request as `answer` says of its body; its URL.
    fn serve(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    let head = line.to_ascii_lowercase();
                    length =
                        head.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let (status, said) = answer(std::str::from_utf8(&body).unwrap());
                let length = said.len();
                let head =
                    format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
                reader.into_inner().write_all(format!("{head}{said}").as_bytes()).unwrap();
            }
        });
        url
    }

    fn options(server: String, dir: &Path) -> Options {
        let token_file = Some(dir.join("token"));
        std::fs::write(dir.join("token"), "wrb_one").unwrap();
        Options { server, token_file, state_dir: dir.to_owned(), config: dir.join("config"), ca_file: None }
    }

    fn problem(status: u16) -> (u16, String) {
        (status, serde_json::to_string(&told(status)).unwrap())
    }

    /// Whoever asks the same again hears the same again; it says why, and ends.
    #[tokio::test]
    async fn an_enrolment_that_is_refused_ends_the_agent() {
        for (status, why) in
            [(400, "understand"), (401, "token"), (403, "token"), (404, "token"), (413, "understand")]
        {
            let dir = tempfile::tempdir().unwrap();
            let keeper = Keeper::open(dir.path()).unwrap();
            let options = options(serve(move |_| problem(status)), dir.path());
            let ended = tokio::time::timeout(Duration::from_secs(60), enrol(&options, &keeper)).await;
            let Err(error) = ended.expect("it is not asked for ever") else { panic!("{status}") };
            assert!(error.to_string().contains(why), "{status}: {error}");
        }
    }

    /// What a server cannot take of what checks said costs what they said, and never the beat.
    #[tokio::test]
    async fn a_beat_comes_through_whatever_checks_say() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(dir.path()).unwrap();
        let beat = r#"{"state":"active","next":"@every 00h00m30s","server_time":"2026-11-16T00:00:00Z","has_tasks":false,"lost":[]}"#;
        let server = serve(move |body| match (body.contains("message"), body.contains(r#""ok":false"#)) {
            (true, _) => problem(400),
            (false, true) => (200, beat.to_owned()),
            (false, false) => problem(500),
        });
        let config: Config =
            toml::from_str("[[checks]]\nname = \"gpu\"\ncommand = [\"sh\", \"-c\", \"echo NaN; exit 1\"]\n")
                .unwrap();
        let client = client(&options(server, dir.path()), None).unwrap();
        // It beat before, and has claimed what it was at.
        let (node, told) = ("one".to_owned(), Some("@every 00h00m30s".to_owned()));
        let failing = BTreeSet::new();
        let mut agent = Agent { client, config: &config, keeper: &keeper, node, work: None, told, failing };
        assert_eq!(agent.round().await.unwrap(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn what_is_brief_keeps_what_failed() {
        let check = |number: usize, ok| Check {
            name: format!("\u{7}{number}{}", "é".repeat(200)),
            ok,
            message: Some("x".repeat(500)),
        };
        let mut checks: Vec<_> = (0..100).map(|number| check(number, true)).collect();
        checks.push(check(100, false));
        let checks = brief(checks);
        assert_eq!((checks.len(), checks[0].ok, checks[0].name.chars().count()), (64, false, 100));
        assert!(serde_json::to_string(&checks).unwrap().len() < 64 << 10, "as much as a server reads");
    }

    fn refused(status: u16) -> Error {
        Error::Problem(Box::new(told(status)))
    }

    fn told(status: u16) -> Problem {
        let text = String::new;
        Problem {
            type_: text(),
            title: text(),
            status,
            detail: text(),
            code: text(),
            request_id: text(),
            errors: Vec::new(),
            allowed_actions: None,
            asked: text(),
        }
    }

    #[test]
    fn only_a_lost_identity_ends_an_agent() {
        for (status, ends) in
            [(400, false), (401, true), (403, true), (404, true), (413, false), (503, false)]
        {
            assert_eq!(is_final(&refused(status)), ends, "{status}");
        }
        for (status, never) in [(400, true), (413, true), (401, false), (503, false)] {
            assert_eq!(is_unreadable(&refused(status)), never, "{status}");
        }
    }

    #[test]
    fn a_check_is_told_when_it_turns() {
        let check = |name: &str, ok: bool| Check { name: name.to_owned(), ok, message: None };
        let failing = BTreeSet::from(["dcgm".to_owned(), "nccl".to_owned()]);
        let now = [check("dcgm", false), check("nccl", true), check("disk", false), check("fan", true)];
        let told: Vec<_> = turned(&failing, &now).iter().map(|check| check.name.as_str()).collect();
        assert_eq!(told, ["nccl", "disk"]);
    }

    #[test]
    fn a_result_that_cannot_be_read_becomes_a_failure_once() {
        let detail = Detail { name: "\u{7}".to_owned(), method: "erase".to_owned(), ok: true };
        let result = TaskResult {
            epoch: 3,
            outcome: "succeeded".to_owned(),
            details: vec![detail],
            ..TaskResult::default()
        };
        let plain = unreadable(&result, "details: no");
        assert_eq!((plain.epoch, plain.outcome.as_str(), plain.details.len()), (3, "failed", 0));
        assert_eq!(unreadable(&plain, "details: no"), plain, "it is not replaced a second time");
    }
}
