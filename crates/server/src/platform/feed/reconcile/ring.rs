//! The newest re-checks, in memory, for all adapters that wait on this server.
//!
//! A re-check has no place in the feed. A reader has a number instead, which is remembered for a moment when it
//! goes, so that an adapter that asks page by page misses none in between.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::Told;
use crate::platform::app::App;

/// Re-checks that are kept.
const MOST: usize = 4096;

/// How long the place of an adapter is remembered that does not wait, and of how many.
const REMEMBERED: Duration = Duration::from_secs(60);
const MOST_REMEMBERED: usize = 10_000;

/// What the adapters that wait on this server share.
#[derive(Debug, Default)]
pub(crate) struct Rechecks {
    ring: Mutex<Ring>,
    told: AtomicU64,
}

#[derive(Debug, Default)]
struct Ring {
    /// The number of the next one.
    next: u64,
    events: VecDeque<Arc<Told>>,
    /// How many adapters wait, by the kind that they are required for.
    waiting: BTreeMap<&'static str, usize>,
    /// How many requests wait as each adapter.
    adapters: BTreeMap<String, usize>,
    /// Where readers were that went: by token and adapter.
    left: HashMap<(String, String), (u64, Instant)>,
}

impl Rechecks {
    /// Begins to read as an adapter with a token: where it was a moment ago, or at the end.
    pub(super) fn join(&self, app: &App, (token, adapter): (&str, &str), kinds: &[&'static str]) -> Reader {
        let key = (token.to_owned(), adapter.to_owned());
        let mut ring = self.ring();
        let left = ring.left.remove(&key).filter(|(_, at)| at.elapsed() < REMEMBERED);
        let place = left.map_or(ring.next, |(place, _)| place);
        for kind in kinds {
            *ring.waiting.entry(kind).or_default() += 1;
        }
        *ring.adapters.entry(adapter.to_owned()).or_default() += 1;
        Reader { app: app.clone(), key, place, kinds: kinds.to_vec() }
    }

    /// Adds re-checks, which all readers get.
    pub(super) fn push(&self, events: Vec<Arc<Told>>) {
        self.told.fetch_add(events.len() as u64, Relaxed);
        let mut ring = self.ring();
        ring.next += events.len() as u64;
        ring.events.extend(events);
        let over = ring.events.len().saturating_sub(MOST);
        ring.events.drain(..over);
    }

    /// Whether an adapter waits that is required for a kind.
    pub(super) fn is_awaited(&self, kind: &str) -> bool {
        self.ring().waiting.contains_key(kind)
    }

    /// How many requests wait here, by adapter.
    pub(crate) fn adapters(&self) -> BTreeMap<String, usize> {
        self.ring().adapters.clone()
    }

    /// How many re-checks were told since the start.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Relaxed)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One reader.
pub(super) struct Reader {
    app: App,
    key: (String, String),
    place: u64,
    kinds: Vec<&'static str>,
}

impl Reader {
    /// What came since the last time, at most so many.
    pub(super) fn read(&mut self, rechecks: &Rechecks, most: usize) -> Vec<Arc<Told>> {
        let ring = rechecks.ring();
        let first = ring.next - ring.events.len() as u64;
        let from = self.place.max(first);
        let skip = usize::try_from(from - first).unwrap_or(usize::MAX);
        let found: Vec<_> = ring.events.iter().skip(skip).take(most).cloned().collect();
        self.place = from + found.len() as u64;
        found
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut ring = self.app.tail.rechecks.ring();
        for kind in &self.kinds {
            release(&mut ring.waiting, kind);
        }
        release(&mut ring.adapters, &self.key.1);
        if ring.left.len() >= MOST_REMEMBERED {
            ring.left.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        }
        if ring.left.len() < MOST_REMEMBERED {
            ring.left.insert(std::mem::take(&mut self.key), (self.place, Instant::now()));
        }
    }
}

fn release<K: Ord + std::borrow::Borrow<str>>(counts: &mut BTreeMap<K, usize>, key: &str) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
