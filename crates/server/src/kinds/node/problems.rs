//! Problems that only nodes have.

use crate::platform::http::error::{Class, class};

#[rustfmt::skip]
pub(super) const PROBLEMS: &[Class] = &[
    class("already_there",     409, "The state does not allow it", "The node is in that state already."),
    class("retry_limit",       409, "The state does not allow it", "The installation has used all its attempts; retry with `force: true`."),
    class("not_retired",       409, "The state does not allow it", "Only a retired node can be deleted; retire it first."),
    class("mac_taken",         409, "The MAC is taken", "The MAC belongs to another node, which `detail` names."),
];
