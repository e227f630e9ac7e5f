//! The settings of a site as a run loaded them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wardroom_api::site::Budget;
pub(crate) use wardroom_api::site::{BootDisk, Erase, SiteSettings as Settings};

use super::{document::Document, reach::Reach};
use crate::platform::{app::App, http::error::Error, identity::secret};

pub(crate) const KIND: &str = "site";

/// A site, frozen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    /// A fingerprint of these settings, to notice changes.
    pub(crate) digest: String,
    /// The user of the API key, which machines show as their owner.
    pub(crate) user: String,
    pub(crate) settings: Settings,
}

/// Reads the current settings of a site, and their digest.
pub(crate) async fn load(app: &App, name: &str) -> Result<Option<(Settings, String)>, Error> {
    let found = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
    let Some(found) = found else { return Ok(None) };
    let digest = secret::encode(&Sha256::digest(found.content.document.as_str())[..12]);
    Ok(Some((found.content.document.read()?, digest)))
}

/// The budgets that a site sets for the stages of its runs; none without a site.
pub(crate) async fn budgets(app: &App, name: Option<&str>) -> Result<BTreeMap<String, Budget>, Error> {
    let Some(name) = name else { return Ok(BTreeMap::new()) };
    Ok(load(app, name).await?.map(|(settings, _)| settings.budgets).unwrap_or_default())
}

/// Refuses a BMC that the site does not allow: outside of its networks, with another credential, or without
/// TLS.
pub(crate) async fn check_bmc(app: &App, name: &str, node: &Document) -> Result<(), Error> {
    let Some(bmc) = &node.bmc else { return Ok(()) };
    // A missing site is refused by its precondition.
    let Some((settings, _)) = load(app, name).await? else { return Ok(()) };
    if is_plain(&bmc.address) && !settings.bmc_insecure {
        return Err(Error::invalid("bmc.address", plain_refused(&bmc.address, name)));
    }
    Reach::of(name, &settings, &app.config).check(bmc)
}

pub(crate) fn is_plain(address: &str) -> bool {
    address.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
}

/// The refusal of a BMC without TLS, with the setting that allows it.
pub(crate) fn plain_refused(address: &str, site: &str) -> String {
    format!(
        "{address} is without TLS, so its password can be read on the way: use https://, or set bmc_insecure of the \
         site {site:?} to true"
    )
}
