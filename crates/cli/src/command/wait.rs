//! `wardroom wait`.

use std::{collections::BTreeSet, time::Duration};

use clap::{Args, builder::NonEmptyStringValueParser};
use serde_json::Value;
use wardroom_api::{
    client::{self, Client},
    run::Run,
};
use wardroom_core::{Named as _, lifecycles, run::State as RunState};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    follow::{self, Follower},
    kind::{Kind, with_type},
    locate::Target,
    outcome::Outcome,
    progress::length,
    targets::all,
    view::Resource,
};

/// How often a resource is read although the feed shows no change of it.
const LOOK: Duration = Duration::from_secs(15);

/// Waits until resources are in a state, until their newest run has ended, or until they are deleted. Fails with code 4 as soon as
/// that can no longer happen, and with code 6 when the time is over. For example: wardroom wait node n1 --for state=active
#[derive(Args)]
pub(crate) struct Wait {
    /// The kind of the resources.
    #[arg(value_enum)]
    kind: Kind,
    /// Their names, ids or the starts of ids.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    /// What to wait for: state=STATE, run=STATE (such as run=completed) or deleted.
    #[arg(long = "for", value_name = "GOAL", value_parser = goal)]
    goal: Goal,
    /// The longest time to wait for all of them, such as 90s or 2h; default: no limit.
    #[arg(long, value_name = "TIME", value_parser = length)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Goal {
    State(String),
    Run(String),
    Deleted,
}

fn goal(text: &str) -> Result<Goal, String> {
    match text.split_once('=') {
        None if matches!(text, "deleted" | "delete") => Ok(Goal::Deleted),
        Some(("state" | "status", state)) if !state.is_empty() => Ok(Goal::State(state.to_owned())),
        Some(("run", state)) if state.parse::<RunState>().is_ok() => Ok(Goal::Run(state.to_owned())),
        Some(("run", _)) => {
            let states: Vec<_> = RunState::ALL.iter().map(|state| state.as_str()).collect();
            Err(format!("a run is one of: {}", states.join(", ")))
        }
        Some(_) | None => Err("write state=STATE, run=STATE or deleted".to_owned()),
    }
}

/// How far a resource is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    There(String),
    Never(String),
    NotYet,
}

impl Wait {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        with_type!(self.kind, T => self.wait::<T>().await)
    }

    async fn wait<T: Resource>(&self) -> anyhow::Result<()> {
        self.check::<T>()?;
        let client = self.connection.client()?;
        let targets = all::<T>(&client, &self.names).await?;
        let every = async {
            let mut outcome = Outcome::default();
            for target in &targets {
                let done = self.one::<T>(&client, target).await;
                outcome.add(&format!("{}/{}", T::KIND.as_str(), target.name), done)?;
            }
            outcome.finish()
        };
        let Some(limit) = self.wait_timeout else { return every.await };
        let late = || {
            format!(
                "not there after {}s; `wardroom why {} NAME` says what it waits for",
                limit.as_secs(),
                T::KIND.as_str()
            )
        };
        tokio::time::timeout(limit, every).await.unwrap_or_else(|_| Err(failure(Code::Timeout, late())))
    }

    /// Refuses a state that the kind does not have.
    fn check<T: Resource>(&self) -> anyhow::Result<()> {
        let (kind, tables) = (T::KIND.as_str(), lifecycles::all());
        let table = tables.iter().find(|table| table.name == kind);
        if let (Goal::State(state), Some(table)) = (&self.goal, table)
            && table.state(state).is_none()
        {
            let states: Vec<_> = table.states.iter().map(|state| state.name).collect();
            return Err(failure(
                Code::Usage,
                format!("--for state={state}: a {kind} is one of: {}", states.join(", ")),
            ));
        }
        Ok(())
    }

    /// Waits for one resource. The cursor of the feed is fetched before it is read, so that no change is missed.
    async fn one<T: Resource>(&self, client: &Client, target: &Target) -> anyhow::Result<String> {
        let mut follower = Follower::start(client, None).await?;
        loop {
            match self.look::<T>(client, target).await? {
                Progress::There(now) => return Ok(now),
                Progress::Never(why) => return Err(failure(Code::Conflict, why)),
                Progress::NotYet => {}
            }
            let news = async {
                loop {
                    let row = follower.next().await?;
                    if row.resource_id == target.id
                        || matches!(self.goal, Goal::Run(_)) && row.kind == Run::KIND.as_str()
                    {
                        return anyhow::Ok(());
                    }
                }
            };
            tokio::time::timeout(LOOK, news).await.unwrap_or(Ok(()))?;
        }
    }

    /// Reads a resource, and retries while the server is away.
    async fn look<T: Resource>(&self, client: &Client, target: &Target) -> anyhow::Result<Progress> {
        loop {
            let error = match self.progress::<T>(client, target).await {
                Ok(progress) => return Ok(progress),
                Err(error) => error,
            };
            match error.downcast_ref::<client::Error>() {
                Some(refused) if refused.is_not_found() => return Ok(gone(&self.goal)),
                Some(refused) if follow::is_passing(refused) => tokio::time::sleep(follow::SHORTEST).await,
                Some(_) | None => return Err(error),
            }
        }
    }

    async fn progress<T: Resource>(&self, client: &Client, target: &Target) -> anyhow::Result<Progress> {
        let item = T::find(client, &target.id).await?;
        if item.is_deleted() {
            return Ok(gone(&self.goal));
        }
        match &self.goal {
            Goal::Deleted => Ok(Progress::NotYet),
            Goal::State(wanted) => Ok(stated(T::KIND.as_str(), wanted, &serde_json::to_value(&item)?)),
            Goal::Run(wanted) => {
                let Some(run) = item.run() else {
                    return Ok(Progress::Never(format!("{} has no run", target.name)));
                };
                let run = client.run(run).await?.run;
                let failure = run.failure.map(|failure| failure.evidence);
                Ok(ran(wanted, &run.state, failure.as_deref(), &target.name))
            }
        }
    }
}

