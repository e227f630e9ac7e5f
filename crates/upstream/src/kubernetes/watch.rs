//! Watches: every change of some kinds as one stream that continues after failures.
//!
//! A watch lists, then follows from the version of the list. When the server no longer has that version (410), or
//! anything else fails, it lists again and reports only the differences: no change is lost, and an object that vanished
//! meanwhile is reported as deleted.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use kube::api::WatchParams;
use serde_json::Value;
use wardroom_core::backoff::Backoff;

use super::{
    Kind, Kubernetes,
    call::{self, built},
};
use crate::{Failure, failure::fit};

/// The default length of one watch: it bounds how long a connection that died in silence goes unnoticed.
pub(super) const LENGTH: Duration = Duration::from_secs(60);

/// How much longer than asked a server may take to end a watch.
const SLACK: Duration = Duration::from_secs(10);

/// Longest single change: objects have at most 1.5 MiB in etcd.
const LONGEST: usize = 16 << 20;

const BACKOFF: Backoff =
    Backoff { first: SignedDuration::from_millis(250), longest: SignedDuration::from_secs(30) };

/// Objects to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Their kind.
    pub kind: Kind,
    /// Their namespace; all when absent.
    pub namespace: Option<String>,
    /// A label selector; all when empty.
    pub selector: String,
}

/// A change that a watch saw.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An object is new or different, or was there when the watch began.
    Applied(Value),
    /// An object is gone, or no longer selected; with its last known content.
    Deleted(Value),
    /// Everything that was there has been reported, at the start and after each time the watch had to list again.
    Listed(Watched),
    /// The watch failed and tries again after a back-off.
    Interrupted {
        /// The kind that is not watched for now.
        watched: Watched,
        /// The reason.
        failure: Failure,
    },
}

impl Kubernetes {
    /// Watches several kinds. The stream never ends; dropping it ends the watches.
    pub fn watch(&self, watched: Vec<Watched>) -> impl Stream<Item = Change> + Send + Unpin + use<> {
        let watches = watched.into_iter().map(|watched| {
            let watch = Watch {
                kubernetes: self.clone(),
                watched,
                known: BTreeMap::new(),
                version: None,
                lines: None,
                pending: VecDeque::new(),
                failures: 0,
                is_silent: true,
            };
            stream::unfold(watch, async |mut watch| Some((watch.next().await, watch))).boxed()
        });
        stream::select_all(watches)
    }
}

/// Lines of an open watch.
type Lines = stream::BoxStream<'static, Result<Vec<u8>, Failure>>;

struct Watch {
    kubernetes: Kubernetes,
    watched: Watched,
    /// By namespace and name.
    known: BTreeMap<(String, String), Value>,
    /// The version to follow from; absent when it has to list.
    version: Option<String>,
    lines: Option<Lines>,
    pending: VecDeque<Change>,
    /// Failures in a row.
    failures: u32,
    /// Whether the open watch has sent nothing so far.
    is_silent: bool,
}

