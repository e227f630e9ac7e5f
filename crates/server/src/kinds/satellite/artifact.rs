//! The images that satellites fetch: their own state, the states of their groups and their config.
//!
//! Images are computed from records alone, byte for byte the same on every server, so none are stored. A
//! satellite without a group reads the empty group `default`, one without a config the built-in config
//! `default`, because the client fails on a state without them.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};
use wardroom_api::satellite_group::Artifact as Listed;
use wardroom_store::Resource;
use wardroom_upstream::registry::{
    artifact::Artifact,
    state::{self, About, Image},
};

use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::{
        satellite::document::{Document, Flow},
        satellite::{
            config::{self as satellite_config, CONFIGS},
            group::{self as satellite_group, GROUPS},
        },
    },
    platform::{app::App, http::error::Error},
};

/// The project of states. Configs may hold secrets of a site, so it must not be public.
pub(crate) const PROJECT: &str = "satellite";

/// The name of the built-in group and of the built-in config.
pub(crate) const DEFAULT: &str = "default";

/// The built-in config of satellites with a certificate, which connect to another address. The API refuses
/// this name for configs.
const DEFAULT_BY_CERTIFICATE: &str = "default__spiffe";

/// The tag that satellites ask for.
pub(crate) const LATEST: &str = "latest";

/// The repository of a state, with its project.
pub(crate) fn repository(about: About<'_>) -> String {
    format!("{PROJECT}/{}", about.repository())
}

/// The registry that satellites fetch from.
pub(crate) fn registry_url(app: &App) -> &str {
    Settings::of(&app.config)
        .registry
        .as_ref()
        .map_or_else(|| app.config.public_url.as_deref().unwrap_or_default(), |registry| &registry.url)
}

pub(crate) fn url(app: &App, about: About<'_>) -> String {
    format!("{}/{}:{LATEST}", registry_url(app), repository(about))
}

pub(crate) fn groups(satellite: &Document) -> impl Iterator<Item = &str> {
    let none = satellite.groups.is_empty().then_some(DEFAULT);
    satellite.groups.iter().map(String::as_str).chain(none)
}

pub(crate) fn config(satellite: &Document) -> &str {
    satellite.config.as_deref().unwrap_or(match satellite.flow {
        Flow::Spiffe => DEFAULT_BY_CERTIFICATE,
        Flow::Token => DEFAULT,
    })
}

pub(crate) fn satellite_state(app: &App, satellite: &Document) -> Result<Value, Error> {
    let groups: Vec<_> = groups(satellite).map(|group| url(app, About::Group(group))).collect();
    let config = url(app, About::Config(config(satellite)));
    state::satellite(&groups, &config).map_err(|error| broken(&error))
}

pub(crate) fn group_state(app: &App, name: &str, group: Option<&Resource>) -> Result<Value, Error> {
    let group = match group {
        Some(group) => satellite_group::Document::of(group)?,
        None => satellite_group::Document { registry: registry_url(app).to_owned(), artifacts: Vec::new() },
    };
    let images: Vec<_> = group.artifacts.iter().map(image).collect();
    state::group(name, &group.registry, &images).map_err(|error| broken(&error))
}

/// The state of a config. A built-in config has only the server's URL, if it is known; the client has
/// defaults for the rest.
pub(crate) fn config_state(app: &App, name: &str, config: Option<&Resource>) -> Result<Value, Error> {
    if let Some(config) = config {
        return Ok(satellite_config::Document::opened(app, config)?.config);
    }
    let flow = if name == DEFAULT_BY_CERTIFICATE { Flow::Spiffe } else { Flow::Token };
    Ok(match server_url(app, flow) {
        // Without it the client sends no heartbeat over plain HTTP.
        Some(url) if url.starts_with("http://") => {
            json!({"app_config": {"ground_control_url": url, "use_unsecure": true}})
        }
        Some(url) => json!({"app_config": {"ground_control_url": url}}),
        None => json!({"app_config": {}}),
    })
}

/// The server's URL in a built-in config. States that several servers publish must be equal, so for those it
/// is not the listen address of one of them.
pub(crate) fn server_url(app: &App, flow: Flow) -> Option<&str> {
    let config = &app.config;
    let settings = Settings::of(config);
    let spiffe = settings.spiffe.as_ref().filter(|spiffe| flow == Flow::Spiffe && spiffe.url.is_some());
    let is_set = spiffe.map_or(config.public_url_is_set, |spiffe| spiffe.url_is_set);
    let url = match flow {
        Flow::Spiffe => Settings::url_by_certificate(&app.config),
        Flow::Token => config.public_url.as_deref(),
    };
    url.filter(|_| is_set || settings.registry.is_none() || !app.store.is_shared())
}

