//! A site as a run sees it: what was configured when the run loaded it, frozen.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
pub(crate) use wardroom_api::site::{BootDisk, Erase, SiteSettings as Settings};

use crate::{app::App, error::Error, secret};

/// The kind under which sites are stored.
pub(crate) const KIND: &str = "site";

/// A site, frozen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    /// Names these settings: another digest means that somebody changed them since.
    pub(crate) digest: String,
    /// Whose API key it is: what machines show as their owner.
    pub(crate) user: String,
    pub(crate) settings: Settings,
}

/// The settings of a site as they are now, and their digest; nothing when there is no such site.
pub(crate) async fn load(app: &App, name: &str) -> Result<Option<(Settings, String)>, Error> {
    let found = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
    let Some(found) = found else { return Ok(None) };
    let digest = secret::encode(&Sha256::digest(found.content.document.as_str())[..12]);
    Ok(Some((found.content.document.read()?, digest)))
}

/// What a reference stands for: the content of a file, or of an environment variable.
///
/// # Errors
/// Why there is none; the text names the reference, never what is behind it.
pub(crate) fn resolve(reference: &str) -> Result<String, String> {
    let found = if let Some(path) = reference.strip_prefix("file:") {
        std::fs::read_to_string(Path::new(path)).map_err(|error| error.to_string())
    } else if let Some(name) = reference.strip_prefix("env:") {
        std::env::var(name).map_err(|error| error.to_string())
    } else {
        Err("a reference is file:PATH or env:NAME".to_owned())
    };
    let found = found.map_err(|why| format!("the secret at {reference}: {why}"))?;
    let found = found.trim_end_matches(['\n', '\r']).to_owned();
    if found.is_empty() { Err(format!("the secret at {reference}: it is empty")) } else { Ok(found) }
}
