//! Batches: requests of many callers that are sent to the database together.
//!
//! While a lane waits for the database, the next batch queues; a single caller does not wait for a batch to
//! fill.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

use crate::error::{Error, Result};

/// Jobs that may wait; further callers are held back.
const QUEUE: usize = 1024;

/// A queue, and the tasks that work it off; they end when it is dropped.
pub(super) struct Lanes<J, A> {
    queue: mpsc::Sender<Job<J, A>>,
}

struct Job<J, A> {
    job: J,
    reply: oneshot::Sender<A>,
}

impl<J: Send + 'static, A: Send + 'static> Lanes<J, A> {
    /// Opens lanes that each run a limited number of jobs at a time; `run` answers every job, in order.
    pub(super) fn open<R>(
        lanes: usize,
        most: usize,
        run: impl Fn(Vec<J>) -> R + Send + Clone + 'static,
    ) -> Self
    where
        R: Future<Output = Vec<A>> + Send + 'static,
    {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..lanes {
            tokio::spawn(work_off(Arc::clone(&jobs), most, run.clone()));
        }
        Self { queue }
    }

    pub(super) async fn ask(&self, job: J) -> Result<A> {
        let gone = || Error::Unavailable("the database's lanes are closed".to_owned());
        let (reply, answer) = oneshot::channel();
        self.queue.send(Job { job, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

async fn work_off<J, A, R>(
    jobs: Arc<Mutex<mpsc::Receiver<Job<J, A>>>>,
    most: usize,
    run: impl Fn(Vec<J>) -> R,
) where
    R: Future<Output = Vec<A>>,
{
    let mut batch = Vec::with_capacity(most);
    while jobs.lock().await.recv_many(&mut batch, most).await > 0 {
        let (work, replies): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|Job { job, reply }| (job, reply)).unzip();
        for (reply, answer) in replies.into_iter().zip(run(work).await) {
            // The caller may be gone.
            let _ = reply.send(answer);
        }
    }
}