fn image(artifact: &Listed) -> Image {
    let Listed { repository, tag, type_, digest, deleted, labels } = artifact.clone();
    let labels = (!labels.is_empty()).then_some(labels);
    Image { repository, tag, r#type: type_, digest, deleted, labels }
}

/// Records are checked before they are stored, so this is a bug.
fn broken(error: &dyn std::fmt::Display) -> Error {
    tracing::error!(%error, "the state of a satellite cannot be computed from its record");
    Error::Internal
}

/// Returns the image of a state by its repository, if the satellite may read it.
pub(crate) async fn readable(
    app: &App,
    satellite: &Resource,
    repository: &str,
) -> Result<Option<Arc<Artifact>>, Error> {
    let document = Document::of(satellite)?;
    let is = |about: About<'_>| self::repository(about) == repository;
    if is(About::Satellite(&satellite.content.name)) {
        let made = |app: &App| satellite_state(app, &document);
        return Cache::of(app).get(app, repository, Some(satellite), made).map(Some);
    }
    if let Some(name) = groups(&document).find(|name| is(About::Group(name))) {
        let group = GROUPS.find(app, name).await?;
        // A group that was deleted meanwhile is empty until its satellites read their new state.
        return Cache::of(app)
            .get(app, repository, group.as_ref(), |app| group_state(app, name, group.as_ref()))
            .map(Some);
    }
    let name = config(&document);
    if is(About::Config(name)) {
        let config = CONFIGS.find(app, name).await?;
        return Cache::of(app)
            .get(app, repository, config.as_ref(), |app| config_state(app, name, config.as_ref()))
            .map(Some);
    }
    Ok(None)
}

/// A cache of images by repository: the newest, and the previous one for satellites that are still reading
/// it.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Made>);

#[derive(Default)]
struct Made {
    images: HashMap<String, VecDeque<Kept>>,
    /// Repositories, oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

struct Kept {
    /// The id and version of its record; none for a built-in image.
    of: Option<(String, i64)>,
    image: Arc<Artifact>,
}

/// Images of one repository.
const VERSIONS: usize = 2;

/// Bytes of all of them.
const MOST_BYTES: usize = 32 << 20;

impl Cache {
    pub(crate) fn of(app: &App) -> &Self {
        app.part()
    }

    /// The image of a record, made when it is not there.
    fn get(
        &self,
        app: &App,
        repository: &str,
        record: Option<&Resource>,
        make: impl FnOnce(&App) -> Result<Value, Error>,
    ) -> Result<Arc<Artifact>, Error> {
        let of = record.map(|record| (record.content.id.clone(), record.version));
        if let Some(image) = self.known(repository, |kept| kept.of == of) {
            return Ok(image);
        }
        let image = Arc::new(Artifact::of(&make(app)?));
        self.put(repository, Kept { of, image: Arc::clone(&image) });
        Ok(image)
    }

    /// Returns a recent image that has a part with this digest.
    pub(crate) fn with(&self, repository: &str, digest: &str) -> Option<Arc<Artifact>> {
        self.known(repository, |kept| {
            kept.image.manifest.digest == digest || kept.image.blob(digest).is_some()
        })
    }

    fn known(&self, repository: &str, is_it: impl Fn(&Kept) -> bool) -> Option<Arc<Artifact>> {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = made.images.get(repository)?.iter().find(|kept| is_it(kept))?;
        Some(Arc::clone(&kept.image))
    }

    fn put(&self, repository: &str, kept: Kept) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = &mut *made;
        made.bytes += size(&kept);
        let versions = made.images.entry(repository.to_owned()).or_insert_with(|| {
            made.order.push_back(repository.to_owned());
            VecDeque::new()
        });
        versions.push_front(kept);
        let old = if versions.len() > VERSIONS { versions.pop_back() } else { None };
        made.bytes -= old.as_ref().map_or(0, size);
        while made.bytes > MOST_BYTES {
            let Some(oldest) = made.order.pop_front() else { break };
            let gone = made.images.remove(&oldest).unwrap_or_default();
            made.bytes -= gone.iter().map(size).sum::<usize>();
        }
    }
}

fn size(kept: &Kept) -> usize {
    let image = &kept.image;
    // Names and maps take room as well.
    512 + image.manifest.bytes.len() + image.config.bytes.len() + image.layer.bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(version: i64, fill: usize) -> Kept {
        let image = Arc::new(Artifact::of(&json!({"fill": "x".repeat(fill), "version": version})));
        Kept { of: Some(("a".to_owned(), version)), image }
    }

    #[test]
    fn the_image_before_is_kept_and_no_more() {
        let cache = Cache::default();
        let digests: Vec<_> = (1..=3)
            .map(|version| {
                let kept = kept(version, 10);
                let digest = kept.image.layer.digest.clone();
                cache.put("r", kept);
                digest
            })
            .collect();
        assert!(cache.with("r", &digests[0]).is_none());
        assert!(cache.with("r", &digests[1]).is_some());
        assert!(cache.with("r", &digests[2]).is_some());
        assert!(cache.with("s", &digests[2]).is_none(), "a digest of another repository");
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = Cache::default();
        for at in 0..100 {
            let mut large = kept(1, 0);
            Arc::make_mut(&mut large.image).layer.bytes = vec![0; 1 << 20];
            cache.put(&format!("r{at}"), large);
        }
        let made = cache.0.lock().unwrap();
        assert!(made.bytes <= MOST_BYTES);
        assert_eq!(made.bytes, made.images.values().flatten().map(size).sum::<usize>());
        assert!(made.images.contains_key("r99") && !made.images.contains_key("r0"));
        assert_eq!(made.order.len(), made.images.len());
    }
}
