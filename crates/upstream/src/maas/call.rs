//! One request to MAAS: built, sent, and its answer put into a class.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::{
    Client, Method, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::de::DeserializeOwned;

use super::{Class, Error, Key, form::Form};
use crate::{
    Gate, gate,
    reply::{self, Cut},
};

/// MAAS's own texts for a missing object. A 404 with another text may be from a proxy, and does not prove
/// that an object is missing.
const SIGNATURE: &str = "x-maas-api-hash";
const NOBODY: &str = " matches the given query";

/// The effect of an operation on MAAS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// It makes something so; doing it twice is doing it once.
    Declares,
    /// It does something each time, or only in some statuses.
    Once,
}

/// An operation: MAAS's name for it, and its effect.
pub(super) struct Op(pub(super) &'static str, pub(super) Effect);

/// Where a MAAS is and how to speak with it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address as people know it, such as `https://maas.example/MAAS`.
    pub url: String,
    /// Our API key.
    pub key: Key,
    /// Certificates to trust instead of the system's, as PEM.
    pub ca: Option<Vec<u8>>,
    /// The longest that one call may take. A proxy in front of MAAS gives up after 60 s; waiting longer shows its verdict.
    pub timeout: Duration,
    /// Where the key may be sent.
    pub gate: Gate,
    /// Reads the time, because MAAS refuses a request whose time is off by minutes.
    pub clock: fn() -> Timestamp,
}

/// A client of one MAAS. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Maas {
    client: Client,
    base: Url,
    key: Key,
    clock: fn() -> Timestamp,
}

const CONNECT: Duration = Duration::from_secs(5);

/// Answers are cut off here: a real machine takes 4 to 60 kB, and a site has thousands of them.
const MOST: usize = 256 << 20;

/// The most that is read of a refusal.
const MOST_OF_A_REFUSAL: usize = 64 << 10;

/// The most fields that are shown of a refusal.
const MOST_FIELDS: usize = 20;

/// When MAAS asks to come again and does not say when.
const LATER: Duration = Duration::from_secs(5);

impl Maas {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// When the address or the certificates cannot be used; the text names the reason.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let base = format!("{}/api/2.0/", settings.url.trim_end_matches('/'));
        let base = Url::parse(&base).map_err(|error| format!("the address of MAAS: {error}"))?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err("the address of MAAS must begin with http:// or https:// and name a host".to_owned());
        }
        settings.gate.check(base.as_str()).map_err(|refused| refused.to_string())?;
        // A redirect would carry the key to wherever it points.
        let mut builder = Client::builder()
            .dns_resolver(Arc::new(settings.gate.clone()))
            .connect_timeout(CONNECT)
            .timeout(settings.timeout)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none());
        if let Some(pem) = &settings.ca {
            let trusted = reqwest::Certificate::from_pem_bundle(pem).map_err(reply::why)?;
            if trusted.is_empty() {
                return Err("the file of trusted certificates has none".to_owned());
            }
            builder = builder.tls_certs_only(trusted);
        }
        let client = builder.build().map_err(reply::why)?;
        Ok(Self { client, base, key: settings.key, clock: settings.clock })
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        op: &'static str,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<T, Error> {
        let op = Op(op, Effect::None);
        let body = self.call(&op, Method::GET, path, query, None).await?;
        understood(&op, &body)
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        op: Op,
        path: &[&str],
        form: Form,
    ) -> Result<T, Error> {
        let body = self.call(&op, Method::POST, path, &[], Some(&form)).await?;
        understood(&op, &body)
    }

    pub(super) async fn put<T: DeserializeOwned>(
        &self,
        op: Op,
        path: &[&str],
        form: Form,
    ) -> Result<T, Error> {
        let body = self.call(&op, Method::PUT, path, &[], Some(&form)).await?;
        understood(&op, &body)
    }

    /// Sends one request and answers with the body of a success.
    pub(super) async fn call(
        &self,
        op: &Op,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        form: Option<&Form>,
    ) -> Result<Vec<u8>, Error> {
        let error = |class| Error { op: op.0, effect: op.1, class };
        let mut request = self.client.request(method, self.url(path, query));
        request = request.header(AUTHORIZATION, self.authorization().map_err(error)?);
        if let Some(form) = form {
            let boundary = random().map_err(error)?;
            let kind = format!("multipart/form-data; boundary={boundary}");
            request = request.header(CONTENT_TYPE, kind).body(form.body(&boundary));
        }
        let response = request.send().await.map_err(|cause| {
            if let Some(why) = gate::refused(&cause) {
                return error(Class::Elsewhere(why));
            }
            let unsent = cause.is_connect() || cause.is_builder();
            let why = reply::why(cause);
            error(if unsent { Class::Unreachable(why) } else { Class::Ambiguous(why) })
        })?;
        if response.status().is_success() {
            return reply::body(response, MOST).await.map_err(|cut| {
                error(match cut {
                    Cut::Broken(why) => Class::Ambiguous(why),
                    Cut::TooLarge => Class::Unreadable(format!("more than {MOST} bytes")),
                })
            });
        }
        let secrets = form.map_or(&[][..], Form::secrets);
        Err(error(self.refusal(response, secrets).await))
    }

    fn url(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.base.clone();
        // A name stays one path segment, with any characters.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    fn authorization(&self) -> Result<HeaderValue, Class> {
        let header = self.key.authorization((self.clock)(), &random()?);
        let mut header = HeaderValue::try_from(header)
            .map_err(|_| Class::Unreachable("the API key cannot be sent in a header".to_owned()))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// How long to wait, by seconds or by a date; without either, the caller still knows that MAAS wants to be asked again.
    fn later(&self, text: &str) -> Duration {
        let date = || rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
        let until = |date: Timestamp| date.duration_since((self.clock)()).as_secs().try_into().unwrap_or(0);
        text.parse().ok().or_else(|| date().map(until)).map_or(LATER, reply::later)
    }

    async fn refusal(&self, response: Response, secrets: &[String]) -> Class {
        let status = response.status().as_u16();
        if status == 401 {
            return Class::Credentials;
        }
        let after = reply::retry_after(&response).map(|text| self.later(text));
        let is_signed = response.headers().contains_key(SIGNATURE);
        let is_plain = is_plain(&response);
        let body = reply::body(response, MOST_OF_A_REFUSAL).await.unwrap_or_default();
        // Secrets go before anything is cut, or a part of one might stay.
        let secrets = secrets.iter().map(String::as_str).chain([self.key.secret()]);
        let secrets: Vec<_> = secrets.filter(|secret| !secret.is_empty()).collect();
        let body = String::from_utf8_lossy(&body);
        let refused = (status == 400).then(|| refused(&body, &secrets)).flatten();
        let body = without(&body, &secrets);
        let said = reply::explanation(Some(&*body).filter(|_| is_plain));
        match (status, after) {
            (400, _) => refused.map_or(Class::Malformed { status, said }, Class::Refused),
            (403, _) => Class::Forbidden(said),
            (404, _) if is_signed || body.contains(NOBODY) => Class::Gone,
            (404, _) => Class::Ambiguous("a 404 that is not from MAAS: is the URL right?".to_owned()),
            (409, Some(after)) => Class::Busy { after },
            (409, None) => Class::WrongState(said),
            (429, after) => Class::Throttled { after: after.unwrap_or(LATER) },
            (503, after) => Class::Unavailable { after: after.unwrap_or(LATER), said },
            (500.., _) => Class::Ambiguous(format!("it answered {status}: {said}")),
            (status, _) => Class::Malformed { status, said },
        }
    }
}

