//! Devices as the API shows them.
//!
//! What must stay true: record, list, filter and count agree. Whether a device counts as lost is what the store says,
//! which the sweep of liveness and every request of the device keep right; all else is derived by `core`.

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::device::{
    API_VERSION, Condition, Device, DeviceReport, DeviceStatus, ListMetadata, Metadata, ObjectList,
    REBOOTS_REQUESTED, RENDERED_VERSION, StatusOf, TEMPLATE_VERSION,
};
use wardroom_core::{
    Named,
    device::{Derived, Facts, applications, lifecycle, summary, updated},
};
use wardroom_store::{List, Resource};

use super::{
    document::{APPLICATIONS, Document, Heard, KIND, LIFECYCLE, OWNER, UPDATED},
    facts,
    fleet::{member, template},
    spec,
};
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
    liveness,
};

/// What devices can be selected by, with the stored field of each; none for the state.
const FIELDS: &[(&str, Option<&str>)] = &[
    ("status.summary.status", None),
    ("status.updated.status", Some(UPDATED)),
    ("status.applicationSummary.status", Some(APPLICATIONS)),
    ("status.lifecycle.status", Some(LIFECYCLE)),
    ("status.summary", None),
    ("status.updated", Some(UPDATED)),
    ("status.applicationSummary", Some(APPLICATIONS)),
    ("status.lifecycle", Some(LIFECYCLE)),
    ("metadata.owner", Some(OWNER)),
];

/// Which devices, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceQuery {
    /// Labels, e.g. `site=berlin,!spare`.
    #[serde(rename = "labelSelector")]
    label_selector: Option<String>,
    /// Fields, e.g. `status.updated.status=OutOfDate,metadata.owner=Fleet/web`.
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

impl DeviceQuery {
    fn list(&self, caller: &Caller) -> Result<List, Error> {
        let mut list = List { kind: KIND.to_owned(), after: self.cursor.clone(), ..List::default() };
        let known: Vec<_> = FIELDS.iter().map(|(field, _)| *field).collect();
        let given = self
            .field_selector
            .as_deref()
            .map_or_else(|| Ok(Default::default()), |text| field_selector(text, &known))?;
        for (field, value) in given {
            let stored = FIELDS.iter().find(|(known, _)| *known == field).and_then(|(_, stored)| *stored);
            check_value(&field, stored, &value)?;
            let before = match stored {
                None => list.state.replace(value.clone()),
                Some(stored) => list.fields.insert(stored.to_owned(), value.clone()),
            };
            if before.is_some_and(|before| before != value) {
                return Err(Error::invalid("fieldSelector", format!("{field} is there twice")));
            }
        }
        list.labels = self.label_selector.as_deref().map_or_else(|| Ok(Vec::new()), label_selector)?;
        list.limit = number("limit", self.limit.as_deref(), 100, 1..=1000)?;
        deleted::list(list, self.deleted, caller)
    }
}

/// Refuses a status that no device can have: nothing would ever be found by it.
fn check_value(field: &str, stored: Option<&str>, value: &str) -> Result<(), Error> {
    fn among<T: Named>(field: &str, value: &str) -> Result<(), Error> {
        let names: Vec<_> = T::ALL.iter().map(|name| name.as_str()).collect();
        if names.contains(&value) {
            return Ok(());
        }
        Err(Error::invalid("fieldSelector", format!("{field} is one of: {}", names.join(", "))))
    }
    match stored {
        None => among::<summary::Status>(field, value),
        Some(UPDATED) => among::<updated::Status>(field, value),
        Some(APPLICATIONS) => among::<applications::Status>(field, value),
        Some(LIFECYCLE) => among::<lifecycle::Status>(field, value),
        Some(_) => Ok(()),
    }
}

/// Lists devices, in the order of their names.
#[utoipa::path(
    get, path = "/api/v1/devices", operation_id = "list_devices", params(DeviceQuery),
    responses((status = 200, body = ObjectList<Device>), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<DeviceQuery>,
) -> Result<Json<ObjectList<Device>>, Error> {
    page(&app, query.list(&caller)?).await.map(Json)
}

/// One page of devices.
pub(super) async fn page(app: &App, list: List) -> Result<ObjectList<Device>, Error> {
    let page = list::page(app, list).await?;
    liveness::view::refresh(app, KIND, &page.items).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for device in &page.items {
        items.push(shown(app, device).await?);
    }
    Ok(ObjectList {
        api_version: API_VERSION.to_owned(),
        kind: "DeviceList".to_owned(),
        metadata: ListMetadata { next: page.next },
        items,
    })
}

