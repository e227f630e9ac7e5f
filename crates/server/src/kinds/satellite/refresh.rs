//! Exchanging the credential of a re-enabled satellite.
//!
//! What must stay true: the exchange happens once. A satellite that lost the answer asks again with the same
//! old credential and gets the same new one, until the new one is used or the time is over.

use axum::{Extension, Json, extract::State};
use wardroom_api::satellite::Registration;
use wardroom_core::satellite::{Event, State as SatelliteState};
use wardroom_store::TRANSITION;

use super::{
    by_satellite,
    document::{Credential, Document, state},
    place, secret, step, sync,
};
use crate::kinds::satellite::identity::Identities;
use crate::kinds::satellite::identity::SatelliteIdentity;
use crate::platform::{
    app::{App, Decided},
    http::{error::Error, problems::Problems},
    identity::auth::Caller,
};

/// Exchanges the old credential of a re-enabled satellite for a new one. A satellite whose credential is
/// valid gets the same one again.
#[utoipa::path(
    post, path = "/satellites/refresh", security(("basic" = [])),
    responses((status = 200, body = Registration), Problems)
)]
pub(crate) async fn refresh(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Registration>, Error> {
    let identity = caller.member::<SatelliteIdentity>().ok_or(Error::Internal)?;
    let known = Identities::of(&app).standing(&app, identity).await?.known;
    let (satellite, ()) = super::change(&app, &known.id(), Some("refreshed"), |satellite| {
        let state = state(satellite)?;
        if state != SatelliteState::Pending {
            return Ok(Decided::Nothing(()));
        }
        let mut document = Document::of(satellite)?;
        let now = app.now();
        if !document.may_refresh(now) {
            return Err(Error::Basic("the time to exchange this credential is over: ask for a new token"));
        }
        place::check_ready(&app, &document)?;
        let kept = document.refresh.is_some_and(|refresh| refresh.keep);
        if kept {
            document.keep(&app.key, &satellite.content.id, |hash| identity.shows(hash));
        } else {
            let issued = secret::credential(&app.key, &satellite.content.id, document.epoch);
            // If two are valid, the one it showed.
            let shown = |old: Credential| match old.previous_hash {
                Some(previous) if identity.shows(&previous) => previous,
                Some(_) | None => old.hash,
            };
            document.credential = Some(Credential {
                epoch: document.epoch,
                hash: secret::text_of(&secret::hash(&issued)),
                issued_at: now,
                previous_hash: document.credential.map(shown),
            });
        }
        let content = document
            .into_content_of(satellite, step(&satellite.content.name, state, Event::Refreshed)?.to)?;
        super::beat::comes_online(&app, satellite);
        let mut entry = by_satellite(&app, &caller, TRANSITION);
        entry.metadata = serde_json::json!({"event": Event::Refreshed.as_str()});
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    })
    .await?;
    let satellite = sync::heard_again(&app, &caller, satellite).await?;
    // If it was revoked or deleted meanwhile, nothing is handed out.
    Identities::of(&app).standing(&app, identity).await?;
    super::ztr::answer(&app, &satellite).map(Json)
}
