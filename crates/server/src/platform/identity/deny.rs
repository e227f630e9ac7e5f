//! Keeps the credential caches of all kinds in step with the records.
//!
//! Commits of this process reach the caches through the store, before their callers are answered
//! ([`Caches`]). Commits of other servers arrive in two ways: revocations through the deny set, which is read
//! several times a second; everything else through the feed.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use wardroom_store::{CommitListener, Denied, FeedItem, List, PendingCommit, Resource, Store};

use crate::platform::{
    app::App,
    clock::{Moment, Timepiece},
    feed::follow::{self, Follower},
    http::error::Error,
    work::schedule::{Failed, Job},
};

/// How often the deny set is read; several times within [`super::cache::TRUSTED`].
const POLL: Duration = Duration::from_millis(250);

/// How often caches drop what they no longer need.
const SWEEP: Duration = Duration::from_secs(300);

/// How long after a failure the records are loaded again.
const QUIET: Duration = Duration::from_secs(1);

const PAGE: usize = 1000;

/// The cache of one kind, as far as changes of records concern it.
pub(crate) trait Forgets: Send + Sync {
    fn kind(&self) -> &'static str;
    /// Whether the cache keeps all members.
    fn keeps_all(&self) -> bool;
    /// Takes in a commit of this process.
    fn committed(&self, resource: &Resource, began: Moment);
    /// Takes in a record that was read.
    fn found(&self, resource: &Resource, asked: Moment);
    /// Distrusts versions of a record below this one, because another server has changed it.
    fn announce(&self, id: &str, version: i64, now: Moment);
    /// A change to this version may have happened or may still happen: the record is read again.
    fn doubt(&self, id: &str, version: i64, now: Moment);
    /// Extends the trust in entries, except for those that the deny set names; `asked` is from before the
    /// read. After a gap in which a denial may have been missed, everything is forgotten.
    fn confirm(&self, denied: &[Denied], asked: Moment, longest_gap: Duration);
    /// Marks the cache as complete.
    fn complete(&self);
    /// Forgets least trusted versions that are older than any read.
    fn sweep(&self, now: Moment);
}

/// The caches of all kinds; the store tells them of commits.
pub(crate) struct Caches {
    clock: Timepiece,
    all: Vec<Arc<dyn Forgets>>,
}

impl Caches {
    pub(crate) fn new(clock: Timepiece, all: Vec<Arc<dyn Forgets>>) -> Self {
        Self { clock, all }
    }

    fn of(&self, kind: &str) -> Option<&Arc<dyn Forgets>> {
        self.all.iter().find(|cache| cache.kind() == kind)
    }
}

impl CommitListener for Caches {
    fn begins(&self, kind: &str, id: &str, version: i64) -> Option<Box<dyn PendingCommit>> {
        let (cache, id) = (Some(Arc::clone(self.of(kind)?)), id.to_owned());
        Some(Box::new(UnderWay { cache, id, version, clock: self.clock, began: self.clock.moment() }))
    }
}

/// A commit of a record that a cache may know.
struct UnderWay {
    /// None once the outcome is known.
    cache: Option<Arc<dyn Forgets>>,
    id: String,
    version: i64,
    clock: Timepiece,
    began: Moment,
}

impl PendingCommit for UnderWay {
    fn committed(mut self: Box<Self>, resource: &Resource) {
        if let Some(cache) = self.cache.take() {
            cache.committed(resource, self.began);
        }
    }

    fn refused(mut self: Box<Self>) {
        self.cache = None;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.take() {
            cache.doubt(&self.id, self.version, self.clock.moment());
        }
    }
}

/// The jobs that keep the caches in step.
pub(crate) fn jobs(app: &App) -> Vec<Job> {
    let mut jobs = vec![
        Job::once("credentials", QUIET, |app| Box::pin(load(app))).interruptible(),
        Job::every("credential caches", SWEEP, |app| Box::pin(sweep(app))),
    ];
    if app.store.is_shared() {
        jobs.push(Job::every("deny set", POLL, |app| Box::pin(confirm(app))).at_once().interruptible());
        let kinds = app.parts.caches.iter().map(|cache| cache.kind()).collect();
        jobs.push(follow::job("credential feed", app, None, Announce { kinds }));
    }
    jobs
}

/// Loads the kinds that are kept whole, so that the first requests after a start need no read of the database.
async fn load(app: &App) -> Result<(), Error> {
    for cache in app.parts.caches.iter().filter(|cache| cache.keeps_all()) {
        let mut list = List { kind: cache.kind().to_owned(), limit: PAGE, ..List::default() };
        loop {
            let asked = app.moment();
            let page = app.store.list(&list).await?;
            page.items.iter().for_each(|resource| cache.found(resource, asked));
            list.after = page.next;
            if list.after.is_none() {
                break;
            }
        }
        cache.complete();
    }
    Ok(())
}

/// Drops expired entries from all caches.
async fn sweep(app: &App) -> Result<(), Error> {
    let now = app.moment();
    app.parts.caches.iter().for_each(|cache| cache.sweep(now));
    Ok(())
}

/// Reads the deny set. While it cannot be read, no credential is answered from memory: callers are looked up one by one.
async fn confirm(app: &App) -> Result<(), Error> {
    let asked = app.moment();
    let denied = app.store.reserved().denied().await?;
    app.parts.caches.iter().for_each(|cache| cache.confirm(&denied, asked, Store::DENIED_FOR / 2));
    Ok(())
}

/// Follows the feed: a record created by another replica is read now, a changed one at its next request.
struct Announce {
    kinds: Vec<&'static str>,
}

impl Follower for Announce {
    fn kinds(&self) -> Vec<&'static str> {
        self.kinds.clone()
    }

    fn page(&self) -> usize {
        PAGE
    }

    fn take<'a>(&'a mut self, app: &'a App, page: &'a [FeedItem]) -> BoxFuture<'a, Result<(), Failed>> {
        Box::pin(async move {
            for row in page.iter().map(|item| &item.row) {
                let found = app.parts.caches.iter().find(|cache| cache.kind() == row.kind);
                let (Some(cache), asked) = (found, app.moment()) else { continue };
                if row.sequence > 1 {
                    cache.announce(&row.resource_id, row.sequence, asked);
                } else if cache.keeps_all()
                    && let Ok(Some(resource)) = app.store.get(&row.kind, &row.resource_id).await
                {
                    cache.found(&resource, asked);
                }
            }
            Ok(())
        })
    }
}
