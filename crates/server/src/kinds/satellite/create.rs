//! Creating satellites that register with a one-time token.

use std::collections::BTreeSet;

use axum::{Extension, Json, extract::State};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;
use wardroom_api::satellite::{NewSatellite, SatelliteCreate};
use wardroom_core::{
    liveness::Interval,
    satellite::{READ, State as SatelliteState},
};
use wardroom_store::{Change, Content, Error as StoreError, Resource, attempts};

use super::{
    asked::effects_for,
    document::{self, Document, Flow, Registration},
    secret, view,
};
use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::satellite::assignment,
    platform::{
        app::{App, by_person},
        http::{body::Body, error::Error, problems::Problems, text},
        identity::auth::Caller,
    },
};

/// Creates a satellite as `pending`; its one-time token is only in this answer.
///
/// The answer is 200, as the satellite project's own server gives it.
#[utoipa::path(
    post, path = "/api/satellites", operation_id = "create_satellite", request_body = SatelliteCreate,
    responses((status = 200, body = NewSatellite), Problems)
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<SatelliteCreate>,
) -> Result<Json<NewSatellite>, Error> {
    let SatelliteCreate { name, groups, config_name, labels, heartbeat_interval } = create;
    document::check_name("name", &name)?;
    text::check_labels(&labels)?;
    super::place::check_reachable(&app)?;
    let (token, registration) = new_token(&app);
    let expires_at = registration.expires_at;
    let document = Document {
        flow: Flow::Token,
        groups: groups.unwrap_or_default().into_iter().collect::<BTreeSet<_>>(),
        config: config_name,
        heartbeat_interval: interval(heartbeat_interval.as_deref())?,
        epoch: 1,
        registration: Some(registration),
        ..Document::default()
    };
    let content = document.content(Uuid::now_v7().to_string(), name, SatelliteState::Pending, labels)?;
    let satellite = commit(&app, &caller, content, Vec::new()).await?;
    Ok(Json(NewSatellite {
        success: true,
        token,
        expires_at,
        data: view::whole(&app, &satellite).await?,
        message: Some("The token is shown only now, and works once.".to_owned()),
    }))
}

/// Returns a new one-time token, and its stored form.
pub(crate) fn new_token(app: &App) -> (String, Registration) {
    let token = secret::new_ztr_token();
    let token_hash = secret::text_of(&secret::hash(&token));
    (
        token,
        Registration { token_hash, expires_at: after(app.now(), Settings::of(&app.config).satellites.token) },
    )
}

/// Adds a duration to a time.
pub(crate) fn after(now: Timestamp, duration: std::time::Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    now.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// Parses the interval that a person gives; an empty one is none.
pub(crate) fn interval(text: Option<&str>) -> Result<Option<String>, Error> {
    let text = text.filter(|text| !text.is_empty());
    let parsed = text.map(|text| Interval::parse("heartbeat_interval", text)).transpose()?;
    Ok(parsed.map(|interval| interval.to_string()))
}

/// Commits a new satellite together with the claim on its identity. A group or config that changes meanwhile
/// is read again.
pub(crate) async fn commit(
    app: &App,
    caller: &Caller,
    content: Content,
    claims: Vec<Change>,
) -> Result<Resource, Error> {
    attempts(async || {
        for claim in &claims {
            unclaimed(app, claim).await?;
        }
        let document = content.document.read::<Document>()?;
        let holds = assignment::holds(app, &document.groups, document.config.as_deref()).await?;
        let entry = by_person(app, caller, "registered", None);
        let effects = effects_for(app, &document, "created");
        let after = content.clone();
        let mut changes = vec![Change { before: None, after, entry, effects, fence: None, holds }];
        changes.extend(claims.iter().cloned());
        match app.commit_together(changes).await {
            Err(StoreError::Conflict) => Ok(None),
            committed => first(committed, &content.name).map(Some),
        }
    })
    .await
}

/// Refuses an identity that was claimed before, for ever.
async fn unclaimed(app: &App, claim: &Change) -> Result<(), Error> {
    if app.store.get(&claim.after.kind, &claim.after.id).await?.is_none() {
        return Ok(());
    }
    let detail =
        "a satellite has this SPIFFE ID, or had it before it was deleted: choose another name or region";
    Err(Error::Conflict { code: "spiffe_id_taken", detail: detail.to_owned(), allowed: Vec::new() })
}

fn first(committed: Result<Vec<Resource>, StoreError>, name: &str) -> Result<Resource, Error> {
    match committed {
        Ok(satellites) => satellites.into_iter().next().ok_or(Error::Internal),
        Err(StoreError::KeyTaken { .. }) => Err(Error::Conflict {
            code: "name_taken",
            detail: format!("there is a satellite {name:?}; a name is free again once it is deleted"),
            allowed: vec![READ.of(name)],
        }),
        Err(error) => Err(error.into()),
    }
}
