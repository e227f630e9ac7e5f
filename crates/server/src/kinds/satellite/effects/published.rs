//! Finds and publishes states that the registry lacks; each record keeps what was published for it.
//!
//! What must stay true: a missing state is published again without any change of a record: one from before
//! there was a registry, one in a registry that was given up, and one that a registry lost. A look costs
//! little: records are compared at a start, and later the registry is asked about few of them a second, one
//! at a time, by one server; it continues at once only where something is missing.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wardroom_store::{Document as Text, List, Resource};
use wardroom_upstream::{
    Failure,
    registry::{Registry, artifact::Artifact},
};

use super::{Trouble, Upstream, Worker, configured, publish, upkeep};
use crate::{
    kinds::{
        satellite::{
            artifact::{LATEST, registry_url, repository},
            config::CONFIGS,
            group::GROUPS,
        },
        satellite::{
            asked::is_publishing,
            document::{Document, KIND},
        },
    },
    platform::{
        app::App,
        http::error::Error,
        work::schedule::{Failed, Job, Next, Task},
    },
};

/// The kinds whose states are published: each is looked through by itself, so that many satellites do not keep their
/// groups waiting.
pub(super) const KINDS: [&str; 3] = [GROUPS.kind, CONFIGS.kind, KIND];

/// How what was published is called beside other observations.
const SOURCE: &str = "registry";

/// The lease under which one server looks, for how long it is taken, and how often it is renewed while there is nothing to
/// look at.
const LEASE: &str = "effects/published";
const HELD: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_secs(10);

/// Records that are compared at once.
const PAGE: usize = 500;

/// Records that the registry is asked about at once, and how long it is then left alone: of 100,000 satellites each is
/// looked at in an hour and a half.
const FEW: usize = 20;
const PACE: Duration = Duration::from_secs(1);

/// The pause after all were seen, or after an error.
const REST: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_secs(30);

/// What was published of a record, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Published {
    registry: String,
    digest: String,
}

/// Keeps that the registry has this digest of a record. The last publisher is right, whatever its clock says:
/// otherwise a server whose clock is behind would publish the same over and over.
pub(super) async fn keep(app: &App, kind: &'static str, id: &str, digest: &str) -> Result<(), Error> {
    const MOMENT: SignedDuration = SignedDuration::from_micros(1);
    let published = Published { registry: registry_url(app).to_owned(), digest: digest.to_owned() };
    let known = app.store.observed(kind, SOURCE, &[id]).await?;
    let later = known.iter().filter_map(|known| known.received_at.checked_add(MOMENT).ok()).max();
    let at = later.max(Some(app.now())).unwrap_or(Timestamp::MAX);
    Ok(app.store.observe_all(kind, SOURCE, &[(id.to_owned(), Text::of(&published)?, at)]).await?)
}

/// Forgets what was published of a record that is gone.
pub(super) async fn forget(app: &App, kind: &'static str, id: &str) -> Result<(), Error> {
    Ok(app.store.forget_observations(kind, id).await.map(drop)?)
}

/// One look for each kind, where there is a registry.
pub(super) fn jobs(worker: &Arc<Worker>) -> Vec<Job> {
    if worker.upstreams.registry.is_none() {
        return Vec::new();
    }
    let job = |kind| {
        let look = Look::at(kind, Arc::clone(worker));
        // What was asked for stays asked for, and the next look finds the rest.
        Job::of("published", TICK, look).at_once().interruptible().under(LEASE, &worker.holder, HELD)
    };
    KINDS.map(job).into()
}

/// A look at all records of a kind, over and over.
struct Look {
    worker: Arc<Worker>,
    kind: &'static str,
    /// Where it goes on.
    list: List,
    /// The first time, what was published counts as there.
    trusts: bool,
    /// States that are in no record, and were seen this time.
    built_in: BTreeSet<String>,
    rests_until: Option<Instant>,
}

impl Task for Look {
    fn run<'a>(&'a mut self, _: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            let worker = Arc::clone(&self.worker);
            let next = self.step(&worker).await;
            if next.is_err() {
                self.rests_until = Some(worker.app.clock.instant() + AGAIN);
            }
            next.map_err(|trouble| trouble.of(Upstream::Registry))
        })
    }
}

/// What came of a look at some records.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    missing: usize,
    /// What the registry said instead of an answer.
    trouble: Option<String>,
}

impl Look {
    fn at(kind: &'static str, worker: Arc<Worker>) -> Self {
        let list = List { kind: kind.to_owned(), ..List::default() };
        Self { worker, kind, list, trusts: true, built_in: BTreeSet::new(), rests_until: None }
    }

