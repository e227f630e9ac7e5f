//! Pushing images to a registry, and removing them.
//!
//! Everything here is idempotent: parts are named by their digest, and a tag moves to the last pushed image.

use std::{collections::BTreeSet, fmt, time::Duration};

use reqwest::{
    Method, RequestBuilder, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};

use super::{
    artifact::{Artifact, Blob, MANIFEST},
    auth,
};
use crate::{
    Failure, Secret,
    exchange::{self, Reply},
};

/// The account to push with.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user or robot.
    pub username: String,
    /// Its password.
    pub password: Secret,
}

/// The address of the registry and the account to push with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Such as `https://registry.example`.
    pub url: String,
    /// The account to push with; anonymous when absent.
    pub credentials: Option<Credentials>,
    /// The only certificates to trust, as PEM; the system's when absent.
    pub certificates: Option<Vec<u8>>,
    /// How long each answer may take; half a minute when absent.
    pub timeout: Option<Duration>,
}

/// A client of one registry.
#[derive(Clone)]
pub struct Registry {
    pub(super) http: reqwest::Client,
    pub(super) base: Url,
    pub(super) credentials: Option<Credentials>,
    pub(super) timeout: Duration,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// The result of deleting a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// So many images were removed, or all there were.
    All(usize),
    /// The registry does not let anything be removed.
    Unsupported,
}

/// Tags that one page of a list is asked for.
const PAGE: usize = 100;

/// Images that are removed after a push.
const MOST_AT_ONCE: usize = 20;

/// The most foreign tags in a repository that is searched for old images: each one costs a request.
const MOST_OF_OTHERS: usize = 100;

/// The tag that readers ask for.
const LATEST: &str = "latest";

impl Registry {
    /// Makes a client; nothing is sent yet.
    ///
    /// # Errors
    /// [`Failure::Setup`] when an option cannot be used.
    pub fn new(options: Options) -> Result<Self, Failure> {
        let base = exchange::base(&options.url)?;
        let http = exchange::client(&base, options.certificates.as_deref())?;
        let timeout = options.timeout.unwrap_or(exchange::ANSWER);
        Ok(Self { http, base, credentials: options.credentials, timeout })
    }

    /// The same client with other credentials.
    #[must_use]
    pub fn with(&self, credentials: Option<Credentials>) -> Self {
        Self { credentials, ..self.clone() }
    }

    /// The address of a part of a repository.
    pub(super) fn url(&self, repository: &str, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v2").extend(repository.split('/')).extend(path);
        }
        url
    }

    /// Uploads the parts of an image, which is invisible until it is tagged. Idempotent.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn upload<'a>(
        &'a self,
        repository: &'a str,
        image: &'a Artifact,
    ) -> Result<Uploaded<'a>, Failure> {
        let mut session = Session::new(self, repository);
        for blob in [&image.layer, &image.config] {
            session.upload(blob).await?;
        }
        Ok(Uploaded { session, manifest: &image.manifest })
    }

    /// Returns the digest of a tag, if the tag exists.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn digest(&self, repository: &str, tag: &str) -> Result<Option<String>, Failure> {
        Session::new(self, repository).digest(tag).await
    }

    /// Returns whether a repository can be read without credentials.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn is_public(&self, repository: &str) -> Result<bool, Failure> {
        let anybody = self.with(None);
        match anybody.digest(repository, LATEST).await {
            // A caller that gets 404 could read the repository if it existed.
            Ok(_) => Ok(true),
            Err(failure) if failure.is_denied() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Removes every tagged image of a repository. A missing repository counts as success.
    ///
    /// # Errors
    /// See [`Failure`]; some images may be gone, and doing it again goes on with the rest.
    pub async fn delete(&self, repository: &str) -> Result<Deleted, Failure> {
        Session::new(self, repository).remove_all().await
    }

    /// Removes images pushed before the one with this digest, some at a time, because they may contain secrets.
    /// Foreign tags stay with their images; if there are many of them, all images stay.
    ///
    /// # Errors
    /// See [`Failure`]; doing it again goes on with the rest.
    pub async fn prune(&self, repository: &str, digest: &str) -> Result<Deleted, Failure> {
        Session::new(self, repository).prune(digest).await
    }
}

