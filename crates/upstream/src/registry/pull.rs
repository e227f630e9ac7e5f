//! Pulling from a registry, for a server that passes the answer on as it comes.
//!
//! Credentials go to the registry and to the token server it names, never to a place it redirects to.

use reqwest::{
    Body, Method, Response, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE},
};

use super::{auth, client::Registry};
use crate::{Failure, exchange};

/// How often an answer may lead elsewhere: registries keep the parts of images in other places.
const MOST_REDIRECTS: usize = 5;

/// A part of a repository that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The manifest with a tag or digest.
    Manifest(&'a str),
    /// The blob with a digest.
    Blob(&'a str),
}

/// The answer of a registry, whose body has not been read.
#[derive(Debug)]
pub struct Pulled(Response);

impl Pulled {
    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The status: 200, 206, 304 or 416.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// The body, as it comes.
    #[must_use]
    pub fn into_body(self) -> Body {
        self.0.into()
    }
}

impl Registry {
    /// Asks for a part of a repository, with GET or HEAD; the time limit is the caller's.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn pull(
        &self,
        repository: &str,
        part: Part<'_>,
        method: Method,
        headers: HeaderMap,
    ) -> Result<Pulled, Failure> {
        let mut url = match part {
            Part::Manifest(reference) => self.url(repository, &["manifests", reference]),
            Part::Blob(digest) => self.url(repository, &["blobs", digest]),
        };
        let mut authorization: Option<HeaderValue> = None;
        let mut redirects = 0;
        loop {
            let is_ours = url.origin() == self.base.origin();
            let mut request = self.http.request(method.clone(), url.clone()).headers(headers.clone());
            if let Some(value) = authorization.as_ref().filter(|_| is_ours) {
                request = request.header(AUTHORIZATION, value);
            }
            let response = request.send().await.map_err(|error| exchange::lost(&error))?;
            match response.status().as_u16() {
                200 | 206 | 304 | 416 => return Ok(Pulled(response)),
                401 if is_ours && authorization.is_none() => {
                    let challenge =
                        response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
                    authorization = Some(auth::answer(self, challenge, (repository, "pull")).await?);
                }
                301 | 302 | 303 | 307 | 308 if redirects < MOST_REDIRECTS => {
                    redirects += 1;
                    url = self.redirected(&url, &response)?;
                }
                status => return Err(refused(status)),
            }
        }
    }

    /// Where an answer leads: never to a place with less protection than the registry has.
    fn redirected(&self, from: &Url, response: &Response) -> Result<Url, Failure> {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let target = location.and_then(|location| from.join(location).ok());
        target
            .filter(|url| url.scheme() == "https" || url.scheme() == self.base.scheme())
            .ok_or_else(|| Failure::Unexpected("it redirects to an unusable URL".to_owned()))
    }
}

/// The class of a refusal. The body is not read: it may be long, and is not for the caller.
fn refused(status: u16) -> Failure {
    match status {
        404 => Failure::NotFound,
        429 => Failure::Busy { after: None },
        401 | 403 => Failure::Refused { status, detail: "the credentials are not accepted".to_owned() },
        300..=499 => Failure::Refused { status, detail: "without an explanation".to_owned() },
        500..=599 => Failure::Failed { status, detail: "without an explanation".to_owned() },
        _ => Failure::Unexpected(format!("status {status}")),
    }
}
