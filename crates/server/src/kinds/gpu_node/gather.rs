//! Joins concurrent queries to a MAAS into one request, and shares its failure too.
//!
//! An observation is always newer than the query. A failure may be a moment older, but each caller gets the
//! same one at most once.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use wardroom_upstream::maas::{Error, Machine};

/// Queries for single machines that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Held by the caller that sends the next request.
    pub(crate) door: tokio::sync::Mutex<()>,
    asked: Mutex<Vec<Look>>,
    failed: Mutex<Option<Failed>>,
}

/// A query for a machine. A caller that gets no answer asks alone.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) id: String,
    answer: oneshot::Sender<Answer>,
}

/// The answer to a query: none if MAAS listed others but not this machine.
pub(crate) type Answer = Result<Option<Machine>, Error>;

/// A request for many machines that failed a moment ago.
#[derive(Debug)]
struct Failed {
    at: Instant,
    error: Error,
    /// The machines whose runs got this failure: their next query is a new attempt.
    told: BTreeSet<String>,
}

/// How long a failure is shared with later callers.
const SPARED: Duration = Duration::from_secs(1);

impl Looks {
    pub(crate) fn ask(&self, id: &str) -> oneshot::Receiver<Answer> {
        let (answer, hears) = oneshot::channel();
        let look = Look { id: id.to_owned(), answer };
        match self.failed_for(id) {
            Some(error) => look.tell(Err(error)),
            None => self.asked().push(look),
        }
        hears
    }

    /// Gives the failure to all waiting callers, and to those of the next moment.
    pub(crate) fn fail(&self, looks: Vec<Look>, error: &Error) {
        let mut failed = self.failed();
        // A caller that already got a failure tries again.
        let before = failed.take().filter(|before| before.at.elapsed() < SPARED);
        let mut told = before.map_or_else(BTreeSet::new, |before| before.told);
        told.extend(looks.iter().map(|look| look.id.clone()));
        *failed = Some(Failed { at: Instant::now(), error: error.clone(), told });
        drop(failed);
        looks.into_iter().for_each(|look| look.tell(Err(error.clone())));
    }

    fn failed_for(&self, id: &str) -> Option<Error> {
        let mut failed = self.failed();
        let fresh = failed.as_mut().filter(|failed| failed.at.elapsed() < SPARED)?;
        fresh.told.insert(id.to_owned()).then(|| fresh.error.clone())
    }

    fn failed(&self) -> MutexGuard<'_, Option<Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no caller waits for an answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.asked().is_empty()
    }

    /// Takes up to `most` of the oldest queries.
    pub(crate) fn first(&self, most: usize) -> Vec<Look> {
        let mut asked = self.asked();
        // Cancelled callers are dropped.
        asked.retain(|look| !look.answer.is_closed());
        let most = most.min(asked.len());
        asked.drain(..most).collect()
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Look>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    pub(crate) fn tell(self, told: Answer) {
        // The caller may be gone.
        drop(self.answer.send(told));
    }
}

/// An answer that is cached for a while.
#[derive(Debug)]
pub(crate) struct Memo<T>(tokio::sync::Mutex<Option<(Instant, Result<T, Error>)>>);

const GOOD: Duration = Duration::from_secs(60);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(tokio::sync::Mutex::default())
    }
}

impl<T: Clone> Memo<T> {
    /// Returns the cached answer, or asks; concurrent callers wait for the same answer. They share a failure
    /// too, so that they do not wait for a hanging MAAS one after the other; a later caller asks again.
    pub(crate) async fn get(&self, ask: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let came = Instant::now();
        let mut known = self.0.lock().await;
        match known.as_ref() {
            Some((at, Ok(answer))) if at.elapsed() < GOOD => return Ok(answer.clone()),
            Some((at, Err(error))) if *at >= came => return Err(error.clone()),
            Some(_) | None => {}
        }
        let answer = ask.await;
        *known = Some((Instant::now(), answer.clone()));
        answer
    }

    pub(crate) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use wardroom_upstream::maas::{Class, Effect};

    use super::*;

    fn error() -> Error {
        Error { op: "list", effect: Effect::None, class: Class::Ambiguous("no answer".to_owned()) }
    }

    #[tokio::test]
    async fn a_caller_that_waited_for_a_failure_does_not_ask_again() {
        let (memo, asked) = (Memo::<()>::default(), AtomicUsize::new(0));
        let ask = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
            Err(error())
        };
        let answers = join_all((0..32).map(|_| memo.get(ask()))).await;
        assert!(answers.iter().all(|answer| *answer == Err(error())));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(memo.get(ask()).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 2, "a later caller asks again");
        assert_eq!(memo.get(async { Ok(()) }).await, Ok(()));
        assert_eq!(memo.get(ask()).await, Ok(()), "an answer is kept");
    }

    #[test]
    fn each_caller_gets_a_failure_once() {
        let looks = Looks::default();
        // A caller without an answer by now would never get one.
        let told = |mut hears: oneshot::Receiver<Answer>| hears.try_recv();
        let first = looks.ask("a");
        looks.fail(looks.first(9), &error());
        assert_eq!(told(first), Ok(Err(error())));
        assert_eq!(told(looks.ask("b")), Ok(Err(error())), "it failed a moment ago");
        assert!(looks.is_empty());
        let (_a, _b) = (looks.ask("a"), looks.ask("b"));
        assert_eq!(looks.first(9).len(), 2, "they try again");
    }
}