/// Reads a device. Also one that was deleted: its record and history stay.
#[utoipa::path(
    get, path = "/api/v1/devices/{name}", operation_id = "get_device", params(("name" = String, Path)),
    responses((status = 200, body = Device), Problems)
)]
pub(crate) async fn get(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Error> {
    let device = deleted::read(&app, KIND, &name).await?;
    answer(&app, &device).await
}

/// The answer that shows a device, with its tag.
pub(super) async fn answer(app: &App, device: &Resource) -> Result<Response, Error> {
    let mut response = Json(whole(app, device).await?).into_response();
    etag::set(&mut response, &tag(device)?);
    Ok(response)
}

/// A device as the API shows it: when it was last heard, by any server, and its statuses now.
pub(crate) async fn whole(app: &App, device: &Resource) -> Result<Device, Error> {
    liveness::view::refresh(app, KIND, std::slice::from_ref(device)).await?;
    shown(app, device).await
}

/// The living device of a name.
pub(crate) async fn find(app: &App, name: &str) -> Result<Resource, Error> {
    let found = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
    found.ok_or_else(|| Error::not_found(KIND, name))
}

/// Calls a function of `core` with all facts of a device.
pub(super) fn with_facts<T>(
    app: &App,
    device: &Resource,
    document: &Document,
    of: impl FnOnce(&Facts<'_>, Timestamp) -> T,
) -> T {
    let (now, timeout) = (app.now(), document.silence());
    let seen = last_seen(app, device, document);
    let (mut last_seen, mut excused) = (seen, SignedDuration::ZERO);
    let silent = seen.map(|seen| now.duration_since(seen));
    match (Heard::of(device), silent) {
        // The server has not judged the silence yet, or does not charge the device for it.
        (Heard::Lately, None) => last_seen = Some(now),
        (Heard::Lately, Some(silent)) => excused = silent.saturating_sub(timeout).max(SignedDuration::ZERO),
        (Heard::Lost, Some(silent)) if silent <= timeout => {
            let just_over = timeout.saturating_add(SignedDuration::from_secs(1));
            last_seen = now.saturating_sub(just_over).ok();
        }
        (Heard::Lost, _) => {}
    }
    document.with_facts(|facts| of(&Facts { last_seen, excused, timeout, ..*facts }, now))
}

/// When a device was last heard. A server that starts knows only what was stored.
fn last_seen(app: &App, device: &Resource, document: &Document) -> Option<Timestamp> {
    app.liveness.last_seen(KIND, &device.content.id).filter(|_| document.was_heard)
}

async fn shown(app: &App, device: &Resource) -> Result<Device, Error> {
    let document = Document::of(device)?;
    let template = template::of(app, &document).await?;
    let statuses = with_facts(app, device, &document, wardroom_core::device::derive);
    let status = DeviceStatus {
        summary: of(&statuses.summary),
        updated: of(&statuses.updated),
        application_summary: of(&statuses.application_summary),
        lifecycle: of(&statuses.lifecycle),
        last_seen: last_seen(app, device, &document),
        certificate_expires_at: document
            .certificates
            .iter()
            .map(|issued| issued.until)
            .max()
            .filter(|_| !document.revoked),
        revoked: document.revoked,
        reported: reported(&document),
    };
    Ok(Device {
        api_version: API_VERSION.to_owned(),
        kind: "Device".to_owned(),
        metadata: metadata(device, &document),
        spec: spec::of(&document, template.as_deref()),
        status: Some(status),
    })
}

/// What the agent reported, with the condition that several fleets select the device.
fn reported(document: &Document) -> DeviceReport {
    let mut reported = document.reported.clone().unwrap_or_default();
    if !document.claimed_by.is_empty() {
        reported.conditions.retain(|condition| condition.r#type != CONTESTED);
        reported.conditions.push(Condition {
            r#type: CONTESTED.to_owned(),
            status: "True".to_owned(),
            reason: "OverlappingSelectors".to_owned(),
            message: contested(document),
            last_transition_time: None,
        });
    }
    reported
}

/// The condition that several fleets select a device.
const CONTESTED: &str = "MultipleOwners";

/// Which fleets select a device, and which of them owns it.
pub(super) fn contested(document: &Document) -> String {
    let claimants = document.claimed_by.join(", ");
    match &document.fleet {
        Some(owner) => {
            let owner = &owner.fleet;
            format!("The fleets {claimants} select it; it stays with {owner} until only one of them does.")
        }
        None => format!("The fleets {claimants} select it; none of them owns it until only one does."),
    }
}

fn of<S: Named>(derived: &Derived<S>) -> StatusOf {
    StatusOf { status: derived.status.as_str().to_owned(), info: derived.info.clone().into_owned() }
}

fn metadata(device: &Resource, document: &Document) -> Metadata {
    let annotations = [
        (RENDERED_VERSION, facts::version(document.rendered_version)),
        (REBOOTS_REQUESTED, facts::version(document.reboots)),
        (TEMPLATE_VERSION, document.given().and_then(|given| facts::version(given.version))),
    ];
    let annotations = annotations.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Metadata {
        name: device.content.name.clone(),
        labels: device.content.labels.clone(),
        annotations: annotations.collect(),
        owner: document.fleet.as_ref().map(|fleet| member::owner(&fleet.fleet)),
        generation: Some(document.generation),
        resource_version: Some(device.version.to_string()),
        creation_timestamp: Some(device.created_at),
        deletion_timestamp: Some(device.updated_at).filter(|_| device.content.deleted),
    }
}

/// Returns the tag that an operator's `If-Match` compares: what people decided about the device.
pub(super) fn tag(device: &Resource) -> Result<String, Error> {
    let document = Document::of(device)?;
    etag::of(&(
        &device.content.id,
        &device.content.labels,
        &document.spec,
        document.template.as_ref().map(|given| (&given.fleet, given.body)),
        document.generation,
        document.reboots,
        document.revoked,
        &document.decommissioning,
        device.content.deleted,
    ))
}
