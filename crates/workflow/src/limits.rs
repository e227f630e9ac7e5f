//! Limits that everything on this server shares: runs executed at once at a site, and the rate of calls to
//! upstreams.
//!
//! Several servers on one store have the same limits: each keeps to its share, so that together they keep to
//! the whole. Waiting reserves nothing: a caller that gives up or is cut off has taken nothing from the
//! others.

mod bucket;
mod line;
mod room;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use bucket::Bucket;
pub use bucket::{Rate, Turn};
use line::{LOOK, Waiter, ahead, stand};
pub(crate) use room::Room;
use room::Site;

/// The limits; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Limits(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// How many others have the same limits.
    others: u32,
    buckets: HashMap<String, Bucket>,
    /// By their upstream, where it is known: those that share one share its places.
    sites: HashMap<String, Site>,
    /// The upstream of each site.
    upstreams: HashMap<String, String>,
}

/// Calls that one execution of a stage makes at most, or nearly so.
const CALLS: u32 = 16;
/// However slow a site is, a stage ends after this.
const LONGEST_TURNS: Duration = Duration::from_hours(1);

/// A waiting caller notices within this time that the rate was raised.
const NOTICE: Duration = Duration::from_secs(1);

/// Runs that find no place at their site come back this far apart.
const SPACING: Duration = Duration::from_millis(20);
/// And not before this.
const PAUSE: Duration = Duration::from_millis(100);
/// Nor after this: a full site may be empty by then.
const LONGEST: Duration = Duration::from_secs(5);

impl Limits {
    /// So many servers work on the same sites, this one among them: each keeps to its part of every limit.
    pub fn share_among(&self, servers: usize) {
        self.lock().others = u32::try_from(servers).unwrap_or(u32::MAX).saturating_sub(1);
    }

