//! Zero-touch registration: a one-time token, or a verified identity, becomes a credential.
//!
//! What must stay true: of several callers with one token, one wins, by the version check of its commit. A
//! satellite that lost the answer repeats its request with the same `Idempotency-Key`; no secret is stored
//! for that, because secrets are derived. The record is read again before its credential is handed out,
//! because another server may have acknowledged a revocation meanwhile.

use axum::{Extension, Json, extract::State, http::HeaderMap};
use jiff::{SignedDuration, Timestamp};
use wardroom_api::satellite::{Registration, ZtrRequest};
use wardroom_core::satellite::{Event, State as SatelliteState};
use wardroom_store::{Content, Resource, TRANSITION};

use super::{
    by_satellite,
    document::{Credential, Document, Exchange, Flow, KIND, spiffe_key, state, token_key},
    place, secret, step, sync,
};
use crate::kinds::satellite::identity::Identities;
use crate::platform::{
    app::{App, Decided},
    http::{body::Body, error::Error, idempotency, path::Path, problems::Problems},
    identity::{auth::Caller, spiffe},
};

/// How long the answer to a registration can be asked for again.
const REPEATABLE: SignedDuration = SignedDuration::from_secs(60);

/// Longer than any token that was ever issued.
const LONGEST: usize = 200;

/// Exchanges a one-time token for credentials; the path form exists for clients that know no other.
#[utoipa::path(
    get, path = "/satellites/ztr/{token}", params(("token" = String, Path)), security(()),
    responses((status = 200, body = Registration), Problems)
)]
pub(crate) async fn by_path(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Path(token): Path<String>,
) -> Result<Json<Registration>, Error> {
    exchange(&app, &caller, &headers, &token).await
}

/// Exchanges a one-time token for credentials.
#[utoipa::path(
    post, path = "/satellites/ztr", request_body = ZtrRequest, security(()),
    responses((status = 200, body = Registration), Problems)
)]
pub(crate) async fn by_body(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(request): Body<ZtrRequest>,
) -> Result<Json<Registration>, Error> {
    exchange(&app, &caller, &headers, &request.token).await
}

async fn exchange(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    token: &str,
) -> Result<Json<Registration>, Error> {
    let exchanged = try_exchange(app, caller, headers, token).await;
    if let Err(Error::TokenUnknown | Error::Basic(_)) = &exchanged {
        // Only failures count, so that guesses do not block registrations from the same address.
        app.limiter.check_guess(caller.address, token)?;
    }
    exchanged.map(Json)
}

async fn try_exchange(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    token: &str,
) -> Result<Registration, Error> {
    if token.len() > LONGEST {
        return Err(Error::TokenUnknown);
    }
    let hash = secret::hash(token);
    let given = headers.get(idempotency::KEY).map(|key| {
        let text = key.to_str().ok().filter(|text| (1..=255).contains(&text.len()));
        text.ok_or_else(|| Error::invalid("Idempotency-Key", "must be 1 to 255 printable characters"))
    });
    let key_hash = given.transpose()?.map(|key| secret::exchange_hash(&app.key, &hash, key));
    let shown = Token { hash: secret::text_of(&hash), key_hash: key_hash.map(|hash| secret::text_of(&hash)) };
    let found = app.store.get_by_key(KIND, &token_key(&shown.hash)).await?.ok_or(Error::TokenUnknown)?;
    let changed = super::change(app, &found.content.id, Some("registered"), |satellite| {
        let document = Document::of(satellite)?;
        let now = app.now();
        if shown.was_exchanged(satellite, &document, now)? {
            return Ok(Decided::Nothing(()));
        }
        let registration = document.registration.as_ref().filter(|known| known.token_hash == shown.hash);
        let registration = registration.filter(|_| document.flow == Flow::Token);
        let expires_at = registration.ok_or(Error::TokenUnknown)?.expires_at;
        if expires_at <= now {
            return Err(Error::Basic(
                "the registration token has expired: ask an administrator for a new one",
            ));
        }
        place::check_ready(app, &document)?;
        let until = now.saturating_add(REPEATABLE).unwrap_or(Timestamp::MAX);
        let exchange = shown.key_hash.clone().map(|key_hash| Exchange {
            token_hash: shown.hash.clone(),
            key_hash,
            epoch: document.epoch,
            until,
        });
        let content = registered(app, satellite, Document { exchange, ..document }, now)?;
        let mut entry = by_satellite(app, caller, TRANSITION);
        entry.metadata = serde_json::json!({"event": Event::Registered.as_str(), "by": "token"});
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    });
    match changed.await {
        Ok((satellite, ())) => match hand_out(app, caller, satellite).await {
            Ok(registration) => Ok(registration),
            Err(Error::Revoked | Error::Basic(_)) => Err(Error::TokenUnknown),
            Err(error) => Err(error),
        },
        // The satellite was deleted or moved to a state without registration: the token is void.
        Err(Error::NotFound { .. } | Error::Conflict { .. }) => Err(Error::TokenUnknown),
        Err(error) => Err(error),
    }
}

