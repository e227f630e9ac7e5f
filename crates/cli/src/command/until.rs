//! Waiting until resources are as they should be, for the verbs that know when that is.

use std::time::Duration;

use wardroom_api::client::{self, Client};

use crate::{
    exit::{Code, failure},
    follow::{self, Follower},
    locate::Target,
    outcome::Outcome,
    targets,
    view::Resource,
};

/// How often a resource is read although the feed shows no change of it.
const LOOK: Duration = Duration::from_secs(5);

/// How far a resource is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is as it should be: what it is.
    There(String),
    /// It will not be without a person: why.
    Never(String),
    /// It may be later.
    NotYet,
}

/// Waits for resources by their names, one after the other, for as long as the limit says.
pub(super) async fn all<T: Resource>(
    client: &Client,
    names: &[String],
    limit: Option<Duration>,
    judge: &dyn Fn(&T) -> Progress,
) -> anyhow::Result<()> {
    let targets = targets::all::<T>(client, names).await?;
    let kind = T::KIND.as_str();
    let every = async {
        let mut outcome = Outcome::default();
        for target in &targets {
            let done = one(client, target, judge).await;
            outcome.add(&format!("{kind}/{}", target.name), done)?;
        }
        outcome.finish()
    };
    let Some(limit) = limit else { return every.await };
    let late =
        || format!("not there after {}s; `wardroom why {kind} NAME` says what it waits for", limit.as_secs());
    tokio::time::timeout(limit, every).await.unwrap_or_else(|_| Err(failure(Code::Timeout, late())))
}

/// Waits for one resource. The cursor of the feed is fetched before it is read, so that no change is missed.
async fn one<T: Resource>(
    client: &Client,
    target: &Target,
    judge: &dyn Fn(&T) -> Progress,
) -> anyhow::Result<String> {
    let mut follower = Follower::start(client, None).await?;
    loop {
        match look(client, target, judge).await? {
            Progress::There(now) => return Ok(now),
            Progress::Never(why) => return Err(failure(Code::Conflict, why)),
            Progress::NotYet => {}
        }
        let news = async {
            while follower.next().await?.resource_id != target.id {}
            anyhow::Ok(())
        };
        tokio::time::timeout(LOOK, news).await.unwrap_or(Ok(()))?;
    }
}

/// Reads a resource, and retries while the server is away.
async fn look<T: Resource>(
    client: &Client,
    target: &Target,
    judge: &dyn Fn(&T) -> Progress,
) -> anyhow::Result<Progress> {
    loop {
        let error = match T::find(client, &target.id).await {
            Ok(item) if item.is_deleted() => return Ok(Progress::Never("it was deleted".to_owned())),
            Ok(item) => return Ok(judge(&item)),
            Err(error) => error,
        };
        match error.downcast_ref::<client::Error>() {
            Some(refused) if refused.is_not_found() => {
                return Ok(Progress::Never("it was deleted".to_owned()));
            }
            Some(refused) if follow::is_passing(refused) => tokio::time::sleep(follow::SHORTEST).await,
            Some(_) | None => return Err(error),
        }
    }
}
