//! What an agent has to apply: answered at once when it is new, else held until it is, or for a while.
//!
//! What must stay true: a poll that is held costs no query; the commit that gives the device something new wakes it, and
//! so does the one that takes its certificate away.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::device::{
    API_VERSION, Metadata, REBOOTS_REQUESTED, RENDERED_VERSION, RenderedDevice, TEMPLATE_VERSION, Template,
};
use wardroom_store::Resource;

use super::{
    call,
    document::{Document, KIND},
    facts,
    fleet::template,
    identity::{DeviceIdentity, Identities, Known},
    proof,
    settings::Settings,
    spec,
    wake::Waiting,
};
use crate::platform::{
    app::App,
    http::{error::Error, list::ListQuery, path::Path, problems::Problems},
    identity::auth::Caller,
};

/// What the agent has.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RenderedQuery {
    /// The `renderedVersion` that the agent knows; the poll is held until there is another. Without it, the answer comes
    /// at once.
    #[serde(rename = "knownRenderedVersion")]
    rendered: Option<String>,
    /// The number of requested reboots that the agent knows, from the annotation `rebootsRequested`. Without it, no
    /// reboot ends the wait.
    #[serde(rename = "knownReboots")]
    reboots: Option<String>,
}

/// What ends the wait of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Has {
    rendered: Option<u64>,
    reboots: Option<u64>,
}

impl Has {
    /// A version that no server has given out counts as another one.
    fn of(query: &RenderedQuery) -> Self {
        let number = |text: &Option<String>| text.as_ref().map(|text| text.parse().unwrap_or(u64::MAX));
        Self { rendered: number(&query.rendered), reboots: number(&query.reboots) }
    }

    fn is_behind(self, known: &Known) -> bool {
        self.rendered.is_none_or(|has| has != known.rendered_version && known.rendered_version > 0)
            || self.reboots.is_some_and(|has| has < known.reboots)
    }
}

/// The spec for the device, or 204 when there is nothing new for a while.
#[utoipa::path(
    get, path = "/api/v1/devices/{name}/rendered", operation_id = "get_rendered_device",
    params(("name" = String, Path), RenderedQuery), security(()),
    responses((status = 200, body = RenderedDevice), (status = 204, description = "Nothing new."), Problems)
)]
pub(crate) async fn rendered(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    ListQuery(query): ListQuery<RenderedQuery>,
) -> Result<Response, Error> {
    let identity = proof::itself(&caller, &name)?;
    let has = Has::of(&query);
    // From before the first look, so that nothing is missed in between.
    let mut waiting = Waiting::of(&app, &name);
    let mut known = call::heard(&app, &caller, identity).await?;
    if !has.is_behind(&known) {
        known = wait(&app, identity, has, &mut waiting, known).await?;
        call::note(&app, &known, &name);
    }
    if !has.is_behind(&known) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let device = app.store.get(KIND, &name).await?.filter(|device| !device.content.deleted);
    let device = device.ok_or_else(|| Error::not_found(KIND, &name))?;
    let document = Document::of(&device)?;
    let template = template::of(&app, &document).await?;
    Ok(Json(view(&device, &document, template.as_deref())).into_response())
}

/// Waits until there is something new for the device, or for as long as it may.
async fn wait(
    app: &App,
    identity: &DeviceIdentity,
    has: Has,
    waiting: &mut Waiting<'_>,
    mut known: std::sync::Arc<Known>,
) -> Result<std::sync::Arc<Known>, Error> {
    let left = identity.until.duration_since(app.now());
    let left = Duration::try_from(left).unwrap_or_default();
    let end = tokio::time::sleep(Settings::of(&app.config).poll.min(left));
    let (mut end, mut stopping) = (std::pin::pin!(end), app.stopping.subscribe());
    loop {
        tokio::select! {
            () = waiting.woken() => {}
            () = &mut end => return Ok(known),
            // A sender that is gone means the same.
            _ = stopping.wait_for(|stopping| *stopping) => return Ok(known),
        }
        known = Identities::of(app).standing(app, identity).await?;
        if has.is_behind(&known) {
            return Ok(known);
        }
    }
}

/// The device as its agent gets it.
fn view(device: &Resource, document: &Document, template: Option<&Template>) -> RenderedDevice {
    let version = facts::version(document.rendered_version).unwrap_or_else(|| "0".to_owned());
    let reboots = (document.reboots > 0).then(|| (REBOOTS_REQUESTED, document.reboots.to_string()));
    let at = document.given().map(|given| (TEMPLATE_VERSION, given.version.to_string()));
    let annotations = [(RENDERED_VERSION, version)].into_iter().chain(reboots).chain(at);
    let mut labels = template.map(|template| template.metadata.labels.clone()).unwrap_or_default();
    labels.extend(device.content.labels.clone());
    RenderedDevice {
        api_version: API_VERSION.to_owned(),
        kind: "Device".to_owned(),
        metadata: Metadata {
            name: device.content.id.clone(),
            labels,
            annotations: annotations.map(|(name, value)| (name.to_owned(), value)).collect(),
            generation: Some(document.generation),
            ..Metadata::default()
        },
        spec: spec::of(document, template),
    }
}
