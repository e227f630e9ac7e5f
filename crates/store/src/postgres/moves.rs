//! Many resources that move, in few statements: thousands of members that fall silent together, say.
//!
//! What must stay true: each change is made or not for itself, exactly as [`Postgres::commit`] would make it; the lease
//! that all of them are bound to is held once, until they are committed.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{StreamExt as _, iter};

use super::{Postgres, dialect};
use crate::error::{Error, Result};
use crate::prepared::Prepared;
use crate::value::{Param, json_text};

/// Changes in one statement: few enough that nobody waits long for one of its rows.
const MOST: usize = 250;

/// Statements at a time.
const AT_ONCE: usize = 4;

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Made,
    /// It was not tried, or did not work: by itself it gets its answer.
    Left,
    /// The server did not answer; it may have been made.
    Unknown(String),
}

impl Postgres {
    /// Makes of many changes those that can be made together; what became of each, in the order given.
    pub(crate) async fn move_many(&self, changes: &[&Prepared]) -> Vec<Moved> {
        let mut became = vec![Moved::Left; changes.len()];
        let batches = group(changes).into_iter().map(|batch| self.move_batch(changes, batch));
        let made: Vec<_> = iter(batches).buffer_unordered(AT_ONCE).collect().await;
        for (ids, batch) in made {
            for at in batch {
                became[at] = match &ids {
                    Ok(ids) if ids.contains(&changes[at].committed.row.resource_id) => Moved::Made,
                    Err(Error::Unavailable(why)) => Moved::Unknown(why.clone()),
                    Ok(_) | Err(_) => Moved::Left,
                };
            }
        }
        became
    }

    /// The ids of those that moved.
    async fn move_batch(
        &self,
        changes: &[&Prepared],
        batch: Vec<usize>,
    ) -> (Result<BTreeSet<String>>, Vec<usize>) {
        let rows = batch.iter().map(|at| row(changes[*at])).collect::<Vec<_>>();
        let Prepared { fence, committed, .. } = changes[batch[0]];
        let moved = async {
            let rows = json_text(&rows)?;
            let params = [
                Param::from(fence.as_ref().map(|fence| fence.lease.as_str())),
                fence.as_ref().map_or(Param::Null, |fence| Param::Int(fence.epoch)),
                Param::Text(&committed.row.kind),
                Param::Text(&rows),
                Param::Texts(
                    batch.iter().map(|at| changes[*at].committed.row.resource_id.as_str()).collect(),
                ),
            ];
            self.run(dialect::MOVES, &params).await?.into_iter().map(|mut row| row.text()).collect()
        };
        (moved.await, batch)
    }
}

/// The places of changes that share a statement: of one kind, under one lease or none, and each of another resource. In
/// the order of their ids, so that two batches do not wait for each other in a circle.
fn group(changes: &[&Prepared]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<_, BTreeMap<&str, usize>> = BTreeMap::new();
    for (at, change) in changes.iter().enumerate().filter(|(_, change)| change.is_bound_move()) {
        let row = &change.committed.row;
        let fence = change.fence.as_ref().map(|fence| (&*fence.lease, fence.epoch));
        groups.entry((&*row.kind, fence)).or_default().entry(&*row.resource_id).or_insert(at);
    }
    let mut batches = Vec::new();
    for places in groups.into_values().filter(|places| places.len() > 1) {
        let places: Vec<_> = places.into_values().collect();
        batches.extend(places.chunks(MOST).map(<[usize]>::to_vec));
    }
    batches
}

/// What [`dialect::MOVES`] reads of a change.
fn row(change: &Prepared) -> [Option<serde_json::Value>; 15] {
    let [_, moved @ ..] = change.moved();
    let mut columns =
        moved.into_iter().chain(change.entry()).chain([Param::from(change.expected_head.as_deref())]);
    std::array::from_fn(|_| match columns.next() {
        Some(Param::Text(text)) => Some(text.into()),
        Some(Param::Int(number)) => Some(number.into()),
        Some(Param::Null | Param::Texts(_) | Param::Ints(_)) | None => None,
    })
}
