//! The row of fleets: what the platform has to know of them.

use axum::http::StatusCode;

use super::{
    document::{KIND, VERSION_KIND},
    face,
    routes::{ACCESS, WORDS, routes},
    template::Templates,
    view, why, work,
};
use crate::platform::kind::{Kind, Stored};

/// Devices that get their spec from one template.
pub(crate) static ROW: Kind = Kind {
    name: KIND,
    settings: |_| {},
    parts: |parts, _| parts.put(Templates::default()),
    access: ACCESS,
    routes,
    stores: &[
        Stored {
            why: Some(|app, name| Box::pin(why::why(app, name))),
            again: Some(|app, fleet, _| Box::pin(view::answer(app, StatusCode::OK, fleet))),
            ..Stored::of(KIND)
        },
        Stored::of(VERSION_KIND),
    ],
    beats: None,
    jobs: |app| vec![work::job(app)],
    words: &WORDS,
    problems: &[],
    dialect: None,
    faces: &[&face::FACE],
};
