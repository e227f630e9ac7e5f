//! One request to a BMC: built, sent, and its answer put into a class.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Client, Method, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH},
};
use serde_json::Value;

use super::{Class, Error, Password, Trust, trust};
use crate::{
    Gate, gate,
    reply::{self, Cut},
};

/// Where a BMC is and how to speak with it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address, such as `https://10.0.0.9`.
    pub url: String,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Password,
    /// How the BMC proves its identity.
    pub trust: Trust,
    /// The longest that one call may take.
    pub timeout: Duration,
    /// Where the password may be sent.
    pub gate: Gate,
}

/// A client of one BMC. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Redfish {
    client: Client,
    base: Url,
    authorization: HeaderValue,
}

/// A request to the BMC, and whether it is idempotent.
pub(super) struct Op(pub(super) &'static str, pub(super) bool);

/// An answer, and the version of the resource it shows.
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    pub(super) etag: Option<HeaderValue>,
}

const CONNECT: Duration = Duration::from_secs(5);
const MOST: usize = 4 << 20;
const MOST_OF_A_REFUSAL: usize = 64 << 10;
const LATER: Duration = Duration::from_secs(5);

impl Redfish {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// When the address, the password or the certificates cannot be used; the text names the reason.
    pub fn new(settings: Settings) -> Result<Self, String> {
        let base = Url::parse(&settings.url).map_err(|error| format!("the address of the BMC: {error}"))?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err("the address of the BMC must begin with https:// and name a host".to_owned());
        }
        if base.scheme() == "http" && settings.trust != Trust::Insecure {
            return Err(
                "without TLS any machine on the way can read the password; use https://, or allow plain HTTP for this BMC"
                    .to_owned(),
            );
        }
        settings.gate.check(&settings.url).map_err(|refused| refused.to_string())?;
        // No proxy: it would resolve the name itself, past the gate.
        let mut builder = Client::builder()
            .no_proxy()
            .dns_resolver(Arc::new(settings.gate.clone()))
            .connect_timeout(CONNECT)
            .timeout(settings.timeout)
            .redirect(reqwest::redirect::Policy::none());
        builder = match &settings.trust {
            Trust::System => builder,
            Trust::Authorities(pem) => {
                let trusted = reqwest::Certificate::from_pem_bundle(pem).map_err(reply::why)?;
                if trusted.is_empty() {
                    return Err("the file of trusted certificates has none".to_owned());
                }
                builder.tls_certs_only(trusted)
            }
            Trust::Fingerprint(pin) => builder.tls_backend_preconfigured(trust::tls(Some(*pin))?),
            Trust::Insecure => builder.tls_backend_preconfigured(trust::tls(None)?),
        };
        let login = BASE64_STANDARD.encode(format!("{}:{}", settings.user, settings.password.0));
        let mut authorization = HeaderValue::try_from(format!("Basic {login}"))
            .map_err(|_| "user and password cannot be sent in a header".to_owned())?;
        authorization.set_sensitive(true);
        Ok(Self { client: builder.build().map_err(reply::why)?, base, authorization })
    }

    /// Sends one request and answers with the body of a success.
    pub(super) async fn call(
        &self,
        op: &Op,
        method: Method,
        path: &str,
        body: Option<&Value>,
        version: Option<&HeaderValue>,
    ) -> Result<Answer, Error> {
        let error = |class| Error { op: op.0, harmless: op.1, class };
        let url = self.url(path).ok_or_else(|| {
            error(Class::Unreadable("the BMC refers to a path outside of its Redfish tree".to_owned()))
        })?;
        let mut request = self.client.request(method, url).header(AUTHORIZATION, self.authorization.clone());
        if let Some(version) = version {
            request = request.header(IF_MATCH, version);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let response = request.send().await.map_err(|cause| error(unsent_or_lost(cause)))?;
        if !response.status().is_success() {
            return Err(error(refusal(response).await));
        }
        let etag = response.headers().get(ETAG).cloned();
        let body = reply::body(response, MOST).await.map_err(|cut| {
            error(match cut {
                Cut::Broken(why) => Class::Ambiguous(why),
                Cut::TooLarge => Class::Unreadable(format!("more than {MOST} bytes")),
            })
        })?;
        Ok(Answer { body, etag })
    }

    /// A path in the tree of this BMC and nowhere else: the password goes along.
    fn url(&self, path: &str) -> Option<Url> {
        let url = self.base.join(path).ok()?;
        let home = url.origin() == self.base.origin() && url.path().starts_with("/redfish/");
        (home && path.starts_with('/')).then_some(url)
    }
}

fn unsent_or_lost(cause: reqwest::Error) -> Class {
    if let Some(why) = gate::refused(&cause) {
        return Class::Elsewhere(why);
    }
    let untrusted = is_untrusted(&cause);
    let unsent = cause.is_connect() || cause.is_builder();
    let why = reply::why(cause);
    match (untrusted, unsent) {
        (true, _) => Class::Untrusted(why),
        (false, true) => Class::Unreachable(why),
        (false, false) => Class::Ambiguous(why),
    }
}

/// Whether it was the certificate that ended a connection.
fn is_untrusted(error: &reqwest::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        if matches!(found.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        // An I/O error reports the cause of its inner error, not the inner error itself.
        let wrapped = found.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => found.source(),
        };
    }
    false
}

async fn refusal(response: Response) -> Class {
    let status = response.status().as_u16();
    if status == 401 {
        return Class::Credentials;
    }
    let after = reply::retry_after(&response).and_then(|text| text.parse().ok());
    let body = reply::body(response, MOST_OF_A_REFUSAL).await.unwrap_or_default();
    let said = reply::explanation(said(&body).as_deref());
    match status {
        403 => Class::Forbidden(said),
        404 => Class::Gone,
        429 | 503 => Class::Busy { after: after.map_or(LATER, reply::later) },
        501 | 505 => Class::Refused { status, said },
        500.. => Class::Ambiguous(format!("it answered {status}: {said}")),
        _ => Class::Refused { status, said },
    }
}

/// Returns the messages of a Redfish error.
fn said(body: &[u8]) -> Option<String> {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &error["error"];
    let extended = error["@Message.ExtendedInfo"].as_array().into_iter().flatten();
    let messages: Vec<_> = extended.filter_map(|message| message["Message"].as_str()).collect();
    if messages.is_empty() { error["message"].as_str().map(str::to_owned) } else { Some(messages.join(" ")) }
}
