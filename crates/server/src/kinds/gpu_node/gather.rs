//! What many ask of a MAAS at once is asked once, and what fails has failed for all who asked.
//!
//! A look at a machine is always younger than the question: nobody is answered with what was seen before. A failure may
//! be a moment older, but nobody hears of the same one twice.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use wardroom_upstream::maas::{Error, Machine};

/// Looks at single machines that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Whoever has it waits for the turn at which the next request is sent.
    pub(crate) door: tokio::sync::Mutex<()>,
    asked: Mutex<Vec<Look>>,
    failed: Mutex<Option<Failed>>,
}

/// Somebody wants to know how a machine is. Who hears nothing of it asks alone.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) id: String,
    answer: oneshot::Sender<Told>,
}

/// What is told to who looked: nothing when MAAS listed others and not this one.
pub(crate) type Told = Result<Option<Machine>, Error>;

/// A request for many machines that failed a moment ago.
#[derive(Debug)]
struct Failed {
    at: Instant,
    error: Error,
    /// The machines whose runs have heard of it: when they come back, it is to try again.
    told: BTreeSet<String>,
}

/// How long others are spared a request that has just failed.
const SPARED: Duration = Duration::from_secs(1);

impl Looks {
    /// Asks for a look at a machine.
    pub(crate) fn ask(&self, id: &str) -> oneshot::Receiver<Told> {
        let (answer, hears) = oneshot::channel();
        let look = Look { id: id.to_owned(), answer };
        match self.failed_for(id) {
            Some(error) => look.tell(Err(error)),
            None => self.asked().push(look),
        }
        hears
    }

    /// Tells everybody that the request failed, and whoever else asks in the next moment.
    pub(crate) fn fail(&self, looks: Vec<Look>, error: &Error) {
        let mut failed = self.failed();
        // Who heard of another one a moment ago has come to try again, and does.
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

    /// Whether anybody is still to be answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.asked().is_empty()
    }

    /// So many of those who asked first.
    pub(crate) fn first(&self, most: usize) -> Vec<Look> {
        let mut asked = self.asked();
        // Whoever was cut off does not wait any more.
        asked.retain(|look| !look.answer.is_closed());
        let most = most.min(asked.len());
        asked.drain(..most).collect()
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Look>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    /// Tells what was seen.
    pub(crate) fn tell(self, told: Told) {
        // Whoever hung up meanwhile wants to know no more.
        drop(self.answer.send(told));
    }
}

/// An answer that is good for a while.
#[derive(Debug)]
pub(crate) struct Memo<T>(tokio::sync::Mutex<Option<(Instant, Result<T, Error>)>>);

/// How long an answer is good.
const GOOD: Duration = Duration::from_secs(60);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(tokio::sync::Mutex::default())
    }
}

impl<T: Clone> Memo<T> {
    /// The answer, asked for if it is not known; those who come meanwhile wait for it. What fails has failed for them
    /// too, or each would wait for a MAAS that hangs behind all who came before; who comes later asks again.
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

    /// Whoever comes next asks again.
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
    async fn who_waited_for_a_failure_does_not_ask_again() {
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
        assert_eq!(asked.load(Ordering::Relaxed), 2, "who comes later asks again");
        assert_eq!(memo.get(async { Ok(()) }).await, Ok(()));
        assert_eq!(memo.get(ask()).await, Ok(()), "an answer is kept");
    }

    #[test]
    fn a_failure_is_told_once_to_everybody() {
        let looks = Looks::default();
        // Who was told nothing is not waited for: nobody else would ever tell them.
        let told = |mut hears: oneshot::Receiver<Told>| hears.try_recv();
        let first = looks.ask("a");
        looks.fail(looks.first(9), &error());
        assert_eq!(told(first), Ok(Err(error())));
        assert_eq!(told(looks.ask("b")), Ok(Err(error())), "it failed a moment ago");
        assert!(looks.is_empty());
        let (_a, _b) = (looks.ask("a"), looks.ask("b"));
        assert_eq!(looks.first(9).len(), 2, "they try again");
    }
}
