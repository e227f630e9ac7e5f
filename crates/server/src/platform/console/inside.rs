//! Calls of the API from inside the server, with the rights of the caller of a page.
//!
//! A page has no way to data but these calls, so that roles, scopes, limits, history and refusals are those of the API.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    http::{Method, StatusCode, header},
    response::Response,
};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::Service as _;
use wardroom_api::{Envelope, Problem};
use wardroom_console::form;
use wardroom_store::Condition;

use crate::platform::{
    app::App,
    http::{
        error::Error,
        idempotency::{self, ShownOnce},
        listen::Peer,
    },
    identity::auth::{Caller, Principal},
};

/// The caller of a request from inside. Only the server can attach it to a request.
#[derive(Clone)]
pub(crate) struct Inside(pub(crate) Principal);

/// The API for one caller.
pub(crate) struct Api<'a> {
    pub(crate) app: &'a App,
    pub(crate) router: &'a Router,
    pub(crate) caller: &'a Caller,
}

/// What was read; nothing where the caller may not read it, or where there is nothing. A failure of the server, or a limit, is
/// kept, so that the page says why a part of it is missing.
pub(super) fn optional<T>(read: Result<T, Problem>, unread: &mut Vec<Problem>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(problem) => {
            if problem.status == 429 || problem.status >= 500 {
                unread.push(problem);
            }
            None
        }
    }
}

/// A change to ask for.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) body: Option<Value>,
    /// Makes the change once, however often it is asked for.
    pub(crate) once: Option<&'a str>,
    /// The condition of its commit; such a request is a part of one that was counted.
    pub(crate) condition: Option<Arc<Condition>>,
}

/// The condition under which a request that the server sends to its own API may commit.
#[derive(Clone)]
pub(crate) struct Conditional(pub(crate) Arc<Condition>);

impl Api<'_> {
    /// Reads what is at a path.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Problem> {
        let path = format!("{path}{}", form::query(query.iter().copied()));
        Ok(self.call(Request::get(path).body(Body::empty()), None).await?.0)
    }

    /// Reads an object of a type.
    pub(crate) async fn one<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Problem> {
        let envelope: Envelope<T> = self.read(path, query).await?;
        Ok(envelope.data)
    }

    /// Reads an answer of a type.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Problem> {
        let value = self.get(path, query).await?;
        serde_json::from_value(value).map_err(|error| {
            tracing::error!(%error, path, "an answer of the API is not of its type");
            self.problem(&Error::Internal)
        })
    }

    /// Asks for a change.
    pub(crate) async fn ask(&self, asked: Asked<'_>) -> Result<Value, Problem> {
        Ok(self.ask_once(asked).await?.0)
    }

    /// The same, with whether the answer has a secret that is shown once.
    pub(crate) async fn ask_once(&self, asked: Asked<'_>) -> Result<(Value, bool), Problem> {
        let method = Method::from_bytes(asked.method.as_bytes()).map_err(|_| self.problem(&Error::Method))?;
        let mut request = Request::builder().method(&method).uri(asked.path);
        if let Some(once) = asked.once.filter(|_| method == Method::POST) {
            request = request.header(idempotency::KEY, once);
        }
        let body = match asked.body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.call(request.body(body), asked.condition).await
    }

    /// The problem that a refusal is shown as.
    pub(crate) fn problem(&self, error: &Error) -> Problem {
        error.problem(self.app.kinds, &self.caller.request_id)
    }

    async fn call(
        &self,
        request: Result<Request, axum::http::Error>,
        condition: Option<Arc<Condition>>,
    ) -> Result<(Value, bool), Problem> {
        let mut request = request.map_err(|_| self.problem(&Error::NoRoute))?;
        let extensions = request.extensions_mut();
        extensions.insert(Inside(self.caller.principal.clone()));
        extensions.insert(Arc::clone(&self.caller.request_id));
        extensions.insert(ConnectInfo(Peer((self.caller.address, 0).into())));
        if let Some(condition) = condition {
            extensions.insert(Conditional(condition));
        }
        let Ok(response) = self.router.clone().call(request).await;
        if let Some(error) = response.extensions().get::<Error>() {
            return Err(self.problem(error));
        }
        let is_secret = response.extensions().get::<ShownOnce>().is_some();
        Ok((self.value(response).await?, is_secret))
    }

    async fn value(&self, response: Response) -> Result<Value, Problem> {
        let status = response.status();
        let internal = |_| self.problem(&Error::Internal);
        let bytes = response.into_body().collect().await.map_err(internal)?.to_bytes();
        if status == StatusCode::NO_CONTENT || bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| self.problem(&Error::Internal))
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, optional};

    #[test]
    fn a_failure_is_kept_and_a_missing_right_is_not() {
        let kept = |error: Error| {
            let mut unread = Vec::new();
            assert!(optional(Err::<(), _>(error.problem(&[], "request")), &mut unread).is_none());
            unread.len()
        };
        assert_eq!([Error::Forbidden(String::new()), Error::NoRoute].map(kept), [0, 0]);
        assert_eq!([Error::Unavailable("busy: retry"), Error::Internal].map(kept), [1, 1]);
        assert_eq!(optional(Ok(1), &mut Vec::new()), Some(1));
    }
}