fn gone(goal: &Goal) -> Progress {
    match goal {
        Goal::Deleted => Progress::There("deleted".to_owned()),
        Goal::State(_) | Goal::Run(_) => Progress::Never("it was deleted".to_owned()),
    }
}

/// Compares the state in the JSON of a resource; a state that no move leads to any more is given up.
fn stated(kind: &str, wanted: &str, item: &Value) -> Progress {
    let stated = item["state"].as_str().or(item["status"].as_str());
    // The state of a resource with several statuses is its summary; that of one with a rollout is the rollout's.
    let stated = stated.or(item["status"]["summary"]["status"].as_str());
    let state = stated.or(item["status"]["rollout"]["state"].as_str()).unwrap_or_default();
    if state == wanted {
        return Progress::There(state.to_owned());
    }
    let tables = lifecycles::all();
    match tables.iter().find(|table| table.name == kind) {
        Some(table) if !table.leads(state, wanted) => {
            Progress::Never(format!("it is {state}, and nothing leads from there to {wanted}"))
        }
        Some(_) | None => Progress::NotYet,
    }
}

/// Compares the state of a run; one that has ended otherwise, or needs a person, is given up.
fn ran(wanted: &str, state: &str, failure: Option<&str>, name: &str) -> Progress {
    let over: BTreeSet<_> = ["completed", "reconciled", "cancelled"].into();
    let stands: BTreeSet<_> = ["failed_retryable", "failed_manual_intervention"].into();
    let why = failure.map_or_else(String::new, |failure| format!(": {failure}"));
    if state == wanted || (wanted == "completed" && state == "reconciled") {
        Progress::There(format!("run {state}"))
    } else if over.contains(state) {
        Progress::Never(format!("its run is {state} already"))
    } else if stands.contains(state) {
        Progress::Never(format!("its run is {state}{why}\nnext: `wardroom why run {name}`"))
    } else {
        Progress::NotYet
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Goal, Progress, goal, ran, stated};

    #[test]
    fn a_goal_is_read() {
        assert_eq!(goal("state=active"), Ok(Goal::State("active".to_owned())));
        assert_eq!(goal("run=completed"), Ok(Goal::Run("completed".to_owned())));
        assert_eq!(goal("deleted"), Ok(Goal::Deleted));
        assert!(goal("run=done").unwrap_err().contains("completed"));
        assert!(goal("soon").is_err() && goal("state=").is_err());
    }

    #[test]
    fn what_can_no_longer_happen_is_not_waited_for() {
        let node = |state: &str| stated("node", "active", &json!({"state": state}));
        assert_eq!(node("active"), Progress::There("active".to_owned()));
        assert_eq!(node("installing"), Progress::NotYet);
        assert!(matches!(node("retired"), Progress::Never(_)));
        assert_eq!(stated("satellite", "online", &json!({"status": "pending"})), Progress::NotYet);
        let device = json!({"status": {"summary": {"status": "Online"}}});
        assert_eq!(stated("device", "Online", &device), Progress::There("Online".to_owned()));
        let fleet = json!({"status": {"rollout": {"state": "Paused"}}});
        assert_eq!(stated("fleet", "Inactive", &fleet), Progress::NotYet);
        assert_eq!(ran("completed", "running", None, "g"), Progress::NotYet);
        assert!(matches!(ran("completed", "reconciled", None, "g"), Progress::There(_)));
        assert!(matches!(ran("completed", "cancelled", None, "g"), Progress::Never(_)));
        let Progress::Never(why) = ran("completed", "failed_retryable", Some("503"), "g") else { panic!() };
        assert!(why.contains("503") && why.contains("wardroom why run g"), "{why}");
    }
}
