//! Waiting for runs, and telling how far they are.

use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use wardroom_api::{
    client::{self, Client},
    run::Run,
};
use wardroom_core::run::State;
use wardroom_server::clock::Clock;

use crate::{
    exit::{Code, failure},
    follow::{self, Follower},
    outcome::Outcome,
    output, text,
};

/// A run is looked at this often although the feed says nothing of it.
const LOOK: Duration = Duration::from_secs(15);

/// `--wait`.
#[derive(Args)]
pub(crate) struct Wait {
    /// Wait until the run ends, and tell how far it is; fails when it needs an operator.
    #[arg(long, visible_alias = "watch")]
    wait: bool,
    /// How long to wait at most, such as 90s or 2h; for as long as it takes unless told.
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = length)]
    wait_timeout: Option<Duration>,
}

/// How long a command that only waits does so.
#[derive(Args)]
pub(crate) struct Patience {
    /// How long to wait at most, such as 90s or 2h; for as long as it takes unless told.
    #[arg(long, value_name = "TIME", value_parser = length)]
    wait_timeout: Option<Duration>,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = text.parse::<SignedDuration>().ok().and_then(|length| Duration::try_from(length).ok());
    length.ok_or_else(|| "write a length of time such as 90s, 30m or 2h".to_owned())
}

impl Wait {
    /// Waits for runs, if it was asked for.
    pub(crate) async fn until_over(
        &self,
        client: &Client,
        runs: &[String],
        wish: Wish,
    ) -> anyhow::Result<()> {
        if !self.wait {
            return Ok(());
        }
        Patience { wait_timeout: self.wait_timeout }.until_over(client, runs, wish).await
    }
}

impl Patience {
    /// Waits for runs. One that is cancelled ends as it should only if that was the wish.
    pub(crate) async fn until_over(
        &self,
        client: &Client,
        runs: &[String],
        wish: Wish,
    ) -> anyhow::Result<()> {
        let all = async {
            let mut outcome = Outcome::default();
            for run in runs {
                outcome.add(&format!("run/{run}"), until_one_is_over(client, run, wish).await)?;
            }
            outcome.finish()
        };
        let Some(limit) = self.wait_timeout else { return all.await };
        let late = "the work is still on its way: `wardroom get runs -w` goes on watching it";
        tokio::time::timeout(limit, all).await.unwrap_or_else(|_| Err(failure(Code::Timeout, late)))
    }
}

/// How a run shall end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// With what it was started for.
    Done,
    /// Cancelled.
    Cancelled,
}

/// The place in the feed is taken before the run is read, so that its end is not missed.
async fn until_one_is_over(client: &Client, id: &str, wish: Wish) -> anyhow::Result<String> {
    let mut follower = Follower::start(client, None).await?;
    let mut told = String::new();
    loop {
        let run = patiently(client, id).await?;
        let now = line(&run, Clock.now());
        match run.state.parse()? {
            State::Pending | State::Running | State::Compensating if now == told => {}
            State::Pending | State::Running | State::Compensating => {
                output::note(&text::clean(&now));
                told = now;
            }
            State::Completed | State::Reconciled => return Ok(run.state),
            State::Cancelled if wish == Wish::Cancelled => return Ok(run.state),
            State::Cancelled => return Err(failure(Code::Failed, format!("run/{id} was cancelled"))),
            State::FailedRetryable | State::FailedManualIntervention => {
                let next = format!("`wardroom describe run {id}` says what was tried and what to do");
                return Err(failure(Code::Failed, format!("{now}\nnext: {next}")));
            }
        }
        // Silence and news both mean: look again.
        let news = tokio::time::timeout(LOOK, next_of(&mut follower, id)).await;
        news.unwrap_or(Ok(()))?;
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

/// A run, however long the server is away meanwhile.
async fn patiently(client: &Client, id: &str) -> Result<Run, client::Error> {
    loop {
        match client.run(id).await {
            Ok(detail) => return Ok(detail.run),
            Err(error) if follow::is_passing(&error) => tokio::time::sleep(follow::SHORTEST).await,
            Err(error) => return Err(error),
        }
    }
}

/// How far a run is. One that tries again says what the last attempt failed with, and when the next one is.
fn line(run: &Run, now: Timestamp) -> String {
    let undo = if run.undoing { "undoing " } else { "" };
    let mut line = format!("run/{} is {} at {undo}{}", run.id, run.state, run.stage);
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

/// What a run that is on its way waits for, or when it is tried again.
pub(crate) fn outlook(run: &Run, now: Timestamp) -> String {
    match (&run.waiting, run.next_attempt_at) {
        (Some(waiting), _) => format!(", waiting: {}", waiting.reason),
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

    use super::{length, line};

    #[test]
    fn who_waits_is_told_why_it_takes_long() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let failure = json!({"stage": "s", "class": "unanswered", "evidence": "no route", "at": now});
        let shown = |changes: serde_json::Value| {
            let mut run = json!({
                "id": "r", "kind": "onboarding", "node_id": "n", "state": "running", "stage": "s", "attempt": 3,
                "goal": "run", "undoing": false, "adopted": false, "failure": failure,
                "next_attempt_at": now + SignedDuration::from_mins(5),
                "created_at": now, "updated_at": now, "state_changed_at": now,
            });
            run.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap());
            line(&serde_json::from_value(run).unwrap(), now)
        };
        let so_far = "run/r is running at s, attempt 3";
        let failed = "; the last one failed: unanswered: no route";
        assert_eq!(shown(json!({})), format!("{so_far}{failed}; next look 2026-01-01T00:05:00Z"));
        assert_eq!(shown(json!({"next_attempt_at": now})), format!("{so_far}{failed}"), "it is being tried");
        let waiting = json!({"reason": "the agent", "since": now});
        assert_eq!(shown(json!({"waiting": waiting})), format!("{so_far}, waiting: the agent"));
        let stopped = shown(json!({"state": "failed_retryable", "next_attempt_at": null}));
        assert_eq!(stopped, "run/r is failed_retryable at s, attempt 3: unanswered: no route");
    }

    #[test]
    fn a_length_of_time_is_read() {
        assert_eq!(length("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(length("2h"), Ok(Duration::from_secs(7200)));
        assert!(length("-5m").is_err() && length("soon").is_err());
    }
}
