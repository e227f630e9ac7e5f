//! A change as the parameters of one statement.

use super::dialect;
use crate::change::Fence;
use crate::error::Result;
use crate::prepared::Prepared;
use crate::value::{Param, Value, params};

/// The statement of the change and its parameters, in the order [`dialect`] names them. `mark` is what the change says
/// of its request.
pub(super) fn statement<'a>(change: &'a Prepared, mark: &'a [Value]) -> (&'static str, Vec<Param<'a>>) {
    let head = Param::from(change.expected_head.as_deref());
    if change.is_plain_move() {
        return (dialect::MOVE, change.moved().into_iter().chain(change.entry()).chain([head]).collect());
    }
    let mut params = Vec::with_capacity(42);
    params.extend(change.resource());
    params.extend(change.entry());
    params.push(head);
    for pairs in [&change.effects, &change.terms.added, &change.terms.removed] {
        let (names, values) = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).unzip();
        params.extend([Param::Texts(names), Param::Texts(values)]);
    }
    for keys in [&change.keys.added, &change.keys.removed] {
        params.push(Param::Texts(keys.iter().map(String::as_str).collect()));
    }
    params.extend(match &change.fence {
        Some(fence) => [Param::Text(&fence.lease), Param::Int(fence.epoch)],
        None => [Param::Null, Param::Null],
    });
    let held = &change.holds;
    params.extend([
        Param::Texts(held.iter().map(|held| held.kind.as_str()).collect()),
        Param::Texts(held.iter().map(|held| held.id.as_str()).collect()),
        Param::Ints(held.iter().map(|held| held.version).collect()),
    ]);
    params.extend(mark.iter().map(Param::from));
    params.push(change.beat().map_or(Param::Null, Param::Int));
    (if change.expected_head.is_none() { dialect::INSERT } else { dialect::UPDATE }, params)
}

/// The parameters for the request of a change, if any.
pub(super) fn mark(change: &Prepared) -> Result<Vec<Value>> {
    change.mark.as_ref().map_or_else(|| Ok(vec![Value::Null; 5]), |mark| mark.params(&change.committed.row))
}

pub(super) fn fence_params(fence: &Fence) -> Vec<Value> {
    params![&fence.lease, fence.epoch]
}

/// Returns the locks to take before the statement of the change reads, so that it sees all earlier commits.
pub(super) fn locks(change: &Prepared) -> Vec<(&'static str, Vec<Value>)> {
    let absent = change.holds.iter().filter(|held| held.version == 0);
    let (kinds, ids): (Vec<_>, Vec<_>) = absent.map(|held| (held.kind.clone(), held.id.clone())).unzip();
    let mut locks = Vec::new();
    if !kinds.is_empty() {
        locks.push((dialect::LOCK_ABSENT, vec![Value::Texts(kinds), Value::Texts(ids)]));
    }
    if !change.unused.is_empty() {
        locks.push((dialect::LOCK, params![&change.committed.row.kind, &change.committed.row.resource_id]));
    }
    locks
}
