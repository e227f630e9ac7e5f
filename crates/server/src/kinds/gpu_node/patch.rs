//! Changes the name, MACs, BMC and labels of a node.

use axum::{
    Extension, Json,
    extract::State as Shared,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use wardroom_api::{
    Envelope,
    gpu_node::{GpuNode, GpuNodePatch},
};
use wardroom_store::{Change, Content, Error as StoreError, Resource, attempts};

use super::{
    document::{self, Document},
    site,
};
use crate::platform::{
    app::{App, by_person},
    http::{body::Body, error::Error, etag, path::Path, problems::Problems, text},
    identity::auth::Caller,
};

/// Changes a node's name, MACs, BMC and labels. An open run uses the changes with its next attempt.
#[utoipa::path(
    patch, path = "/api/v1/gpu-nodes/{id}", operation_id = "patch_gpu_node", request_body = GpuNodePatch,
    params(("id" = String, Path)), responses((status = 200, body = Envelope<GpuNode>), Problems)
)]
pub(crate) async fn patch(
    Shared(app): Shared<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<GpuNodePatch>,
) -> Result<Response, Error> {
    attempts(async || {
        let node = super::find(&app, &id).await?;
        etag::check(&headers, || document::etag(&node))?;
        let after = patched(&app, &node, &patch).await?;
        if after == node.content {
            return answer(&app, &node).await.map(Some);
        }
        let mut entry = by_person(&app, &caller, "changed", None);
        entry.metadata = serde_json::to_value(&patch).map_err(|_| Error::Internal)?;
        let change =
            Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds: Vec::new() };
        match app.commit(change).await {
            Ok(node) => answer(&app, &node).await.map(Some),
            Err(StoreError::Conflict) => Ok(None),
            Err(StoreError::KeyTaken { key, holder }) => Err(super::taken(&key, &holder)),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

async fn patched(app: &App, node: &Resource, patch: &GpuNodePatch) -> Result<Content, Error> {
    let mut labels = node.content.labels.clone();
    text::merge_labels(&mut labels, &patch.labels)?;
    let document = Document::of(node)?.patched(patch, &labels, &app.config.secrets)?;
    if let (Some(site), true) = (&document.site, patch.bmc.is_some()) {
        site::check_bmc(app, site, &document).await?;
    }
    Ok(Content { labels, ..document.into_content_of(node, document::state(node)?)? })
}

async fn answer(app: &App, node: &Resource) -> Result<Response, Error> {
    let mut response = Json(Envelope::new(super::view(app, node).await?)).into_response();
    etag::set(&mut response, &document::etag(node)?);
    Ok(response)
}
