//! Satellites as the API shows them: living ones, deleted ones for auditors, and their effects on other
//! systems.

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::{
    Envelope, Page,
    satellite::{EffectProgress, Satellite},
};
use wardroom_core::{liveness::Standing, satellite::State as SatelliteState};
use wardroom_store::{List, Resource};

use super::{
    document::{self, Document, KIND},
    facts, find,
};
use crate::platform::{
    app::App,
    deleted,
    http::{
        error::Error,
        etag,
        list::{ListQuery, Pages, field_selector, label_selector, number},
        path::Path,
        problems::Problems,
    },
    identity::auth::Caller,
    liveness,
};

/// Fields that satellites can be selected by.
pub(super) const FIELDS: &[&str] = &["status", "name", "flow", "region", "config", "config_name", "group"];

/// Which satellites, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct SatelliteQuery {
    /// Only in this state.
    #[serde(rename = "status")]
    state: Option<String>,
    /// Labels, e.g. `zone=berlin,!spare`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// Fields, e.g. `status=online,group=edge`.
    #[serde(rename = "fieldSelector")]
    field_selector: Option<String>,
    /// `true` for the deleted instead of the living.
    deleted: Option<bool>,
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

impl SatelliteQuery {
    fn list(&self, caller: &Caller) -> Result<List, Error> {
        let mut fields = match &self.field_selector {
            Some(selector) => field_selector(selector, FIELDS)?,
            None => Default::default(),
        };
        let selected = fields.remove("status");
        if self.state.is_some() && selected.is_some() && self.state != selected {
            return Err(Error::invalid("status", "differs from the status in fieldSelector"));
        }
        if let Some(group) = fields.remove("group") {
            fields.insert(super::document::group_field(&group), "1".to_owned());
        }
        if let Some(config) = fields.remove("config_name") {
            fields.insert("config".to_owned(), config);
        }
        let labels = self.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
        let state = self.state.clone().or(selected);
        let list = List {
            kind: KIND.to_owned(),
            state: state.map(|state| parse_state(&state)).transpose()?,
            fields,
            labels,
            after: self.cursor.clone(),
            limit: number("limit", self.limit.as_deref(), 100, 1..=1000)?,
            ..List::default()
        };
        deleted::list(list, self.deleted, caller)
    }
}

fn parse_state(text: &str) -> Result<String, Error> {
    let state = text.parse::<SatelliteState>();
    state.map(|state| state.to_string()).map_err(|error| Error::invalid("status", error.to_string()))
}

/// Lists satellites, oldest first; the revoked are among them, the deleted are not.
#[utoipa::path(
    get, path = "/api/satellites", operation_id = "list_satellites", params(SatelliteQuery),
    responses((status = 200, body = Page<Satellite>), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<SatelliteQuery>,
) -> Result<Json<Page<Satellite>>, Error> {
    page(&app, query.list(&caller)?).await
}

