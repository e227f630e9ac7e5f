//! The `Warning` header: an accepted change that may not have the expected effect.

use axum::{
    http::{HeaderValue, header},
    response::Response,
};

/// The most bytes of one header.
const MOST: usize = 1000;

/// Adds the header to an answer, unless there is nothing to warn of.
pub(crate) fn add(response: &mut Response, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let decent = |byte: u8| {
        if (byte.is_ascii_graphic() || byte == b' ') && byte != b'"' && byte != b'\\' {
            char::from(byte)
        } else {
            '?'
        }
    };
    let said: String = warnings.join("; ").bytes().take(MOST).map(decent).collect();
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{said}\"")) {
        response.headers_mut().insert(header::WARNING, value);
    }
}
