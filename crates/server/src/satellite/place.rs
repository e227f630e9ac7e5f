//! Where things are for a satellite: its registry, its state, its refresh route, its user name.

use wardroom_api::satellite::{RefreshDirective, Registration, RegistryAuth};
use wardroom_store::Resource;

use super::{
    document::{Document, Refresh},
    identity::handle_of,
    secret,
};
use crate::{app::App, error::Error};

/// The registry that satellites read: without another one it is this server.
pub(crate) fn registry(app: &App) -> &str {
    app.url()
}

/// Whether the registry knows the credential that is about to be issued.
pub(crate) fn is_ready(_app: &App, _document: &Document) -> bool {
    true
}

/// Refuses for now what the registry does not know yet; nothing is used up.
pub(crate) fn check_ready(app: &App, document: &Document) -> Result<(), Error> {
    if is_ready(app, document) {
        return Ok(());
    }
    Err(Error::Unavailable("the registry does not know this satellite's new credential yet: repeat"))
}

/// What a satellite with a credential needs, from what is stored: the secret is derived.
pub(crate) fn registration(app: &App, satellite: &Resource) -> Result<Registration, Error> {
    let document = Document::of(satellite)?;
    let (id, name) = (&satellite.content.id, &satellite.content.name);
    let url = registry(app).to_owned();
    let epoch = document.credential.map_or(document.epoch, |credential| credential.epoch);
    let username = document.robot.map_or_else(|| handle_of(name), |robot| robot.name);
    let password = secret::credential(&app.key, id, epoch);
    Ok(Registration {
        state: format!("{url}/satellite/satellite-state/{name}/state:latest"),
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
pub(crate) fn spire(_app: &App) -> Option<Spire> {
    None
}

/// Where and until when a credential is exchanged.
pub(crate) fn directive(app: &App, refresh: Refresh) -> RefreshDirective {
    RefreshDirective { url: format!("{}/satellites/refresh", app.url()), until: refresh.until }
}
