//! Fleets as the API shows them: what a person wants, and how far the rollout is.

use axum::{
    Extension, Json,
    extract::State as Of,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::device::{
    API_VERSION, Condition, Fleet, FleetSpec, FleetStatus, ListMetadata, Metadata, ObjectList, RolloutStatus,
};
use wardroom_core::device::fleet::{Counts, Progress, State};
use wardroom_store::{List, Resource};

use super::document::{Document, KIND, Paused, state};
use crate::platform::{
    app::App,
    deleted,
    http::{
        error::Error,
        etag,
        list::{self, ListQuery, field_selector, label_selector, number},
        path::Path,
        problems::Problems,
    },
    identity::auth::Caller,
};

/// The observation of a fleet that has the progress of its rollout.
pub(super) const SOURCE: &str = "rollout";

/// Which fleets, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct FleetQuery {
    /// Labels, e.g. `team=edge`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// Fields: `status.rollout.state=Suspended`.
    #[serde(rename = "fieldSelector")]
    field_selector: Option<String>,
    /// `true` for the deleted instead of the living.
    deleted: Option<bool>,
    /// How many at most: 1 to 1000, 100 unless told.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

impl FleetQuery {
    fn list(&self, caller: &Caller) -> Result<List, Error> {
        let fields = self.field_selector.as_deref();
        let fields = fields.map_or_else(|| Ok(Default::default()), |text| field_selector(text, &[FIELD]))?;
        let state = fields.get(FIELD).cloned();
        if let Some(state) = state.as_deref().filter(|state| state.parse::<State>().is_err()) {
            return Err(Error::invalid("fieldSelector", format!("{FIELD} cannot be {state:?}")));
        }
        let labels = self.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
        let limit = number("limit", self.limit.as_deref(), 100, 1..=1000)?;
        let (kind, after) = (KIND.to_owned(), self.cursor.clone());
        deleted::list(List { kind, state, labels, limit, after, ..List::default() }, self.deleted, caller)
    }
}

const FIELD: &str = "status.rollout.state";

/// Lists fleets, in the order of their names.
#[utoipa::path(
    get, path = "/api/v1/fleets", operation_id = "list_fleets", params(FleetQuery),
    responses((status = 200, body = ObjectList<Fleet>), Problems)
)]
pub(crate) async fn list(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<FleetQuery>,
) -> Result<Json<ObjectList<Fleet>>, Error> {
    page(&app, query.list(&caller)?).await.map(Json)
}

/// One page of fleets.
pub(in super::super) async fn page(app: &App, list: List) -> Result<ObjectList<Fleet>, Error> {
    let page = list::page(app, list).await?;
    let ids: Vec<_> = page.items.iter().map(|fleet| &*fleet.content.id).collect();
    let known = app.store.observed(KIND, SOURCE, &ids).await?;
    let of = |fleet: &Resource| {
        let found = known.iter().find(|known| known.resource_id == fleet.content.id);
        let progress = found.and_then(|known| known.document.read::<Progress>().ok());
        shown(fleet, progress)
    };
    let items = page.items.iter().map(of).collect::<Result<_, _>>()?;
    let (api_version, kind) = (API_VERSION.to_owned(), "FleetList".to_owned());
    Ok(ObjectList { api_version, kind, metadata: ListMetadata { next: page.next }, items })
}

/// Reads a fleet. Also one that was deleted: its record and history stay.
#[utoipa::path(
    get, path = "/api/v1/fleets/{name}", operation_id = "get_fleet", params(("name" = String, Path)),
    responses((status = 200, body = Fleet), Problems)
)]
pub(crate) async fn get(Of(app): Of<App>, Path(name): Path<String>) -> Result<Response, Error> {
    let fleet = deleted::read(&app, KIND, &name).await?;
    answer(&app, StatusCode::OK, &fleet).await
}

/// The living fleet of a name.
pub(super) async fn find(app: &App, name: &str) -> Result<Resource, Error> {
    let found = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
    found.ok_or_else(|| Error::not_found(KIND, name))
}

