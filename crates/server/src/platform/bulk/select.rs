//! The members that a dry run selects: those that the kind's own list answers, to the caller.

use std::collections::BTreeMap;

use wardroom_api::{Problem, bulk::BulkMember};
use wardroom_console::face::Ask;

use super::MOST;
use crate::platform::{console::inside::Api, http::error::Error};

/// Members on a page of the list.
const PAGE: &str = "1000";

/// The members that match.
pub(super) async fn members(
    api: &Api<'_>,
    kind: &str,
    select: &BTreeMap<String, String>,
) -> Result<Vec<BulkMember>, Error> {
    let mut faces = api.app.kinds.iter().flat_map(|row| row.faces);
    let face = faces.find(|face| face.kind == kind).ok_or_else(|| {
        Error::invalid("select", "this kind has no list to select from: name its members in `members`")
    })?;
    if let Some(name) = select.keys().find(|name| matches!(&***name, "limit" | "continue" | "deleted")) {
        return Err(Error::invalid(
            format!("select.{name}"),
            "cannot be given: all living members that match are selected",
        ));
    }
    let query = select.iter().map(|(name, value)| (&**name, &**value)).chain([("limit", PAGE)]);
    let query: Vec<_> = query.collect();
    let listed = api.get(face.path, &query).await.map_err(refused)?;
    let page = (face.read)(listed, &Ask { limit: MOST, ..Ask::default() });
    if page.next.is_some() {
        return Err(Error::invalid(
            "select",
            format!("matches more than {MOST} members: narrow it, and do the verb in several requests"),
        ));
    }
    let member = |item| BulkMember { id: (face.member)(item).id, version: None };
    match page.items.is_empty() {
        true => Err(Error::invalid("select", "matches no member")),
        false => Ok(page.items.iter().map(member).collect()),
    }
}

/// The refusal of the list, as one of this request.
fn refused(problem: Problem) -> Error {
    match problem.status {
        400 => {
            let select = |mut error: wardroom_api::FieldError| {
                error.field = format!("select.{}", error.field);
                error
            };
            Error::Invalid(problem.errors.into_iter().map(select).collect())
        }
        403 => Error::Forbidden(problem.detail),
        429 => Error::TooMany(1),
        _ => Error::Unavailable("the members could not be listed: retry"),
    }
}
