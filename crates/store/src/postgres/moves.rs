//! Changes of many callers in one statement.
//!
//! What must stay true: each change succeeds or fails separately, exactly as with a statement of its own. A
//! batch never waits: a row that another session has locked is left to its caller, which waits alone, so that
//! two batches never deadlock.

use std::collections::HashSet;

use deadpool_postgres::Pool;

use super::error::retryable;
use super::together::Begun;
use super::{Failed, WAIT, client, dialect, run_on};
use crate::error::{Error, Result, Wait};
use crate::prepared::Prepared;
use crate::value::Param;

/// The most changes in one statement; few, so that its rows are locked only briefly.
pub(super) const MOST: usize = 250;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Made,
    /// It failed, or had to wait for another session: it is committed separately.
    Left,
    /// The server cannot do anything now; it was not made.
    Refused(String),
    /// The server gave up; it was not made.
    CutShort(Wait),
    /// The server did not answer; it may have been made.
    Unknown(String),
}

/// Makes those changes that need no wait.
pub(super) async fn make(pool: Pool, changes: Vec<Prepared>) -> Vec<(Prepared, Moved)> {
    let made = numbers(&pool, &changes).await.map_err(all);
    let became = |number: i64| match &made {
        Ok(made) if made.contains(&number) => Moved::Made,
        Ok(_) => Moved::Left,
        Err(all) => all.clone(),
    };
    (1..).zip(changes).map(|(number, change)| (change, became(number))).collect()
}

/// The outcome of all changes after a failure of the whole statement.
fn all(failed: Failed) -> Moved {
    let sent_back = matches!(&failed, Failed::Server(error) if retryable(error));
    let error = failed.into_commit_error();
    if let Error::Unanswered(why) = error {
        return Moved::Unknown(why);
    }
    if let Error::CutShort(wait) = error {
        return Moved::CutShort(wait);
    }
    if let Error::Unavailable(why) = error
        && !sent_back
    {
        return Moved::Refused(why);
    }
    Moved::Left
}

/// Returns the numbers of the changes that were made, from 1.
async fn numbers(pool: &Pool, changes: &[Prepared]) -> Result<HashSet<i64>, Failed> {
    let begun = Begun::new(client(pool).await.map_err(Failed::Store)?);
    let columns = columns(changes);
    let lane = begun.client().map_err(Failed::Store)?;
    let rows = tokio::time::timeout(WAIT, run_on(lane, dialect::MOVES, &columns)).await;
    let rows = rows.unwrap_or(Err(Failed::Late));
    if !rows.as_ref().is_err_and(Failed::spoils_connection) {
        begun.ended();
    }
    rows?.into_iter().map(|mut row| row.int().map_err(Failed::Store)).collect()
}

/// The columns of all changes, in the order that [`dialect::MOVES`] names them. Of two changes of one
/// resource only the first is tried.
fn columns(changes: &[Prepared]) -> Vec<Param<'_>> {
    let mut seen = HashSet::new();
    let mut rows: Vec<_> = changes.iter().map(|change| row(change, &mut seen).into_iter()).collect();
    let mut column = |_| Param::column(rows.iter_mut().map(|row| row.next().unwrap_or(Param::Null)));
    (0..COLUMNS).map(&mut column).collect()
}

const COLUMNS: usize = 21;

/// Stands for no beat, because columns of numbers have no nulls here.
const NO_BEAT: i64 = -1;

fn row<'a>(change: &'a Prepared, seen: &mut HashSet<(&'a str, &'a str)>) -> [Param<'a>; COLUMNS] {
    let row = &change.committed.row;
    let [kind, id, version, head, state, document, at, state_changed_at] = change.moved();
    let [entry_type, from, by, user, comment, metadata, request] = change.entry();
    // No resource has this head.
    let before =
        if seen.insert((&row.kind, &row.resource_id)) { change.expected_head.as_deref() } else { None };
    let (dated, due_at) = change.due();
    let (fence, epoch) = match &change.fence {
        Some(fence) => (Param::Text(&fence.lease), Param::Int(fence.epoch)),
        None => (Param::Null, Param::Int(0)),
    };
    let before = Param::from(before);
    let dated = Param::Int(dated.into());
    [
        kind,
        id,
        version,
        head,
        state,
        document,
        at,
        state_changed_at,
        entry_type,
        from,
        by,
        user,
        comment,
        metadata,
        request,
        before,
        dated,
        due_at,
        fence,
        epoch,
        Param::Int(change.beat().unwrap_or(NO_BEAT)),
    ]
}
