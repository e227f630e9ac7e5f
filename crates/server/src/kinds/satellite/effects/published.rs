//! Finds and publishes states that the registry lacks; each record keeps what was published for it.
//!
//! What must stay true: a missing state is published again without any change of a record, for example after
//! a registry was configured, replaced or lost its data. A look costs little: records are compared at a
//! start, and later one server asks the registry about a few of them per second, and about more only while
//! states are missing.

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

use super::{EffectError, Upstream, Worker, configured, publish, upkeep};
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

/// The kinds with published states; each is checked separately, so that many satellites do not delay groups.
pub(super) const KINDS: [&str; 3] = [GROUPS.kind, CONFIGS.kind, KIND];

/// The source name of published states among a record's observations.
const SOURCE: &str = "registry";

/// The lease under which one server checks, its length, and how often it is renewed while idle.
const LEASE: &str = "effects/published";
const HELD: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_secs(10);

/// How many records are compared at once.
const PAGE: usize = 500;

/// How many records the registry is asked about at once, and the pause after that: 100,000 satellites take an
/// hour and a half.
const FEW: usize = 20;
const PACE: Duration = Duration::from_secs(1);

/// The pause after all were checked, or after an error.
const REST: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_secs(30);

/// The published state of a record, and its registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Published {
    registry: String,
    digest: String,
}

/// Stores the published digest of a record. The last publisher wins, independent of clocks: otherwise a
/// server whose clock is behind would publish again and again.
pub(super) async fn keep(app: &App, kind: &'static str, id: &str, digest: &str) -> Result<(), Error> {
    const MOMENT: SignedDuration = SignedDuration::from_micros(1);
    let published = Published { registry: registry_url(app).to_owned(), digest: digest.to_owned() };
    let known = app.store.observed(kind, SOURCE, &[id]).await?;
    let later = known.iter().filter_map(|known| known.received_at.checked_add(MOMENT).ok()).max();
    let at = later.max(Some(app.now())).unwrap_or(Timestamp::MAX);
    Ok(app.store.observe_all(kind, SOURCE, &[(id.to_owned(), Text::of(&published)?, at)]).await?)
}

/// Forgets the published state of a deleted record.
pub(super) async fn forget(app: &App, kind: &'static str, id: &str) -> Result<(), Error> {
    Ok(app.store.forget_observations(kind, id).await.map(drop)?)
}

/// One job for each kind, if there is a registry.
pub(super) fn jobs(worker: &Arc<Worker>) -> Vec<Job> {
    if worker.upstreams.registry.is_none() {
        return Vec::new();
    }
    let job = |kind| {
        let look = Look::at(kind, Arc::clone(worker));
        // Interruptible: queued effects stay queued, and the next look finds the rest.
        Job::of("published", TICK, look).at_once().interruptible().under(LEASE, &worker.holder, HELD)
    };
    KINDS.map(job).into()
}

/// Checks all records of a kind, again and again.
struct Look {
    worker: Arc<Worker>,
    kind: &'static str,
    /// The list, from where it continues.
    list: List,
    /// Whether stored digests are trusted, as in the first round.
    trusts: bool,
    /// Built-in states that were checked in this round.
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
            next.map_err(|error| error.of(Upstream::Registry))
        })
    }
}

/// The result of checking some records.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    missing: usize,
    /// The failure of the registry, if any.
    failure: Option<String>,
}

impl Look {
    fn at(kind: &'static str, worker: Arc<Worker>) -> Self {
        let list = List { kind: kind.to_owned(), ..List::default() };
        Self { worker, kind, list, trusts: true, built_in: BTreeSet::new(), rests_until: None }
    }

    /// Checks some records, and returns when to continue.
    async fn step(&mut self, worker: &Worker) -> Result<Next, EffectError> {
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
        if let Some(error) = &seen.failure {
            tracing::warn!(kind = self.kind, error, "the registry was not checked for missing images");
        }
        self.list.after = page.next;
        let goes_on_at_once = seen.failure.is_none() && (self.trusts || seen.missing > 0);
        if self.list.after.is_none() {
            // After the round that trusts stored digests, ask the registry at once.
            self.rests_until = (!self.trusts).then(|| app.clock.instant() + REST);
            self.trusts = false;
        }
        Ok(Next::After(if goes_on_at_once { Duration::ZERO } else { PACE }))
    }

    async fn look(&mut self, worker: &Worker, records: Vec<Resource>) -> Result<Seen, EffectError> {
        let app = &worker.app;
        let ids: Vec<_> = records.iter().map(|record| record.content.id.as_str()).collect();
        let published = app.store.observed(self.kind, SOURCE, &ids).await.map_err(Error::from)?;
        // An unreadable digest counts as missing.
        let published =
            published.into_iter().filter_map(|seen| Some((seen.resource_id, seen.document.read().ok()?)));
        let published: HashMap<String, Published> = published.collect();
        let mut seen = Seen::default();
        for record in records {
            match self.is_there(worker, &record, published.get(&record.content.id)).await {
                Ok(true) => {}
                // An effect to publish it is open.
                Ok(false) if is_publishing(app, self.kind, &record.content.id).await? => {}
                Ok(false) => {
                    seen.missing += 1;
                    upkeep::ask_for(app, record, upkeep::Cause::Missing).await?;
                }
                Err(EffectError::Upstream(failure)) if !is_silence(&failure) => {
                    seen.failure = Some(failure.to_string())
                }
                Err(error) => return Err(error),
            }
        }
        Ok(seen)
    }

    /// Whether the registry has the state of a record, with the built-in artifacts that it refers to.
    async fn is_there(
        &mut self,
        worker: &Worker,
        record: &Resource,
        published: Option<&Published>,
    ) -> Result<bool, EffectError> {
        let (app, registry) = (&worker.app, configured(worker.upstreams.registry.as_ref())?);
        let Some(about) = publish::about(self.kind, record) else { return Ok(true) };
        // An unreadable record was logged; skip it.
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

    /// Checks each built-in artifact once for all its readers.
    async fn has_built_in(
        &mut self,
        worker: &Worker,
        registry: &Registry,
        satellite: &Document,
    ) -> Result<bool, EffectError> {
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
async fn has(
    worker: &Worker,
    registry: &Registry,
    repository: &str,
    digest: &str,
) -> Result<bool, EffectError> {
    let answer = registry.digest(repository, LATEST).await.map_err(EffectError::from);
    worker.circuits.note(Upstream::Registry, answer.as_ref().err(), worker.app.clock.steady());
    Ok(answer?.as_deref() == Some(digest))
}

/// Whether further calls would get no answer either.
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
