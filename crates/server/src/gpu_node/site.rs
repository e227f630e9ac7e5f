//! A site as a run sees it: what was configured when the run loaded it, frozen.

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
