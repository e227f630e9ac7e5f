//! A change as the parameters of one statement.

use super::dialect;
use crate::change::{Fence, Prepared};
use crate::error::Result;
use crate::value::{Value, params};

/// The statement of the change and its parameters, in the order [`dialect`] names them.
pub(super) fn statement(change: &Prepared) -> Result<(&'static str, Vec<Value>)> {
    let row = &change.row;
    let mut params = change.resource.clone();
    params.extend(params![
        &row.entry_type,
        row.from_state.as_ref(),
        &row.triggered_by,
        row.user_id.as_ref(),
        row.comment.as_ref(),
        row.metadata.as_ref(),
        row.request_id.as_ref(),
        change.expected_head.as_ref(),
    ]);
    if change.is_plain_move() {
        return Ok((dialect::MOVE, params));
    }
    for pairs in [&change.effects, &change.terms.added, &change.terms.removed] {
        let (names, values) = pairs.iter().cloned().unzip();
        params.extend([Value::Texts(names), Value::Texts(values)]);
    }
    params.extend([Value::Texts(change.keys.added.clone()), Value::Texts(change.keys.removed.clone())]);
    params.extend(change.fence.as_ref().map_or_else(|| vec![Value::Null, Value::Null], fence_params));
    params.extend(held_params(change));
    match &change.mark {
        Some(mark) => params.extend(mark.params(row)?),
        None => params.extend(vec![Value::Null; 5]),
    }
    Ok(match change.expected_head {
        None => (dialect::INSERT, params),
        Some(_) => (dialect::UPDATE, params),
    })
}

fn held_params(change: &Prepared) -> [Value; 3] {
    let held = &change.holds;
    [
        Value::Texts(held.iter().map(|held| held.kind.clone()).collect()),
        Value::Texts(held.iter().map(|held| held.id.clone()).collect()),
        Value::Texts(held.iter().map(|held| held.version.to_string()).collect()),
    ]
}

/// What has to be locked before the statement of the change looks, so that it sees all who came before.
pub(super) fn locks(change: &Prepared) -> Vec<(&'static str, Vec<Value>)> {
    let absent = change.holds.iter().filter(|held| held.version == 0);
    let (kinds, ids): (Vec<_>, Vec<_>) = absent.map(|held| (held.kind.clone(), held.id.clone())).unzip();
    let mut locks = Vec::new();
    if !kinds.is_empty() {
        locks.push((dialect::LOCK_ABSENT, vec![Value::Texts(kinds), Value::Texts(ids)]));
    }
    if !change.unused.is_empty() {
        locks.push((dialect::LOCK, params![&change.row.kind, &change.row.resource_id]));
    }
    locks
}

pub(super) fn fence_params(fence: &Fence) -> Vec<Value> {
    params![&fence.lease, fence.epoch]
}
