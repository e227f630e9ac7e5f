//! The row of clusters: what the platform has to know of them.

use axum::{
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use wardroom_store::Resource;

use super::{
    CLUSTER, NODE_POOL, Sort,
    adapters::{self, silence, standing::Refreshed, told},
    delete::DELETED,
    face,
    facts::Facts,
    problems::PROBLEMS,
    refold,
    routes::{ACCESS, WORDS, routes},
    settings,
    turns::Turns,
    view, why,
};
use crate::platform::{
    app::App,
    http::error::Error,
    kind::{Kind, Repeat, Stored},
};

/// Clusters, their node pools, and what adapters report of them.
pub(crate) static ROW: Kind = Kind {
    name: "cluster",
    settings: settings::resolve,
    parts: |parts, _| {
        parts.put(Turns::default());
        parts.put(Refreshed::default());
    },
    access: ACCESS,
    routes,
    stores: &[
        Stored {
            why: Some(|app, called| Box::pin(why::cluster(app, called))),
            again: Some(|app, cluster, repeat| Box::pin(again(app, &CLUSTER, cluster, repeat))),
            called: |name| vec![("name", name.to_owned())],
            told: Some(&told::CLUSTERS),
            ..Stored::of("cluster")
        },
        Stored {
            why: Some(|app, called| Box::pin(why::node_pool(app, &NODE_POOL, called))),
            again: Some(|app, pool, repeat| Box::pin(again(app, &NODE_POOL, pool, repeat))),
            called: |name| vec![("name", name.to_owned())],
            told: Some(&told::NODE_POOLS),
            ..Stored::of("nodepool")
        },
        Stored {
            why: Some(|app, name| Box::pin(adapters::why::adapter(app, name))),
            derived: Some(|app| Box::pin(adapters::standing::derived(app))),
            ..Stored::of(adapters::KIND)
        },
    ],
    beats: Some(&silence::HEARD),
    jobs: |_| vec![refold::job()],
    words: &WORDS,
    faces: &[&face::FACE, &adapters::face::FACE],
    problems: PROBLEMS,
    dialect: None,
};

/// Shows a resource as the answer to a repeat of the request that changed it.
async fn again(
    app: &App,
    sort: &'static Sort,
    resource: &Resource,
    repeat: Repeat<'_>,
) -> Result<Response, Error> {
    if repeat.marker.entry_type == DELETED {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let id = &resource.content.id;
    let facts = Facts::read(app, sort, id).await?.ok_or_else(|| Error::not_found(sort.kind, id))?;
    view::answer_of(StatusCode::OK, &facts)
}
