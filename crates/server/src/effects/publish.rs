//! States in the registry, made to fit their records.
//!
//! What must stay true: nothing is pushed into a project that everybody may read, because configs may hold
//! secrets of a site; and who was given the name of a satellite that is gone keeps its state, however late the
//! registry removes the other one.

use wardroom_store::{ClaimedEffect, Resource};
use wardroom_upstream::{
    Failure,
    harbor::Harbor,
    registry::{Registry, artifact::Artifact, state::About},
};

use super::{Trouble, upkeep};
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
    effect: &ClaimedEffect,
) -> Result<(), Trouble> {
    let (kind, id) = (&*effect.kind, &*effect.resource_id);
    let Some(record) = app.store.get(kind, id).await.map_err(Error::from)? else { return Ok(()) };
    let about = match kind {
        KIND => About::Satellite(&record.content.name),
        kind if kind == GROUPS.kind => About::Group(id),
        kind if kind == CONFIGS.kind => About::Config(id),
        _ => return Err(Trouble::Waiting("there is no state of this kind")),
    };
    let harbor = harbor.filter(|_| is_harbors(app));
    if record.content.deleted {
        return let_go(app, registry, harbor, about, effect.attempts).await;
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
        About::Config(name) => artifact::config_state(app, name, Some(&record))?,
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
        let name = artifact::config(&document);
        push(app, registry, About::Config(name), &artifact::config_state(app, name, None)?).await?;
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

/// Removes what was published of a record that is gone.
async fn let_go(
    app: &App,
    registry: &Registry,
    harbor: Option<&Harbor>,
    about: About<'_>,
    attempts: i64,
) -> Result<(), Trouble> {
    // An attempt before this one may have removed it although nobody heard of that.
    let mut may_be_gone = attempts > 1;
    if successor(app, about).await?.is_none() {
        remove(registry, harbor, about).await?;
        may_be_gone = true;
    }
    // The name may have been given again while the registry took its time. The new one is asked to publish by itself,
    // so that what it says meanwhile is not overtaken from here.
    if may_be_gone && let Some(successor) = successor(app, about).await? {
        upkeep::ask_for(app, successor, upkeep::Cause::Removed).await?;
    }
    Ok(())
}

/// Who has the name of a satellite that is gone. Groups and configs that are made anew are the same record.
async fn successor(app: &App, about: About<'_>) -> Result<Option<Resource>, Error> {
    match about {
        About::Satellite(name) => Ok(app.store.get_by_key(KIND, &name_key(name)).await?),
        About::Group(_) | About::Config(_) => Ok(None),
    }
}

async fn remove(registry: &Registry, harbor: Option<&Harbor>, about: About<'_>) -> Result<(), Trouble> {
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
