//! Requests: who asks, which object or collection a path names, and the call that answers it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Bytes, to_bytes},
    extract::{Request, State as Extract},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{
    Shared, discovery,
    kinds::Kind,
    owners::Writer,
    reply::Refusal,
    selector::Selector,
    table,
    watch::{Collection, Wanted, watch},
    write::{Deletion, Patch, Place},
};
use crate::fault::lock;

/// Longest body that is read.
const LONGEST: usize = 3 << 20;

/// The only format in which old clients, such as `kubectl` 1.20, take the second version of the interface.
const OPENAPI: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// That document without any schema, so that such a client leaves checks to the server: `swagger` is `2.0`.
const NO_SCHEMAS: &[u8] = b"\n\x032.0";

/// A request, taken apart.
struct Call {
    method: Method,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
    body: Bytes,
}

/// What a path names.
struct Target {
    kind: Kind,
    namespace: Option<String>,
    name: Option<String>,
    subresource: String,
}

pub(super) async fn answer(Extract(shared): Extract<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LONGEST).await else {
        return Refusal::new(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
            .into_response();
    };
    let query = query(head.uri.query().unwrap_or_default());
    let call = Call { method: head.method, query, headers: head.headers, body };
    call.answer(&shared, head.uri.path()).unwrap_or_else(Refusal::into_response)
}

fn query(text: &str) -> BTreeMap<String, String> {
    let decoded = |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

impl Target {
    /// Finds out what the path below a group and version names.
    fn find(kinds: &[Kind], path: &[String]) -> Option<Self> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (group, version, rest) = match path.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !matches!(rest, [] | ["status" | "finalize"]) => {
                (Some((*namespace).to_owned()), rest)
            }
            rest => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, ""),
            [plural, name] => (*plural, Some((*name).to_owned()), ""),
            [plural, name, subresource] => (*plural, Some((*name).to_owned()), *subresource),
            _ => return None,
        };
        let is_it = |kind: &&Kind| kind.group == group && kind.version == version && kind.plural == plural;
        let kind = kinds.iter().find(is_it)?.clone();
        let fits = (kind.is_namespaced || namespace.is_none())
            && (namespace.is_some() || name.is_none() || !kind.is_namespaced)
            && kind.has(subresource);
        fits.then(|| Self { kind, namespace, name, subresource: subresource.to_owned() })
    }

    fn place(&self, name: &str) -> Place {
        let namespace = self.namespace.clone().unwrap_or_default();
        Place { kind: self.kind.clone(), namespace, name: name.to_owned() }
    }
}

impl Call {
    fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    fn is_set(&self, name: &str) -> bool {
        matches!(self.parameter(name), "1" | "true" | "True")
    }

    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the manager of a write: the one it names, or the program that sends it.
    fn manager(&self) -> String {
        let program = self.header(header::USER_AGENT).split('/').next().unwrap_or_default();
        let named = self.parameter("fieldManager");
        [named, program].into_iter().find(|name| !name.is_empty()).unwrap_or("unknown").to_owned()
    }

    fn json(&self) -> Result<Value, Refusal> {
        if self.header(header::CONTENT_TYPE).contains("protobuf") {
            return Err(Refusal::media_type());
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::bad(&format!("the object provided is unrecognized: {error}")))
    }

    fn answer(&self, shared: &Arc<Shared>, path: &str) -> Result<Response, Refusal> {
        if matches!(path, "/healthz" | "/livez" | "/readyz") {
            return Ok("ok".into_response());
        }
        let token = self.header(header::AUTHORIZATION).strip_prefix("Bearer ");
        if shared.options.token.is_some() && shared.options.token.as_deref() != token {
            return Err(Refusal::unauthorized());
        }
        let path: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let kinds = lock(&shared.state).kinds();
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        if let Some(document) = discovery::document(&names, &kinds) {
            return Ok(Json(document).into_response());
        }
        if names == ["openapi", "v2"] {
            return Ok(([(header::CONTENT_TYPE, OPENAPI)], NO_SCHEMAS).into_response());
        }
        let target = Target::find(&kinds, &path).ok_or_else(Refusal::no_resource)?;
        match &target.name {
            Some(name) => self.object(shared, &target, name),
            None => self.collection(shared, &target),
        }
    }

