//! The templates that devices were given: one stored body for all of them, kept in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use wardroom_api::device::{DeviceSpec, Template};

use super::{
    super::document::Document,
    document::{VERSION_KIND, Version, id},
};
use crate::platform::{app::App, http::error::Error};

/// How many templates are kept in memory.
const MOST: usize = 200;

/// Templates that were read; a version never changes.
#[derive(Debug, Default)]
pub(crate) struct Templates(Mutex<HashMap<String, Arc<Template>>>);

impl Templates {
    async fn read(app: &App, fleet: &str, number: u64) -> Result<Arc<Template>, Error> {
        let (id, templates) = (id(fleet, number), app.part::<Self>());
        let known = templates.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = app.store.get(VERSION_KIND, &id).await?.ok_or_else(|| {
            tracing::error!(id, "the template of a device is missing");
            Error::Internal
        })?;
        let template = Arc::new(Version::of(&found)?.template);
        let mut all = templates.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(id, Arc::clone(&template));
        Ok(template)
    }
}

/// The template that a device was given; nothing for a device with a spec of its own.
pub(crate) async fn of(app: &App, device: &Document) -> Result<Option<Arc<Template>>, Error> {
    match &device.template {
        Some(given) => Templates::read(app, &given.fleet, given.body).await.map(Some),
        None => Ok(None),
    }
}

/// What a device should run, without its decommissioning.
pub(crate) fn spec<'a>(device: &'a Document, template: Option<&'a Template>) -> &'a DeviceSpec {
    template.map_or(&device.spec, |template| &template.spec)
}