impl Watch {
    async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return change;
            }
            if let Err(failure) = self.advance().await {
                self.fail(failure);
            }
        }
    }

    /// Does the next step: waits after a failure, lists, opens the watch, or reads a line of it.
    async fn advance(&mut self) -> Result<(), Failure> {
        let Some(version) = self.version.clone() else {
            self.pause().await;
            return self.list().await;
        };
        let Some(lines) = &mut self.lines else {
            self.pause().await;
            self.lines = self.open(&version).await?;
            self.is_silent = true;
            return Ok(());
        };
        let patience = self.kubernetes.watch + SLACK;
        let line = tokio::time::timeout(patience, lines.next()).await;
        match line.map_err(|_| call::late())? {
            Some(line) => {
                self.is_silent = false;
                self.read(&line?)
            }
            None => {
                self.lines = None;
                // A server that ends every watch at once is not asked in a tight loop.
                self.failures = u32::from(self.is_silent);
                Ok(())
            }
        }
    }

    /// Waits after a failure.
    async fn pause(&mut self) {
        if self.failures > 0 {
            tokio::time::sleep(BACKOFF.after(self.failures).unsigned_abs()).await;
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.lines = None;
        self.failures = self.failures.saturating_add(1);
        self.pending.push_back(Change::Interrupted { watched: self.watched.clone(), failure });
    }

    /// Lists, and reports the differences to the known objects.
    async fn list(&mut self) -> Result<(), Failure> {
        let (items, version) = self.kubernetes.list_at(&self.watched).await?;
        let mut gone = std::mem::take(&mut self.known);
        for item in items {
            let before = gone.remove(&key(&item));
            self.note(before.as_ref(), item);
        }
        self.pending.extend(gone.into_values().map(Change::Deleted));
        self.pending.push_back(Change::Listed(self.watched.clone()));
        self.version = Some(version);
        Ok(())
    }

    /// Opens the watch; nothing when the version expired and it has to list.
    async fn open(&mut self, version: &str) -> Result<Option<Lines>, Failure> {
        let Kubernetes { client, timeout, watch, .. } = &self.kubernetes;
        let resource = self.kubernetes.resource(&self.watched.kind).await?;
        let resource = resource.within(self.watched.namespace.as_deref())?;
        let seconds = u32::try_from(watch.as_secs()).unwrap_or(u32::MAX).clamp(1, 290);
        let parameters = WatchParams::default().labels(&self.watched.selector).timeout(seconds);
        let request = built(resource.watch(&parameters, version))?;
        let response = tokio::time::timeout(*timeout, call::open(client, request)).await;
        let response = response.map_err(|_| call::late())??;
        if response.status().is_success() {
            let body = response.into_body().into_data_stream();
            let body = body.map_err(|error| Failure::Ambiguous(fit(&error.to_string(), &[])));
            return Ok(Some(lines(body.map_ok(|bytes| bytes.to_vec()).boxed())));
        }
        let read = tokio::time::timeout(*timeout, call::read(response)).await;
        let reply = read.map_err(|_| call::late())??;
        if reply.is_expired() {
            return self.expire("the version is too old").map(|()| None);
        }
        Err(reply.expect_parent().map_or_else(|failure| failure, |_| call::late()))
    }

    fn read(&mut self, line: &[u8]) -> Result<(), Failure> {
        let mut event: Value = serde_json::from_slice(line)
            .map_err(|_| Failure::Unexpected("a watch sent something other than JSON".to_owned()))?;
        let object = event["object"].take();
        match event["type"].as_str().unwrap_or_default() {
            "ADDED" | "MODIFIED" => {
                self.advance_to(&object);
                let before = self.known.remove(&key(&object));
                self.note(before.as_ref(), object);
            }
            "DELETED" => {
                self.advance_to(&object);
                self.known.remove(&key(&object));
                self.pending.push_back(Change::Deleted(object));
            }
            "BOOKMARK" => self.advance_to(&object),
            "ERROR" => return self.refused(&object),
            // Kinds of events that later versions may add concern this client as little as bookmarks.
            _ => {}
        }
        self.failures = 0;
        Ok(())
    }

    fn refused(&mut self, status: &Value) -> Result<(), Failure> {
        let detail = fit(status["message"].as_str().unwrap_or_default(), &[]);
        if status["code"] == 410 {
            return self.expire(&detail);
        }
        (self.lines, self.version) = (None, None);
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        Err(Failure::Failed { status: code, detail })
    }

    /// Begins again with a list. Once in a row that is no failure; a server that expires every version is asked more slowly.
    fn expire(&mut self, detail: &str) -> Result<(), Failure> {
        (self.lines, self.version) = (None, None);
        if self.failures > 0 {
            return Err(Failure::Failed { status: 410, detail: detail.to_owned() });
        }
        self.failures = 1;
        Ok(())
    }

    fn advance_to(&mut self, object: &Value) {
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            self.version = Some(version.to_owned());
        }
    }

    /// Remembers an object, and reports it when it is different from before.
    fn note(&mut self, before: Option<&Value>, object: Value) {
        if before != Some(&object) {
            self.pending.push_back(Change::Applied(object.clone()));
        }
        self.known.insert(key(&object), object);
    }
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// Splits a body into its lines. An incomplete last line is dropped.
fn lines(body: stream::BoxStream<'static, Result<Vec<u8>, Failure>>) -> Lines {
    stream::unfold((body, Vec::new()), async |(mut body, mut rest): (_, Vec<u8>)| {
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = rest.drain(..=end).collect();
                line.pop();
                return Some((Ok(line), (body, rest)));
            }
            if rest.len() > LONGEST {
                let failure = Failure::Unexpected(format!("a change longer than {LONGEST} bytes"));
                return Some((Err(failure), (stream::empty().boxed(), Vec::new())));
            }
            match body.next().await? {
                Ok(bytes) => rest.extend(bytes),
                Err(failure) => return Some((Err(failure), (body, rest))),
            }
        }
    })
    .boxed()
}
