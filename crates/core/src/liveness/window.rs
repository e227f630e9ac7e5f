//! Window: how many members went stale of late, in bounded memory.

use jiff::{SignedDuration, Timestamp};

/// The number of steps of a window; events within one step share an entry.
const STEPS: i32 = 32;

/// Entries kept when the window grows; past that the oldest two become one and expire as the older one.
const MOST: usize = 2 * STEPS as usize;

/// Those that went stale of late, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Recent(Vec<Step>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Step {
    from: Timestamp,
    stale: u32,
    /// How many were watched just before.
    watched: u32,
}

impl Step {
    fn add(&mut self, other: Self) {
        self.stale = self.stale.saturating_add(other.stale);
        self.watched = self.watched.max(other.watched);
    }
}

impl Recent {
    pub(super) fn add(&mut self, stale: u32, watched: u32, now: Timestamp, window: SignedDuration) {
        if stale == 0 {
            return;
        }
        let step = Step { from: now, stale, watched };
        match self.0.last_mut() {
            Some(last) if now.duration_since(last.from).saturating_mul(STEPS) < window => last.add(step),
            Some(_) | None => self.0.push(step),
        }
        if self.0.len() > MOST {
            let second = self.0.remove(1);
            self.0[0].add(second);
        }
    }

    /// Drops steps that began before an instant.
    pub(super) fn forget(&mut self, before: Timestamp) {
        self.0.retain(|step| step.from >= before);
    }

    /// How many members there are, given those watched now: those that went stale were members too.
    pub(super) fn members(&self, watched: u32) -> u32 {
        self.0.iter().map(|step| step.watched).fold(watched, u32::max)
    }

    /// How many of them went stale and did not come back.
    pub(super) fn gone(&self, watched: u32) -> u32 {
        let stale = self.0.iter().fold(0, |sum: u32, step| sum.saturating_add(step.stale));
        stale.min(self.members(watched) - watched)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