/// An image whose parts are all uploaded.
pub struct Uploaded<'a> {
    session: Session<'a>,
    manifest: &'a Blob,
}

impl Uploaded<'_> {
    /// Tags it with `time` (seconds since 1970), then as `latest`, in this order. Doing it again does no harm.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn tag(&self, time: i64) -> Result<(), Failure> {
        let mut session = self.session.clone();
        for tag in [&time.to_string(), LATEST] {
            session.tag(tag, self.manifest).await?;
        }
        Ok(())
    }
}

/// A few exchanges about one repository, with the authorization that the first of them earned.
#[derive(Clone)]
struct Session<'a> {
    registry: &'a Registry,
    repository: &'a str,
    authorization: Option<HeaderValue>,
}

impl<'a> Session<'a> {
    fn new(registry: &'a Registry, repository: &'a str) -> Self {
        Self { registry, repository, authorization: None }
    }

    /// Uploads a blob, unless it exists.
    async fn upload(&mut self, blob: &Blob) -> Result<(), Failure> {
        let path = ["blobs", blob.digest.as_str()];
        let there = self.call(Method::HEAD, &path, |request| request, &[200, 404]).await?;
        if there.status == 200 {
            return Ok(());
        }
        let begun = self.call(Method::POST, &["blobs", "uploads", ""], |request| request, &[202]).await?;
        let mut url = self.location(&begun)?;
        url.query_pairs_mut().append_pair("digest", &blob.digest);
        let put = |request: RequestBuilder| {
            request.header(CONTENT_TYPE, "application/octet-stream").body(blob.bytes.clone())
        };
        let stored = self.send(Method::PUT, url, put, &[201]).await?;
        same_digest(&stored, &blob.digest)
    }

    async fn tag(&mut self, tag: &str, manifest: &Blob) -> Result<(), Failure> {
        let put = |request: RequestBuilder| {
            request.header(CONTENT_TYPE, manifest.media_type).body(manifest.bytes.clone())
        };
        let stored = self.call(Method::PUT, &["manifests", tag], put, &[201]).await?;
        same_digest(&stored, &manifest.digest)
    }

    async fn digest(&mut self, tag: &str) -> Result<Option<String>, Failure> {
        let accept = |request: RequestBuilder| {
            request
                .header(ACCEPT, MANIFEST)
                .header(ACCEPT, "application/vnd.oci.image.manifest.v1+json")
                .header(ACCEPT, "application/vnd.oci.image.index.v1+json")
        };
        let reply = self.call(Method::HEAD, &["manifests", tag], accept, &[200, 404]).await?;
        if reply.status == 404 {
            return Ok(None);
        }
        let digest = reply.header("docker-content-digest").map(str::to_owned);
        digest.map(Some).ok_or_else(|| Failure::Unexpected("a manifest without a digest".to_owned()))
    }

    /// Page by page, so that finished pages count if the rest runs out of time.
    async fn remove_all(&mut self) -> Result<Deleted, Failure> {
        let (mut removed, mut last) = (0, None);
        loop {
            let (tags, goes_on) = self.tags(last.as_deref()).await?;
            let next = tags.last().cloned();
            for tag in tags {
                // Nothing there: it went with an image that had this tag as well.
                let Some(digest) = self.digest(&tag).await? else { continue };
                if !self.remove(&digest).await? {
                    return Ok(Deleted::Unsupported);
                }
                removed += 1;
            }
            // A registry that returns the same page again has no more.
            if !goes_on || next <= last {
                return Ok(Deleted::All(removed));
            }
            last = next;
        }
    }

    /// Deleting an image deletes all its tags, so an image with a foreign tag stays, with our tags on it.
    async fn prune(&mut self, newest: &str) -> Result<Deleted, Failure> {
        let (ours, others): (Vec<_>, Vec<_>) =
            self.all_tags().await?.into_iter().partition(|tag| is_time(tag));
        if others.len() > MOST_OF_OTHERS {
            return Ok(Deleted::All(0));
        }
        let mut kept = BTreeSet::from([newest.to_owned()]);
        for tag in &others {
            kept.extend(self.digest(tag).await?);
        }
        let mut removed = 0;
        for tag in &ours {
            // Nothing there: it went with an image that had this tag as well.
            let Some(digest) = self.digest(tag).await?.filter(|digest| !kept.contains(digest)) else {
                continue;
            };
            if !self.remove(&digest).await? {
                return Ok(Deleted::Unsupported);
            }
            removed += 1;
            if removed == MOST_AT_ONCE {
                break;
            }
        }
        Ok(Deleted::All(removed))
    }

