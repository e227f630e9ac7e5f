//! One HTTP exchange: time limits, bounded bodies, and an error class for every failure.

use std::{error::Error as _, time::Duration};

use reqwest::{
    Certificate, Client, RequestBuilder, Response, StatusCode, Url, header::HeaderMap, redirect::Policy,
};

use crate::{Failure, failure::fit};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// The default time limit for an answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(30);

/// Longest answer that is read.
const LONGEST: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Builds an HTTP client that follows no redirects, which would get the credentials, and retries nothing.
pub(crate) fn client(base: &Url, certificates: Option<&[u8]>) -> Result<Client, Failure> {
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .user_agent(concat!("wardroom/", env!("CARGO_PKG_VERSION")));
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    if let Some(pem) = certificates {
        let certificates = Certificate::from_pem_bundle(pem)
            .ok()
            .filter(|certificates| !certificates.is_empty())
            .ok_or_else(|| Failure::Setup("the CA file holds no PEM certificate".to_owned()))?;
        builder = builder.tls_certs_only(certificates);
    }
    builder.build().map_err(|error| Failure::Setup(innermost(&error)))
}

/// A base URL without anything that would have to be hidden or dropped.
pub(crate) fn base(text: &str) -> Result<Url, Failure> {
    let url: Option<Url> = text.parse().ok();
    url.filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
    })
    .ok_or_else(|| Failure::Setup("not a URL such as https://registry.example".to_owned()))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Sends a request and reads the whole answer, of any status.
pub(crate) async fn send(request: RequestBuilder, timeout: Duration) -> Result<Reply, Failure> {
    let mut response = request.timeout(timeout).send().await.map_err(|error| lost(&error))?;
    let body = bounded(&mut response).await?;
    Ok(Reply { status: response.status(), headers: response.headers().clone(), body })
}

async fn bounded(response: &mut Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error))? {
        if body.len() + chunk.len() > LONGEST {
            return Err(Failure::Unexpected(format!("longer than {LONGEST} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

impl Reply {
    /// Returns the answer if its status is one of `expected`, otherwise the class of the refusal. `secrets` are removed from texts.
    pub(crate) fn expect(self, expected: &[u16], secrets: &[&str]) -> Result<Self, Failure> {
        let status = self.status.as_u16();
        if expected.contains(&status) {
            return Ok(self);
        }
        let detail = || explanation(&self.body, secrets);
        Err(match status {
            // Nothing was done there, and the credentials do not travel on: the address is wrong.
            300..=399 => Failure::Refused { status, detail: "it redirects to another server".to_owned() },
            401 => Failure::Refused { status, detail: "the credentials are not accepted".to_owned() },
            404 => Failure::NotFound,
            409 => Failure::Conflict(detail()),
            429 => Failure::Busy { after: self.retry_after() },
            400..=499 => Failure::Refused { status, detail: detail() },
            500..=599 => Failure::Failed { status, detail: detail() },
            _ => Failure::Unexpected(format!("status {status}")),
        })
    }

    /// Returns the text of a header, if it is present.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the `Retry-After`, at most ten minutes: a wrong number would delay a revocation for ever.
    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.header("retry-after").and_then(|seconds| seconds.parse().ok());
        seconds.map(|seconds: u64| Duration::from_secs(seconds.min(600)))
    }

    /// Reads the answer as JSON. An unexpected answer is not shown, because it may contain a secret.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Failure::Unexpected(format!("not the expected JSON, at {line}:{column}"))
        })
    }
}

/// Returns the text of `{"errors":[{"code","message"}]}`, the format of Harbor and registries.
fn explanation(body: &[u8], secrets: &[&str]) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &body["errors"][0];
    let part = |name: &str| error[name].as_str().unwrap_or_default();
    let text = fit(format!("{} {}", part("code"), part("message")).trim(), secrets);
    if text.is_empty() { "without an explanation".to_owned() } else { text }
}

/// The class of an exchange without an answer: before anything was sent it is harmless.
pub(crate) fn lost(error: &reqwest::Error) -> Failure {
    if error.is_builder() {
        Failure::Setup(innermost(error))
    } else if error.is_connect() {
        Failure::Unreachable(innermost(error))
    } else if error.is_timeout() {
        Failure::Ambiguous("not in time".to_owned())
    } else {
        Failure::Ambiguous(innermost(error))
    }
}

/// Returns the innermost cause: the outer ones only add the URL.
fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the connection failed".to_owned() };
    while let Some(source) = cause.source() {
        cause = source;
    }
    fit(&cause.to_string(), &[])
}
