//! The one thread that writes: it commits whatever has queued up with a single sync.
//!
//! While one batch syncs, the next one queues. Callers that were answered together return together, so the
//! next batch waits for them a little, if that is short compared with a sync; a single caller does not wait.
//! A command that may fail late runs in a savepoint, so that only it is rolled back; other commands fail
//! before they write. Callers are answered after the batch is durable.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::connect::{execute, query, sqlite_error};
use super::dialect;
use super::recent::Recent;
use crate::beside::PreparedBeside;
use crate::error::{Error, Result};
use crate::prepared::Prepared;
use crate::resource::{Resource, field_term};
use crate::sql;
use crate::value::{Param, Row, Value, params};

/// The most commands in one transaction, so that the first of them does not wait long.
const BATCH: usize = 512;

/// The queue of commands; further callers wait.
const QUEUE: usize = 1024;

#[derive(Debug)]
pub(super) enum Work {
    /// The changes, a copy of each resource for the cache, made by the caller to save time on this
    /// thread, and the observations that are kept with them.
    Commit(Vec<Prepared>, Vec<Arc<Resource>>, Vec<PreparedBeside>),
    Statement(&'static str, Vec<Value>),
}

#[derive(Debug)]
pub(super) enum Done {
    Changes(Vec<Prepared>),
    Rows(Vec<Row>),
}

/// The rows of a statement; changes come back as they are.
type Answer = Result<Vec<Row>>;

struct Job {
    work: Work,
    reply: oneshot::Sender<Result<Done>>,
}

/// The handle of the thread; dropping it finishes the queue and waits for the end.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn spawn(connection: Connection, recent: Arc<Recent>) -> Result<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(move || run(&connection, &recent, jobs));
        let thread =
            thread.map_err(|error| Error::Unavailable(format!("no thread for the writer: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) async fn send(&self, work: Work) -> Result<Done> {
        let gone = || Error::Unavailable("the writer has stopped".to_owned());
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        queue.send(Job { work, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panicked writer has already failed all its callers.
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, recent: &Recent, mut jobs: mpsc::Receiver<Job>) {
    let mut before = Batch { size: 1, sync: Duration::ZERO };
    while let Some(first) = jobs.blocking_recv() {
        let batch = gather(first, &mut jobs, &before);
        let size = batch.len();
        let (mut work, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|job| (job.work, job.reply)).unzip();
        let Transacted { answers, sync, forgotten } = transact(connection, recent, &work);
        for (work, answer) in work.iter_mut().zip(&answers) {
            remember(recent, work, answer);
        }
        for ((reply, work), answer) in replies.into_iter().zip(work).zip(answers) {
            let done = answer.map(|rows| match work {
                Work::Commit(changes, ..) => Done::Changes(changes),
                Work::Statement(..) => Done::Rows(rows),
            });
            // The caller may be gone.
            let _ = reply.send(done);
        }
        // Dropped after the callers are answered, because it takes time.
        drop(forgotten);
        before = Batch { size, sync };
    }
}

type Forgotten = Vec<[Option<Arc<Resource>>; 2]>;

/// Removes resources that are about to change from the cache.
fn forget(recent: &Recent, batch: &[Work]) -> Forgotten {
    let mut forgotten = Vec::with_capacity(batch.len());
    for work in batch {
        match work {
            Work::Commit(changes, ..) => {
                let ids = changes.iter().map(|change| &change.committed.resource.content.id);
                forgotten.extend(ids.map(|id| recent.forget(id)));
            }
            Work::Statement(sql, params) => {
                forgotten.extend(put_off(sql, params).map(|id| recent.forget(id)));
            }
        }
    }
    forgotten
}

/// Returns the resource of the statement that changes a resource without a new version.
fn put_off<'a>(sql: &str, params: &'a [Value]) -> Option<&'a str> {
    match params {
        [_, Value::Text(id), ..] if sql == sql::PUT_OFF => Some(id),
        _ => None,
    }
}

/// Adds committed resources to the cache, unless the same batch also changed them without a new version.
fn remember(recent: &Recent, work: &mut Work, answer: &Answer) {
    match work {
        Work::Commit(_, kept, _) if answer.is_ok() => {
            kept.drain(..).for_each(|resource| recent.keep(resource));
        }
        Work::Commit(..) => {}
        Work::Statement(sql, params) => {
            put_off(sql, params).map(|id| recent.forget(id));
        }
    }
}

/// The previous batch: how many callers were answered, and how long the sync took.
struct Batch {
    size: usize,
    sync: Duration,
}

/// How long to wait for further commands at most, and how often to look.
const LONGEST: Duration = Duration::from_millis(3);
const LOOK: Duration = Duration::from_micros(50);

/// Collects the waiting commands, and new ones until as many came as were answered before. Stops when none
/// came between two looks, because then the other callers are busy elsewhere.
fn gather(first: Job, jobs: &mut mpsc::Receiver<Job>, before: &Batch) -> Vec<Job> {
    let (mut batch, began) = (vec![first], now());
    let patience = (before.sync / 2).min(LONGEST);
    loop {
        let were = batch.len();
        while batch.len() < BATCH
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
        let nobody_came = batch.len() == were && were > 1;
        if batch.len() >= before.size || nobody_came || now().duration_since(began) >= patience {
            return batch;
        }
        std::thread::sleep(LOOK.max(patience / 8));
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a sync takes says how long to gather for the next")]
fn now() -> Instant {
    Instant::now()
}

/// The outcome of a batch, and how long its commit took.
struct Transacted {
    answers: Vec<Answer>,
    sync: Duration,
    forgotten: Forgotten,
}

/// One transaction for all; when it fails as a whole, so does everything in it.
fn transact(connection: &Connection, recent: &Recent, batch: &[Work]) -> Transacted {
    let transaction = || -> Result<Transacted> {
        execute(connection, "BEGIN IMMEDIATE", [])?;
        let answers = batch.iter().map(|work| run_in_it(connection, work)).collect::<Result<_>>()?;
        let forgotten = forget(recent, batch);
        let written = now();
        execute(connection, "COMMIT", [])?;
        Ok(Transacted { answers, sync: now().duration_since(written), forgotten })
    };
    transaction().unwrap_or_else(|error| {
        if !connection.is_autocommit() {
            // Every caller in the batch gets the first error.
            let _ = execute(connection, "ROLLBACK", []);
        }
        let answers = batch.iter().map(|_| Err(Error::Unavailable(error.to_string()))).collect();
        Transacted { answers, sync: Duration::ZERO, forgotten: Vec::new() }
    })
}

/// A full disk may end the transaction: later commands must not be written outside of it.
fn run_in_it(connection: &Connection, work: &Work) -> Result<Answer> {
    let answer = run_one(connection, work)?;
    match answer {
        Err(error) if connection.is_autocommit() => Err(error),
        answer => Ok(answer),
    }
}

/// The outer result is about the transaction, the inner one about this command.
fn run_one(connection: &Connection, work: &Work) -> Result<Answer> {
    let (changes, beside) = match work {
        // A single statement is atomic.
        Work::Statement(sql, params) => return Ok(query(connection, sql, params)),
        Work::Commit(changes, _, beside) => (changes, beside),
    };
    if let [change] = changes.as_slice()
        && !change.may_fail_late()
        && beside.is_empty()
    {
        if let Err(refused) = refuse(connection, change) {
            return Ok(Err(refused));
        }
        return match write(connection, change) {
            Ok(()) => Ok(Ok(Vec::new())),
            Err(Error::Conflict) => Ok(Err(Error::Conflict)),
            Err(error) => Err(error),
        };
    }
    execute(connection, "SAVEPOINT command", [])?;
    let answer = beside.iter().try_for_each(|beside| keep(connection, beside)).and_then(|()| {
        changes.iter().try_for_each(|change| {
            refuse(connection, change)?;
            write(connection, change)
        })
    });
    if answer.is_err() {
        execute(connection, "ROLLBACK TO command", [])?;
    }
    execute(connection, "RELEASE command", [])?;
    Ok(answer.map(|()| Vec::new()))
}

/// Checks everything that can be checked before something is written.
fn refuse(connection: &Connection, change: &Prepared) -> Result<()> {
    if let Some(fence) = &change.fence
        && query(connection, dialect::FENCE, &params![&fence.lease, fence.epoch])?.is_empty()
    {
        return Err(Error::Fenced { lease: fence.lease.clone() });
    }
    if change.beat().is_some() {
        return Err(Error::Invalid {
            field: "beat",
            reason: "an embedded database keeps beats in another file",
        });
    }
    for held in &change.holds {
        let found = query(connection, dialect::VERSION, &params![&held.kind, &held.id])?.pop();
        if found.map_or(Ok(0), |mut row| row.int())? != held.version {
            return Err(Error::Conflict);
        }
    }
    for used in &change.unused {
        let params = params![&used.kind, field_term(&used.field), &used.value];
        if let Some(mut user) = query(connection, sql::TERM_USER, &params)?.pop() {
            return Err(Error::Used { kind: used.kind.clone(), id: user.text()? });
        }
    }
    Ok(())
}

/// Keeps what is beside a resource, if it is this writer's turn.
fn keep(connection: &Connection, beside: &PreparedBeside) -> Result<()> {
    let turn = if beside.is_first { sql::OBSERVATION_INSERT } else { sql::OBSERVATION_UPDATE };
    if query(connection, turn, &beside.turn)?.is_empty() {
        return Err(Error::Conflict);
    }
    for other in &beside.others {
        query(connection, sql::OBSERVATION_PUT, other)?;
    }
    if beside.ends {
        query(connection, sql::OBSERVATIONS_FORGET, beside.resource())?;
    }
    Ok(())
}

/// A conflict is found by the first statement, which then has written nothing.
fn write(connection: &Connection, change: &Prepared) -> Result<()> {
    let head = change.expected_head.as_deref().map(Param::Text);
    let written = match &change.expected_head {
        None => execute(connection, dialect::INSERT_RESOURCE, change.resource())?,
        Some(_) if change.is_same_but_state() => {
            execute(connection, dialect::MOVE_RESOURCE, change.moved().into_iter().chain(head))?
        }
        Some(_) => execute(connection, dialect::UPDATE_RESOURCE, change.resource().into_iter().chain(head))?,
    };
    if written == 0 {
        return Err(Error::Conflict);
    }
    execute(connection, dialect::INSERT_HISTORY, change.history())?;
    if let Some(mark) = &change.mark {
        let params = mark.params(&change.committed.row)?;
        execute(connection, dialect::MARK, params.iter().map(Param::from))?;
    }
    index(connection, change)
}

fn index(connection: &Connection, change: &Prepared) -> Result<()> {
    let [kind, id, sequence, ..] = change.moved();
    let text = Param::Text;
    for (effect, payload) in &change.effects {
        execute(connection, dialect::HURRY_EFFECTS, [kind.clone(), id.clone(), text(effect)])?;
        let params = [kind.clone(), id.clone(), sequence.clone(), text(effect), text(payload), change.at()];
        execute(connection, dialect::INSERT_EFFECT, params)?;
    }
    for (term, value) in &change.terms.removed {
        execute(connection, dialect::DELETE_TERM, [kind.clone(), text(term), text(value), id.clone()])?;
    }
    for (term, value) in &change.terms.added {
        execute(connection, dialect::INSERT_TERM, [kind.clone(), text(term), text(value), id.clone()])?;
    }
    for key in &change.keys.removed {
        execute(connection, dialect::DELETE_KEY, [kind.clone(), text(key), id.clone()])?;
    }
    for key in &change.keys.added {
        if execute(connection, dialect::INSERT_KEY, [kind.clone(), text(key), id.clone()])? == 0 {
            return Err(taken(connection, &change.committed.row.kind, key));
        }
    }
    Ok(())
}

fn taken(connection: &Connection, kind: &str, key: &str) -> Error {
    let holder = query(connection, sql::KEY_HOLDER, &params![kind, key]).and_then(|mut rows| {
        rows.pop().ok_or_else(|| sqlite_error(rusqlite::Error::QueryReturnedNoRows))?.text()
    });
    match holder {
        Ok(holder) => Error::KeyTaken { key: key.to_owned(), holder },
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests;
