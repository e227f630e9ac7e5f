//! Last reports of members: buffered in memory and written in batches, together with the beats.
//!
//! A kind brings a [`Report`]. A report with news waits in memory until a flush has written it. Then memory
//! keeps only a brief, which recognises repetitions; the rest is read from the database.
//!
//! What must stay true: a request with a report writes nothing itself. Waiting reports are bounded in bytes:
//! a report without room is dropped, and counts as new when the member repeats it. A flush is bounded too, so
//! that other statements get their turn.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use futures_util::future::BoxFuture;
use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use wardroom_store::{Document, Observation, Store};

use crate::platform::{app::App, http::error::Error, id::Id};

/// Parts that are locked apart.
const PARTS: usize = 64;

/// A repeated report is written again after this time, so that stored numbers do not get older.
pub(crate) const OLDEST: SignedDuration = SignedDuration::from_mins(15);

/// Bytes of all reports of a kind that wait.
const MOST_WAITING: usize = 128 << 20;

/// How much goes into one statement, and into one flush.
const BATCH: Amount = Amount { rows: 500, bytes: 1 << 20 };
const MOST: Amount = Amount { rows: 5_000, bytes: 16 << 20 };
const ALL: Amount = Amount { rows: usize::MAX, bytes: usize::MAX };

/// A report of a member of a kind. Fields that a report leaves out stay as they were.
pub(crate) trait Report: Clone + Send + Sync + 'static {
    const KIND: &'static str;
    /// The source name of these reports among a member's observations.
    const SOURCE: &'static str;
    /// Whether a brief stays in memory once a report is written; without one, every report counts as new.
    const KEEPS_BRIEF: bool;
    /// What stays in memory: enough to recognise a repetition, and the numbers that change all the time.
    type Brief: Clone + Default + Send + Sync;
    /// What is written.
    type Stored: Serialize + DeserializeOwned + Send + Sync;

    /// Whether it has no field set.
    fn is_empty(&self) -> bool;
    /// The approximate size when written, in bytes.
    fn size(&self) -> usize;
    /// Merges this over an earlier report.
    fn over(self, before: &Self) -> Self;
    /// Whether it has every field, so that the stored report need not be read to write it.
    fn is_whole(&self) -> bool;
    /// Merges the brief of this over an earlier brief.
    fn brief(&self, before: &Self::Brief) -> Self::Brief;
    /// Whether the briefs differ in more than numbers that change with every report.
    fn differs(before: &Self::Brief, after: &Self::Brief) -> bool;
    /// Copies the numbers of another brief, for a report that is dropped.
    fn take_numbers(brief: &mut Self::Brief, after: &Self::Brief);
    /// The member's last report from memory and the database, if there is one.
    fn stored(
        said: Option<Self>,
        brief: &Self::Brief,
        written: Option<Self::Stored>,
        received_at: Timestamp,
    ) -> Option<Self::Stored>;
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    rows: usize,
    bytes: usize,
}

impl Amount {
    fn and(self, bytes: usize) -> Self {
        Self { rows: self.rows + 1, bytes: self.bytes.saturating_add(bytes) }
    }

    fn exceeds(self, most: Self) -> bool {
        self.rows > most.rows || self.bytes > most.bytes
    }
}

struct Part<R: Report> {
    known: IndexMap<Id, Kept<R>, DefaultHashBuilder>,
    /// Members whose reports are to be written.
    queue: VecDeque<Id>,
}

impl<R: Report> Default for Part<R> {
    fn default() -> Self {
        Self { known: IndexMap::default(), queue: VecDeque::new() }
    }
}

struct Kept<R: Report> {
    brief: R::Brief,
    /// The last report, in microseconds.
    received_at: i64,
    /// When the last written report was received, in microseconds; the minimum if none was.
    written_at: i64,
    /// The report that is not written yet.
    said: Option<Arc<R>>,
    /// Whether the member is in the queue.
    is_queued: bool,
}

/// A report that is about to be written.
struct Taken<R: Report> {
    id: Id,
    said: Arc<R>,
    brief: R::Brief,
    received_at: Timestamp,
}

pub(crate) struct Buffer<R: Report> {
    parts: Box<[Mutex<Part<R>>]>,
    hasher: DefaultHashBuilder,
    /// Bytes that wait.
    waiting: AtomicUsize,
    most_waiting: usize,
    /// The part whose turn it is to be written first.
    first: AtomicUsize,
}

impl<R: Report> Default for Buffer<R> {
    fn default() -> Self {
        Self::with_room(MOST_WAITING)
    }
}

