//! What people change of a fleet: its labels, its selector, its policy and its template.

use axum::{
    Extension,
    extract::State as Of,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde_json::{Value, json};
use wardroom_api::device::Fleet;
use wardroom_store::{Change, Error as StoreError, Resource, attempts};

use super::{
    super::{
        edit::{Patch, names, patched},
        spec,
    },
    check,
    create::versioned,
    document::{Document, state},
    view,
};
use crate::platform::{
    app::{App, by_person},
    http::{body::Body, error::Error, etag, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Replaces labels and spec of a fleet. Another template begins a rollout; the same one does not.
#[utoipa::path(
    put, path = "/api/v1/fleets/{name}", operation_id = "replace_fleet", request_body = Fleet,
    params(("name" = String, Path)), responses((status = 200, body = Fleet), Problems)
)]
pub(crate) async fn replace(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(given): Body<Value>,
) -> Result<Response, Error> {
    let editing = Editing { app: &app, caller: &caller, headers: &headers, name: &name };
    let fleet = editing.change(|_| Ok(given.clone())).await?;
    view::answer(&app, StatusCode::OK, &fleet).await
}

/// Changes labels and spec of a fleet as a JSON Patch says.
#[utoipa::path(
    patch, path = "/api/v1/fleets/{name}", operation_id = "patch_fleet",
    request_body(content = Vec<Object>, content_type = "application/json-patch+json"),
    params(("name" = String, Path)), responses((status = 200, body = Fleet), Problems)
)]
pub(crate) async fn patch(
    Of(app): Of<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Patch(operations): Patch,
) -> Result<Response, Error> {
    let editing = Editing { app: &app, caller: &caller, headers: &headers, name: &name };
    let fleet = editing.change(|shown| patched(shown, &operations)).await?;
    view::answer(&app, StatusCode::OK, &fleet).await
}

/// A person who changes a fleet.
pub(in super::super) struct Editing<'a> {
    pub(in super::super) app: &'a App,
    pub(in super::super) caller: &'a Caller,
    pub(in super::super) headers: &'a HeaderMap,
    pub(in super::super) name: &'a str,
}

impl Editing<'_> {
    /// Changes the fleet into what `edited` makes of it.
    pub(in super::super) async fn change(
        &self,
        edited: impl Fn(&Fleet) -> Result<Value, Error>,
    ) -> Result<Resource, Error> {
        attempts(async || {
            let before = view::find(self.app, self.name).await?;
            etag::check(self.headers, || view::tag(&before))?;
            let shown = view::whole(self.app, &before).await?;
            let changes = self.decide(&before, &shown, edited(&shown)?)?;
            if changes.is_empty() {
                return Ok(Some(before));
            }
            match self.app.commit_together(changes).await {
                Err(StoreError::Conflict) => Ok(None),
                Err(error) => Err(error.into()),
                Ok(made) => Ok(made.into_iter().next()),
            }
        })
        .await
    }

    fn decide(&self, before: &Resource, shown: &Fleet, given: Value) -> Result<Vec<Change>, Error> {
        let Fleet { metadata, mut spec, .. } = spec::strict(given)?;
        names("metadata", &metadata, &shown.metadata)?;
        text::check_labels(&metadata.labels)?;
        check::read(&spec)?;
        // The server counts versions.
        spec.template_version = None;
        let known = Document::of(before)?;
        let (labels, content) = (metadata.labels, &before.content);
        if spec == known.spec && labels == content.labels {
            return Ok(Vec::new());
        }
        let changes_spec = spec != known.spec;
        let changes_template = spec.template != known.spec.template;
        let generation = known.generation + u64::from(changes_spec);
        let mut document = Document { spec, generation, ..known };
        let mut state = state(before);
        if changes_template {
            document.begin_version(None);
            state = document.begun();
        }
        let mut entry = by_person(self.app, self.caller, "changed", None);
        entry.metadata = json!({
            "spec": changes_spec, "labels": labels != content.labels, "templateVersion": document.version.to_string(),
        });
        if state.as_str() != content.state {
            wardroom_store::TRANSITION.clone_into(&mut entry.entry_type);
        }
        let after = document.content(self.name, labels, state)?;
        let (effects, holds) = (Vec::new(), Vec::new());
        let first = Change { before: Some(before.clone()), after, entry, effects, fence: None, holds };
        let second = changes_template.then(|| versioned(self.app, self.name, &document)).transpose()?;
        Ok([first].into_iter().chain(second).collect())
    }
}

impl Document {
    /// Begins the rollout of a template that is another one from now on. `restored` is an earlier version with its spec,
    /// and the version whose spec that is.
    pub(super) fn begin_version(&mut self, restored: Option<(u64, u64)>) {
        self.version += 1;
        self.restores = restored.map(|(version, _)| version);
        self.body = restored.map_or(self.version, |(_, body)| body);
        (self.batch, self.accepted) = (0, 0);
    }
}
