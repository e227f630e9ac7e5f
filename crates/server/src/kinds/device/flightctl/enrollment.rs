//! Enrolment requests in Flight Control's words.

use axum::{Extension, Json, extract::State, http::HeaderMap};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wardroom_api::device::{Approval, DeviceSpec, EnrollmentApproval, EnrollmentRequest};

use super::{
    super::{
        approve,
        request::{self, KIND},
    },
    API_VERSION, Refusals,
    devices::SelectQuery,
    selector, status,
};
use crate::platform::{
    app::App,
    http::{
        body::Body,
        error::Error,
        list::{self, ListQuery},
        path::Path,
    },
    identity::auth::Caller,
};

/// A request as clients of Flight Control read it.
fn shown(request: &EnrollmentRequest) -> Value {
    let created = request.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    let mut spec = json!({"csr": request.spec.csr, "labels": request.spec.labels});
    if let Some(said) = &request.spec.device_status {
        spec["deviceStatus"] = status::reported(said, &DeviceSpec::default(), created);
    }
    let given = request.status.clone().unwrap_or_default();
    let conditions = status::conditions(&given.conditions, &["Approved", "Denied"], created);
    let mut status = json!({"conditions": conditions});
    if let Some(certificate) = &given.certificate {
        status["certificate"] = json!(certificate);
    }
    if let Some(approval) = &given.approval {
        status["approval"] = decision(approval, created);
    }
    json!({
        "apiVersion": API_VERSION, "kind": "EnrollmentRequest", "spec": spec, "status": status,
        "metadata": super::metadata(&request.metadata, json!({})),
    })
}

fn decision(approval: &Approval, created: Timestamp) -> Value {
    json!({
        "approved": approval.approved, "approvedBy": approval.approved_by, "labels": approval.labels,
        "approvedAt": approval.approved_at.unwrap_or(created), "replaceLabels": false,
    })
}

/// Lists enrolment requests in Flight Control's words.
#[utoipa::path(
    get, path = "/flightctl/api/v1/enrollmentrequests", operation_id = "flightctl_list_enrollment_requests",
    params(SelectQuery), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(query): ListQuery<SelectQuery>,
) -> Result<Json<Value>, Error> {
    let mut list = query.list(KIND)?;
    if let Some(text) = &query.field_selector {
        selector::requests(text, &mut list)?;
    }
    let page = list::page(&app, list).await?;
    let items = page.items.iter().map(|found| request::view(found).map(|request| shown(&request)));
    Ok(super::list("EnrollmentRequestList", page.next.as_deref(), items.collect::<Result<_, _>>()?))
}

/// Reads an enrolment request in Flight Control's words.
#[utoipa::path(
    get, path = "/flightctl/api/v1/enrollmentrequests/{name}", operation_id = "flightctl_get_enrollment_request",
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn get(State(app): State<App>, Path(name): Path<String>) -> Result<Json<Value>, Error> {
    let found = app.store.get(KIND, &name).await?.filter(|found| !found.content.deleted);
    let found = found.ok_or_else(|| Error::not_found(KIND, &name))?;
    Ok(Json(shown(&request::view(&found)?)))
}

/// What Flight Control's clients send to decide.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Decision {
    approved: bool,
    labels: Option<BTreeMap<String, String>>,
    replace_labels: Option<bool>,
}

/// Approves or denies the enrolment of a device; the answer is the decision.
#[utoipa::path(
    put, path = "/flightctl/api/v1/enrollmentrequests/{name}/approval",
    operation_id = "flightctl_approve_enrollment_request", request_body = Object,
    params(("name" = String, Path)), responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn approve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(Decision { approved, labels, replace_labels }): Body<Decision>,
) -> Result<Json<Value>, Error> {
    if replace_labels == Some(true) {
        let message = "must be false: labels of the token and of the device stay, and yours win over them";
        return Err(Error::invalid("replaceLabels", message));
    }
    let asked = EnrollmentApproval { approved, labels: labels.unwrap_or_default(), comment: None };
    let Json(decided) = approve::decide(State(app), Extension(caller), Path(name), Body(asked)).await?;
    let created = decided.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    let approval = decided.status.and_then(|status| status.approval).ok_or(Error::Internal)?;
    Ok(Json(decision(&approval, created)))
}

/// Deletes an enrolment request.
#[utoipa::path(
    delete, path = "/flightctl/api/v1/enrollmentrequests/{name}",
    operation_id = "flightctl_delete_enrollment_request", params(("name" = String, Path)),
    responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Error> {
    let _ = approve::delete(State(app), Extension(caller), Path(name), headers).await?;
    Ok(super::done("The enrolment request was deleted."))
}