/// The answer that shows a fleet, with its tag.
pub(super) async fn answer(app: &App, status: StatusCode, fleet: &Resource) -> Result<Response, Error> {
    let mut response = (status, Json(whole(app, fleet).await?)).into_response();
    etag::set(&mut response, &tag(fleet)?);
    Ok(response)
}

/// A fleet as the API shows it.
pub(in super::super) async fn whole(app: &App, fleet: &Resource) -> Result<Fleet, Error> {
    shown(fleet, progress(app, &fleet.content.id).await?)
}

/// How far the rollout is, as the job noted it last.
pub(super) async fn progress(app: &App, name: &str) -> Result<Option<Progress>, Error> {
    let known = app.store.observation(KIND, name, SOURCE).await?;
    Ok(known.map(|known| known.document.read()).transpose()?)
}

/// The progress of the present rollout; nothing is known of one that a person began a moment ago.
pub(super) fn present(document: &Document, progress: Option<Progress>) -> Progress {
    let batches = document.spec.rollout_policy.as_ref().map_or(0, |policy| policy.batches.len()) + 1;
    match progress {
        Some(progress) if progress.template_version == document.version => progress,
        // The devices of the rollout before: they wait for this one.
        before => {
            let (template_version, batch) = (document.version, document.batch);
            let devices = before.as_ref().map_or(0, |before| before.counts.devices);
            let counts = Counts { devices, waiting: devices, ..Counts::default() };
            let overlap = before.and_then(|before| before.overlap);
            Progress { template_version, batch, batches, counts, overlap, ..Progress::default() }
        }
    }
}

fn shown(fleet: &Resource, progress: Option<Progress>) -> Result<Fleet, Error> {
    let document = Document::of(fleet)?;
    let (state, known) = (state(fleet), progress.is_some());
    let progress = present(&document, progress);
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let counts = progress.counts;
    let rollout = RolloutStatus {
        state: state.as_str().to_owned(),
        info: if known { progress.info(state) } else { "Its devices are being looked for.".to_owned() },
        template_version: document.version.to_string(),
        current_batch: if state == State::Inactive { 0 } else { number(progress.batch + 1) },
        batches: number(progress.batches),
        updated: count(counts.updated),
        updating: count(counts.updating),
        failed: count(counts.failed),
        waiting: count(counts.waiting),
        causes: progress.obstacles(),
        paused_by: document.paused.as_ref().map(|paused| paused.by.clone()),
        restores: document.restores.map(|version| version.to_string()),
    };
    let overlap = progress.overlap.as_ref().map(|overlap| Condition {
        r#type: "OverlappingSelectors".to_owned(),
        status: "True".to_owned(),
        reason: "MultipleOwners".to_owned(),
        message: overlap.message(),
        last_transition_time: None,
    });
    let content = &fleet.content;
    let version = document.version.to_string();
    Ok(Fleet {
        api_version: API_VERSION.to_owned(),
        kind: "Fleet".to_owned(),
        metadata: Metadata {
            name: content.name.clone(),
            labels: content.labels.clone(),
            generation: Some(document.generation),
            resource_version: Some(fleet.version.to_string()),
            creation_timestamp: Some(fleet.created_at),
            deletion_timestamp: Some(fleet.updated_at).filter(|_| content.deleted),
            ..Metadata::default()
        },
        spec: FleetSpec { template_version: Some(version), ..document.spec },
        status: Some(FleetStatus {
            conditions: overlap.into_iter().collect(),
            rollout,
            devices: count(counts.devices),
        }),
    })
}

/// What the person who paused a rollout said.
pub(super) fn paused(paused: &Paused) -> String {
    let Paused { by, at, comment } = paused;
    let comment = comment.as_ref().map_or_else(String::new, |comment| format!(": {comment}"));
    format!("{by} paused it at {at:.0}{comment}")
}

/// Returns the tag that an operator's `If-Match` compares: what people decided about the fleet.
pub(super) fn tag(fleet: &Resource) -> Result<String, Error> {
    let document = Document::of(fleet)?;
    let content = &fleet.content;
    etag::of(&(
        &content.id,
        &content.labels,
        &document.spec,
        document.version,
        &document.paused,
        content.deleted,
    ))
}