impl<R: Report> Buffer<R> {
    fn with_room(most_waiting: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            waiting: AtomicUsize::new(0),
            most_waiting,
            first: AtomicUsize::new(0),
        }
    }

    pub(crate) fn keep(&self, id: &str, report: R, received_at: Timestamp) {
        let id = Id::new(id);
        let mut part = self.part(&id);
        let Part { known, queue } = &mut *part;
        let (at, is_known) = (received_at.as_microsecond(), known.contains_key(&id));
        // A written report, perhaps from another server, is still its last one.
        if !is_known && report.is_empty() {
            return;
        }
        let kept = known.entry(id.clone()).or_insert_with(Kept::default);
        let brief = report.brief(&kept.brief);
        let is_new = !is_known
            || !R::KEEPS_BRIEF
            || R::differs(&kept.brief, &brief)
            || at.saturating_sub(kept.written_at) >= micros(OLDEST);
        kept.received_at = at;
        if kept.said.is_none() && !is_new {
            kept.brief = brief;
            return;
        }
        let before = kept.said.as_ref().map_or(0, |said| said.size());
        let said = match &kept.said {
            Some(said) => report.over(said),
            None => report,
        };
        let size = said.size();
        if self.waiting.load(Relaxed).saturating_sub(before).saturating_add(size) > self.most_waiting {
            R::take_numbers(&mut kept.brief, &brief);
            return;
        }
        self.waiting.fetch_add(size, Relaxed);
        self.waiting.fetch_sub(before, Relaxed);
        (kept.brief, kept.said) = (brief, Some(Arc::new(said)));
        if is_new && !kept.is_queued {
            kept.is_queued = true;
            queue.push_back(id);
        }
    }

    pub(crate) fn forget(&self, id: &str) {
        let id = Id::new(id);
        let before = self.part(&id).known.swap_remove(&id);
        self.release(before.and_then(|kept| kept.said).as_deref());
    }

    /// Returns the last reports of members, from memory and the database; members without any are left out.
    pub(crate) async fn latest(
        &self,
        store: &Store,
        ids: &[&str],
    ) -> Result<HashMap<String, R::Stored>, Error> {
        let mut found = written::<R>(store, ids).await?;
        let mut latest = HashMap::new();
        for id in ids {
            let (written, received_at) = found.remove(*id).unzip();
            if let Some(stored) = self.overlaid(id, written, received_at) {
                latest.insert((*id).to_owned(), stored);
            }
        }
        Ok(latest)
    }

    /// Returns the report of a member that is not written yet, and its time.
    pub(crate) fn waiting(&self, id: &str) -> Option<(Arc<R>, Timestamp)> {
        let id = Id::new(id);
        let part = self.part(&id);
        let kept = part.known.get(&id)?;
        Some((Arc::clone(kept.said.as_ref()?), time(kept.received_at)))
    }

    /// Returns the stored report with later fields from memory laid over it.
    pub(crate) fn overlaid(
        &self,
        id: &str,
        written: Option<R::Stored>,
        received_at: Option<Timestamp>,
    ) -> Option<R::Stored> {
        let id = Id::new(id);
        let part = self.part(&id);
        let Some(kept) = part.known.get(&id) else { return written };
        if received_at.is_some_and(|written| kept.received_at < written.as_microsecond()) {
            return written;
        }
        let said = kept.said.as_deref().cloned();
        R::stored(said, &kept.brief, written, time(kept.received_at))
    }

    /// Takes at most `most` of the waiting reports; always at least one.
    fn take(&self, most: Amount) -> Vec<Taken<R>> {
        let (mut taken, mut amount) = (Vec::new(), Amount::default());
        // The parts take turns in being first; within a part the longest waiting member is first.
        let first = self.first.fetch_add(1, Relaxed) % PARTS;
        for part in self.parts.iter().cycle().skip(first).take(PARTS) {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let Part { known, queue } = &mut *part;
            while let Some(id) = queue.pop_front() {
                let Some(kept) = known.get_mut(&id) else { continue };
                let Some(said) = kept.said.as_ref().filter(|_| kept.is_queued) else { continue };
                amount = amount.and(said.size());
                if amount.exceeds(most) && !taken.is_empty() {
                    queue.push_front(id);
                    return taken;
                }
                kept.is_queued = false;
                let (brief, received_at) = (kept.brief.clone(), time(kept.received_at));
                taken.push(Taken { id, said: Arc::clone(said), brief, received_at });
            }
        }
        taken
    }

    /// Marks reports as written: memory keeps their briefs, unless a newer report waits.
    fn written(&self, taken: &[Taken<R>]) {
        for Taken { id, received_at, .. } in taken {
            let mut part = self.part(id);
            let Some(kept) = part.known.get_mut(id) else { continue };
            kept.written_at = kept.written_at.max(received_at.as_microsecond());
            if kept.is_queued {
                continue;
            }
            let said = kept.said.take();
            if !R::KEEPS_BRIEF {
                part.known.swap_remove(id);
            }
            self.release(said.as_deref());
        }
    }

    /// Puts reports back that could not be written.
    fn put_back(&self, taken: &[Taken<R>]) {
        for Taken { id, .. } in taken {
            let mut part = self.part(id);
            let Part { known, queue } = &mut *part;
            let waits = |kept: &&mut Kept<R>| kept.said.is_some() && !kept.is_queued;
            if let Some(kept) = known.get_mut(id).filter(waits) {
                kept.is_queued = true;
                queue.push_back(id.clone());
            }
        }
    }

    async fn write(&self, store: &Store, most: Amount) -> Result<(), Error> {
        let taken = self.take(most);
        let mut left = &*taken;
        while !left.is_empty() {
            let (batch, after) = left.split_at(first_batch(left));
            if let Err(error) = self.write_batch(store, batch).await {
                self.put_back(left);
                return Err(error);
            }
            self.written(batch);
            left = after;
        }
        Ok(())
    }

    /// Writes reports over the stored ones, so that fields they leave out are kept.
    async fn write_batch(&self, store: &Store, batch: &[Taken<R>]) -> Result<(), Error> {
        let ids: Vec<_> = batch.iter().map(|taken| taken.id.to_string()).collect();
        let partial: Vec<_> = batch.iter().zip(&ids).filter(|(taken, _)| !taken.said.is_whole()).collect();
        let partial: Vec<_> = partial.into_iter().map(|(_, id)| id.as_str()).collect();
        let mut before = written::<R>(store, &partial).await?;
        let mut rows = Vec::with_capacity(batch.len());
        for (taken, id) in batch.iter().zip(ids) {
            let written = before.remove(&id).map(|(written, _)| written);
            let said = Some((*taken.said).clone());
            if let Some(stored) = R::stored(said, &taken.brief, written, taken.received_at) {
                rows.push((id, Document::of(&stored)?, taken.received_at));
            }
        }
        Ok(store.observe_all(R::KIND, R::SOURCE, &rows).await?)
    }

    fn release(&self, said: Option<&R>) {
        self.waiting.fetch_sub(said.map_or(0, R::size), Relaxed);
    }

    fn part(&self, id: &Id) -> MutexGuard<'_, Part<R>> {
        let number = usize::try_from(self.hasher.hash_one(id) % PARTS as u64).unwrap_or_default();
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Report> Default for Kept<R> {
    fn default() -> Self {
        let brief = R::Brief::default();
        Self { brief, received_at: i64::MIN, written_at: i64::MIN, said: None, is_queued: false }
    }
}

