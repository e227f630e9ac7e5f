//! What simulated devices saw.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

/// Counts of all devices.
pub(super) struct Tally {
    began: Instant,
    enrolled: watch::Sender<usize>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// How long polls took, in microseconds.
    polls: Vec<u32>,
    missed: usize,
    failed: usize,
    /// The first failures, for people.
    failures: Vec<String>,
    updated: usize,
    gave_up: usize,
    /// How long it took until all were enrolled.
    enrolling: Option<Duration>,
}

/// How many failures are told.
const TOLD: usize = 3;

impl Tally {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), enrolled: watch::Sender::new(0), counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_enrolled(&self) {
        self.enrolled.send_modify(|count| *count += 1);
    }

    /// Waits until so many are enrolled; what was polled until then does not count.
    pub(super) async fn enrolled(&self, count: usize) {
        // The sender is here, so that it cannot be gone.
        let _ = self.enrolled.subscribe().wait_for(|enrolled| *enrolled >= count).await;
        *self.counts() = Counts { enrolling: Some(self.began.elapsed()), ..Counts::default() };
    }

    pub(super) fn polled(&self, took: Duration, failed: Option<&anyhow::Error>) {
        let mut counts = self.counts();
        match failed {
            None => counts.polls.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX)),
            Some(error) => {
                counts.failed += 1;
                if counts.failures.len() < TOLD {
                    counts.failures.push(format!("{error:#}"));
                }
            }
        }
    }

    pub(super) fn missed(&self) {
        self.counts().missed += 1;
    }

    pub(super) fn updated(&self, gave_up: bool) {
        let mut counts = self.counts();
        if gave_up {
            counts.gave_up += 1;
        } else {
            counts.updated += 1;
        }
    }

    pub(super) fn seen(&self, devices: usize) -> Seen {
        let mut counts = self.counts();
        let counts = std::mem::take(&mut *counts);
        let mut polls = counts.polls;
        polls.sort_unstable();
        let length = self.began.elapsed().saturating_sub(counts.enrolling.unwrap_or_default());
        Seen {
            devices,
            enrolled: *self.enrolled.borrow(),
            enrolling: counts.enrolling,
            length,
            polls: polls.len(),
            middle: quantile(&polls, 0.5),
            late: quantile(&polls, 0.99),
            latest: polls.last().copied().unwrap_or(0),
            missed: counts.missed,
            failed: counts.failed,
            failures: counts.failures,
            updated: counts.updated,
            gave_up: counts.gave_up,
        }
    }
}

/// The value below which a share of sorted values lies.
fn quantile(sorted: &[u32], share: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    devices: usize,
    enrolled: usize,
    enrolling: Option<Duration>,
    length: Duration,
    polls: usize,
    middle: u32,
    late: u32,
    latest: u32,
    missed: usize,
    failed: usize,
    failures: Vec<String>,
    updated: usize,
    gave_up: usize,
}

impl Seen {
    /// Whether every request was answered, and every poll came in its interval.
    pub(crate) fn is_well(&self) -> bool {
        self.enrolled == self.devices && self.failed == 0 && self.missed == 0
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |micros: u32| f64::from(micros) / 1000.0;
        write!(f, "{} of {} devices enrolled", self.enrolled, self.devices)?;
        if let Some(took) = self.enrolling {
            write!(f, " in {:.1} s", took.as_secs_f64())?;
        }
        writeln!(
            f,
            "\n{} polls in {:.1} s, each over a connection of its own",
            self.polls,
            self.length.as_secs_f64()
        )?;
        writeln!(
            f,
            "half of them took at most {:.1} ms, 99 % at most {:.1} ms, the longest {:.1} ms",
            milliseconds(self.middle),
            milliseconds(self.late),
            milliseconds(self.latest)
        )?;
        writeln!(f, "{} updates applied, {} given up", self.updated, self.gave_up)?;
        writeln!(f, "{} polls missed, {} failed", self.missed, self.failed)?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "  {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        assert_eq!(quantile(&[], 0.99), 0);
        assert_eq!(quantile(&[7], 0.99), 7);
        let hundred: Vec<_> = (1..=100).collect();
        assert_eq!((quantile(&hundred, 0.5), quantile(&hundred, 0.99)), (51, 100));
    }
}
