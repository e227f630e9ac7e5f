//! A change as the parameters of one statement.

use super::dialect;
use crate::change::{Fence, Prepared};
use crate::value::{Value, params};

/// The statement of the change and its parameters, in the order [`dialect`] names them.
pub(super) fn statement(change: &Prepared) -> (&'static str, Vec<Value>) {
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
        return (dialect::MOVE, params);
    }
    for pairs in [&change.effects, &change.terms.added, &change.terms.removed] {
        let (names, values) = pairs.iter().cloned().unzip();
        params.extend([Value::Texts(names), Value::Texts(values)]);
    }
    params.extend([Value::Texts(change.keys.added.clone()), Value::Texts(change.keys.removed.clone())]);
    params.extend(change.fence.as_ref().map_or_else(|| vec![Value::Null, Value::Null], fence_params));
    match change.expected_head {
        None => (dialect::INSERT, params),
        Some(_) => (dialect::UPDATE, params),
    }
}

pub(super) fn fence_params(fence: &Fence) -> Vec<Value> {
    params![&fence.lease, fence.epoch]
}