/// Lists satellites that are online.
#[utoipa::path(
    get, path = "/api/satellites/active", operation_id = "list_active_satellites", params(Pages),
    responses((status = 200, body = Page<Satellite>), Problems)
)]
pub(crate) async fn active(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Satellite>>, Error> {
    page(&app, in_state(SatelliteState::Online, &pages)?).await
}

/// Lists satellites that are stale.
#[utoipa::path(
    get, path = "/api/satellites/stale", operation_id = "list_stale_satellites", params(Pages),
    responses((status = 200, body = Page<Satellite>), Problems)
)]
pub(crate) async fn stale(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Satellite>>, Error> {
    page(&app, in_state(SatelliteState::Stale, &pages)?).await
}

fn in_state(state: SatelliteState, pages: &Pages) -> Result<List, Error> {
    Ok(List { state: Some(state.to_string()), ..pages.of(KIND)? })
}

async fn page(app: &App, list: List) -> Result<Json<Page<Satellite>>, Error> {
    let page = crate::platform::http::list::page(app, list).await?;
    liveness::view::refresh(app, KIND, &page.items).await?;
    let mut data = page.items.iter().map(|satellite| known(app, satellite)).collect::<Result<Vec<_>, _>>()?;
    facts::recall(app, &mut data).await?;
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Reads one satellite, by its name or id. A deleted one is found by its id: its record and history stay.
#[utoipa::path(
    get, path = "/api/satellites/{name}", operation_id = "get_satellite", params(("name" = String, Path)),
    responses((status = 200, body = Envelope<Satellite>), Problems)
)]
pub(crate) async fn get(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Error> {
    let satellite = match find(&app, &name).await {
        Err(Error::NotFound { .. }) => deleted::read(&app, KIND, &name).await?,
        found => found?,
    };
    let mut response = Json(Envelope::new(whole(&app, &satellite).await?)).into_response();
    etag::set(&mut response, &tag(&satellite)?);
    Ok(response)
}

/// Lists the effects of a satellite on other systems: done and outstanding.
#[utoipa::path(
    get, path = "/api/satellites/{name}/effects", operation_id = "list_effects_of_satellite",
    params(("name" = String, Path)), responses((status = 200, body = Page<EffectProgress>), Problems)
)]
pub(crate) async fn effects(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Page<EffectProgress>>, Error> {
    let id = match find(&app, &name).await {
        Ok(satellite) => satellite.content.id,
        // Effects of a deletion are found by the id.
        Err(Error::NotFound { .. }) => name,
        Err(error) => return Err(error),
    };
    effects_on(&app, KIND, &id).await
}

/// Returns the effects of a record, deleted or not, on other systems.
pub(crate) async fn effects_on(
    app: &App,
    kind: &'static str,
    id: &str,
) -> Result<Json<Page<EffectProgress>>, Error> {
    if app.store.get(kind, id).await?.is_none() {
        return Err(Error::not_found(kind, id));
    }
    let effects = app.store.effects_of(kind, id).await?;
    let data = effects.into_iter().map(|effect| progress(app, effect)).collect();
    Ok(Json(Page { success: true, data, next: None }))
}

fn progress(app: &App, effect: wardroom_store::EffectProgress) -> EffectProgress {
    let is_claimed = effect.claimed_until > Some(app.now());
    let progress = match (effect.done_at, effect.attempts, &effect.last_error) {
        (Some(_), ..) => "done",
        _ if is_claimed => "running",
        (None, 0, None) => "pending",
        (None, ..) => "retrying",
    };
    let unperformed = crate::kinds::satellite::effects::unperformed(&app.config, &effect.effect_type);
    EffectProgress {
        type_: effect.effect_type,
        sequence: effect.sequence,
        progress: progress.to_owned(),
        attempts: effect.attempts,
        last_error: effect.last_error.or(unperformed.filter(|_| effect.done_at.is_none())),
        next_attempt_at: effect.next_attempt_at.filter(|_| progress == "retrying"),
        created_at: effect.created_at,
        done_at: effect.done_at,
    }
}

/// Shows a satellite with its last beat at any replica and its last report.
pub(crate) async fn whole(app: &App, satellite: &Resource) -> Result<Satellite, Error> {
    liveness::view::refresh(app, KIND, std::slice::from_ref(satellite)).await?;
    let mut shown = known(app, satellite)?;
    facts::recall(app, std::slice::from_mut(&mut shown)).await?;
    Ok(shown)
}

/// The same without its last report, and with the beats that this replica knows.
fn known(app: &App, satellite: &Resource) -> Result<Satellite, Error> {
    let document = Document::of(satellite)?;
    let content = &satellite.content;
    let refresh_required =
        content.state == SatelliteState::Pending.as_str() && document.may_refresh(app.now());
    let silence = app.liveness.standing(KIND, &content.id);
    let (last_seen, interval) = app.liveness.last_beat(KIND, &content.id).unzip();
    // A stale satellite was judged by this interval.
    let held = matches!(document::state(satellite)?, SatelliteState::Online | SatelliteState::Stale);
    let interval = interval.flatten().filter(|_| held);
    let standing = silence.as_ref().map(|silence| silence.standing).filter(|it| *it != Standing::Heard);
    Ok(Satellite {
        id: content.id.clone(),
        name: content.name.clone(),
        state: content.state.clone(),
        deleted: content.deleted,
        flow: document.flow.as_str().to_owned(),
        refresh_required,
        groups: document.groups.into_iter().collect(),
        config_name: document.config,
        labels: content.labels.clone(),
        heartbeat_interval: document.heartbeat_interval,
        interval_in_force: interval.map(|interval| interval.to_string()),
        silence: standing.map(|standing| standing.to_string()),
        last_seen,
        reported: None,
        token_expires_at: document.registration.map(|registration| registration.expires_at),
        refresh_until: document.refresh.filter(|_| refresh_required).map(|refresh| refresh.until),
        spiffe_id: document.spiffe_id,
        region: document.region,
        attestation_method: document.attestation_method,
        state_changed_at: satellite.state_changed_at,
        created_at: satellite.created_at,
        updated_at: satellite.updated_at,
    })
}

/// Returns the tag that an operator's `If-Match` compares: the wanted settings of the satellite, and its
/// state.
pub(crate) fn tag(satellite: &Resource) -> Result<String, Error> {
    let (content, document) = (&satellite.content, Document::of(satellite)?);
    etag::of(&(
        &content.id,
        &content.state,
        &content.labels,
        &document.groups,
        &document.config,
        &document.heartbeat_interval,
        document.epoch,
    ))
}
