//! Preconditions of a change: the resources that its decision read are unchanged at the commit, and a deleted
//! resource is not in use.

use std::future::{Ready, ready};

use wardroom_core::action::Call;
use wardroom_store::{Held, Use};

use crate::platform::http::error::Error;

/// The kinds that may refer to a resource.
pub(crate) type Users = &'static [User];

/// A kind that may refer to another one, and the field by which it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    kind: &'static str,
    field: &'static str,
    /// The call that removes the reference.
    release: Option<Call>,
}

impl User {
    pub(crate) const fn by(kind: &'static str, field: &'static str) -> Self {
        Self { kind, field, release: None }
    }

    pub(crate) const fn released_by(self, release: Call) -> Self {
        Self { release: Some(release), ..self }
    }

    /// The precondition that none of this kind refers to a resource.
    pub(super) fn of(&self, id: &str) -> Use {
        Use { kind: self.kind.to_owned(), field: self.field.to_owned(), value: id.to_owned() }
    }
}

/// The refusal to delete a resource in use, with the action that removes the reference.
pub(super) fn in_use(users: Users, kind: &str, id: &str) -> Error {
    let release = users.iter().find(|user| user.kind == kind).and_then(|user| user.release);
    Error::Conflict {
        code: "in_use",
        detail: format!("{kind} {id} uses it: remove it from there first"),
        allowed: release.map(|call| call.of(id)).into_iter().collect(),
    }
}

/// Holds no other resource: for a change that depends on its own resource alone.
pub(crate) fn nothing_held() -> Ready<Result<Vec<Held>, Error>> {
    ready(Ok(Vec::new()))
}
