//! Reading bodies: JSON of bounded size and depth, with errors that name the field.

use axum::{
    body::{Bytes, HttpBody as _},
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
    response::Response,
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::platform::http::{error::Error, warning};

mod salvage;

const DEPTH: usize = 32;

/// The largest body of agents and members.
const MOST_REPORTED: usize = 64 << 10;

/// The largest body that a route without its own limit reads.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// A JSON body of people, up to 1 MiB.
pub(crate) struct Body<T>(pub(crate) T);

/// The same, where an empty body means the default.
pub(crate) struct Asked<T>(pub(crate) T);

/// A JSON body of an agent, up to 64 KiB. Unknown fields, perhaps of a newer agent, are ignored; a header of
/// the reply names them.
pub(crate) struct Reported<T> {
    pub(crate) value: T,
    pub(crate) ignored: Ignored,
}

/// The body of a heartbeat: may be empty, and fields that cannot be read are ignored and named in the reply.
/// A heartbeat must count even if one number in it is bad or the report is too large; of a large report only
/// the needed fields are read.
pub(crate) struct Facts<T> {
    pub(crate) value: T,
    pub(crate) ignored: Ignored,
}

/// A heartbeat body.
pub(crate) trait Report {
    /// The fields that the answer needs: if one of them cannot be read, the report is refused.
    const NEEDED: &'static [&'static str];
}

/// The fields of a report that were not understood.
#[derive(Default)]
pub(crate) struct Ignored {
    unknown: Vec<String>,
    /// Fields that the server sets itself.
    ours: Vec<String>,
    bad: Vec<String>,
    /// Why the remaining fields were not read.
    rest: Option<String>,
}

/// How many ignored fields are named.
const MOST_IGNORED: usize = 10;

impl Ignored {
    /// Adds a field that was read but has an impossible value.
    pub(crate) fn add(&mut self, field: &str) {
        self.bad.push(field.to_owned());
    }

    /// A field that the server sets itself is told back, and so is one that is unknown inside another.
    pub(crate) fn is_ours(&mut self, field: &str) {
        push(&mut self.ours, field);
    }

    pub(crate) fn is_unknown(&mut self, field: &str) {
        push(&mut self.unknown, field);
    }

    /// Whether a field could not be read.
    pub(crate) fn misses(&self, field: &str) -> bool {
        self.bad.iter().any(|bad| bad == field)
    }

    /// Adds the header that tells the agent.
    pub(crate) fn warn(&self, response: &mut Response) {
        let lists = [
            ("unknown fields were ignored", &self.unknown),
            ("these are set by the server and were ignored", &self.ours),
            ("these could not be read", &self.bad),
        ];
        let said: Vec<_> = lists
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", names.join(", ")))
            .chain(self.rest.clone())
            .collect();
        warning::add(response, &said);
    }
}

fn push(fields: &mut Vec<String>, field: &str) {
    if fields.len() < MOST_IGNORED {
        fields.push(field.to_owned());
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
        reported(request, MOST_REPORTED).await
    }
}

/// Reads a body from an agent that may have so many bytes.
pub(crate) async fn reported<T: DeserializeOwned>(
    request: Request,
    most: usize,
) -> Result<Reported<T>, Error> {
    let is_report = is_report(request.headers());
    let bytes = collect(request.into_body(), most).await?;
    if !is_report {
        return Err(Error::ContentType);
    }
    let (value, ignored) = tolerant(&bytes)?;
    Ok(Reported { value, ignored })
}

impl<S: Send + Sync, T: DeserializeOwned + Default + Report> FromRequest<S> for Facts<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let is_report = is_report(request.headers());
        let bytes = collect(request.into_body(), MOST_BYTES).await?;
        if bytes.len() > MOST_REPORTED {
            return Ok(Self::too_large(&bytes));
        }
        if bytes.is_empty() {
            return Ok(Self { value: T::default(), ignored: Ignored::default() });
        }
        if !is_report {
            return Err(Error::ContentType);
        }
        match tolerant(&bytes) {
            Ok((value, ignored)) => Ok(Self { value, ignored }),
            Err(error) => {
                let shallow = !is_deep(&bytes);
                let read = if shallow { salvage::salvage(&bytes, T::NEEDED) } else { None };
                let (value, bad) = read.ok_or(error)?;
                let bad = bad.into_iter().collect();
                Ok(Self { value, ignored: Ignored { bad, ..Ignored::default() } })
            }
        }
    }
}

impl<T: DeserializeOwned + Default + Report> Facts<T> {
    /// Reads the needed fields of a report that is too large to be read as a whole.
    fn too_large(bytes: &[u8]) -> Self {
        let value = salvage::only(bytes, T::NEEDED);
        let read =
            if value.is_some() { format!("only {}", T::NEEDED.join(", ")) } else { "nothing".to_owned() };
        let rest = format!("larger than {MOST_REPORTED} bytes: {read} was read");
        Self { value: value.unwrap_or_default(), ignored: Ignored { rest: Some(rest), ..Ignored::default() } }
    }
}

fn tolerant<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, Ignored), Error> {
    let mut ignored = Vec::new();
    let value = parse(bytes, |path| {
        if ignored.len() < MOST_IGNORED {
            ignored.push(path.to_string());
        }
    })?;
    Ok((value, Ignored { unknown: ignored, ..Ignored::default() }))
}

async fn read(request: Request, limit: usize) -> Result<Bytes, Error> {
    if !is_json(request.headers()) {
        return Err(Error::ContentType);
    }
    collect(request.into_body(), limit).await
}

