//! Limits that everything on this server shares: how many runs of a site are executed at once, and how often
//! something outside is called.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// How often something may be called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Calls per second in the long run.
    pub per_second: f64,
    /// Calls that may come at once.
    pub burst: u32,
}

/// The limits; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Limits(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// When each bucket is full again, had nobody taken anything since.
    buckets: HashMap<String, Instant>,
    sites: HashMap<String, Site>,
}

#[derive(Debug)]
struct Site {
    inside: usize,
    /// When the last run that found no place comes back.
    queue: Instant,
}

/// Runs that find no place at their site come back this far apart.
const SPACING: Duration = Duration::from_millis(20);
/// And not before this.
const PAUSE: Duration = Duration::from_millis(100);
/// Nor after this: what was full may be empty by then.
const LONGEST: Duration = Duration::from_secs(5);

impl Limits {
    /// Waits for its turn at a bucket; whoever came first goes first.
    pub async fn take(&self, bucket: &str, rate: Rate) {
        let turn = self.reserve(bucket, rate, Instant::now());
        sleep_until(turn).await;
    }

    fn reserve(&self, bucket: &str, rate: Rate, now: Instant) -> Instant {
        let interval = Duration::try_from_secs_f64(rate.per_second.recip()).unwrap_or(Duration::ZERO);
        let tolerance = interval.saturating_mul(rate.burst.saturating_sub(1));
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = inner.buckets.entry(bucket.to_owned()).or_insert(now);
        let turn = (*full).max(now);
        *full = turn + interval;
        turn.checked_sub(tolerance).unwrap_or(now).max(now)
    }

    /// Takes one of `cap` places at a site, or says when to come back.
    pub(crate) fn enter(&self, site: Option<&str>, cap: usize, now: Instant) -> Result<Place, Duration> {
        let Some(site) = site else { return Ok(Place(None)) };
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = inner.sites.entry(site.to_owned()).or_insert(Site { inside: 0, queue: now });
        if entry.inside < cap {
            entry.inside += 1;
            return Ok(Place(Some((self.clone(), site.to_owned()))));
        }
        let back = (entry.queue + SPACING).clamp(now + PAUSE, now + LONGEST);
        entry.queue = back;
        Err(back - now)
    }
}

/// A place at a site, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<(Limits, String)>);

impl Drop for Place {
    fn drop(&mut self) {
        let Some((limits, site)) = self.0.take() else { return };
        let mut inner = limits.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = inner.sites.get_mut(&site) {
            entry.inside = entry.inside.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bucket_gives_its_burst_at_once_and_the_rest_in_turn() {
        let (limits, now) = (Limits::default(), Instant::now());
        let rate = Rate { per_second: 10.0, burst: 3 };
        let waits = (0..6).map(|_| (limits.reserve("site", rate, now) - now).as_millis());
        assert_eq!(waits.collect::<Vec<_>>(), [0, 0, 0, 100, 200, 300]);
        assert_eq!(limits.reserve("another", rate, now), now);
        let later = now + Duration::from_secs(10);
        let waits = (0..4).map(|_| (limits.reserve("site", rate, later) - later).as_millis());
        assert_eq!(waits.collect::<Vec<_>>(), [0, 0, 0, 100], "what was not used is not saved up");
    }

    #[tokio::test]
    async fn a_site_has_so_many_places_and_others_have_their_own() {
        let (limits, now) = (Limits::default(), Instant::now());
        let first = limits.enter(Some("a"), 2, now).unwrap();
        let _second = limits.enter(Some("a"), 2, now).unwrap();
        let waits: Vec<_> = (0..3).map(|_| limits.enter(Some("a"), 2, now).unwrap_err()).collect();
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1]), "each comes back later: {waits:?}");
        assert!(limits.enter(Some("b"), 2, now).is_ok());
        assert!(limits.enter(None, 0, now).is_ok());
        drop(first);
        assert!(limits.enter(Some("a"), 2, now).is_ok());
    }
}