    /// Looks at some records, and says when to go on.
    async fn step(&mut self, worker: &Worker) -> Result<Next, Trouble> {
        let (app, now) = (&worker.app, worker.app.clock.instant());
        if !worker.agreed.publishes(app).await? {
            return Ok(Next::Yield(TICK));
        }
        let rest = self.rests_until.map(|until| until.saturating_duration_since(now));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            return Ok(Next::After(rest.min(TICK)));
        }
        worker.circuits.check(Upstream::Registry, app.clock.steady())?;
        self.list.limit = if self.trusts { PAGE } else { FEW };
        let page = app.store.list(&self.list).await.map_err(Error::from)?;
        if self.list.after.is_none() && !page.items.is_empty() {
            publish::prepare(app, worker.upstreams.harbor.as_ref()).await?;
            self.built_in.clear();
        }
        let seen = self.look(worker, page.items).await?;
        if seen.missing > 0 {
            let (kind, states) = (self.kind, seen.missing);
            tracing::warn!(kind, states, "the registry lacks an image; publishing it again");
        }
        if let Some(error) = &seen.trouble {
            tracing::warn!(kind = self.kind, error, "the registry was not checked for missing images");
        }
        self.list.after = page.next;
        let goes_on_at_once = seen.trouble.is_none() && (self.trusts || seen.missing > 0);
        if self.list.after.is_none() {
            // What was trusted is looked at next.
            self.rests_until = (!self.trusts).then(|| app.clock.instant() + REST);
            self.trusts = false;
        }
        Ok(Next::After(if goes_on_at_once { Duration::ZERO } else { PACE }))
    }

    async fn look(&mut self, worker: &Worker, records: Vec<Resource>) -> Result<Seen, Trouble> {
        let app = &worker.app;
        let ids: Vec<_> = records.iter().map(|record| record.content.id.as_str()).collect();
        let published = app.store.observed(self.kind, SOURCE, &ids).await.map_err(Error::from)?;
        // What cannot be read is as good as nothing.
        let published =
            published.into_iter().filter_map(|seen| Some((seen.resource_id, seen.document.read().ok()?)));
        let published: HashMap<String, Published> = published.collect();
        let mut seen = Seen::default();
        for record in records {
            match self.is_there(worker, &record, published.get(&record.content.id)).await {
                Ok(true) => {}
                // It is on its way there.
                Ok(false) if is_publishing(app, self.kind, &record.content.id).await? => {}
                Ok(false) => {
                    seen.missing += 1;
                    upkeep::ask_for(app, record, upkeep::Cause::Missing).await?;
                }
                Err(Trouble::Upstream(failure)) if !is_silence(&failure) => {
                    seen.trouble = Some(failure.to_string())
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(seen)
    }

    /// Whether the state of a record is in the registry, with the built-in artifacts that it refers to.
    async fn is_there(
        &mut self,
        worker: &Worker,
        record: &Resource,
        published: Option<&Published>,
    ) -> Result<bool, Trouble> {
        let (app, registry) = (&worker.app, configured(worker.upstreams.registry.as_ref())?);
        let Some(about) = publish::about(self.kind, record) else { return Ok(true) };
        // One that cannot be read was told to the log; the others have their turn.
        let Ok(document) = publish::state(app, about, record) else { return Ok(true) };
        let wanted = Artifact::of(&document).manifest.digest;
        if self.kind == KIND && !self.has_built_in(worker, registry, &Document::of(record)?).await? {
            return Ok(false);
        }
        let is_wanted = |known: &Published| known.registry == registry_url(app) && known.digest == wanted;
        match published {
            Some(known) if !is_wanted(known) => return Ok(false),
            Some(_) if self.trusts => return Ok(true),
            Some(_) => {}
            None => return Ok(false),
        }
        has(worker, registry, &repository(about), &wanted).await
    }

    /// Each of those is looked at once, for all that read it.
    async fn has_built_in(
        &mut self,
        worker: &Worker,
        registry: &Registry,
        satellite: &Document,
    ) -> Result<bool, Trouble> {
        for (about, document) in publish::built_in(&worker.app, satellite)? {
            let repository = repository(about);
            if self.built_in.contains(&repository) {
                continue;
            }
            let digest = Artifact::of(&document).manifest.digest;
            let has = has(worker, registry, &repository, &digest).await?;
            self.built_in.insert(repository);
            if !has {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the registry has this as the latest.
async fn has(worker: &Worker, registry: &Registry, repository: &str, digest: &str) -> Result<bool, Trouble> {
    let answer = registry.digest(repository, LATEST).await.map_err(Trouble::from);
    worker.circuits.note(Upstream::Registry, answer.as_ref().err(), worker.app.clock.steady());
    Ok(answer?.as_deref() == Some(digest))
}

/// No answer to this question means none to the next.
fn is_silence(failure: &Failure) -> bool {
    matches!(failure, Failure::Unreachable(_) | Failure::Ambiguous(_) | Failure::Busy { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kinds::satellite::group as satellite_group, platform::app::by_system};

    /// The clock of the server that published before was ahead.
    #[tokio::test]
    async fn the_last_publication_is_kept_whatever_the_clocks_say() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let content = GROUPS.content("g", &satellite_group::Document::default()).unwrap();
        app.create(content, by_system(&app, "registered", serde_json::Value::Null)).await.unwrap();
        let ahead = app.now().checked_add(SignedDuration::from_hours(1)).unwrap();
        let first = Text::of(&Published { registry: String::new(), digest: "first".to_owned() }).unwrap();
        app.store.observe_all(GROUPS.kind, SOURCE, &[("g".to_owned(), first, ahead)]).await.unwrap();
        for digest in ["second", "third"] {
            keep(&app, GROUPS.kind, "g", digest).await.unwrap();
            let known = app.store.observed(GROUPS.kind, SOURCE, &["g"]).await.unwrap();
            assert_eq!(known[0].document.read::<Published>().unwrap().digest, digest);
        }
    }
}
