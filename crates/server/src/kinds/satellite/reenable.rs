//! Letting a satellite come back.
//!
//! | mode | the old credential | for |
//! |---|---|---|
//! | `refresh` | may be exchanged once, within a time limit | a satellite whose credential may be trusted once more |
//! | `reissue` | is void from the answer on | a credential or token that leaked, a host that is lost |
//! | `keep` | is in force again with its next beat, within a time limit | clients that cannot refresh |

use axum::{Extension, Json, extract::State};
use wardroom_api::satellite::{Reenable, Reenabled};
use wardroom_core::satellite::{Event, REISSUE, State as SatelliteState};
use wardroom_store::{Content, Resource, TRANSITION};

use super::{
    create::{after, new_token},
    document::{Document, Flow, Refresh, Registration, state},
    find, secret, spiffe, step, view,
};
use crate::kinds::satellite::identity::Identities;
use crate::kinds::satellite::settings::Settings;
use crate::platform::{
    app::{App, Decided, by_person},
    http::{body::Asked, error::Error, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// The names of the modes.
pub(super) const MODES: &[&str] = &["refresh", "reissue", "keep"];

/// How it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Refresh,
    Reissue,
    Keep,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Refresh => "refresh",
            Self::Reissue => "reissue",
            Self::Keep => "keep",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Refresh => "The next heartbeat tells the satellite to exchange its credential.",
            Self::Reissue => "The old credential is void. The token is shown only now, and works once.",
            Self::Keep => "The next heartbeat brings the satellite back with the credential it has.",
        }
    }
}

fn mode(text: Option<&str>) -> Result<Mode, Error> {
    match text.unwrap_or("refresh") {
        "refresh" => Ok(Mode::Refresh),
        "reissue" => Ok(Mode::Reissue),
        "keep" => Ok(Mode::Keep),
        other => Err(Error::invalid("mode", format!("{other:?} is not one of: {}", MODES.join(", ")))),
    }
}

/// Lets a revoked satellite come back. `reissue` also gives a pending one a new token.
#[utoipa::path(
    post, path = "/api/satellites/{name}/reenable", operation_id = "reenable_satellite",
    request_body = Option<Reenable>, params(("name" = String, Path)),
    responses((status = 200, body = Reenabled), Problems)
)]
pub(crate) async fn reenable(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(asked): Asked<Reenable>,
) -> Result<Json<Reenabled>, Error> {
    text::check_prose("comment", asked.comment.as_deref(), 2000)?;
    let mode = mode(asked.mode.as_deref())?;
    let id = find(&app, &name).await?.content.id;
    let (token, registration) = new_token(&app);
    let (satellite, ()) = super::change(&app, &id, Some("reenabled"), |satellite| {
        let Some(content) = decide(&app, satellite, mode, &registration)? else {
            return Ok(Decided::Nothing(()));
        };
        let entry_type = if content.state == satellite.content.state { "credential" } else { TRANSITION };
        let mut entry = by_person(&app, &caller, entry_type, asked.comment.clone());
        entry.metadata = serde_json::json!({"mode": mode.as_str()});
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    })
    .await?;
    if mode == Mode::Reissue {
        Identities::of(&app).settle().await;
    }
    let document = Document::of(&satellite)?;
    let reissued = mode == Mode::Reissue;
    let by_token = reissued && document.flow == Flow::Token;
    let joins = reissued && document.flow == Flow::Spiffe && document.registration.is_some();
    Ok(Json(Reenabled {
        success: true,
        data: view::whole(&app, &satellite).await?,
        message: Some(mode.advice().to_owned()),
        token: by_token.then_some(token),
        expires_at: document.registration.filter(|_| reissued).map(|registration| registration.expires_at),
        join_token: joins.then(|| secret::join_token(&app.key, &id, document.epoch)),
    }))
}

/// Returns the change; none if the satellite is in that state already.
fn decide(
    app: &App,
    satellite: &Resource,
    mode: Mode,
    registration: &Registration,
) -> Result<Option<Content>, Error> {
    let (state, mut document) = (state(satellite)?, Document::of(satellite)?);
    let now = app.now();
    let is_waiting = state == SatelliteState::Pending && document.may_refresh(now);
    let waits_for_this = document.refresh.is_some_and(|refresh| refresh.keep == (mode == Mode::Keep));
    if mode != Mode::Reissue && is_waiting && waits_for_this {
        return Ok(None);
    }
    // A pending satellite stays pending and gets a new token.
    let to = if state == SatelliteState::Pending {
        state
    } else {
        step(&satellite.content.name, state, Event::Reenable)?.to
    };
    if mode != Mode::Reissue && document.credential.is_none() {
        return Err(Error::Conflict {
            code: "no_credential",
            detail: "the satellite has no credential to keep: use the mode reissue".to_owned(),
            allowed: vec![REISSUE.of(&satellite.content.name)],
        });
    }
    // Its agent was banned with the revocation; the node needs a new token to join again.
    if mode != Mode::Reissue && document.has_own_agent(&satellite.content.name) {
        return Err(Error::Conflict {
            code: "agent_banned",
            detail: "the satellite's agent was banned in SPIRE and needs a new token: use the mode reissue"
                .to_owned(),
            allowed: vec![REISSUE.of(&satellite.content.name)],
        });
    }
    document.close();
    let refresh = |keep| Refresh { until: after(now, Settings::of(&app.config).satellites.refresh), keep };
    match mode {
        Mode::Refresh => {
            document.epoch += 1;
            document.refresh = Some(refresh(false));
        }
        Mode::Keep => document.refresh = Some(refresh(true)),
        Mode::Reissue => {
            document.epoch += 1;
            document.credential = None;
            document.svid_after = Some(app.now()).filter(|_| document.flow == Flow::Spiffe);
            document.registration = match document.flow {
                Flow::Token => Some(registration.clone()),
                Flow::Spiffe => {
                    let (id, name) = (&satellite.content.id, &satellite.content.name);
                    spiffe::joining(app, id, name, &document, spiffe::DEFAULT_TTL)
                }
            };
        }
    }
    document.into_content_of(satellite, to).map(Some)
}
