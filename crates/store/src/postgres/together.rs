//! Changes that need more than one statement: several at once, or one that has to wait for locks first.
//!
//! What must stay true: each statement sees all earlier commits, so after a lock is taken, later statements
//! see everything that its former holders committed.

use deadpool_postgres::Client;

use super::error::{retryable, server_error};
use super::{ATTEMPTS, Failed, Postgres, commit, dialect, limited, ran, run_on};
use crate::beside::PreparedBeside;
use crate::error::{Error, Result};
use crate::prepared::Prepared;
use crate::resource::field_term;
use crate::sql;
use crate::value::{Value, params};

/// The outcome of the changes; all are rolled back unless all succeed.
enum Outcome {
    Made,
    /// Another writer was first, or has a key.
    Lost(usize),
    Taken(usize),
    /// A resource to be removed is in use.
    Used(Error),
    /// Another writer had its turn at what is kept beside a resource.
    OutOfTurn,
}

impl Postgres {
    /// Commits all changes or none. The database ends a deadlock by an error, and the commit is tried again.
    pub(crate) async fn commit_together(
        &self,
        changes: &[Prepared],
        beside: &[PreparedBeside],
    ) -> Result<()> {
        if let ([], [beside]) = (changes, beside)
            && !beside.is_first
            && !beside.ends
        {
            return self.take_turn(beside).await;
        }
        let mut attempt = 1;
        let outcome = loop {
            let begun = Begun::new(self.client().await?);
            match transact(begun.client()?, changes, beside).await {
                Ok(outcome) => {
                    begun.ended();
                    break outcome;
                }
                Err(Failed::Server(error)) if retryable(&error) && attempt < ATTEMPTS => attempt += 1,
                Err(failed) => return Err(failed.into_error()),
            }
        };
        match outcome {
            Outcome::Made => Ok(()),
            Outcome::Used(error) => Err(error),
            Outcome::OutOfTurn => Err(Error::Conflict),
            Outcome::Lost(at) => Err(self.lost(&changes[at]).await?),
            Outcome::Taken(at) => Err(self.taken(&changes[at]).await?),
        }
    }

    /// Keeps observations of one resource by one statement, which is a transaction of its own.
    async fn take_turn(&self, beside: &PreparedBeside) -> Result<()> {
        let rows = ran(&self.writers, dialect::TAKE_TURN, &turn(beside)).await;
        let rows = rows.map_err(Failed::into_commit_error)?;
        if rows.is_empty() { Err(Error::Conflict) } else { Ok(()) }
    }
}

/// A connection in the middle of a transaction. If its task is dropped, the connection is closed, which rolls
/// the transaction back, and never goes back to the pool.
pub(super) struct Begun(Option<Client>);

impl Begun {
    pub(super) fn new(client: Client) -> Self {
        Self(Some(client))
    }

    pub(super) fn client(&self) -> Result<&Client> {
        self.0.as_ref().ok_or_else(|| Error::Bug("a transaction has no connection".to_owned()))
    }

    pub(super) fn ended(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(deadpool_postgres::Object::take(client));
        }
    }
}

/// Set here too, because some poolers do not keep settings.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// The parameters of [`dialect::TAKE_TURN`].
fn turn(beside: &PreparedBeside) -> Vec<Value> {
    let others = [2, 4, 5, 6].map(|number| beside.column(number));
    beside.turn.iter().cloned().chain(others).collect()
}

/// Keeps what is beside a resource; returns false when another writer had its turn.
async fn keep(client: &Client, beside: &PreparedBeside) -> Result<bool, Failed> {
    let turn = match beside.is_first {
        true => run_on(client, sql::OBSERVATION_INSERT, &beside.turn).await?,
        false => run_on(client, dialect::TAKE_TURN, &turn(beside)).await?,
    };
    if turn.is_empty() {
        return Ok(false);
    }
    if beside.is_first {
        for other in &beside.others {
            run_on(client, sql::OBSERVATION_PUT, other).await?;
        }
    }
    if beside.ends {
        run_on(client, sql::OBSERVATIONS_FORGET, beside.resource()).await?;
    }
    Ok(true)
}

async fn transact(
    client: &Client,
    changes: &[Prepared],
    beside: &[PreparedBeside],
) -> Result<Outcome, Failed> {
    tell(client, BEGIN).await?;
    for beside in beside {
        if !keep(client, beside).await? {
            return undo(client, Outcome::OutOfTurn).await;
        }
    }
    for (at, change) in changes.iter().enumerate() {
        for (lock, params) in commit::locks(change) {
            run_on(client, lock, &params).await?;
        }
        if let Some(used) = used(client, change).await? {
            return undo(client, Outcome::Used(used)).await;
        }
        let mark = commit::mark(change).map_err(Failed::Store)?;
        let (statement, params) = commit::statement(change, &mark);
        let made = match run_on(client, statement, &params).await {
            Ok(rows) => !rows.is_empty(),
            // The caller of a retryable error starts over.
            Err(Failed::Server(error)) if !retryable(&error) => {
                let error = server_error(error);
                if matches!(error, Error::Conflict) {
                    return undo(client, Outcome::Taken(at)).await;
                }
                return Err(Failed::Store(error));
            }
            Err(failed) => return Err(failed),
        };
        if !made {
            return undo(client, Outcome::Lost(at)).await;
        }
    }
    let committed = tell(client, "COMMIT").await;
    committed.map_err(|failed| Failed::Store(failed.into_commit_error()))?;
    Ok(Outcome::Made)
}

async fn undo(client: &Client, outcome: Outcome) -> Result<Outcome, Failed> {
    tell(client, "ROLLBACK").await?;
    Ok(outcome)
}

/// Runs a statement without parameters and rows.
async fn tell(client: &Client, sql: &str) -> Result<(), Failed> {
    limited(async { client.batch_execute(sql).await.map_err(Failed::Server) }).await
}

async fn used(client: &Client, change: &Prepared) -> Result<Option<Error>, Failed> {
    for used in &change.unused {
        let params = params![&used.kind, field_term(&used.field), &used.value];
        if let Some(mut user) = run_on(client, sql::TERM_USER, &params).await?.pop() {
            let id = user.text().map_err(Failed::Store)?;
            return Ok(Some(Error::Used { kind: used.kind.clone(), id }));
        }
    }
    Ok(None)
}
