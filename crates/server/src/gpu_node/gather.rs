//! What many ask of a MAAS at once is asked once.
//!
//! A look at a machine is always younger than the question: nobody is answered with what was seen before.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use wardroom_upstream::maas::Machine;

/// Looks at single machines that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// Whoever has it waits for the turn at which the next request is sent.
    pub(crate) door: tokio::sync::Mutex<()>,
    asked: Mutex<Vec<Look>>,
}

/// Somebody wants to know how a machine is. Who hears nothing of it asks alone.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) id: String,
    answer: oneshot::Sender<Option<Machine>>,
}

impl Looks {
    /// Asks for a look at a machine.
    pub(crate) fn ask(&self, id: &str) -> oneshot::Receiver<Option<Machine>> {
        let (answer, hears) = oneshot::channel();
        self.asked().push(Look { id: id.to_owned(), answer });
        hears
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

    fn asked(&self) -> std::sync::MutexGuard<'_, Vec<Look>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    /// Tells what was seen.
    pub(crate) fn tell(self, machine: Option<Machine>) {
        // Whoever hung up meanwhile wants to know no more.
        drop(self.answer.send(machine));
    }
}

/// An answer that is good for a while.
#[derive(Debug)]
pub(crate) struct Memo<T>(tokio::sync::Mutex<Option<(Instant, T)>>);

/// How long an answer is good.
const GOOD: Duration = Duration::from_secs(60);

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self(tokio::sync::Mutex::default())
    }
}

impl<T: Clone> Memo<T> {
    /// The answer, asked for if it is not known; those who come meanwhile wait for it. A failure is not kept.
    pub(crate) async fn get<E>(&self, ask: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let mut known = self.0.lock().await;
        if let Some((_, answer)) = known.as_ref().filter(|(at, _)| at.elapsed() < GOOD) {
            return Ok(answer.clone());
        }
        let answer = ask.await?;
        *known = Some((Instant::now(), answer.clone()));
        Ok(answer)
    }

    /// Whoever comes next asks again.
    pub(crate) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
