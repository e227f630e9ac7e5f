//! What operators do to a rollout: pause it, resume it, bring the template back that was there before.
//!
//! What must stay true: from the answer to a pause on, no device is given the template; and repeating an action has no
//! further effect, also when two operators act at once.

use axum::{Extension, extract::State as Of, http::StatusCode, response::Response};
use serde_json::json;
use wardroom_api::device::{DeviceAction, Fleet};
use wardroom_core::device::fleet::{self, State};
use wardroom_store::{Change, Error as StoreError, TRANSITION, attempts};

use super::{
    create::versioned,
    document::{Document, KIND, Paused, VERSION_KIND, Version, id, state},
    view,
};
use crate::platform::{
    app::{App, Decided, by_person},
    http::{body::Asked, error::Error, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Pauses the rollout of a fleet: no device is given its template until the rollout is resumed.
#[utoipa::path(
    post, path = "/api/v1/fleets/{name}/actions/pause", operation_id = "pause_fleet",
    request_body = Option<DeviceAction>, params(("name" = String, Path)),
    responses((status = 200, body = Fleet), Problems)
)]
pub(crate) async fn pause(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(asked): Asked<DeviceAction>,
) -> Result<Response, Error> {
    let paused = Paused { by: caller.name().to_owned(), at: app.now(), comment: asked.comment.clone() };
    act(&app, &caller, &name, asked, |document, _| {
        if document.paused.is_some() {
            return None;
        }
        document.paused = Some(paused.clone());
        Some("pause")
    })
    .await
}

/// Resumes the rollout of a fleet. One that stands because devices failed goes on with the others: their failures are
/// accepted for this batch.
#[utoipa::path(
    post, path = "/api/v1/fleets/{name}/actions/resume", operation_id = "resume_fleet",
    request_body = Option<DeviceAction>, params(("name" = String, Path)),
    responses((status = 200, body = Fleet), Problems)
)]
pub(crate) async fn resume(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(asked): Asked<DeviceAction>,
) -> Result<Response, Error> {
    let known = view::progress(&app, &name).await?;
    act(&app, &caller, &name, asked, |document, state| {
        if document.paused.take().is_some() {
            return Some("resume");
        }
        let failed = known.as_ref().filter(|known| known.template_version == document.version);
        let failed = failed.map_or(0, |known| known.failed);
        if state != State::Suspended || failed <= document.accepted {
            return None;
        }
        document.accepted = failed;
        Some("resume")
    })
    .await
}

/// Changes the course of a rollout, if there is something to change.
async fn act(
    app: &App,
    caller: &Caller,
    name: &str,
    DeviceAction { comment }: DeviceAction,
    change: impl Fn(&mut Document, State) -> Option<&'static str>,
) -> Result<Response, Error> {
    text::check_prose("comment", comment.as_deref(), 2000)?;
    let decided = app.change(KIND, name, |fleet| {
        let mut document = Document::of(fleet)?;
        let Some(event) = change(&mut document, state(fleet)) else { return Ok(Decided::Nothing(())) };
        let begun = document.begun();
        let content = document.content(name, fleet.content.labels.clone(), begun)?;
        let moved = content.state != fleet.content.state;
        let entry_type = if moved { TRANSITION } else { event };
        let mut entry = by_person(app, caller, entry_type, comment.clone());
        entry.metadata = json!({"event": event});
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    });
    let (fleet, ()) = decided.await?;
    view::answer(app, StatusCode::OK, &fleet).await
}

/// Brings back the template that the fleet had before, as a new version: devices that were given the present one get the
/// earlier one again, all in one batch within the disruption budget. A paused rollout goes on. A fleet whose template was
/// brought back already stays as it is.
#[utoipa::path(
    post, path = "/api/v1/fleets/{name}/actions/rollback", operation_id = "roll_back_fleet",
    request_body = Option<DeviceAction>, params(("name" = String, Path)),
    responses((status = 200, body = Fleet), Problems)
)]
pub(crate) async fn rollback(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Asked(DeviceAction { comment }): Asked<DeviceAction>,
) -> Result<Response, Error> {
    text::check_prose("comment", comment.as_deref(), 2000)?;
    let fleet = attempts(async || {
        let before = view::find(&app, &name).await?;
        let mut document = Document::of(&before)?;
        if document.restores.is_some() {
            return Ok(Some(before));
        }
        let earlier = earlier(&app, &name, &document).await?;
        let from = document.version;
        document.spec.template = earlier.template;
        document.generation += 1;
        document.paused = None;
        document.begin_version(Some((earlier.restores.unwrap_or(earlier.number), earlier.body)));
        let mut entry = by_person(&app, &caller, "rollback", comment.clone());
        entry.metadata = json!({
            "event": "rollback", "from": from.to_string(), "templateVersion": document.version.to_string(),
            "restores": document.restores.map(|version| version.to_string()),
        });
        let after = document.content(&name, before.content.labels.clone(), document.begun())?;
        if after.state != before.content.state {
            TRANSITION.clone_into(&mut entry.entry_type);
        }
        let second = versioned(&app, &name, &document)?;
        let (effects, holds) = (Vec::new(), Vec::new());
        let first = Change { before: Some(before), after, entry, effects, fence: None, holds };
        match app.commit_together(vec![first, second]).await {
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(Error::from(error)),
            Ok(made) => Ok(made.into_iter().next()),
        }
    })
    .await?;
    view::answer(&app, StatusCode::OK, &fleet).await
}

/// The version of the template before the present one.
async fn earlier(app: &App, name: &str, document: &Document) -> Result<Version, Error> {
    let none = || Error::Conflict {
        code: "no_earlier_template",
        detail: format!("the fleet {name:?} has had one template only: give it another template instead"),
        allowed: vec![fleet::EDIT.of(name)],
    };
    // A version from before the fleet was created again is not one of its own.
    let number =
        document.version.checked_sub(1).filter(|number| *number >= document.first).ok_or_else(none)?;
    let found = app.store.get(VERSION_KIND, &id(name, number)).await?;
    Version::of(&found.ok_or_else(none)?)
}
