//! Devices, their requests and their fleets in the words of Flight Control, for its clients.
//!
//! What must stay true: it is a translation and nothing else. Every call ends in the code of `/api/v1`, with the same
//! access, the same checks and the same history; answers stay within the enums of `flightctl.io/v1beta1` and have every
//! field that its clients require, because they refuse a whole list for one foreign value.

use axum::{Json, body::Body, http::HeaderValue, http::StatusCode, http::header, response::Response};
use serde_json::{Value, json};
use utoipa::{
    IntoResponses,
    openapi::{ContentBuilder, RefOr, ResponseBuilder},
};

use crate::platform::{http::error::Error, kind::Dialect};

pub(crate) mod devices;
pub(crate) mod enrollment;
pub(crate) mod fleets;
mod rollout;
mod selector;
mod spec;
mod status;

/// The version of the objects.
const API_VERSION: &str = "flightctl.io/v1beta1";

/// What clients may send as `apiVersion`.
const KNOWN_VERSIONS: &[&str] = &[API_VERSION, "v1beta1", ""];

/// Refusals below the paths of Flight Control.
pub(super) const DIALECT: Dialect = Dialect { speaks, refuse };

fn speaks(path: &str) -> bool {
    path.starts_with("/flightctl/api/v1/")
}

/// A refusal as a `Status`.
fn refuse(error: &Error, mut problem: Response) -> Response {
    // A stale `resourceVersion` is a conflict there.
    if matches!(error, Error::Precondition) {
        *problem.status_mut() = StatusCode::CONFLICT;
    }
    let body = answer(problem.status(), "Failure", &error.to_string());
    *problem.body_mut() = Body::from(body.to_string());
    problem.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    problem
}

/// The answer to a deletion.
fn done(message: &str) -> Json<Value> {
    Json(answer(StatusCode::OK, "Success", message))
}

fn answer(code: StatusCode, outcome: &str, message: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Status", "code": code.as_u16(), "status": outcome, "message": message,
        "reason": code.canonical_reason().unwrap_or_default(),
    })
}

/// Documents that every refusal is a `Status`.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> std::collections::BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let response = ResponseBuilder::new()
            .description("A refusal or failure, as clients of Flight Control know it: a `Status`")
            .content("application/json", ContentBuilder::new().build())
            .build();
        [("default".to_owned(), response.into())].into()
    }
}

/// Which version of the API this is.
#[utoipa::path(
    get, path = "/flightctl/api/v1/version", operation_id = "flightctl_version",
    responses((status = 200, body = Object), Refusals)
)]
pub(crate) async fn version() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// An object that a client sent, with what identifies it.
struct Sent {
    metadata: Value,
    spec: Value,
}

impl Sent {
    /// Reads an object of a kind. What only the server sets is ignored, because clients send back what they read.
    fn read(mut object: Value, kind: &str) -> Result<Self, Error> {
        if !object.is_object() {
            return Err(Error::invalid("body", "must be an object"));
        }
        let version = object["apiVersion"].as_str().unwrap_or_default();
        if !KNOWN_VERSIONS.contains(&version) {
            return Err(Error::invalid("apiVersion", format!("must be {API_VERSION}")));
        }
        if object["kind"].as_str().is_some_and(|given| given != kind) {
            return Err(Error::invalid("kind", format!("must be {kind}")));
        }
        let mut given = object["metadata"].take();
        let mut metadata = json!({});
        for field in ["name", "labels", "resourceVersion"] {
            match given.get_mut(field).map(Value::take) {
                None | Some(Value::Null) => {}
                Some(value) => metadata[field] = value,
            }
        }
        let spec = object["spec"].take();
        Ok(Self { metadata, spec: if spec.is_null() { json!({}) } else { spec } })
    }

    /// The object in our words.
    fn object(self) -> Value {
        json!({"metadata": self.metadata, "spec": self.spec})
    }
}

/// A list of objects.
fn list(kind: &str, next: Option<&str>, items: Vec<Value>) -> Json<Value> {
    let metadata = next.map_or_else(|| json!({}), |next| json!({"continue": next}));
    Json(json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "items": items}))
}

/// Metadata, with the annotations that a kind has.
fn metadata(given: &wardroom_api::device::Metadata, annotations: Value) -> Value {
    let mut shown = serde_json::to_value(given).unwrap_or_default();
    shown["annotations"] = annotations;
    shown
}
