//! States in the registry, made to fit their records.
//!
//! What must stay true: nothing is pushed into a project that everybody may read, because configs may hold
//! secrets of a site.

use wardroom_store::Resource;
use wardroom_upstream::{
    Failure,
    harbor::Harbor,
    registry::{Registry, artifact::Artifact, state::About},
};

use super::Trouble;
use crate::{
    app::App,
    artifact::{self, DEFAULT, LATEST, PROJECT, repository},
    error::Error,
    satellite::document::{Document, KIND, name_key},
    satellite_config::CONFIGS,
    satellite_group::GROUPS,
};

/// Makes the published state of a satellite, a group or a config fit its record.
pub(super) async fn fit(
    app: &App,
    registry: &Registry,
    harbor: Option<&Harbor>,
    kind: &str,
    id: &str,
) -> Result<(), Trouble> {
    let Some(record) = app.store.get(kind, id).await.map_err(Error::from)? else { return Ok(()) };
    let about = match kind {
        KIND => About::Satellite(&record.content.name),
        kind if kind == GROUPS.kind => About::Group(id),
        kind if kind == CONFIGS.kind => About::Config(id),
        _ => return Err(Trouble::Waiting("there is no state of this kind")),
    };
    let harbor = harbor.filter(|_| is_harbors(app));
    if record.content.deleted {
        return remove(app, registry, harbor, about).await;
    }
    if let Some(harbor) = harbor {
        let project = harbor.ensure_project(PROJECT).await?;
        if project.is_public {
            return Err(Trouble::Waiting("has made the project of states public: make it private first"));
        }
    }
    let document = match about {
        About::Satellite(_) => satellite(app, registry, &record).await?,
        About::Group(name) => artifact::group_state(app, name, Some(&record))?,
        About::Config(_) => artifact::config_state(app, Some(&record))?,
    };
    push(app, registry, about, &document).await
}

/// A satellite's state names what must be there: what is built in is pushed first.
async fn satellite(
    app: &App,
    registry: &Registry,
    satellite: &Resource,
) -> Result<serde_json::Value, Trouble> {
    let document = Document::of(satellite)?;
    if document.groups.is_empty() {
        push(app, registry, About::Group(DEFAULT), &artifact::group_state(app, DEFAULT, None)?).await?;
    }
    if document.config.is_none() {
        push(app, registry, About::Config(DEFAULT), &artifact::config_state(app, None)?).await?;
    }
    Ok(artifact::satellite_state(app, &document)?)
}

async fn push(
    app: &App,
    registry: &Registry,
    about: About<'_>,
    document: &serde_json::Value,
) -> Result<(), Trouble> {
    let image = Artifact::of(document);
    let repository = repository(about);
    if registry.digest(&repository, LATEST).await?.as_ref() == Some(&image.manifest.digest) {
        return Ok(());
    }
    Ok(registry.push(&repository, &image, app.now().as_second()).await?)
}

async fn remove(
    app: &App,
    registry: &Registry,
    harbor: Option<&Harbor>,
    about: About<'_>,
) -> Result<(), Trouble> {
    // The name may have been given again.
    if let About::Satellite(name) = about
        && app.store.get_by_key(KIND, &name_key(name)).await.map_err(Error::from)?.is_some()
    {
        return Ok(());
    }
    match harbor {
        Some(harbor) => Ok(harbor.delete_repository(PROJECT, &about.repository()).await?),
        None => match registry.delete(&repository(about)).await {
            // A registry that does not let go of anything keeps it; nobody is told where it is.
            Ok(_) | Err(Failure::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        },
    }
}

/// Whether the registry is Harbor's own.
fn is_harbors(app: &App) -> bool {
    let registry = app.config.registry.as_ref().map(|registry| &registry.url);
    registry.is_some() && registry == app.config.harbor.as_ref().map(|harbor| &harbor.url)
}
