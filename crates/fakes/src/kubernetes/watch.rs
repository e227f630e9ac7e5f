//! Lists and watches.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use futures_util::stream;
use serde_json::{Value, json};

use super::{
    Shared,
    kinds::Kind,
    reply::Refusal,
    selector::Selector,
    state::{Event, Key, State},
};
use crate::fault::{Cut, lock};

/// The objects that a list or a watch is about.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    pub(super) kind: Kind,
    /// Absent for all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) selector: Selector,
}

impl Collection {
    fn has(&self, key: &Key) -> bool {
        key.0 == self.kind.group
            && key.1 == self.kind.plural
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.2)
    }

    pub(super) fn objects<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (&'a Key, &'a Value)> {
        let of_kind = state.objects.iter().filter(|(key, _)| self.has(key));
        of_kind.filter(|(_, object)| self.selector.selects(object))
    }

    /// Returns a page of the list.
    pub(super) fn list(&self, state: &State, limit: usize, token: &str) -> Result<Value, Refusal> {
        let place = |key: &Key| {
            if self.kind.is_namespaced && self.namespace.is_none() {
                format!("{}/{}\0", key.2, key.3)
            } else {
                format!("{}\0", key.3)
            }
        };
        let (version, start) =
            if token.is_empty() { (state.version, String::new()) } else { position(token, state)? };
        let rest: Vec<_> = self.objects(state).filter(|(key, _)| place(key) > start).collect();
        let count = if limit == 0 { rest.len() } else { limit.min(rest.len()) };
        let items: Vec<_> = rest[..count].iter().map(|(_, object)| bare(object)).collect();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if count < rest.len() {
            let next = json!({"v": "meta.k8s.io/v1", "rv": version, "start": place(rest[count - 1].0)});
            metadata["continue"] = json!(BASE64_STANDARD_NO_PAD.encode(next.to_string()));
            if self.selector.is_empty() {
                metadata["remainingItemCount"] = json!(rest.len() - count);
            }
        }
        Ok(json!({"kind": format!("{}List", self.kind.kind), "apiVersion": self.kind.api_version(),
            "metadata": metadata, "items": items}))
    }

    /// Returns a change as this watch sees it.
    fn see(&self, event: &Event) -> Option<Value> {
        if !self.has(&event.key) {
            return None;
        }
        let was = event.before.as_ref().is_some_and(|before| self.selector.selects(before));
        let is = !event.is_deletion && self.selector.selects(&event.after);
        let kind = match (was, is) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(json!({"type": kind, "object": event.after}))
    }
}

/// Lists leave out the kind of their items.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.remove("kind");
        object.remove("apiVersion");
    }
    object
}

fn position(token: &str, state: &State) -> Result<(u64, String), Refusal> {
    let bad = || Refusal::bad("continue key is not valid");
    let bytes = BASE64_STANDARD_NO_PAD.decode(token).map_err(|_| bad())?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
    let version = token["rv"].as_u64().ok_or_else(bad)?;
    if version < state.oldest {
        return Err(Refusal::new(410, "Expired", "The provided continue parameter is too old"));
    }
    Ok((version, token["start"].as_str().unwrap_or_default().to_owned()))
}

/// What a watch asks for.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) collection: Collection,
    pub(super) version: String,
    pub(super) length: Duration,
    pub(super) has_bookmarks: bool,
    /// It begins with everything there is, and says when that was all.
    pub(super) is_initial: bool,
}

struct Watch {
    shared: Arc<Shared>,
    wanted: Wanted,
    at: u64,
    pending: VecDeque<Value>,
    signal: tokio::sync::watch::Receiver<u64>,
    /// The count of cuts when it began.
    cuts: u64,
    deadline: tokio::time::Instant,
    is_over: bool,
}

/// Answers a watch with a stream of events.
pub(super) fn watch(shared: &Arc<Shared>, wanted: Wanted) -> Result<Response, Refusal> {
    let signal = shared.changed.subscribe();
    let state = lock(&shared.state);
    let (mut pending, mut at) = (VecDeque::new(), state.version);
    match wanted.version.as_str() {
        "" | "0" => {
            pending.extend(
                wanted
                    .collection
                    .objects(&state)
                    .map(|(_, object)| json!({"type": "ADDED", "object": object})),
            );
        }
        version => at = version.parse().map_err(|_| Refusal::bad_version(version))?,
    }
    if wanted.is_initial {
        let end = json!({"k8s.io/initial-events-end": "true"});
        pending.push_back(bookmark(&wanted.collection.kind, at, &end));
    }
    drop(state);
    let cuts = lock(&shared.watches).cuts;
    let deadline = tokio::time::Instant::now() + wanted.length;
    let watch =
        Watch { shared: Arc::clone(shared), wanted, at, pending, signal, cuts, deadline, is_over: false };
    let lines = stream::unfold(watch, async |mut watch| watch.next().await.map(|line| (line, watch)));
    Ok(([(CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response())
}

fn bookmark(kind: &Kind, version: u64, annotations: &Value) -> Value {
    json!({"type": "BOOKMARK", "object": {"kind": kind.kind, "apiVersion": kind.api_version(),
        "metadata": {"resourceVersion": version.to_string(), "annotations": annotations}}})
}

impl Watch {
    /// Returns the next line; nothing at the end.
    async fn next(&mut self) -> Option<Result<String, Cut>> {
        loop {
            let controls = *lock(&self.shared.watches);
            if controls.cuts != self.cuts {
                return Some(Err(Cut));
            }
            if !controls.is_silent {
                if let Some(event) = self.pending.pop_front() {
                    return Some(Ok(format!("{event}\n")));
                }
                if self.is_over {
                    return None;
                }
                self.read();
                if !self.pending.is_empty() {
                    continue;
                }
            }
            tokio::select! {
                _ = self.signal.changed() => {}
                () = tokio::time::sleep_until(self.deadline) => {
                    self.is_over = true;
                    if self.wanted.has_bookmarks {
                        self.pending.push_back(bookmark(&self.wanted.collection.kind, self.at, &json!({})));
                    }
                    if controls.is_silent {
                        // A silent watch does not end either.
                        self.deadline += Duration::from_secs(3600);
                        self.is_over = false;
                        self.pending.clear();
                    }
                }
            }
        }
    }

    /// Reads the log from where this watch is.
    fn read(&mut self) {
        let state = lock(&self.shared.state);
        if self.at < state.oldest {
            let gone = Refusal::expired(self.at, state.oldest).body();
            self.pending.push_back(json!({"type": "ERROR", "object": gone}));
            self.is_over = true;
            return;
        }
        let new = state.log.iter().filter(|event| event.version > self.at);
        self.pending.extend(new.filter_map(|event| self.wanted.collection.see(event)));
        self.at = state.version;
    }
}