/// Whether an answer is a sentence: MAAS explains most refusals so, and others with the fields that are wrong.
fn is_plain(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/plain"))
}

/// Returns the errors of the fields as plain text, without secrets, also where JSON escapes them.
fn refused(body: &str, secrets: &[&str]) -> Option<BTreeMap<String, Vec<String>>> {
    let fields: BTreeMap<String, Vec<String>> = serde_json::from_str(body).ok()?;
    let without = |said: &String| reply::explanation(Some(&without(said, secrets)));
    let fields = fields.iter().take(MOST_FIELDS);
    Some(fields.map(|(field, said)| (without(field), said.iter().map(without).collect())).collect())
}

/// A text without secrets, as they are or as JSON writes them.
fn without(text: &str, secrets: &[&str]) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| {
        let text = text.replace(secret, "…");
        ways(secret).iter().fold(text, |text, way| text.replace(way, "…"))
    })
}

/// The two ways that JSON encodes a text: with other letters as they are, or escaped.
fn ways(secret: &str) -> [String; 2] {
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let quoted =
        quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(secret).to_owned();
    let mut plain = String::new();
    for letter in quoted.chars() {
        if letter.is_ascii() {
            plain.push(letter);
        } else {
            let units = letter.encode_utf16(&mut [0; 2]).to_vec();
            plain.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    [quoted, plain]
}

fn understood<T: DeserializeOwned>(op: &Op, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|cause| Error {
        op: op.0,
        effect: op.1,
        class: Class::Unreadable(reply::malformed(&cause)),
    })
}

fn random() -> Result<String, Class> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Class::Unreachable(format!("no random numbers for the request: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON writes quotes, and at times letters that are not English, in its own way.
    #[test]
    fn secrets_are_found_however_json_writes_them() {
        let secret = "pä\"s\\s𝄞";
        for body in [
            r#"{"power":["not pä\"s\\s𝄞!","pä\"s\\s𝄞"]}"#,
            r#"{"power":["not p\u00e4\"s\\s\ud834\udd1e!","p\u00e4\"s\\s\ud834\udd1e"]}"#,
        ] {
            assert_eq!(refused(body, &[secret]).unwrap()["power"], ["not …!", "…"], "{body}");
            assert_eq!(without(body, &[secret]), r#"{"power":["not …!","…"]}"#);
        }
    }
}
