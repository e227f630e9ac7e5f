//! How many runs are executed at once, at a site and at all of them.

use std::{collections::VecDeque, time::Duration};

use super::{bucket::Rate, line::Waiter};

/// The runs at a site, or at all sites that share its upstream, and those that wait for a place there.
#[derive(Debug, Default)]
pub(super) struct Site {
    pub(super) inside: usize,
    /// How often it may be called, if known.
    pub(super) pace: Option<Rate>,
    /// Runs that found no place, in the order they came first.
    pub(super) line: VecDeque<Waiter>,
}

/// How many runs are executed at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// At one site.
    pub(crate) site: usize,
    /// At all of them.
    pub(crate) all: usize,
}

impl Room {
    /// Returns the places at a site whose calls take their turns at a rate, beside so many runs at all sites.
    /// More than the rate keeps busy would only wait, and hold workers that others could use. The last
    /// quarter of all workers is for sites that have few of them, or runs at slow sites would keep out all
    /// others.
    pub(super) fn places(self, pace: Option<Rate>, servers: usize, inside: usize) -> usize {
        let busy = pace.map_or(usize::MAX, |pace| pace.within(BUSY));
        let few = if inside >= self.all - self.all / 4 { self.all / 16 } else { usize::MAX };
        if self.site == 0 { 0 } else { (self.site.min(busy) / servers).min(few).max(1) }
    }
}

/// Runs at a site are at most as many as it may be called in this time.
pub(super) const BUSY: Duration = Duration::from_secs(10);
