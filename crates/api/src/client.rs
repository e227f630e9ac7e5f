//! A typed client of the HTTP API: one method for each call.
//!
//! It repeats nothing by itself: only the caller knows whether a repeat helps. A `POST` carries an idempotency key, so
//! that a proxy that repeats one does no harm. Redirects are not followed, since the token would go along.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use reqwest::{
    Certificate, ClientBuilder, Method, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
    redirect::Policy,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Envelope, Page, Problem};

mod adapter;
mod attention;
mod bulk;
mod cluster;
mod device;
mod error;
mod explain;
mod feed;
mod find;
mod fleet;
mod gpu_node;
mod incident;
mod install;
mod node;
mod query;
mod rehearsal;
mod run;
mod satellite;
mod satellite_config;
mod satellite_group;
mod site;
mod token;

// Not of people.
mod device_agent;
mod node_agent;
mod satellite_agent;

pub use bulk::MEMBER;
pub use cluster::ClusterQuery;
pub use error::{Error, NO_ROUTE};
pub use explain::{Blocker, Brief, Exit, Explained, Next, Step, Summary, Why};
pub use feed::{Feed, HistoryQuery};
pub use query::Query;
pub use rehearsal::Unsent;
pub use run::RunQuery;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// The default time limit for an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// How long the server may be silent; it breaks the silence of a feed far more often.
const SILENCE: Duration = Duration::from_secs(45);

/// Below which everything is found.
const VERSIONED: &[&str] = &["api", "v1"];

/// Paths around satellites have no version: they are those of the satellite project.
const UNVERSIONED: &[&str] = &["api"];

/// The address of the server and the credentials.
#[derive(Clone, Default)]
pub struct Options {
    /// The URL of the server, such as `http://127.0.0.1:8440`.
    pub server: String,
    /// The secret of an API token.
    pub token: Option<String>,
    /// The only certificates to trust, as PEM; the system's when absent.
    pub certificates: Option<Vec<u8>>,
    /// How long an answer may take; a minute when absent. A feed has no end.
    pub timeout: Option<Duration>,
    /// Called with each warning of the server: what was done, and will not do what may be expected.
    pub warned: Option<fn(&str)>,
}

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    root: &'static [&'static str],
    timeout: Duration,
    warned: Option<fn(&str)>,
    /// Whether changes are kept back.
    rehearses: bool,
    /// The versions at which members are changed.
    versions: Option<Arc<HashMap<String, i64>>>,
}

