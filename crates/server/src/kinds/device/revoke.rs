//! What operators do to a device: revoke its certificate, reboot it, take it out of service, delete it.
//!
//! What must stay true: from the answer on, no server answers a device with 200 whose certificate was revoked, or that was
//! deleted; and of a decommissioning there is no way back.

use axum::{Extension, Json, extract::State, http::HeaderMap, response::Response};
use serde_json::json;
use wardroom_api::device::{Decommission, Device, DeviceAction};
use wardroom_core::device::lifecycle;
use wardroom_store::{Change, Content, Entry, Error as StoreError, Resource, attempts};

use super::{
    call,
    document::{Decommissioning, Document, Heard, KIND},
    identity::Identities,
    request, view,
};
use crate::platform::{
    app::{App, Decided, by_person},
    http::{body::Asked, error::Error, etag, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Revokes the certificates of a device, from its next request on. Approving its enrolment request again gives it another.
#[utoipa::path(
    post, path = "/api/v1/devices/{name}/revoke", operation_id = "revoke_device", request_body = Option<DeviceAction>,
    params(("name" = String, Path)), responses((status = 200, body = Device), Problems)
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(asked): Asked<DeviceAction>,
) -> Result<Response, Error> {
    let device = act(&app, &caller, &name, "revoked", asked, |document| {
        Ok(!std::mem::replace(&mut document.revoked, true))
    })
    .await?;
    // A repeat waits as well: the answer to the first may have been lost before it was true.
    Identities::of(&app).settle().await;
    view::answer(&app, &device).await
}

/// Asks the agent of a device to reboot it.
#[utoipa::path(
    post, path = "/api/v1/devices/{name}/actions/reboot", operation_id = "reboot_device",
    request_body = Option<DeviceAction>, params(("name" = String, Path)),
    responses((status = 200, body = Device), Problems)
)]
pub(crate) async fn reboot(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(asked): Asked<DeviceAction>,
) -> Result<Response, Error> {
    let device = act(&app, &caller, &name, "reboot", asked, |document| {
        document.check_in_service(&name)?;
        document.reboots += 1;
        Ok(true)
    })
    .await?;
    view::answer(&app, &device).await
}

/// Changes a device, if there is something to change.
async fn act(
    app: &App,
    caller: &Caller,
    name: &str,
    entry_type: &str,
    DeviceAction { comment }: DeviceAction,
    change: impl Fn(&mut Document) -> Result<bool, Error>,
) -> Result<Resource, Error> {
    text::check_prose("comment", comment.as_deref(), 2000)?;
    let decided = app.change(KIND, name, |device| {
        let mut document = Document::of(device)?;
        if !change(&mut document)? {
            return Ok(Decided::Nothing(()));
        }
        let entry = by_person(app, caller, entry_type, comment.clone());
        let content = of(document, device, app)?;
        Ok(Decided::Commit(Box::new((content.clone(), call::described(entry, device, &content))), ()))
    });
    Ok(decided.await?.0)
}

fn of(document: Document, device: &Resource, app: &App) -> Result<Content, Error> {
    let labels = device.content.labels.clone();
    document.into_content_of(device, labels, Heard::of(device), app.now())
}

/// Takes a device out of service for good: its agent is told in its next poll, and wipes its keys and data.
#[utoipa::path(
    put, path = "/api/v1/devices/{name}/decommission", operation_id = "decommission_device",
    request_body = Option<Decommission>, params(("name" = String, Path)),
    responses((status = 200, body = Device), Problems)
)]
pub(crate) async fn decommission(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(asked): Asked<Decommission>,
) -> Result<Response, Error> {
    text::check_prose("comment", asked.comment.as_deref(), 2000)?;
    if asked.target.as_deref().is_some_and(|target| target != TARGET) {
        return Err(Error::invalid("target", format!("must be {TARGET}")));
    }
    let device = attempts(async || {
        let before = view::find(&app, &name).await?;
        let mut document = Document::of(&before)?;
        let fleet = document.fleet.as_ref().map(|fleet| fleet.fleet.clone());
        if !out_of_service(&mut document, &app, &caller, asked.finish) {
            return Ok(Some(before));
        }
        let after = of(document, &before, &app)?;
        let entry = by_person(&app, &caller, "decommission", asked.comment.clone());
        let metadata = json!({"target": TARGET, "finish": asked.finish, "fleet": fleet});
        let entry = Entry { metadata, ..entry };
        let entry = call::described(entry, &before, &after);
        let (effects, holds) = (Vec::new(), Vec::new());
        let change = Change { before: Some(before), after, entry, effects, fence: None, holds };
        match app.commit(change).await {
            Err(StoreError::Conflict) => Ok(None),
            committed => Ok::<_, Error>(Some(committed?)),
        }
    })
    .await?;
    if asked.finish {
        Identities::of(&app).settle().await;
    }
    view::answer(&app, &device).await
}

/// What is left of a device.
pub(super) const TARGET: &str = "Unenroll";

/// Notes the request; false when there is nothing to note.
fn out_of_service(document: &mut Document, app: &App, caller: &Caller, finish: bool) -> bool {
    let ends = finish && document.reached() != lifecycle::Status::Decommissioned;
    let begins = document.decommissioning.is_none();
    let asked = document.decommissioning.get_or_insert_with(|| Decommissioning {
        target: TARGET.to_owned(),
        requested_at: app.now(),
        finished_by: None,
    });
    if ends {
        asked.finished_by = Some(caller.name().to_owned());
        // It will not be heard again: what it has left must not count.
        document.certificates.clear();
        lifecycle::Status::Decommissioned.as_str().clone_into(&mut document.reached);
    }
    if begins {
        // A device out of service belongs to no fleet.
        document.fleet = None;
        document.claimed_by.clear();
        document.generation += 1;
        document.rendered_version += 1;
    }
    begins || ends
}

/// Deletes a device and its enrolment request; its history stays. With the same key it comes back only by a person.
#[utoipa::path(
    delete, path = "/api/v1/devices/{name}", operation_id = "delete_device", params(("name" = String, Path)),
    responses((status = 200, body = Device), Problems)
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Device>, Error> {
    let shown = attempts(async || {
        let device = view::find(&app, &name).await?;
        etag::check(&headers, || view::tag(&device))?;
        let shown = view::whole(&app, &device).await?;
        let asked = app.store.get(request::KIND, &name).await?.filter(|asked| !asked.content.deleted);
        let changes = [Some(device), asked].into_iter().flatten().map(|before| Change {
            after: Content { deleted: true, ..before.content.clone() },
            before: Some(before),
            entry: by_person(&app, &caller, "deleted", None),
            effects: Vec::new(),
            fence: None,
            holds: Vec::new(),
        });
        match app.commit_together(changes.collect()).await {
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(Error::from(error)),
            Ok(_) => Ok(Some(shown)),
        }
    })
    .await?;
    app.liveness.unseat(KIND, &name);
    Identities::of(&app).settle().await;
    Ok(Json(shown))
}
