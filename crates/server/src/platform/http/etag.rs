//! ETags over the fields that people change, and `If-Match`.

use axum::{
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::platform::{http::error::Error, identity::secret};

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

/// Refuses a change of a resource that differs from the version its caller read. The tag is computed only if
/// the caller sent a condition. The tags may come in several lines.
pub(crate) fn check(headers: &HeaderMap, tag: impl FnOnce() -> Result<String, Error>) -> Result<(), Error> {
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(());
    }
    let tag = tag()?;
    let mut wanted = headers
        .get_all(header::IF_MATCH)
        .iter()
        .flat_map(|line| line.to_str().unwrap_or_default().split(',').map(str::trim));
    if wanted.any(|wanted| wanted == "*" || wanted == tag) { Ok(()) } else { Err(Error::Precondition) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_counts() {
        let cases: [(&[&'static str], bool); 7] = [
            (&[], true),
            (&["\"a\""], true),
            (&["\"b\""], false),
            (&["\"b\", \"a\""], true),
            (&["\"b\"", "\"a\""], true),
            (&["\"b\"", "*"], true),
            (&["\"b\"", "\"c\""], false),
        ];
        for (lines, passes) in cases {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::IF_MATCH, HeaderValue::from_static(line));
            }
            assert_eq!(check(&headers, || Ok("\"a\"".to_owned())).is_ok(), passes, "{lines:?}");
        }
    }
}
