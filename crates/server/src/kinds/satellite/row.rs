//! The row of satellites for the platform.

use axum::{Json, response::IntoResponse as _};
use wardroom_api::Envelope;

use super::{
    artifact, config, document, face,
    facts::Facts,
    group,
    identity::Identities,
    knocks::Knocks,
    problems::PROBLEMS,
    pull::Sources,
    registry,
    routes::{ACCESS, WORDS, routes},
    settings, stale, view, why,
};
use crate::platform::kind::{Dialect, Kind, Stored};

/// Registries at the edge.
pub(crate) static ROW: Kind = Kind {
    name: document::KIND,
    settings: settings::resolve,
    parts: |parts, config| {
        let identities = Identities::new(parts, config);
        let facts = Facts(parts.reports());
        parts.put(identities);
        parts.put(Knocks::default());
        parts.put(facts);
        parts.put(artifact::Cache::default());
        parts.put(Sources::new(&settings::Settings::of(config).pull));
    },
    access: ACCESS,
    routes,
    stores: &[
        Stored {
            why: Some(|app, name| Box::pin(why::why(app, name))),
            again: Some(|app, satellite, _| {
                Box::pin(async move {
                    // The first server may have died before every other one had noticed.
                    Identities::of(app).settle().await;
                    Ok(Json(Envelope::new(view::whole(app, satellite).await?)).into_response())
                })
            }),
            called: |name| vec![("name", name.to_owned())],
            ..Stored::of(document::KIND)
        },
        Stored::of(group::GROUPS.kind),
        Stored::of(config::CONFIGS.kind),
    ],
    beats: Some(&stale::BEATING),
    jobs: |_| Vec::new(),
    words: &WORDS,
    faces: &[&face::FACE],
    problems: PROBLEMS,
    dialect: Some(Dialect { speaks: registry::is_path, refuse: registry::refuse }),
};