/// All of a body.
pub(crate) async fn collect(body: axum::body::Body, limit: usize) -> Result<Bytes, Error> {
    // A caller that announces a longer body is refused before the body arrives.
    if body.size_hint().lower() > limit as u64 {
        return Err(Error::TooLarge(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge(limit)),
        Err(_) => Err(Error::invalid("body", "ended before it was complete")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let essence = essence(headers);
    essence.eq_ignore_ascii_case("application/json") || essence.to_ascii_lowercase().ends_with("+json")
}

/// Whether the body of a report may be read as JSON. Reports of install scripts may lack a content type or
/// have the default type of curl and wget. Requests with `Origin` are excluded: a web page may send these
/// types to any server.
fn is_report(headers: &HeaderMap) -> bool {
    let essence = essence(headers);
    let is_script = essence.is_empty() || essence.eq_ignore_ascii_case("application/x-www-form-urlencoded");
    is_json(headers) || (is_script && !headers.contains_key(header::ORIGIN))
}

fn essence(headers: &HeaderMap) -> &str {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim()
}

fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    ignored: impl FnMut(serde_ignored::Path<'_>),
) -> Result<T, Error> {
    if is_deep(bytes) {
        return Err(Error::invalid("body", format!("is nested deeper than {DEPTH} levels")));
    }
    // The deserializer would take a list for the fields in their order.
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {}
        Some(_) => return Err(Error::invalid("body", "must be a JSON object")),
        None => return Err(Error::invalid("body", "is empty, and must be a JSON object")),
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_ignored::deserialize(&mut json, ignored).map_err(|_| misread::<T>(bytes))?;
    json.end().map_err(|_| Error::invalid("body", "has something after the JSON value"))?;
    Ok(value)
}

/// Returns where and why a body cannot be read. Finding the place costs more than reading, so it is done only
/// for a refusal.
fn misread<T: DeserializeOwned>(bytes: &[u8]) -> Error {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let read: Result<T, _> = serde_ignored::deserialize(tracked, |_| {});
    read.err().map_or(Error::Internal, |error: serde_json::Error| {
        let (field, message) = named(&track.path().to_string(), &error.to_string());
        Error::invalid(field, message)
    })
}

/// Returns the wrong field and the mistake. A missing or repeated field is named itself, not the object
/// around it.
fn named(path: &str, message: &str) -> (String, String) {
    // The body is on one line, which its sender never saw.
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let place = path.trim_end_matches('?').trim_matches('.');
    let inside = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    for (start, said) in [("missing field `", "is missing"), ("duplicate field `", "appears more than once")]
    {
        if let Some(name) = message.strip_prefix(start).and_then(|rest| rest.strip_suffix('`')) {
            return (inside(name), said.to_owned());
        }
    }
    if let Some((_, known)) =
        message.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, expected "))
    {
        return (place.to_owned(), format!("is not known here; expected {}", known.replace('`', "")));
    }
    // The names of our types mean nothing to the caller.
    let message = match message.split_once("expected struct ") {
        Some((found, _)) => format!("{found}expected an object"),
        None => message.to_owned(),
    };
    if place.is_empty() {
        return ("body".to_owned(), format!("is not what is expected: {message}"));
    }
    (place.to_owned(), message)
}

/// Whether the text may be nested too deeply. Texts with few brackets pass at once: counting them is quick.
pub(crate) fn is_deep(bytes: &[u8]) -> bool {
    let brackets = bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).count();
    brackets > DEPTH && depth(bytes) > DEPTH
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
    use super::{depth, named, parse};
    use crate::platform::http::error::Error;

    #[test]
    fn a_body_is_an_object() {
        for (text, said) in [
            ("", "is empty, and must be a JSON object"),
            (" \n", "is empty, and must be a JSON object"),
            ("null", "must be a JSON object"),
            ("[1]", "must be a JSON object"),
            ("nonsense", "must be a JSON object"),
        ] {
            let read = parse::<wardroom_api::token::TokenCreate>(text.as_bytes(), |_| {});
            let Err(Error::Invalid(errors)) = read else { panic!("{text:?} was taken") };
            assert_eq!((&*errors[0].field, &*errors[0].message), ("body", said), "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_field_and_say_it_plainly() {
        let cases = [
            (".", "missing field `role` at line 1 column 12", "role", "is missing"),
            ("settings", "missing field `url` at line 1 column 2", "settings.url", "is missing"),
            (".", "duplicate field `name` at line 1 column 18", "name", "appears more than once"),
            (
                "a.foo",
                "unknown field `foo`, expected `b` or `c` at line 1 column 3",
                "a.foo",
                "is not known here; expected b or c",
            ),
            ("?", "trailing comma at line 1 column 13", "body", "is not what is expected: trailing comma"),
            (
                "kinds[0]",
                "invalid type: integer `1`, expected a string at line 1 column 22",
                "kinds[0]",
                "invalid type: integer `1`, expected a string",
            ),
            (
                "settings",
                "invalid type: null, expected struct SiteSettings at line 1 column 18",
                "settings",
                "invalid type: null, expected an object",
            ),
        ];
        for (path, given, field, message) in cases {
            assert_eq!(named(path, given), (field.to_owned(), message.to_owned()));
        }
    }

    #[test]
    fn depth_counts_brackets_outside_of_texts() {
        for (text, expected) in
            [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[[", "\"[["]"#, 1), ("[[", 2)]
        {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
    }
}