    /// How many servers share these limits.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.lock().others.saturating_add(1)
    }

    /// Waits for a turn at a bucket; callers are served in the order they came.
    pub async fn take(&self, bucket: &str, rate: Rate) {
        self.wait_at(bucket, |_| Some(rate)).await;
    }

    /// Waits for its turn at an upstream, by the pace that it has while it waits.
    pub async fn turn(&self, upstream: &str) {
        self.wait_at(&format!("turn/{upstream}"), |inner| inner.pace(upstream)).await;
    }

    /// Waits for a turn like [`Limits::turn`], for a caller that may take only a part of all turns.
    pub async fn turn_of(&self, upstream: &str, caller: &str, part: f64) {
        let pace = |inner: &Inner| {
            let Rate { per_second, .. } = inner.pace(upstream)?;
            Some(Rate { per_second: per_second * part, burst: 1 })
        };
        // No URL has a space: a MAAS at a path that ends like this is another one.
        self.wait_at(&format!("turn/{upstream} {caller}"), pace).await;
        self.turn(upstream).await;
    }

    /// Waits at a bucket with the rate of each moment; without a rate every caller passes.
    async fn wait_at(&self, bucket: &str, rate: impl Fn(&Inner) -> Option<Rate> + Send) {
        let door = Arc::clone(&self.lock().bucket(bucket, Instant::now()).door);
        let _turn = door.lock().await;
        loop {
            let wait = {
                let (mut inner, now) = (self.lock(), Instant::now());
                let Some(rate) = rate(&inner) else { return };
                let rate = inner.part_of(rate);
                let bucket = inner.bucket(bucket, now);
                bucket.keep_to(rate, now);
                let wait = bucket.wait(rate, 0, now);
                if wait.is_zero() {
                    bucket.take(rate, now);
                    return;
                }
                wait
            };
            sleep(wait.min(NOTICE)).await;
        }
    }

    /// Takes a turn at a bucket, or returns when to ask again. A caller that asks again in time keeps its
    /// place in the line; one that is late loses it.
    ///
    /// # Errors
    /// How long to wait.
    pub fn ask(&self, bucket: &str, rate: Rate, caller: &str, now: Instant) -> Result<Turn, Duration> {
        let mut inner = self.lock();
        let (rate, others) = (inner.part_of(rate), inner.others);
        let bucket = inner.bucket(bucket, now);
        bucket.keep_to(rate, now);
        bucket.line.retain(|waiter| waiter.lost > now || waiter.caller == caller);
        let place = bucket.line.iter().position(|waiter| waiter.caller == caller);
        let wait = bucket.wait(rate, ahead(&bucket.line, place, others, now), now).min(LOOK);
        let came = place.and_then(|place| bucket.line.get(place)).map_or(bucket.came, |waiter| waiter.came);
        bucket.came += u64::from(place.is_none());
        if wait.is_zero() {
            bucket.take(rate, now);
            place.and_then(|place| bucket.line.remove(place));
            return Ok(Turn { came });
        }
        stand(&mut bucket.line, place, (caller, came), now + wait);
        Err(wait)
    }

    /// Gives back a turn that could not be used, and returns the caller to its old place in the line. Callers
    /// that give back several turns keep their order.
    pub fn give_back(&self, bucket: &str, rate: Rate, caller: &str, turn: Turn, now: Instant) {
        let mut inner = self.lock();
        let rate = inner.part_of(rate);
        let bucket = inner.bucket(bucket, now);
        bucket.full = bucket.full.checked_sub(rate.interval()).unwrap_or(now);
        let place = bucket.line.partition_point(|waiter| waiter.came < turn.came);
        let waiter = Waiter { caller: caller.to_owned(), came: turn.came, due: now + LOOK, lost: now + LOOK };
        bucket.line.insert(place, waiter);
    }

    /// How often the upstream of a site may be called. Sites that name the same one share its places too.
    pub fn pace(&self, site: &str, upstream: &str, rate: Rate) {
        let mut inner = self.lock();
        inner.sites.entry(upstream.to_owned()).or_default().pace = Some(rate);
        inner.upstreams.insert(site.to_owned(), upstream.to_owned());
    }

    /// Whether a call rate is known for the upstream of a site.
    pub(crate) fn knows(&self, site: &str) -> bool {
        self.lock().upstreams.contains_key(site)
    }

    /// How long an execution of a stage may wait for its turns at a site, when as many are executed there as may be, or as
    /// are from before its pace was lowered.
    pub(crate) fn turns(&self, site: Option<&str>, room: Room) -> Duration {
        let inner = self.lock();
        let entry = site.and_then(|site| inner.sites.get(inner.upstream(site)));
        let Some((entry, pace)) = entry.and_then(|entry| Some((entry, entry.pace?))) else {
            return Duration::ZERO;
        };
        let places = room.places(Some(pace), inner.servers(), 0).max(entry.inside);
        let calls = u32::try_from(places).unwrap_or(u32::MAX).saturating_mul(CALLS);
        inner.part_of(pace).interval().saturating_mul(calls).min(LONGEST_TURNS)
    }

    /// Takes one of the places at a site, or returns when to ask again. Runs are served in the order they
    /// came: by chance, some of a thousand would wait until all others are done.
    pub(crate) fn enter(
        &self,
        site: Option<&str>,
        room: Room,
        caller: &str,
        now: Instant,
    ) -> Result<Place, Duration> {
        let Some(site) = site else { return Ok(Place(None)) };
        let mut inner = self.lock();
        let inside = inner.sites.values().map(|site| site.inside).sum();
        let (servers, others) = (inner.servers(), inner.others);
        let upstream = inner.upstream(site).to_owned();
        let entry = inner.sites.entry(upstream.clone()).or_default();
        let cap = room.places(entry.pace, servers, inside);
        entry.line.retain(|waiter| waiter.lost > now || waiter.caller == caller);
        let place = entry.line.iter().position(|waiter| waiter.caller == caller);
        let before = ahead(&entry.line, place, others, now);
        if before < cap.saturating_sub(entry.inside) {
            place.and_then(|place| entry.line.remove(place));
            entry.inside += 1;
            return Ok(Place(Some((self.clone(), upstream))));
        }
        let spacing = SPACING.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        let wait = (PAUSE + spacing).min(LONGEST);
        // No place in this line is given back, so the order of coming is not needed.
        stand(&mut entry.line, place, (caller, 0), now + wait);
        Err(wait)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn servers(&self) -> usize {
        usize::try_from(self.others).unwrap_or(usize::MAX).saturating_add(1)
    }

    fn part_of(&self, rate: Rate) -> Rate {
        rate.shared(self.others.saturating_add(1))
    }

    /// How often an upstream may be called.
    fn pace(&self, upstream: &str) -> Option<Rate> {
        self.sites.get(upstream)?.pace
    }

    /// Returns the name that the places of a site are counted under.
    fn upstream<'a>(&'a self, site: &'a str) -> &'a str {
        self.upstreams.get(site).map_or(site, String::as_str)
    }

    fn bucket(&mut self, name: &str, now: Instant) -> &mut Bucket {
        self.buckets.entry(name.to_owned()).or_insert_with(|| Bucket::new(now))
    }
}

/// A place at a site, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<(Limits, String)>);

impl Drop for Place {
    fn drop(&mut self) {
        let Some((limits, upstream)) = self.0.take() else { return };
        if let Some(entry) = limits.lock().sites.get_mut(&upstream) {
            entry.inside = entry.inside.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
