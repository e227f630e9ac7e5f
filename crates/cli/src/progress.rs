//! Waits for runs, and shows their progress.

use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use wardroom_api::{
    client::{self, Client},
    run::Run,
};
use wardroom_core::run::{State, plan::Kind};
use wardroom_server::platform::clock::Clock;

use crate::{
    bar::{self, Bar},
    exit::{Code, failure},
    follow::{self, Follower},
    locate::Target,
    outcome::Outcome,
    output, text,
};

/// How often a run is read although the feed shows no change of it.
const LOOK: Duration = Duration::from_secs(15);

/// `--wait`.
#[derive(Args)]
pub(crate) struct Wait {
    /// Wait until the run ends, and show its progress; fails when it needs an operator.
    #[arg(long, visible_alias = "watch")]
    wait: bool,
    /// The longest time to wait, such as 90s or 2h; default: no limit.
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = length)]
    wait_timeout: Option<Duration>,
}

/// The time limit of a command that only waits.
#[derive(Args)]
pub(crate) struct Patience {
    /// The longest time to wait, such as 90s or 2h; default: no limit.
    #[arg(long, value_name = "TIME", value_parser = length)]
    wait_timeout: Option<Duration>,
}

/// Reads a length of time.
pub(crate) fn length(text: &str) -> Result<Duration, String> {
    let length = text.parse::<SignedDuration>().ok().and_then(|length| Duration::try_from(length).ok());
    length.ok_or_else(|| "write a length of time such as 90s, 30m or 2h".to_owned())
}

impl Wait {
    /// Waits for runs, if it was asked for.
    pub(crate) async fn until_over(
        &self,
        client: &Client,
        runs: &[Target],
        wish: Wish,
    ) -> anyhow::Result<()> {
        if !self.wait {
            return Ok(());
        }
        Patience { wait_timeout: self.wait_timeout }.until_over(client, runs, wish).await
    }
}

impl Patience {
    /// Waits for runs. A cancelled run is a success only if `wish` is `Cancelled`.
    pub(crate) async fn until_over(
        &self,
        client: &Client,
        runs: &[Target],
        wish: Wish,
    ) -> anyhow::Result<()> {
        let all = async {
            let mut outcome = Outcome::default();
            for run in runs {
                outcome.add(&format!("run/{}", run.name), until_one_is_over(client, run, wish).await)?;
            }
            outcome.finish()
        };
        let all = bar::unless_interrupted(all, "wardroom get runs -w");
        let Some(limit) = self.wait_timeout else { return all.await };
        let late = "the run continues; watch it with `wardroom get runs -w`";
        tokio::time::timeout(limit, all).await.unwrap_or_else(|_| Err(failure(Code::Timeout, late)))
    }
}

/// How a run is expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Completed.
    Done,
    /// Cancelled.
    Cancelled,
}

/// Waits for one run. The cursor of the feed is fetched before the run is read, so that its end is not missed.
async fn until_one_is_over(client: &Client, target: &Target, wish: Wish) -> anyhow::Result<String> {
    let mut follower = Follower::start(client, None).await?;
    let (Target { id, name }, mut told) = (target, String::new());
    let bar = Bar::start();
    loop {
        let run = patiently(client, id).await?;
        let now = line(&run, name, Clock.now());
        match run.state.parse()? {
            State::Pending | State::Running | State::Compensating if bar.is_live() || now == told => {}
            State::Pending | State::Running | State::Compensating => {
                output::note(&text::clean(&now));
                told = now;
            }
            State::Completed | State::Reconciled => return Ok(run.state),
            State::Cancelled if wish == Wish::Cancelled => return Ok(run.state),
            State::Cancelled => return Err(failure(Code::Failed, format!("run/{name} was cancelled"))),
            State::FailedRetryable | State::FailedManualIntervention => {
                let next = format!("`wardroom describe run {name}` shows the attempts and the next step");
                return Err(failure(Code::Failed, format!("{now}\nnext: {next}")));
            }
        }
        // After a change and after a while alike, read the run again.
        let mut news = std::pin::pin!(tokio::time::timeout(LOOK, next_of(&mut follower, id)));
        loop {
            bar.draw(&drawn(&run, name, Clock.now()));
            tokio::select! {
                news = &mut news => break news.unwrap_or(Ok(()))?,
                () = tokio::time::sleep(bar::TICK), if bar.is_live() => {}
            }
        }
    }
}

async fn next_of(follower: &mut Follower, id: &str) -> anyhow::Result<()> {
    loop {
        let row = follower.next().await?;
        if row.kind == "run" && row.resource_id == id {
            return Ok(());
        }
    }
}

/// Reads a run, and retries while the server is away.
async fn patiently(client: &Client, id: &str) -> Result<Run, client::Error> {
    loop {
        match client.run(id).await {
            Ok(detail) => return Ok(detail.run),
            Err(error) if follow::is_passing(&error) => tokio::time::sleep(follow::SHORTEST).await,
            Err(error) => return Err(error),
        }
    }
}

