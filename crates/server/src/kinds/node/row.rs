//! The row of nodes for the platform.

use axum::http::StatusCode;

use super::{
    answer,
    boots::Boots,
    discovery::Discoveries,
    document, face, group,
    problems::PROBLEMS,
    report,
    routes::{ACCESS, WORDS, routes},
    settings, why, workflow,
};
use crate::platform::kind::{Kind, Stored};

/// Machines that are installed over the network.
pub(crate) static ROW: Kind = Kind {
    name: document::KIND,
    settings: settings::resolve,
    parts: |parts, config| {
        parts.put(Discoveries::new(settings::Settings::of(config)));
        let boots = Boots(parts.reports());
        parts.put(boots);
    },
    access: ACCESS,
    routes,
    stores: &[
        Stored {
            why: Some(|app, id| Box::pin(why::why(app, id))),
            again: Some(|app, node, repeat| {
                Box::pin(async move {
                    // A caller without credentials gets the same reduced view as before.
                    if repeat.is_stranger {
                        report::outline(node, None)
                    } else {
                        answer(app, node, None).await
                    }
                })
            }),
            called: document::called,
            title: Some(|_, node| Box::pin(async { Ok(document::title(node)) })),
            ..Stored::of(document::KIND)
        },
        Stored {
            again: Some(|_, profile, _| Box::pin(async move { workflow::answer(StatusCode::OK, profile) })),
            ..Stored::of(workflow::KIND)
        },
        Stored {
            again: Some(|app, group, _| Box::pin(group::answer(app, StatusCode::OK, group))),
            joined: Some(|app, id| Box::pin(group::require_user_group(app, id))),
            ..Stored::of(group::KIND)
        },
    ],
    beats: None,
    jobs: |_| super::jobs(),
    words: &WORDS,
    faces: &[&face::FACE, &face::WORKFLOWS, &face::GROUPS],
    problems: PROBLEMS,
    dialect: None,
};
