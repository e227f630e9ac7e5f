//! Finds resources by what people call them: a name, an id, or the start of an id.

use axum::{Extension, Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::{Page, found::Found};
use wardroom_core::tone::{self, Tone};
use wardroom_store::{List, Resource};

use crate::platform::{
    app::App,
    feed::events,
    http::{error::Error, list::ListQuery, problems::Problems},
    identity::auth::Caller,
    kind::Stored,
    liveness::incident,
};

/// Candidates that are shown.
const MOST: usize = 10;

/// The shortest start of an id that is looked for.
const SHORTEST: usize = 4;

/// The length of an id that the server gave out.
const ID: usize = 36;

/// Incidents belong to no kind.
const INCIDENT: Stored = Stored::of(incident::KIND);

/// What is looked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// A name, an id, or the start of an id with at least four characters.
    name: String,
    /// Only of this kind; of every kind unless told.
    kind: Option<String>,
    /// Whether a deleted one is found when no living one is called so.
    deleted: Option<bool>,
}

/// Finds the resources that a name, an id or the start of an id leads to, at most ten.
#[utoipa::path(
    get, path = "/api/v1/resources", operation_id = "find_resources", params(Wanted),
    responses((status = 200, description = "What is called so", body = Page<Found>), Problems)
)]
pub(crate) async fn find(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(wanted): ListQuery<Wanted>,
) -> Result<Json<Page<Found>>, Error> {
    let Wanted { name, kind, deleted } = wanted;
    if name.is_empty() || name.contains('\0') {
        return Err(Error::invalid("name", "must be a name, an id or the start of an id"));
    }
    let all = || app.kinds.iter().flat_map(|row| row.stores).chain([&INCIDENT]);
    if let Some(kind) = &kind {
        if !all().any(|stored| stored.kind == kind) {
            let known: Vec<_> = all().map(|stored| stored.kind).collect();
            return Err(Error::invalid("kind", format!("must be one of: {}", known.join(", "))));
        }
        if !events::may_see(&caller, kind) {
            return Err(Error::Forbidden(format!("the token does not cover {kind}")));
        }
    }
    let wanted = |stored: &&Stored| kind.as_ref().is_none_or(|kind| stored.kind == kind);
    let mut data = Vec::new();
    for stored in all().filter(wanted).filter(|stored| events::may_see(&caller, stored.kind)) {
        data.extend(called(&app, stored, &name, deleted.unwrap_or(false)).await?);
    }
    data.truncate(MOST);
    Ok(Json(Page { success: true, data, next: None }))
}

/// Returns the resources of a kind that are called so. An id comes before a name, a name before the start of an id.
async fn called(app: &App, stored: &Stored, name: &str, deleted: bool) -> Result<Vec<Found>, Error> {
    if let Some(exact) = app.store.get(stored.kind, name).await?
        && (deleted || !exact.content.deleted || name.len() == ID)
    {
        return Ok(vec![shown(app, stored, &exact).await?]);
    }
    let list = || List { kind: stored.kind.to_owned(), limit: MOST, ..List::default() };
    let mut found = Vec::new();
    for (field, value) in (stored.called)(name) {
        let list = List { fields: [(field.to_owned(), value)].into(), ..list() };
        found.extend(app.store.list(&list).await?.items);
    }
    if found.is_empty() && name.len() >= SHORTEST {
        let list = List { prefix: Some(name.to_owned()), ..list() };
        let items = app.store.list(&list).await?.items;
        // People choose the other ids, and mean them as a whole.
        found.extend(items.into_iter().filter(|item| item.content.id.len() == ID));
    }
    if found.is_empty() && deleted {
        found.extend(gone(app, stored, name).await?);
    }
    yielded(stored.kind, &mut found);
    let mut all = Vec::new();
    for item in &found {
        all.push(shown(app, stored, item).await?);
    }
    Ok(all)
}

/// Returns the deleted resource that was called so last.
async fn gone(app: &App, stored: &Stored, name: &str) -> Result<Option<Resource>, Error> {
    let spelled = (stored.called)(name).into_iter().map(|(_, value)| value);
    for name in std::iter::once(name.to_owned()).chain(spelled) {
        if let Some(id) = app.store.last_deleted(stored.kind, &name).await? {
            return Ok(app.store.get(stored.kind, &id).await?);
        }
    }
    Ok(None)
}

/// Leaves out members at their end that share their name with others: a machine may have been registered anew.
fn yielded(kind: &str, found: &mut Vec<Resource>) {
    let is_over = |found: &Resource| tone::of(kind, &found.content.state) == Tone::Over;
    if found.iter().any(|one| !is_over(one)) {
        found.retain(|one| !is_over(one));
    }
    found.sort_by(|one, other| one.content.id.cmp(&other.content.id));
    found.dedup_by(|one, other| one.content.id == other.content.id);
}

async fn shown(app: &App, stored: &Stored, resource: &Resource) -> Result<Found, Error> {
    Ok(Found {
        kind: stored.kind.to_owned(),
        id: resource.content.id.clone(),
        name: stored.title(app, resource).await?,
        state: resource.content.state.clone(),
        deleted: resource.content.deleted,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use wardroom_store::Resource;

    use super::yielded;
    use crate::platform::work::jobs::server_record;

    fn check(states: &[&str], expected: &[&str]) {
        let found = |(at, state): (usize, &&str)| {
            let mut content = server_record("node", &at.to_string());
            content.state = (*state).to_owned();
            let at = Timestamp::UNIX_EPOCH;
            let (version, head) = (1, String::new());
            Resource { content, version, head, created_at: at, updated_at: at, state_changed_at: at }
        };
        let mut all: Vec<_> = states.iter().enumerate().map(found).collect();
        yielded("node", &mut all);
        assert_eq!(all.iter().map(|found| &*found.content.state).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_retired_yield_their_name() {
        check(&["retired", "active"], &["active"]);
        check(&["retired"], &["retired"]);
        check(&["retired", "retired"], &["retired", "retired"]);
        check(&["active", "pending"], &["active", "pending"]);
        check(&[], &[]);
    }
}
