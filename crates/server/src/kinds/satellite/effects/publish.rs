//! Makes states in the registry match their records.
//!
//! What must stay true: nothing is pushed into a public project, because configs may hold secrets of a site;
//! and a satellite that got the name of a deleted one keeps its state, however late the registry removes the
//! other one.

use wardroom_store::{ClaimedEffect, Resource};
use wardroom_upstream::{
    Failure,
    harbor::Harbor,
    registry::{Registry, artifact::Artifact, state::About},
};

use super::{EffectError, Worker, claim::Permit, published, upkeep};
use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::{
        satellite::document::{Document, KIND, name_key},
        satellite::{
            artifact::{self, DEFAULT, LATEST, PROJECT, repository},
            config::{self as satellite_config, CONFIGS},
            group::GROUPS,
        },
    },
    platform::{app::App, http::error::Error},
};

/// Makes the published state of a satellite, a group or a config match its record.
pub(super) async fn fit(
    worker: &Worker,
    registry: &Registry,
    effect: &ClaimedEffect,
) -> Result<(), EffectError> {
    let (app, harbor, id) = (&worker.app, worker.upstreams.harbor.as_ref(), &*effect.resource_id);
    let Some(record) = app.store.get(&effect.kind, id).await.map_err(Error::from)? else { return Ok(()) };
    let kind = published::KINDS.into_iter().find(|kind| *kind == effect.kind);
    let (Some(kind), Some(about)) = (kind, about(&effect.kind, &record)) else {
        return Err(EffectError::Waiting("no published record of this kind"));
    };
    let permit = &Permit::of(worker, effect, &record, basis)?;
    if record.content.deleted {
        let harbor = harbor.filter(|_| is_harbors(app));
        let_go(app, permit, registry, harbor, about, effect.attempts).await?;
        return Ok(published::forget(app, kind, id).await?);
    }
    prepare(app, harbor).await?;
    if kind == KIND {
        // A satellite's state refers to built-in artifacts: those are pushed first.
        for (about, document) in built_in(app, &Document::of(&record)?)? {
            push(app, permit, registry, about, &document).await?;
        }
    }
    check_readers(app, registry, about, &record).await?;
    let digest = push(app, permit, registry, about, &state(app, about, &record)?).await?;
    Ok(published::keep(app, kind, id, &digest).await?)
}

/// The state to publish, or none.
fn basis(app: &App, record: &Resource) -> Result<serde_json::Value, Error> {
    match about(&record.content.kind, record).filter(|_| !record.content.deleted) {
        Some(about) => state(app, about, record),
        None => Ok(serde_json::Value::Null),
    }
}

/// The subject of a record's state; none for a kind without states.
pub(super) fn about<'a>(kind: &str, record: &'a Resource) -> Option<About<'a>> {
    match kind {
        KIND => Some(About::Satellite(&record.content.name)),
        kind if kind == GROUPS.kind => Some(About::Group(&record.content.id)),
        kind if kind == CONFIGS.kind => Some(About::Config(&record.content.id)),
        _ => None,
    }
}

pub(super) fn state(app: &App, about: About<'_>, record: &Resource) -> Result<serde_json::Value, Error> {
    match about {
        About::Satellite(_) => artifact::satellite_state(app, &Document::of(record)?),
        About::Group(name) => artifact::group_state(app, name, Some(record)),
        About::Config(name) => artifact::config_state(app, name, Some(record)),
    }
}

/// The built-in artifacts that a satellite's state names.
pub(super) fn built_in<'a>(
    app: &App,
    satellite: &'a Document,
) -> Result<Vec<(About<'a>, serde_json::Value)>, Error> {
    let mut states = Vec::new();
    if satellite.groups.is_empty() {
        states.push((About::Group(DEFAULT), artifact::group_state(app, DEFAULT, None)?));
    }
    if satellite.config.is_none() {
        let name = artifact::config(satellite);
        states.push((About::Config(name), artifact::config_state(app, name, None)?));
    }
    Ok(states)
}

