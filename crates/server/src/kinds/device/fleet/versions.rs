//! The templates that a fleet had.

use axum::{Json, extract::State as Of};
use wardroom_api::device::{
    API_VERSION, ListMetadata, Metadata, ObjectList, TemplateVersion, TemplateVersionSpec,
};
use wardroom_store::{List, Resource};

use super::{
    document::{VERSION_KIND, Version},
    member::owner,
    view,
};
use crate::platform::{
    app::App,
    http::{
        error::Error,
        list::{self, ListQuery, Pages},
        path::Path,
        problems::Problems,
    },
};

/// Lists the versions of a fleet's template, oldest first; the last one is the present.
#[utoipa::path(
    get, path = "/api/v1/fleets/{name}/templateversions", operation_id = "list_template_versions",
    params(("name" = String, Path), Pages), responses((status = 200, body = ObjectList<TemplateVersion>), Problems)
)]
pub(crate) async fn list(
    Of(app): Of<App>,
    Path(name): Path<String>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<ObjectList<TemplateVersion>>, Error> {
    page(&app, &name, &pages).await.map(Json)
}

/// One page of the versions of a fleet's template.
pub(in super::super) async fn page(
    app: &App,
    name: &str,
    pages: &Pages,
) -> Result<ObjectList<TemplateVersion>, Error> {
    let list = List { prefix: Some(format!("{name}/")), ..pages.of(VERSION_KIND)? };
    let page = list::page(app, list).await?;
    view::find(app, name).await?;
    let items = page.items.iter().map(shown).collect::<Result<_, _>>()?;
    let (api_version, kind) = (API_VERSION.to_owned(), "TemplateVersionList".to_owned());
    Ok(ObjectList { api_version, kind, metadata: ListMetadata { next: page.next }, items })
}

fn shown(version: &Resource) -> Result<TemplateVersion, Error> {
    let Version { fleet, number, template, restores, .. } = Version::of(version)?;
    Ok(TemplateVersion {
        api_version: API_VERSION.to_owned(),
        kind: "TemplateVersion".to_owned(),
        metadata: Metadata {
            name: number.to_string(),
            owner: Some(owner(&fleet)),
            creation_timestamp: Some(version.created_at),
            ..Metadata::default()
        },
        spec: TemplateVersionSpec {
            fleet,
            template,
            restores: restores.map(|restored| restored.to_string()),
            since: Some(version.created_at),
        },
    })
}
