//! Waiting until resources are as they should be, for the verbs that know when that is.

use std::time::Duration;

use wardroom_api::client::{self, Client};

use crate::{
    bar::{self, Bar},
    exit::{Code, failure},
    follow::{self, Follower},
    locate::Target,
    outcome::Outcome,
    output, targets, text,
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

/// How far a resource is, for people: the finished part of the whole, if it has parts, and a few words.
pub(super) struct Sketch {
    pub(super) parts: Option<(u64, u64)>,
    pub(super) words: String,
}

/// What a verb knows of its resources.
pub(super) struct Goal<'a, T> {
    pub(super) judge: &'a dyn Fn(&T) -> Progress,
    pub(super) sketch: &'a dyn Fn(&T) -> Option<Sketch>,
}

/// Waits for resources by their names, one after the other, for as long as the limit says.
pub(super) async fn all<T: Resource>(
    client: &Client,
    names: &[String],
    limit: Option<Duration>,
    goal: &Goal<'_, T>,
) -> anyhow::Result<()> {
    let targets = targets::all::<T>(client, names).await?;
    let kind = T::KIND.as_str();
    let every = async {
        let mut outcome = Outcome::default();
        for target in &targets {
            let done = one(client, target, goal).await;
            outcome.add(&format!("{kind}/{}", target.name), done)?;
        }
        outcome.finish()
    };
    let look = format!("wardroom get {kind}s -w");
    let every = bar::unless_interrupted(every, &look);
    let Some(limit) = limit else { return every.await };
    let late =
        || format!("not there after {}s; `wardroom why {kind} NAME` says what it waits for", limit.as_secs());
    tokio::time::timeout(limit, every).await.unwrap_or_else(|_| Err(failure(Code::Timeout, late())))
}

/// Waits for one resource. The cursor of the feed is fetched before it is read, so that no change is missed.
async fn one<T: Resource>(client: &Client, target: &Target, goal: &Goal<'_, T>) -> anyhow::Result<String> {
    let mut follower = Follower::start(client, None).await?;
    let (bar, mut told) = (Bar::start(), String::new());
    loop {
        let Some(item) = look::<T>(client, target).await? else {
            return Err(failure(Code::Conflict, "it was deleted"));
        };
        match (goal.judge)(&item) {
            Progress::There(now) => return Ok(now),
            Progress::Never(why) => return Err(failure(Code::Conflict, why)),
            Progress::NotYet => {}
        }
        if let Some(sketch) = (goal.sketch)(&item) {
            show(&bar, &format!("{}/{}", T::KIND.as_str(), target.name), &sketch, &mut told);
        }
        let news = async {
            while follower.next().await?.resource_id != target.id {}
            anyhow::Ok(())
        };
        tokio::time::timeout(LOOK, news).await.unwrap_or(Ok(()))?;
    }
}

/// Draws how far it is on a terminal; elsewhere a line for each change.
fn show(bar: &Bar, name: &str, Sketch { parts, words }: &Sketch, told: &mut String) {
    let counted =
        parts.map_or_else(String::new, |(done, all)| format!("  {} {done}/{all}", bar::of(done, all)));
    bar.draw(&format!("{name}{counted}  {words}"));
    let line = format!("{name} {words}");
    if !bar.is_live() && line != *told {
        output::note(&text::clean(&line));
        *told = line;
    }
}

/// Reads a resource, and retries while the server is away; nothing for one that was deleted.
async fn look<T: Resource>(client: &Client, target: &Target) -> anyhow::Result<Option<T>> {
    loop {
        let error = match T::find(client, &target.id).await {
            Ok(item) => return Ok(Some(item).filter(|item| !item.is_deleted())),
            Err(error) => error,
        };
        match error.downcast_ref::<client::Error>() {
            Some(refused) if refused.is_not_found() => return Ok(None),
            Some(refused) if follow::is_passing(refused) => tokio::time::sleep(follow::SHORTEST).await,
            Some(_) | None => return Err(error),
        }
    }
}