/// How many go into the next statement: one at least.
fn first_batch<R: Report>(left: &[Taken<R>]) -> usize {
    let mut amount = Amount::default();
    let fits = left.iter().take_while(|taken| {
        amount = amount.and(taken.said.size());
        !amount.exceeds(BATCH)
    });
    fits.count().max(1)
}

/// Reads the stored reports of members, and when they were received. An unreadable row counts as missing.
async fn written<R: Report>(
    store: &Store,
    ids: &[&str],
) -> Result<HashMap<String, (R::Stored, Timestamp)>, Error> {
    let seen = store.observed(R::KIND, R::SOURCE, ids).await?;
    let readable = |seen: Observation| match seen.document.read::<R::Stored>() {
        Ok(stored) => Some((seen.resource_id, (stored, seen.received_at))),
        Err(error) => {
            tracing::warn!(%error, kind = R::KIND, id = seen.resource_id, "last report unreadable; it counts as none");
            None
        }
    };
    Ok(seen.into_iter().filter_map(readable).collect())
}

/// The buffer of any kind.
pub(crate) trait Flushes: Send + Sync {
    fn kind(&self) -> &'static str;
    fn flush<'a>(&'a self, store: &'a Store, all: bool) -> BoxFuture<'a, Result<(), Error>>;
    fn forget(&self, id: &str);
}

impl<R: Report> Flushes for Buffer<R> {
    fn kind(&self) -> &'static str {
        R::KIND
    }

    fn flush<'a>(&'a self, store: &'a Store, all: bool) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.write(store, if all { ALL } else { MOST }))
    }

    fn forget(&self, id: &str) {
        self.forget(id);
    }
}

/// Writes reports of every kind, as much as one flush takes.
pub(crate) async fn flush(app: &App) -> Result<(), Error> {
    write(app, false).await
}

pub(crate) async fn flush_all(app: &App) -> Result<(), Error> {
    write(app, true).await
}

/// A failure of one kind does not stop the others.
async fn write(app: &App, all: bool) -> Result<(), Error> {
    let mut outcome = Ok(());
    for buffer in &app.parts.reports {
        outcome = outcome.and(buffer.flush(&app.store, all).await);
    }
    outcome
}

/// Forgets the reports of a deleted member, in memory and in the database.
pub(crate) async fn forget(app: &App, kind: &str, id: &str) -> Result<(), Error> {
    app.parts.reports.iter().filter(|buffer| buffer.kind() == kind).for_each(|buffer| buffer.forget(id));
    app.store.forget_observations(kind, id).await?;
    Ok(())
}

fn micros(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