/// The token and key of a caller, hashed.
struct Token {
    hash: String,
    key_hash: Option<String>,
}

impl Token {
    /// Whether this request was answered a moment ago, and the answer is still valid.
    fn was_exchanged(
        &self,
        satellite: &Resource,
        document: &Document,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let Some(exchange) = &document.exchange else { return Ok(false) };
        let same = exchange.token_hash == self.hash && Some(&exchange.key_hash) == self.key_hash.as_ref();
        let holds = document.credential.as_ref().is_some_and(|known| known.epoch == exchange.epoch);
        // A satellite that lost its answer sends no beats, and may be stale by now.
        let waits = matches!(state(satellite)?, SatelliteState::Online | SatelliteState::Stale);
        Ok(same && holds && now < exchange.until && waits)
    }
}

/// A satellite that has completed its registration: it has a credential, and its token is gone.
pub(crate) fn registered(
    app: &App,
    satellite: &Resource,
    mut document: Document,
    now: Timestamp,
) -> Result<Content, Error> {
    let row = step(&satellite.content.name, state(satellite)?, Event::Registered)?;
    super::beat::comes_online(app, satellite);
    let secret = secret::credential(&app.key, &satellite.content.id, document.epoch);
    document.credential = Some(Credential {
        epoch: document.epoch,
        hash: secret::text_of(&secret::hash(&secret)),
        issued_at: now,
        previous_hash: None,
    });
    document.registration = None;
    document.refresh = None;
    document.into_content_of(satellite, row.to)
}

/// Registers the satellite of a verified certificate. A registered one gets the same answer again: it proves
/// itself with every connection.
pub(crate) async fn by_svid(
    app: &App,
    caller: &Caller,
    svid: &crate::platform::identity::certificate::ClientCertificate,
) -> Result<Registration, Error> {
    const STRANGER: Error = Error::Basic("there is no satellite with this SPIFFE ID, or it was deleted");
    const VOID: Error =
        Error::Basic("the certificate is from before the satellite was re-enabled: get a new one");
    const NOT_TOLD: Error =
        Error::Unavailable("SPIRE does not have the satellite's new join token yet: retry");
    // The record decides, because a deleted satellite may still have a certificate.
    let found = app.store.get_by_key(KIND, &spiffe_key(&svid.id)).await?.ok_or(STRANGER)?;
    let changed = super::change(app, &found.content.id, Some("registered"), |satellite| {
        let document = Document::of(satellite)?;
        match state(satellite)? {
            SatelliteState::Revoked => return Err(Error::Revoked),
            _ if spiffe::is_void(svid.from, document.svid_after) => return Err(VOID),
            SatelliteState::Online | SatelliteState::Stale => return Ok(Decided::Nothing(())),
            // An earlier agent may get certificates until SPIRE has the new state.
            SatelliteState::Pending if !document.is_told_to_spire(&satellite.content.name) => {
                return Err(NOT_TOLD);
            }
            SatelliteState::Pending => place::check_ready(app, &document)?,
        }
        let content = registered(app, satellite, document, app.now())?;
        let mut entry = by_satellite(app, caller, TRANSITION);
        entry.metadata = serde_json::json!({"event": Event::Registered.as_str(), "by": "svid"});
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    });
    match changed.await {
        Ok((satellite, ())) => hand_out(app, caller, satellite).await,
        Err(Error::NotFound { .. }) => Err(STRANGER),
        Err(error) => Err(error),
    }
}

async fn hand_out(app: &App, caller: &Caller, satellite: Resource) -> Result<Registration, Error> {
    let satellite = sync::heard_again(app, caller, satellite).await?;
    let registration = place::registration(app, &satellite)?;
    // Checked last: nothing is handed out if it was revoked or deleted meanwhile.
    Identities::of(app).check_issued(app, &satellite).await?;
    super::beat::first(app, &satellite)?;
    Ok(registration)
}

/// Registration counts as the first heartbeat.
pub(crate) fn answer(app: &App, satellite: &Resource) -> Result<Registration, Error> {
    super::beat::first(app, satellite)?;
    place::registration(app, satellite)
}