    fn collection(&self, shared: &Arc<Shared>, target: &Target) -> Result<Response, Refusal> {
        let selector = Selector::parse(self.parameter("labelSelector"), self.parameter("fieldSelector"))?;
        let collection =
            Collection { kind: target.kind.clone(), namespace: target.namespace.clone(), selector };
        match self.method.as_str() {
            "GET" if self.is_set("watch") => {
                let length = self.parameter("timeoutSeconds").parse().unwrap_or(3600);
                let is_initial = self.is_set("sendInitialEvents");
                let version = if is_initial { "" } else { self.parameter("resourceVersion") };
                watch(
                    shared,
                    Wanted {
                        collection,
                        version: version.to_owned(),
                        length: Duration::from_secs(length),
                        has_bookmarks: self.is_set("allowWatchBookmarks"),
                        is_initial,
                    },
                )
            }
            "GET" => {
                let limit = self.parameter("limit").parse().unwrap_or(0);
                let list = collection.list(&lock(&shared.state), limit, self.parameter("continue"))?;
                Ok(Json(self.shown(&target.kind, list, shared.clock.now())).into_response())
            }
            "POST" => {
                let mut object = self.json()?;
                let metadata = &mut object["metadata"];
                if metadata["name"].as_str().unwrap_or_default().is_empty()
                    && let Some(prefix) = metadata["generateName"].as_str()
                {
                    metadata["name"] = json!(format!("{prefix}{}", &crate::fault::random(3)[..5]));
                }
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let created = shared.change(target, self, "create", |state, writer, is_dry| {
                    state.create(&target.place(&name), object, writer, is_dry)
                })?;
                Ok((StatusCode::CREATED, Json(created)).into_response())
            }
            "DELETE" => {
                let places: Vec<_> = {
                    let state = lock(&shared.state);
                    let keys = collection.objects(&state).map(|(key, _)| key.clone());
                    keys.map(|key| Place { kind: target.kind.clone(), namespace: key.2, name: key.3 })
                        .collect()
                };
                let deletion = self.deletion()?;
                for place in places {
                    shared.change(target, self, "delete", |state, writer, _| {
                        state.delete(&place, &deletion, writer)
                    })?;
                }
                Ok(Json(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
                    .into_response())
            }
            _ => Err(Refusal::method()),
        }
    }

    fn object(&self, shared: &Arc<Shared>, target: &Target, name: &str) -> Result<Response, Refusal> {
        let place = target.place(name);
        match self.method.as_str() {
            "GET" => {
                let object = lock(&shared.state).object(&place)?;
                Ok(Json(self.shown(&target.kind, object, shared.clock.now())).into_response())
            }
            "PUT" => {
                let object = self.json()?;
                let updated = shared.change(target, self, "update", |state, writer, is_dry| {
                    state.update(&place, object, writer, is_dry)
                })?;
                Ok(Json(updated).into_response())
            }
            "PATCH" => {
                let (how, body) = self.patch()?;
                let effect = if matches!(how, Patch::Apply { .. }) { "apply" } else { "patch" };
                let (object, is_new) = shared.change(target, self, effect, |state, writer, is_dry| {
                    state.patch(&place, how, &body, writer, is_dry)
                })?;
                let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
                Ok((status, Json(object)).into_response())
            }
            "DELETE" => {
                let deletion = self.deletion()?;
                let left = shared.change(target, self, "delete", |state, writer, _| {
                    state.delete(&place, &deletion, writer)
                })?;
                Ok(Json(left).into_response())
            }
            _ => Err(Refusal::method()),
        }
    }

    fn patch(&self) -> Result<(Patch, Value), Refusal> {
        let how = match self.header(header::CONTENT_TYPE).split(';').next().unwrap_or_default() {
            "application/apply-patch+yaml" if self.parameter("fieldManager").is_empty() => {
                return Err(Refusal::no_manager());
            }
            "application/apply-patch+yaml" => Patch::Apply { is_forced: self.is_set("force") },
            "application/merge-patch+json" => Patch::Merge,
            "application/strategic-merge-patch+json" => Patch::Strategic,
            "application/json-patch+json" => Patch::Json,
            _ => return Err(Refusal::media_type()),
        };
        Ok((how, self.json()?))
    }

    fn deletion(&self) -> Result<Deletion, Refusal> {
        let options = if self.body.is_empty() { Value::Null } else { self.json()? };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let propagation = text(&options["propagationPolicy"])
            .unwrap_or_else(|| self.parameter("propagationPolicy").to_owned());
        let is_dry = options["dryRun"].is_array() || self.parameter("dryRun") == "All";
        let conditions = &options["preconditions"];
        Ok(Deletion {
            propagation,
            uid: text(&conditions["uid"]),
            version: text(&conditions["resourceVersion"]),
            is_dry,
        })
    }

    /// Returns a document, as a table when the client prefers that.
    fn shown(&self, kind: &Kind, document: Value, now: Timestamp) -> Value {
        let is_table = self.header(header::ACCEPT).contains("as=Table");
        if is_table { table::of(kind, &document, now) } else { document }
    }
}

impl Shared {
    /// Changes the state on behalf of a call; a change is counted as an effect and told to watches.
    fn change<T>(
        &self,
        target: &Target,
        call: &Call,
        effect: &str,
        change: impl FnOnce(&mut super::state::State, &Writer<'_>, bool) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let manager = call.manager();
        let writer = Writer { manager: &manager, subresource: &target.subresource, now: self.clock.now() };
        let mut state = lock(&self.state);
        let before = state.version;
        let result = change(&mut state, &writer, call.parameter("dryRun") == "All")?;
        if state.version != before {
            self.faults.applied(&format!("{}.{effect}", target.kind.plural));
            self.tell(&state);
        }
        Ok(result)
    }
}
