//! Kubernetes: objects of any kind, as JSON, applied under one field manager, read, listed, watched and deleted.
//!
//! It retries nothing, except that a watch continues after failures. Objects are plain JSON as the API server
//! sends it: no field is dropped, renamed or defaulted.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, Request};
use serde_json::Value;

use crate::Failure;

mod call;
mod connect;
mod kind;
mod watch;

pub use kind::{Kind, Target};
pub use watch::{Change, Watched};

use call::{Reply, built};
use kind::Resource;

/// The objects of one page of a list.
const PAGE: u32 = 500;

/// How often a list is begun again because its pages expired.
const BEGINNINGS: u32 = 3;

/// The origin of the address and the credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `KUBECONFIG`, then `~/.kube/config`, then the service account of the pod.
    Environment,
    /// This kubeconfig file and its current context.
    File(PathBuf),
}

/// The cluster to use and the manager to act as.
#[derive(Debug, Clone)]
pub struct Options {
    /// The origin of the address and the credentials.
    pub source: Source,
    /// The field manager that owns applied fields.
    pub manager: String,
    /// How long an answer may take; half a minute when absent.
    pub timeout: Option<Duration>,
    /// How long the server keeps one watch open; a minute when absent. A watch without a sign of life for longer is
    /// opened again.
    pub watch: Option<Duration>,
}

/// A client of one Kubernetes cluster; clones share its connections.
#[derive(Clone)]
pub struct Kubernetes {
    client: kube::Client,
    manager: String,
    timeout: Duration,
    watch: Duration,
    /// The kinds that were looked up; kinds that were absent are asked for again.
    kinds: Arc<Mutex<BTreeMap<Kind, Resource>>>,
}

impl fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubernetes").field("manager", &self.manager).finish_non_exhaustive()
    }
}

/// The deletion of objects that an object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Propagation {
    /// The object is deleted at once, owned objects later.
    #[default]
    Background,
    /// The object is deleted after its owned objects.
    Foreground,
    /// Owned objects stay.
    Orphan,
}

/// The result of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum Removal {
    /// The object is gone, or never was.
    Gone,
    /// The object is marked as deleted, and waits for its finalizers or for objects that it owns.
    Ending(Value),
}

impl Kubernetes {
    /// Reads the configuration and makes a client; nothing is sent yet.
    ///
    /// # Errors
    /// [`Failure::Setup`] when there is no configuration, or it cannot be used.
    pub async fn new(options: Options) -> Result<Self, Failure> {
        let client = connect::client(&options.source).await?;
        Ok(Self {
            client,
            manager: options.manager,
            timeout: options.timeout.unwrap_or(call::ANSWER),
            watch: options.watch.unwrap_or(watch::LENGTH),
            kinds: Arc::default(),
        })
    }

    /// Returns the version of the server, such as `v1.36.4`.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn version(&self) -> Result<String, Failure> {
        let request = built(Request::new("").get("version", &GetParams::default()))?;
        let version = self.send(request).await?.expect_success()?.json()?;
        Ok(version["gitVersion"].as_str().unwrap_or_default().to_owned())
    }

    /// Applies an object: its fields become those of this manager, also where another manager owned them, and fields
    /// that this manager applied before and left out now go. Repeating it changes nothing more.
    ///
    /// A namespaced object without a namespace goes into that of the configuration.
    ///
    /// # Errors
    /// [`Failure::Setup`] when the object has no `apiVersion`, `kind` or `metadata.name`; [`Failure::Refused`] with 404
    /// when its namespace or its kind is absent, with 403 also when its namespace ends, and with 422 or 500 when its
    /// schema forbids it; else see [`Failure`].
    pub async fn apply(&self, object: &Value) -> Result<Value, Failure> {
        let target = Target::of(object)?;
        let (resource, name) = self.locate(&target).await?;
        let parameters = PatchParams::apply(&self.manager).force();
        let request = built(resource.patch(&name, &parameters, &Patch::Apply(object)))?;
        let reply = self.send(request).await?;
        reply.expect_parent()?.json()
    }

    /// Reads an object.
    ///
    /// # Errors
    /// [`Failure::NotFound`] when there is none, [`Failure::Refused`] with 404 when its kind is absent; else see [`Failure`].
    pub async fn get(&self, target: &Target) -> Result<Value, Failure> {
        let (resource, name) = self.locate(target).await?;
        let request = built(resource.get(&name, &GetParams::default()))?;
        self.send(request).await?.expect_success()?.json()
    }

    /// Lists the objects of a kind, of one namespace or of all; an empty selector selects all of them.
    ///
    /// # Errors
    /// [`Failure::Refused`] with 400 when the selector is wrong, with 404 when the kind is absent; else see [`Failure`].
    pub async fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, Failure> {
        let watched = Watched {
            kind: kind.clone(),
            namespace: namespace.map(str::to_owned),
            selector: selector.to_owned(),
        };
        Ok(self.list_at(&watched).await?.0)
    }

    /// Deletes an object; a missing one counts as success.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn delete(&self, target: &Target, propagation: Propagation) -> Result<Removal, Failure> {
        let (resource, name) = self.locate(target).await?;
        let parameters = match propagation {
            Propagation::Background => DeleteParams::background(),
            Propagation::Foreground => DeleteParams::foreground(),
            Propagation::Orphan => DeleteParams::orphan(),
        };
        let request = built(resource.delete(&name, &parameters))?;
        let answer = match self.send(request).await?.expect_success() {
            Ok(reply) => reply.json()?,
            Err(Failure::NotFound) => return Ok(Removal::Gone),
            Err(failure) => return Err(failure),
        };
        // The server answers with a `Status` if the object is deleted, otherwise with the remaining object.
        let is_ending = answer["metadata"]["deletionTimestamp"].is_string();
        Ok(if is_ending { Removal::Ending(answer) } else { Removal::Gone })
    }

    /// Returns the path and the encoded name of an object.
    async fn locate(&self, target: &Target) -> Result<(Request, String), Failure> {
        let resource = self.resource(&target.kind).await?;
        let namespace = target.namespace.as_deref().unwrap_or(self.client.default_namespace());
        Ok((resource.within(Some(namespace))?, kind::segment("metadata.name", &target.name)?))
    }

    /// Lists all pages, with the resource version that a watch goes on from.
    async fn list_at(&self, watched: &Watched) -> Result<(Vec<Value>, String), Failure> {
        let resource = self.resource(&watched.kind).await?.within(watched.namespace.as_deref())?;
        let mut parameters = ListParams::default().labels(&watched.selector).limit(PAGE);
        let mut items = Vec::new();
        let mut begun = 1;
        loop {
            let reply = self.send(built(resource.list(&parameters))?).await?;
            if reply.is_expired() && begun < BEGINNINGS {
                begun += 1;
                items.clear();
                parameters.continue_token = None;
                continue;
            }
            let mut page = reply.expect_parent()?.json()?;
            let Value::Array(found) = page["items"].take() else {
                return Err(Failure::Unexpected("a list without `items`".to_owned()));
            };
            items.extend(found.into_iter().map(|item| watched.kind.complete(item)));
            match page["metadata"]["continue"].as_str() {
                Some(next) if !next.is_empty() => parameters = parameters.continue_token(next),
                _ => {
                    let version = page["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                    return Ok((items, version.to_owned()));
                }
            }
        }
    }

    async fn send(&self, request: call::HttpRequest) -> Result<Reply, Failure> {
        call::send(&self.client, request, self.timeout).await
    }
}
