//! The row of GPU nodes for the platform.

use super::{
    document, face,
    identity::Agents,
    offline,
    problems::PROBLEMS,
    proof::Reports,
    routes::{ACCESS, WORDS, routes},
    run, settings, sites, why,
};
use crate::platform::kind::{Kind, Stored};

/// Bare metal behind MAAS.
pub(crate) static ROW: Kind = Kind {
    name: document::KIND,
    settings: settings::resolve,
    parts: |parts, _| {
        let agents = Agents::new(parts);
        let reports = Reports(parts.reports());
        parts.put(agents);
        parts.put(reports);
    },
    access: ACCESS,
    routes,
    stores: &[
        Stored {
            why: Some(|app, id| Box::pin(why::why(app, id))),
            called: |name| vec![("hostname", name.to_owned())],
            ..Stored::of(document::KIND)
        },
        Stored {
            why: Some(|app, id| Box::pin(run::why::why(app, id))),
            title: Some(|app, run| Box::pin(run::title(app, run))),
            ..Stored::of(wardroom_workflow::RUN)
        },
        Stored::of(sites::SITES.kind),
    ],
    beats: Some(&offline::BEATING),
    jobs: super::work::jobs,
    words: &WORDS,
    faces: &[&face::NODES, &face::RUNS, &face::SITES],
    problems: PROBLEMS,
    dialect: None,
};