    async fn all_tags(&mut self) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        loop {
            let (tags, goes_on) = self.tags(all.last().map(String::as_str)).await?;
            // A registry that returns the same page again has no more.
            let is_new = tags.last() > all.last();
            if is_new {
                all.extend(tags);
            }
            if !goes_on || !is_new {
                return Ok(all);
            }
        }
    }

    /// Removes an image; false where the registry does not let anything be removed.
    async fn remove(&mut self, digest: &str) -> Result<bool, Failure> {
        let path = ["manifests", digest];
        let reply = self.call(Method::DELETE, &path, |request| request, &[200, 202, 404, 405]).await?;
        Ok(reply.status != 405)
    }

    /// A page of tags in their order, and whether there are more.
    async fn tags(&mut self, last: Option<&str>) -> Result<(Vec<String>, bool), Failure> {
        #[derive(serde::Deserialize)]
        struct Answer {
            tags: Option<Vec<String>>,
        }
        let mut url = self.url(&["tags", "list"]);
        url.query_pairs_mut().append_pair("n", &PAGE.to_string());
        if let Some(last) = last {
            url.query_pairs_mut().append_pair("last", last);
        }
        let reply = self.send(Method::GET, url, |request| request, &[200, 404]).await?;
        if reply.status == 404 {
            return Ok((Vec::new(), false));
        }
        let goes_on = reply.header("link").is_some();
        Ok((reply.json::<Answer>()?.tags.unwrap_or_default(), goes_on))
    }

    fn url(&self, path: &[&str]) -> Url {
        self.registry.url(self.repository, path)
    }

    /// The URL to continue an upload: usually the same host, and never one without TLS.
    fn location(&self, reply: &Reply) -> Result<Url, Failure> {
        let base = &self.registry.base;
        let location = reply.header("location").and_then(|location| base.join(location).ok());
        location
            .filter(|url| url.scheme() == base.scheme() || url.scheme() == "https")
            .ok_or_else(|| Failure::Unexpected("no usable URL for the upload".to_owned()))
    }

    async fn call(
        &mut self,
        method: Method,
        path: &[&str],
        with: impl Fn(RequestBuilder) -> RequestBuilder,
        expected: &[u16],
    ) -> Result<Reply, Failure> {
        let url = self.url(path);
        self.send(method, url, with, expected).await
    }

    /// Sends a request, and sends it again with credentials if the registry demands them.
    async fn send(
        &mut self,
        method: Method,
        url: Url,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
        expected: &[u16],
    ) -> Result<Reply, Failure> {
        let is_ours = url.origin() == self.registry.base.origin();
        let hidden = self.registry.credentials.as_ref().map_or("", |known| known.password.expose());
        let mut asked = false;
        loop {
            let mut request = with(self.registry.http.request(method.clone(), url.clone()));
            if let Some(value) = self.authorization.as_ref().filter(|_| is_ours) {
                request = request.header(AUTHORIZATION, value);
            }
            let reply = exchange::send(request, self.registry.timeout).await?;
            if reply.status != 401 || asked || !is_ours {
                return reply.expect(expected, &[hidden]);
            }
            asked = true;
            let challenge = reply.header("www-authenticate");
            // All actions at once: a token for the first request alone would not suffice for the next.
            let wanted = (self.repository, "pull,push,delete");
            self.authorization = Some(auth::answer(self.registry, challenge, wanted).await?);
        }
    }
}

/// Whether a tag is the time of a push.
fn is_time(tag: &str) -> bool {
    tag.bytes().all(|byte| byte.is_ascii_digit())
}

fn same_digest(reply: &Reply, expected: &str) -> Result<(), Failure> {
    match reply.header("docker-content-digest") {
        Some(digest) if digest != expected => {
            Err(Failure::Unexpected(format!("stored with the digest {digest} instead of {expected}")))
        }
        _ => Ok(()),
    }
}
