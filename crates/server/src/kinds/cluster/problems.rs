//! Problems that only clusters have.

use crate::platform::http::error::{Class, class};

#[rustfmt::skip]
pub(super) const PROBLEMS: &[Class] = &[
    class("being_deleted",     409, "It is being deleted", "The deletion of the cluster or node pool was requested: it is not changed any more, and gets no new node pools."),
    class("not_being_deleted", 409, "It is not being deleted", "Only what is being deleted is removed by force: request its deletion first."),
];
