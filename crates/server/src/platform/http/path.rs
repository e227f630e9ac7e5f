//! Parameters in the path, with refusals like those of other parts of a request.

use axum::{extract::FromRequestParts, http::request::Parts};
use serde::de::DeserializeOwned;

use crate::platform::http::error::Error;

pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|error| wrong(&error.body_text()))
    }
}

/// Names the part of the path.
fn wrong(said: &str) -> Error {
    match said.split_once("Invalid UTF-8 in `").and_then(|(_, name)| name.strip_suffix('`')) {
        Some(name) => Error::invalid(name, "is not UTF-8"),
        None => Error::invalid("path", said),
    }
}
