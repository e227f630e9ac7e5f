//! Completes every operation of the OpenAPI document, so that clients can be generated: a unique id, its kind
//! as a tag, and a description of each answer.

use std::collections::BTreeMap;

use utoipa::openapi::{
    OpenApi, RefOr, Server,
    path::{Operation, PathItem},
    tag::Tag,
};

mod variants;

use super::access;
use crate::platform::kind::Kind;

/// The tag of operations that belong to no kind.
const SHARED: &str = "server";

/// Completes the document of the routes of these kinds.
pub(super) fn complete(document: &mut OpenApi, kinds: &[&'static Kind]) {
    variants::name(document);
    document.servers = Some(vec![Server::new("/")]);
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for (_, _, operation) in operations(document) {
        *used.entry(operation.operation_id.clone().unwrap_or_default()).or_default() += 1;
    }
    let mut tags = std::collections::BTreeSet::new();
    for (path, method, operation) in operations(document) {
        let row = access::every(kinds).find(|route| route.method == method && route.path == path);
        let kind = row.map(|route| route.kind).filter(|kind| !kind.is_empty());
        // Routes of machines have no kind for token scopes; their tag is the kind that registers them.
        let room = kinds.iter().find(|kind| kind.access.iter().any(|route| route.path == path));
        let tag = kind.or(room.map(|room| room.name)).unwrap_or(SHARED);
        tags.insert(tag);
        operation.tags = Some(vec![tag.to_owned()]);
        let id = operation.operation_id.take().unwrap_or_default();
        let is_shared = used.get(&id).is_some_and(|count| *count > 1);
        operation.operation_id = Some(if is_shared { format!("{id}_{}", tag.replace('-', "_")) } else { id });
        for (status, response) in &mut operation.responses.responses {
            if let RefOr::T(response) = response
                && response.description.is_empty()
            {
                response.description = meaning(status).to_owned();
            }
        }
    }
    document.tags = Some(tags.into_iter().map(Tag::new).collect());
}

/// The description of a status without a description in its handler.
fn meaning(status: &str) -> &'static str {
    match status {
        "201" => "Created",
        "202" => "Accepted",
        "204" => "Done, with nothing to say",
        _ => "Done",
    }
}

fn operations(document: &mut OpenApi) -> impl Iterator<Item = (String, &'static str, &mut Operation)> {
    document.paths.paths.iter_mut().flat_map(|(path, item)| {
        let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
        let methods = [
            ("GET", get),
            ("PUT", put),
            ("POST", post),
            ("DELETE", delete),
            ("OPTIONS", options),
            ("HEAD", head),
            ("PATCH", patch),
            ("TRACE", trace),
        ];
        let path = path.clone();
        methods
            .into_iter()
            .filter_map(move |(method, operation)| Some((path.clone(), method, operation.as_mut()?)))
    })
}
