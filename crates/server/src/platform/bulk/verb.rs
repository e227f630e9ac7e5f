//! The verb of a bulk request: a request of the API about one member, with the member left open.

use wardroom_api::bulk::BulkRequest;
use wardroom_console::form::encoded;

use crate::platform::{
    app::App,
    http::{
        access::{self, Allow, Class},
        error::Error,
    },
    identity::auth::Caller,
};

/// What stands for the member in the path.
const MEMBER: &str = "{id}";

/// A verb.
pub(super) struct Verb {
    pub(super) kind: &'static str,
    /// The path before the member, and after it.
    parts: (String, String),
}

impl Verb {
    /// Reads the verb, and refuses a caller who may not use it.
    pub(super) fn of(app: &App, caller: &Caller, request: &BulkRequest) -> Result<Self, Error> {
        let path = &request.path;
        let wrong = |message: &str| Error::invalid("path", message);
        let (before, after) = path
            .split_once(MEMBER)
            .filter(|(before, after)| before.ends_with('/') && (after.is_empty() || after.starts_with('/')))
            .filter(|(_, after)| !after.contains(MEMBER))
            .ok_or_else(|| wrong("must have {id} once, as a whole part, in the place of the member"))?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        if !before.bytes().chain(after.bytes()).all(is_plain) || path.contains("..") {
            return Err(wrong("must be a path without a query, as /openapi.json lists it"));
        }
        let verb = Self { kind: "", parts: (before.to_owned(), after.to_owned()) };
        let number = before.split('/').count() - 1;
        let is_verb =
            |pattern: &str| pattern.split('/').nth(number).is_some_and(|part| part.starts_with('{'));
        let route = app.routes.at(&request.method, &verb.path("x")).filter(|route| {
            let is_change = route.class == Class::Write && matches!(route.allow, Allow::Roles(_));
            is_change && route.method != "GET" && !route.kind.is_empty() && is_verb(route.path)
        });
        let route = route.ok_or_else(|| {
            wrong("is not one at which people change a member with this method; /openapi.json lists them")
        })?;
        access::check(app, route, caller)?;
        if route.shows_secret && !request.dry_run {
            return Err(wrong(
                "answers with a secret, which is shown for one member at a time: ask for each alone",
            ));
        }
        Ok(Self { kind: route.kind, ..verb })
    }

    /// The path of the verb on a member.
    pub(super) fn path(&self, id: &str) -> String {
        let (before, after) = &self.parts;
        format!("{before}{}{after}", encoded(id))
    }
}
