//! `/api/v1/adapters`: the adapters that clusters and node pools wait for.

use axum::{Json, extract::State};
use wardroom_api::{Envelope, Page, adapter::Adapter};
use wardroom_store::{List, cursor};

use super::{KIND, standing};
use crate::platform::{
    app::App,
    http::{
        error::Error,
        list::{ListQuery, Pages, foreign},
        path::Path,
        problems::Problems,
    },
};

/// Lists the required adapters, by their names: when each was heard, what waits for it, what fails, and what it is silent
/// about.
#[utoipa::path(
    get, path = "/api/v1/adapters", operation_id = "list_adapters", params(Pages),
    responses((status = 200, body = Page<Adapter>), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Adapter>>, Error> {
    let List { after, limit, .. } = pages.of(KIND)?;
    let after = match &after {
        Some(cursor) => Some(cursor::place(KIND, cursor).ok_or_else(|| foreign("continue"))?),
        None => None,
    };
    let mut names = standing::names(&app);
    names.retain(|name| after.is_none_or(|after| after < name.as_str()));
    let is_last = names.len() <= limit;
    names.truncate(limit);
    let next = names.last().filter(|_| !is_last).map(|name| cursor::at(KIND, name));
    let data = standing::of(&app, &names).await?;
    Ok(Json(Page { success: true, data, next }))
}

/// Reads one required adapter.
#[utoipa::path(
    get, path = "/api/v1/adapters/{name}", operation_id = "get_adapter", params(("name" = String, Path)),
    responses((status = 200, body = Envelope<Adapter>), Problems)
)]
pub(crate) async fn one(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Envelope<Adapter>>, Error> {
    find(&app, &name).await.map(|adapter| Json(Envelope::new(adapter)))
}

/// The required adapter of a name.
pub(super) async fn find(app: &App, name: &str) -> Result<Adapter, Error> {
    let is_required = standing::names(app).iter().any(|known| known == name);
    let missing = || Error::not_found(KIND, name);
    if !is_required {
        return Err(missing());
    }
    standing::of(app, &[name.to_owned()]).await?.pop().ok_or_else(missing)
}
