//! The queue: one entry for each cluster, which is due at a time, is worked on once at a time, and waits longer after
//! each failure.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::SignedDuration;
use serde_json::Value as Json;
use tokio::{sync::Notify, time::Instant};
use wardroom_core::backoff::Backoff;

const BACKOFF: Backoff =
    Backoff { first: SignedDuration::from_millis(500), longest: SignedDuration::from_secs(60) };

/// Failures in a row after which a cluster is left alone until something new is heard of it.
const ATTEMPTS: u32 = 8;

/// A cluster to work on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Work {
    pub(super) id: String,
    pub(super) href: String,
    /// The data of its last event.
    pub(super) event: Json,
}

/// The result of work on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its report is stored.
    Done,
    /// It failed and may work later.
    Again,
    /// There is no such cluster any more.
    Gone,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<String, Entry>,
    /// When entries are due, soonest first.
    due: BTreeSet<(Instant, String)>,
}

#[derive(Debug)]
struct Entry {
    work: Work,
    due: Option<Instant>,
    is_running: bool,
    /// Whether something was heard of it while it was worked on.
    is_stale: bool,
    failures: u32,
}

impl Queue {
    /// Notes an event of a cluster.
    pub(super) fn hear(&self, work: Work) {
        self.lock().hear(work, Instant::now());
        self.changed.notify_one();
    }

    /// Makes a known cluster due after a while: something of it changed in Kubernetes.
    pub(super) fn poke(&self, id: &str, after: Duration) {
        self.lock().poke(id, Instant::now() + after);
        self.changed.notify_one();
    }

    /// Waits for the next cluster that is due, and takes it.
    pub(super) async fn next(&self) -> Work {
        loop {
            let changed = self.changed.notified();
            let due = match self.lock().take(Instant::now()) {
                Next::Work(work) => return work,
                Next::Due(due) => Some(due),
                Next::Nothing => None,
            };
            match due {
                Some(due) => _ = tokio::time::timeout_at(due, changed).await,
                None => changed.await,
            }
        }
    }

    /// Watches over the work on a cluster.
    pub(super) fn running(&self, id: &str) -> Running<'_> {
        Running { queue: self, id: id.to_owned(), is_concluded: false }
    }

    /// Ends the work on a cluster. Returns whether it was given up.
    fn conclude(&self, id: &str, verdict: Verdict) -> bool {
        let is_given_up = self.lock().conclude(id, verdict, Instant::now(), jitter());
        self.changed.notify_one();
        is_given_up
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to do next.
#[derive(Debug, PartialEq)]
enum Next {
    Work(Work),
    /// Nothing until then.
    Due(Instant),
    Nothing,
}

impl State {
    /// A cluster that waits after a failure goes on waiting, unless its generation is new.
    fn hear(&mut self, work: Work, now: Instant) {
        let id = work.id.clone();
        let new = Entry { work: work.clone(), due: None, is_running: false, is_stale: false, failures: 0 };
        let entry = self.entries.entry(id.clone()).or_insert(new);
        if entry.work.event["generation"] != work.event["generation"] {
            entry.failures = 0;
        }
        entry.work = work;
        let is_waiting = entry.failures > 0 && entry.due.is_some();
        if !is_waiting {
            self.schedule(&id, now);
        }
    }

    fn poke(&mut self, id: &str, at: Instant) {
        if self.entries.get(id).is_some_and(|entry| entry.failures == 0 || entry.due.is_none()) {
            self.schedule(id, at);
        }
    }

    fn take(&mut self, now: Instant) -> Next {
        while let Some((due, id)) = self.due.first().cloned() {
            if due > now {
                return Next::Due(due);
            }
            self.due.pop_first();
            if let Some(entry) = self.entries.get_mut(&id) {
                (entry.due, entry.is_running, entry.is_stale) = (None, true, false);
                return Next::Work(entry.work.clone());
            }
        }
        Next::Nothing
    }

    fn conclude(&mut self, id: &str, verdict: Verdict, now: Instant, jitter: f64) -> bool {
        let Some(entry) = self.entries.get_mut(id) else { return false };
        entry.is_running = false;
        let is_stale = std::mem::take(&mut entry.is_stale);
        match verdict {
            Verdict::Gone => self.remove(id),
            Verdict::Done => {
                entry.failures = 0;
                if is_stale {
                    self.schedule(id, now);
                }
            }
            Verdict::Again if entry.failures + 1 >= ATTEMPTS && !is_stale => {
                entry.failures = 0;
                return true;
            }
            Verdict::Again => {
                entry.failures += 1;
                let wait = BACKOFF.spread(entry.failures, jitter);
                self.schedule(id, now + wait.unsigned_abs());
            }
        }
        false
    }

    /// Makes an entry due at a time, or earlier if it already is; one that is worked on is due again afterwards.
    fn schedule(&mut self, id: &str, at: Instant) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if entry.is_running {
            entry.is_stale = true;
            return;
        }
        let due = entry.due.map_or(at, |due| due.min(at));
        if let Some(before) = entry.due.replace(due) {
            self.due.remove(&(before, id.to_owned()));
        }
        self.due.insert((due, id.to_owned()));
    }

    fn remove(&mut self, id: &str) {
        if let Some(due) = self.entries.remove(id).and_then(|entry| entry.due) {
            self.due.remove(&(due, id.to_owned()));
        }
    }
}