/// A run with its bar: how many of its stages are done, and the stage that it is at.
pub(crate) fn sketch(run: &Run, name: &str) -> String {
    let steps = run.kind.parse::<Kind>().map_or(&[][..], Kind::plan);
    let here = steps.iter().position(|step| step.stage.as_str() == run.stage).unwrap_or_default();
    let (done, all) = (here as u64, steps.len() as u64);
    let undo = if run.undoing { "undoing " } else { "" };
    format!("run/{name} {}  {}  {}/{all} {undo}{}", run.kind, bar::of(done, all), done + 1, run.stage)
}

/// The same with how long it takes and what it waits for.
fn drawn(run: &Run, name: &str, now: Timestamp) -> String {
    let length = Duration::try_from(now.duration_since(run.created_at)).unwrap_or_default();
    format!(
        "{}  {}{}",
        sketch(run, name),
        bar::length(length),
        outlook(run, now).replacen(", waiting: ", "  ", 1)
    )
}

/// Describes the progress of a run; for one that retries, the last failure and the next attempt.
fn line(run: &Run, name: &str, now: Timestamp) -> String {
    let undo = if run.undoing { "undoing " } else { "" };
    let mut line = format!("run/{name} is {} at {undo}{}", run.state, run.stage);
    if run.attempt > 1 {
        line.push_str(&format!(", attempt {}", run.attempt));
    }
    if let Some(failure) = run.failure.as_ref().filter(|_| run.state.starts_with("failed")) {
        line.push_str(&format!(": {}: {}", failure.class, failure.evidence));
        return line;
    }
    if let Some(failure) = run.failure.as_ref().filter(|_| run.waiting.is_none()) {
        line.push_str(&format!("; the last one failed: {}: {}", failure.class, failure.evidence));
    }
    line + &outlook(run, now)
}

/// Describes what a run waits for, or when its next attempt is.
pub(crate) fn outlook(run: &Run, now: Timestamp) -> String {
    match (&run.waiting, run.next_attempt_at) {
        (Some(waiting), _) => format!(", waiting: {}", waiting.what),
        (None, Some(next)) if run.failure.is_some() && next > now => {
            format!("; next look {}", text::time(next))
        }
        (None, Some(_) | None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::{drawn, length, line};

    #[test]
    fn a_long_wait_is_explained() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let failure = json!({"stage": "s", "class": "unanswered", "evidence": "no route", "at": now});
        let shown = |changes: serde_json::Value| {
            let mut run = json!({
                "id": "r", "kind": "onboarding", "node_id": "n", "status": "running", "stage": "s", "attempt": 3,
                "goal": "run", "undoing": false, "adopted": false, "failure": failure,
                "next_attempt_at": now + SignedDuration::from_mins(5),
                "created_at": now, "updated_at": now, "state_changed_at": now,
            });
            run.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap());
            line(&serde_json::from_value(run).unwrap(), "r", now)
        };
        let so_far = "run/r is running at s, attempt 3";
        let failed = "; the last one failed: unanswered: no route";
        assert_eq!(shown(json!({})), format!("{so_far}{failed}; next look 2026-01-01T00:05:00Z"));
        assert_eq!(shown(json!({"next_attempt_at": now})), format!("{so_far}{failed}"), "it is being tried");
        let waiting = json!({"what": "the agent", "since": now});
        assert_eq!(shown(json!({"waiting": waiting})), format!("{so_far}, waiting: the agent"));
        let stopped = shown(json!({"status": "failed_retryable", "next_attempt_at": null}));
        assert_eq!(stopped, "run/r is failed_retryable at s, attempt 3: unanswered: no route");
    }

    #[test]
    fn a_run_is_drawn_with_its_stage() {
        let now: Timestamp = "2026-01-01T00:04:12Z".parse().unwrap();
        let began = now - SignedDuration::from_secs(252);
        let run = json!({
            "id": "r", "kind": "retire", "node_id": "n", "status": "running", "stage": "drain_node", "attempt": 1,
            "goal": "run", "undoing": false, "adopted": false, "waiting": {"what": "the agent", "since": began},
            "created_at": began, "updated_at": began, "state_changed_at": began,
        });
        let shown = drawn(&serde_json::from_value(run).unwrap(), "g1", now);
        assert!(
            shown.starts_with("run/g1 retire  ━") && shown.ends_with("─  2/3 drain_node  4m12s  the agent"),
            "{shown}"
        );
    }

    #[test]
    fn a_length_of_time_is_read() {
        assert_eq!(length("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(length("2h"), Ok(Duration::from_secs(7200)));
        assert!(length("-5m").is_err() && length("soon").is_err());
    }
}
