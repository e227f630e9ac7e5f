//! Revoked satellites that are still asking: their program runs on, and somebody should know.
//!
//! Kept in the memory of this server only. A restart or another replica starts to count anew; the next request says it again.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};

/// How many satellites are counted; revoked ones are few.
const MOST: usize = 1000;

/// How long after its last request a satellite counts as still asking.
const RECENT: SignedDuration = SignedDuration::from_mins(15);

/// The refused requests of revoked satellites, by the user names that they showed.
#[derive(Default)]
pub(super) struct Knocks(Mutex<HashMap<Box<str>, Knock>>);

/// The refused requests of one satellite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Knock {
    /// How many there were.
    pub(super) count: u64,
    /// When the first one came.
    pub(super) first: Timestamp,
    /// When the last one came.
    pub(super) last: Timestamp,
}

impl Knocks {
    /// Counts a refused request. Only credentials that were valid before get here.
    pub(super) fn note(&self, handle: &str, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(knock) = known.get_mut(handle) {
            // After a long pause it is another story.
            let is_same = now.duration_since(knock.last) < RECENT;
            let (count, first) = if is_same { (knock.count + 1, knock.first) } else { (1, now) };
            *knock = Knock { count, first, last: now };
            return;
        }
        if known.len() >= MOST {
            known.retain(|_, knock| now.duration_since(knock.last) < RECENT);
        }
        if known.len() < MOST {
            known.insert(handle.into(), Knock { count: 1, first: now, last: now });
        }
    }

    /// The refused requests of a satellite since it was revoked, if the last one is recent.
    pub(super) fn of(&self, handle: &str, revoked_at: Timestamp, now: Timestamp) -> Option<Knock> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let knock = known.get(handle).copied()?;
        (knock.last >= revoked_at && now.duration_since(knock.last) < RECENT).then_some(knock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    #[test]
    fn only_recent_requests_since_the_revocation_count() {
        let knocks = Knocks::default();
        assert_eq!(knocks.of("robot$edge", at(0), at(0)), None);
        (1..=3).for_each(|minute| knocks.note("robot$edge", at(minute)));
        let found = knocks.of("robot$edge", at(0), at(4)).unwrap();
        assert_eq!((found.count, found.first, found.last), (3, at(1), at(3)));
        assert_eq!(knocks.of("robot$other", at(0), at(4)), None);
        assert_eq!(knocks.of("robot$edge", at(4), at(4)), None, "it was revoked again later");
        assert_eq!(knocks.of("robot$edge", at(0), at(18)), None, "it has fallen silent");
        knocks.note("robot$edge", at(30));
        assert_eq!(knocks.of("robot$edge", at(0), at(30)).unwrap().count, 1);
    }

    #[test]
    fn memory_is_bounded() {
        let knocks = Knocks::default();
        (0..MOST + 5).for_each(|number| knocks.note(&format!("robot${number}"), at(1)));
        assert_eq!(knocks.0.lock().unwrap().len(), MOST);
        knocks.note("robot$late", at(60));
        assert_eq!(knocks.0.lock().unwrap().len(), 1);
    }
}