/// Work that goes on. When it ends without a verdict it failed.
pub(super) struct Running<'q> {
    queue: &'q Queue,
    id: String,
    is_concluded: bool,
}

impl Running<'_> {
    /// Ends the work. Returns whether the cluster was given up.
    pub(super) fn conclude(mut self, verdict: Verdict) -> bool {
        self.is_concluded = true;
        self.queue.conclude(&self.id, verdict)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_concluded {
            self.queue.conclude(&self.id, Verdict::Again);
        }
    }
}

/// Returns a number between 0 and 1.
fn jitter() -> f64 {
    let mut byte = [0_u8; 1];
    // Without a source of randomness the wait is the longest.
    getrandom::fill(&mut byte).map_or(1.0, |()| f64::from(byte[0]) / 255.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(id: &str, generation: i64) -> Work {
        Work { id: id.to_owned(), href: format!("/{id}"), event: json!({"generation": generation}) }
    }

    fn take(state: &mut State, now: Instant) -> Option<String> {
        match state.take(now) {
            Next::Work(work) => Some(work.id),
            Next::Due(_) | Next::Nothing => None,
        }
    }

    #[test]
    fn a_cluster_is_worked_on_once_at_a_time() {
        let (mut state, now) = (State::default(), Instant::now());
        state.hear(work("a", 1), now);
        state.hear(work("a", 2), now);
        assert_eq!(state.take(now), Next::Work(work("a", 2)), "events of one cluster are one entry");
        state.hear(work("a", 3), now);
        state.poke("a", now);
        assert_eq!(state.take(now), Next::Nothing, "it is being worked on");
        assert!(!state.conclude("a", Verdict::Done, now, 1.0));
        assert_eq!(state.take(now), Next::Work(work("a", 3)), "what was heard meanwhile is not lost");
        assert!(!state.conclude("a", Verdict::Done, now, 1.0));
        assert_eq!(state.take(now), Next::Nothing);
        let later = now + Duration::from_secs(1);
        state.poke("a", later);
        assert_eq!(state.take(now), Next::Due(later));
        assert_eq!(take(&mut state, later).as_deref(), Some("a"));
        state.conclude("a", Verdict::Gone, later, 1.0);
        state.poke("a", later);
        assert_eq!(state.take(later), Next::Nothing);
    }

    #[test]
    fn a_failing_cluster_waits_by_itself_and_not_for_ever() {
        let (mut state, begun) = (State::default(), Instant::now());
        let mut now = begun;
        state.hear(work("bad", 1), now);
        for attempt in 1..=ATTEMPTS {
            assert_eq!(take(&mut state, now).as_deref(), Some("bad"));
            let is_given_up = state.conclude("bad", Verdict::Again, now, 1.0);
            assert_eq!(is_given_up, attempt == ATTEMPTS);
            // Others are worked on meanwhile.
            state.hear(work("good", i64::from(attempt)), now);
            assert_eq!(take(&mut state, now).as_deref(), Some("good"), "after attempt {attempt}");
            state.conclude("good", Verdict::Done, now, 1.0);
            if !is_given_up {
                // An event that says nothing new does not shorten the wait.
                state.hear(work("bad", 1), now);
                state.poke("bad", now);
                let Next::Due(due) = state.take(now) else { panic!("attempt {attempt}") };
                now = due;
            }
        }
        let taken = now - begun;
        assert!(taken > Duration::from_secs(30) && taken < Duration::from_secs(180), "{taken:?}");
        assert_eq!(state.take(now), Next::Nothing, "it was given up");
        state.hear(work("bad", 1), now);
        assert_eq!(take(&mut state, now).as_deref(), Some("bad"), "until it is heard of again");
        state.conclude("bad", Verdict::Again, now, 1.0);
        state.hear(work("bad", 2), now);
        assert_eq!(take(&mut state, now).as_deref(), Some("bad"), "a new generation waits for nothing");
    }

    #[tokio::test]
    async fn work_that_panics_is_work_that_failed() {
        let queue = Queue::default();
        queue.hear(work("a", 1));
        assert_eq!(queue.next().await.id, "a");
        drop(queue.running("a"));
        let again = tokio::time::timeout(Duration::from_secs(10), queue.next()).await.unwrap();
        assert_eq!(again.id, "a");
    }
}