/// Makes sure that the project for states exists and is private.
pub(super) async fn prepare(app: &App, harbor: Option<&Harbor>) -> Result<(), EffectError> {
    let Some(harbor) = harbor.filter(|_| is_harbors(app)) else { return Ok(()) };
    if harbor.ensure_project(PROJECT).await?.is_public {
        return Err(EffectError::Waiting("has a public project for states: make it private"));
    }
    Ok(())
}

/// Refuses to push secrets to a public registry. For Harbor's registry the project is checked.
async fn check_readers(
    app: &App,
    registry: &Registry,
    about: About<'_>,
    record: &Resource,
) -> Result<(), EffectError> {
    let allowed = is_harbors(app)
        || Settings::of(&app.config).registry.as_ref().is_some_and(|registry| registry.allow_public);
    if allowed || !matches!(about, About::Config(_)) || !satellite_config::has_secrets(record)? {
        return Ok(());
    }
    if registry.is_public(&repository(about)).await? {
        return Err(EffectError::Waiting(
            "is public, and this config has secrets: make the registry ask for credentials, or set registry.allow_public",
        ));
    }
    Ok(())
}

/// Pushes a state; returns its digest.
async fn push(
    app: &App,
    permit: &Permit<'_>,
    registry: &Registry,
    about: About<'_>,
    document: &serde_json::Value,
) -> Result<String, EffectError> {
    let image = Artifact::of(document);
    let repository = repository(about);
    let digest = &image.manifest.digest;
    if registry.digest(&repository, LATEST).await?.as_ref() != Some(digest) {
        let uploaded = registry.upload(&repository, &image).await?;
        permit.to(&uploaded).await?.tag(app.now().as_second()).await?;
        // The new state is published; the next publication removes the old ones.
        if let Err(error) = permit.to(registry).await?.prune(&repository, digest).await {
            tracing::warn!(repository, %error, "old image not removed from the registry; the next publication tries again");
        }
    }
    Ok(image.manifest.digest)
}

/// Removes the published state of a deleted record.
async fn let_go(
    app: &App,
    permit: &Permit<'_>,
    registry: &Registry,
    harbor: Option<&Harbor>,
    about: About<'_>,
    attempts: i64,
) -> Result<(), EffectError> {
    // An earlier attempt may have removed it without getting the answer.
    let mut may_be_gone = attempts > 1;
    if successor(app, about).await?.is_none() {
        remove(permit, registry, harbor, about).await?;
        may_be_gone = true;
    }
    // A new satellite may have the name by now. It gets an effect of its own, so that nothing here overwrites
    // its newer state.
    if may_be_gone && let Some(successor) = successor(app, about).await? {
        upkeep::ask_for(app, successor, upkeep::Cause::Removed).await?;
    }
    Ok(())
}

/// Returns the satellite that has the name of a deleted one. Groups and configs that are created again reuse
/// their record.
async fn successor(app: &App, about: About<'_>) -> Result<Option<Resource>, Error> {
    match about {
        About::Satellite(name) => Ok(app.store.get_by_key(KIND, &name_key(name)).await?),
        About::Group(_) | About::Config(_) => Ok(None),
    }
}

async fn remove(
    permit: &Permit<'_>,
    registry: &Registry,
    harbor: Option<&Harbor>,
    about: About<'_>,
) -> Result<(), EffectError> {
    match harbor {
        Some(harbor) => Ok(permit.to(harbor).await?.delete_repository(PROJECT, &about.repository()).await?),
        None => match permit.to(registry).await?.delete(&repository(about)).await {
            // A registry without deletion keeps it; no satellite reads it any more.
            Ok(_) | Err(Failure::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        },
    }
}

fn is_harbors(app: &App) -> bool {
    let registry = Settings::of(&app.config).registry.as_ref().map(|registry| &registry.url);
    registry.is_some() && registry == Settings::of(&app.config).harbor.as_ref().map(|harbor| &harbor.url)
}