/// The token is in it, so nothing of it is printed but the address.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a client; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Setup`] when an option cannot be used.
    pub fn new(options: &Options) -> Result<Self, Error> {
        Self::build(options, |builder| builder)
    }

    fn build(options: &Options, finish: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<Self, Error> {
        let base = base(&options.server)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(Policy::none())
            .user_agent(concat!("wardroom/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(options.token.as_deref())?);
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        if let Some(pem) = &options.certificates {
            let certificates = Certificate::from_pem_bundle(pem)
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .ok_or_else(|| Error::Setup("the CA file holds no PEM certificate".to_owned()))?;
            builder = builder.tls_certs_only(certificates);
        }
        let http = finish(builder).build().map_err(|error| Error::Setup(error::chain(&error)))?;
        Ok(Self {
            http,
            base,
            root: VERSIONED,
            timeout: options.timeout.unwrap_or(ANSWER),
            warned: options.warned,
            rehearses: false,
            versions: None,
        })
    }

    /// The same client, for the paths around satellites.
    fn unversioned(&self) -> Self {
        Self { root: UNVERSIONED, ..self.clone() }
    }

    /// The address below which everything is asked for.
    fn url(&self, segments: &[&str], query: &[(&str, Option<&str>)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(self.root).extend(segments);
        }
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        url
    }

    async fn get<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<T, Error> {
        self.answer(self.http.get(self.url(segments, query))).await
    }

    /// One page of a list.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Query,
    ) -> Result<Page<T>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        // The field of the state has the word of the kind's document.
        let state = if matches!(segments, ["satellites" | "gpu-nodes", ..]) { "status" } else { "state" };
        let query = [
            (state, query.state.as_deref()),
            ("labelSelector", query.label_selector.as_deref()),
            ("deleted", query.deleted.then_some("true")),
            ("fieldSelector", query.field_selector.as_deref()),
            ("limit", limit.as_deref()),
            ("continue", query.cursor.as_deref()),
        ];
        self.get(segments, &query).await
    }

    /// One object.
    pub(crate) async fn one<T: DeserializeOwned>(&self, segments: &[&str]) -> Result<T, Error> {
        self.get::<Envelope<_>>(segments, &[]).await.map(|answer| answer.data)
    }

    /// An object as it is after a change.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        self.send::<Envelope<_>>(method, segments, body).await.map(|answer| answer.data)
    }

    /// An object as it was when it was deleted.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, segments: &[&str]) -> Result<T, Error> {
        self.check_sent(&Method::DELETE, segments, &())?;
        if let Some(sent) = self.sent_at::<Envelope<T>>(&Method::DELETE, segments, &()).await {
            return sent.map(|answer| answer.data);
        }
        let request = self.http.delete(self.url(segments, &[]));
        self.answer::<Envelope<_>>(request).await.map(|answer| answer.data)
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        self.check_sent(&method, segments, body)?;
        if let Some(sent) = self.sent_at(&method, segments, body).await {
            return sent;
        }
        let is_post = method == Method::POST;
        let mut request = self.http.request(method, self.url(segments, &[])).json(body);
        if is_post {
            request = request.header("idempotency-key", uuid::Uuid::now_v7().to_string());
        }
        self.answer(request).await
    }

    /// Sends a report of an agent, without an idempotency key: such a report can be repeated.
    async fn tell<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        self.answer(self.http.post(self.url(segments, &[])).json(body)).await
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let response = accepted(request.timeout(self.timeout)).await?;
        let status = response.status().as_u16();
        if let (Some(warned), Some(text)) = (self.warned, warning(response.headers())) {
            warned(text);
        }
        let bytes = response.bytes().await.map_err(|error| Error::network(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Unexpected {
            status,
            detail: format!(
                "the answer is not what this version expects ({error}): is this a Wardroom server?"
            ),
        })
    }
}

/// The text of `Warning: 299 - "…"`.
fn warning(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(reqwest::header::WARNING)?.to_str().ok()?;
    text.split_once('"')?.1.strip_suffix('"')
}

fn base(server: &str) -> Result<Url, Error> {
    let wrong = || Error::Setup(format!("{server:?} is not a URL such as http://127.0.0.1:8440"));
    let url: Url = server.parse().map_err(|_| wrong())?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() { Ok(url) } else { Err(wrong()) }
}

/// Returns whether the URL of a server names this machine.
#[must_use]
pub fn is_local(server: &str) -> bool {
    base(server).is_ok_and(|url| is_loopback(&url))
}

/// A server on the same machine is not reached through a proxy.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn headers(token: Option<&str>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value =
            value.map_err(|_| Error::Setup("the token has characters that no token has".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Sends a request; whatever is not a success becomes an error.
async fn accepted(request: RequestBuilder) -> Result<Response, Error> {
    let response = request.send().await.map_err(|error| Error::network(&error))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let (status, asked) = (response.status(), response.url().path().to_owned());
    let bytes = response.bytes().await.map_err(|error| Error::network(&error))?;
    match serde_json::from_slice(&bytes) {
        Ok(problem) => Err(Error::Problem(Box::new(Problem { asked, ..problem }))),
        Err(_) => Err(Error::Unexpected {
            status: status.as_u16(),
            detail: format!("the answer was {status} without an explanation: is this a Wardroom server?"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn only_this_machine_is_local() {
        for server in
            ["http://127.0.0.1:8440", "http://localhost:1/", "https://[::1]:8440", "http://127.0.0.1"]
        {
            assert!(is_local(server), "{server}");
        }
        for server in
            ["http://10.0.0.1:8440", "http://localhost.example:80", "http://localhost:x@example:80", "x"]
        {
            assert!(!is_local(server), "{server}");
        }
    }
}
