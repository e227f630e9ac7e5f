//! ETags over what people decide, and `If-Match`.

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::{error::Error, secret};

/// The tag of some content.
pub(crate) fn of(content: &impl Serialize) -> Result<String, Error> {
    let bytes = serde_json::to_vec(content).map_err(|_| Error::Internal)?;
    Ok(format!("\"{}\"", secret::encode(&Sha256::digest(&bytes)[..12])))
}

pub(crate) fn set(response: &mut Response, tag: &str) {
    if let Ok(value) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, value);
    }
}

/// Refuses a change of something that is not what its caller read; the tag is made only for who asks.
pub(crate) fn check(headers: &HeaderMap, tag: impl FnOnce() -> Result<String, Error>) -> Result<(), Error> {
    let Some(wanted) = headers.get(header::IF_MATCH) else { return Ok(()) };
    let (wanted, tag) = (wanted.to_str().unwrap_or_default(), tag()?);
    let matches = wanted.split(',').map(str::trim).any(|wanted| wanted == "*" || wanted == tag);
    if matches { Ok(()) } else { Err(Error::Precondition) }
}
