//! Addresses for a satellite: its registry, its state, its refresh route; and its user name.

use wardroom_api::satellite::{RefreshDirective, Registration, RegistryAuth};
use wardroom_store::Resource;
use wardroom_upstream::registry::state::About;

use super::{
    document::{Document, Refresh, Robot},
    identity::{SatelliteIdentity, handle_of},
    secret,
};
use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::satellite::artifact,
    platform::{app::App, http::error::Error},
};

/// The registry that satellites read: without another one it is this server.
pub(crate) fn registry(app: &App) -> &str {
    artifact::registry_url(app)
}

/// Whether the registry knows the credential that is about to be issued.
pub(crate) fn is_ready(app: &App, document: &Document) -> bool {
    let knows = |robot: &Robot| !robot.disabled && robot.epoch == document.wanted_epoch();
    Settings::of(&app.config).harbor.is_none() || document.robot.as_ref().is_some_and(knows)
}

/// Refuses to register satellites when the server's URL is an address that cannot be reached.
pub(crate) fn check_reachable(app: &App) -> Result<(), Error> {
    match app.config.public_url {
        Some(_) => Ok(()),
        None => Err(Error::NotConfigured(
            "the server listens on an address that satellites cannot reach: set server.public_url \
             (WARDROOM_SERVER_PUBLIC_URL) to the URL under which they reach it",
        )),
    }
}

/// Refuses while the registry does not know the credential yet; no token is used up.
pub(crate) fn check_ready(app: &App, document: &Document) -> Result<(), Error> {
    check_reachable(app)?;
    if is_ready(app, document) {
        return Ok(());
    }
    Err(Error::Unavailable("the registry does not know this satellite's new credential yet: retry"))
}

/// Returns everything that a satellite with a credential needs, from its record: the secret is derived.
pub(crate) fn registration(app: &App, satellite: &Resource) -> Result<Registration, Error> {
    let document = Document::of(satellite)?;
    let (id, name) = (&satellite.content.id, &satellite.content.name);
    let url = registry(app).to_owned();
    let epoch = document.credential.map_or(document.epoch, |credential| credential.epoch);
    let username = document.robot.map_or_else(|| handle_of(name), |robot| robot.name);
    let password = secret::credential(&app.key, id, epoch);
    Ok(Registration {
        state: artifact::url(app, About::Satellite(name)),
        auth: RegistryAuth { url, username, password },
    })
}

/// The SPIRE server that agents of satellites join.
pub(crate) struct Spire {
    pub(crate) trust_domain: String,
    pub(crate) address: String,
    pub(crate) port: u16,
}

/// The SPIRE server, where one is configured.
pub(crate) fn spire(app: &App) -> Option<Spire> {
    let settings = Settings::of(&app.config).spire.as_ref()?;
    let (address, port) = settings.agent_address.clone();
    Some(Spire { trust_domain: settings.trust_domain.clone(), address, port })
}

/// Where and until when a credential is exchanged: on the listener that accepts the shown credential.
pub(crate) fn directive(app: &App, caller: &SatelliteIdentity, refresh: Refresh) -> RefreshDirective {
    let by_certificate = Settings::url_by_certificate(&app.config).filter(|_| caller.shows_certificate());
    let url = by_certificate.unwrap_or_else(|| app.config.public_url.as_deref().unwrap_or_default());
    RefreshDirective { url: format!("{url}/satellites/refresh"), until: refresh.until }
}
