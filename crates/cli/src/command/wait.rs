//! `wardroom wait`.

mod goal;

use std::time::Duration;

use clap::{Args, ValueEnum as _, builder::NonEmptyStringValueParser};
use wardroom_api::{
    client::{self, Client},
    run::Run,
};
use wardroom_core::lifecycles;

use goal::{Goal, Progress, conditioned, goal, gone, ran, stated};

use crate::{
    bar,
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

/// Waits until resources are in a state, have a condition, until their newest run has ended, or until they are deleted. Fails with code 4 as soon as
/// that can no longer happen, and with code 6 when the time is over. For example: wardroom wait node n1 --for state=active
#[derive(Args)]
pub(crate) struct Wait {
    /// The kind of the resources.
    #[arg(value_enum)]
    kind: Kind,
    /// Their names, ids or the starts of ids.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    /// What to wait for: state=STATE, condition=NAME or condition=NAME=STATUS (of clusters, node pools, devices and fleets),
    /// run=STATE (such as run=completed) or deleted.
    #[arg(long = "for", value_name = "GOAL", value_parser = goal)]
    goal: Goal,
    /// The longest time to wait for all of them, such as 90s or 2h; default: no limit.
    #[arg(long, value_name = "TIME", value_parser = length)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
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
        let look = format!("wardroom get {}s -w", T::KIND.as_str());
        let every = bar::unless_interrupted(every, &look);
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

    /// Refuses a state that the kind does not have, and a condition of a kind that has none.
    fn check<T: Resource>(&self) -> anyhow::Result<()> {
        let (kind, tables) = (T::KIND.as_str(), lifecycles::all());
        if matches!(self.goal, Goal::Condition(..)) && !T::CONDITIONED {
            let with = Kind::value_variants().iter().filter(|kind| with_type!(**kind, T => T::CONDITIONED));
            let with: Vec<_> = with.map(|kind| kind.as_str()).collect();
            let said =
                format!("--for condition=…: a {kind} has no conditions; these have: {}", with.join(", "));
            return Err(failure(Code::Usage, said));
        }
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
            Goal::Condition(name, status) => Ok(conditioned(name, status, &serde_json::to_value(&item)?)),
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
