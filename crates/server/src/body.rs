//! Reading bodies: JSON of bounded size and depth, with errors that name the field.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::error::Error;

const DEPTH: usize = 32;

/// What anybody may send at most.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// What people send: up to 1 MiB.
pub(crate) struct Body<T>(pub(crate) T);

/// What people may send: the same, or nothing at all for the default.
pub(crate) struct Asked<T>(pub(crate) T);

/// What agents send: up to 64 KiB. A newer agent may say more than we understand; what was ignored is told back.
pub(crate) struct Reported<T> {
    pub(crate) value: T,
    pub(crate) ignored: Ignored,
}

/// The same, where no body at all is the default.
pub(crate) struct Optional<T> {
    pub(crate) value: T,
    pub(crate) ignored: Ignored,
}

/// The fields of a report that were not understood.
#[derive(Default)]
pub(crate) struct Ignored(Vec<String>);

/// How many ignored fields are named.
const MOST_IGNORED: usize = 10;

impl Ignored {
    /// Adds the header that tells the agent.
    pub(crate) fn warn(&self, response: &mut Response) {
        if self.0.is_empty() {
            return;
        }
        let decent = |byte: u8| {
            if byte.is_ascii_graphic() && byte != b'"' && byte != b'\\' { char::from(byte) } else { '?' }
        };
        let names: String = self.0.join(", ").bytes().take(500).map(decent).collect();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"unknown fields were ignored: {names}\"")) {
            response.headers_mut().insert(header::WARNING, value);
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let bytes = read(request, MOST_BYTES).await?;
        parse(&bytes, |_| {}).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for Asked<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let json = is_json(request.headers());
        let bytes = collect(request.into_body(), MOST_BYTES).await?;
        match (bytes.is_empty(), json) {
            (true, _) => Ok(Self(T::default())),
            (false, true) => parse(&bytes, |_| {}).map(Self),
            (false, false) => Err(Error::ContentType),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Reported<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let bytes = read(request, 64 << 10).await?;
        let (value, ignored) = tolerant(&bytes)?;
        Ok(Self { value, ignored })
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for Optional<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let json = is_json(request.headers());
        let bytes = collect(request.into_body(), 64 << 10).await?;
        if bytes.is_empty() {
            return Ok(Self { value: T::default(), ignored: Ignored::default() });
        }
        if !json {
            return Err(Error::ContentType);
        }
        let (value, ignored) = tolerant(&bytes)?;
        Ok(Self { value, ignored })
    }
}

fn tolerant<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, Ignored), Error> {
    let mut ignored = Vec::new();
    let value = parse(bytes, |path| {
        if ignored.len() < MOST_IGNORED {
            ignored.push(path.to_string());
        }
    })?;
    Ok((value, Ignored(ignored)))
}

async fn read(request: Request, limit: usize) -> Result<Bytes, Error> {
    if !is_json(request.headers()) {
        return Err(Error::ContentType);
    }
    collect(request.into_body(), limit).await
}

/// All of a body.
pub(crate) async fn collect(body: axum::body::Body, limit: usize) -> Result<Bytes, Error> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge(limit)),
        Err(_) => Err(Error::invalid("body", "ended before it was complete")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json") || essence.to_ascii_lowercase().ends_with("+json")
}

fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    ignored: impl FnMut(serde_ignored::Path<'_>),
) -> Result<T, Error> {
    if depth(bytes) > DEPTH {
        return Err(Error::invalid("body", format!("is nested deeper than {DEPTH} levels")));
    }
    // A list would be taken for the fields in their order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|first| *first == b'[') {
        return Err(Error::invalid("body", "must be an object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let value = serde_ignored::deserialize(tracked, ignored).map_err(|error: serde_json::Error| {
        let path = track.path().to_string();
        let field = if path == "." { "body".to_owned() } else { path };
        Error::invalid(field, error.to_string())
    })?;
    json.end().map_err(|_| Error::invalid("body", "has something after the JSON value"))?;
    Ok(value)
}

/// How deep arrays and objects are nested; brackets inside texts do not count.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn depth_counts_brackets_outside_of_texts() {
        for (text, expected) in
            [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[[", "\"[["]"#, 1), ("[[", 2)]
        {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }
}
