//! The row of devices: what the platform has to know of them.

use super::{
    authority, document, face, flightctl,
    identity::Identities,
    problems::PROBLEMS,
    request,
    routes::{ACCESS, WORDS, routes},
    settings, silence, token, wake, why,
};
use crate::platform::kind::{Kind, Stored};

/// Edge machines with an agent.
pub(crate) static ROW: Kind = Kind {
    name: document::KIND,
    settings: settings::resolve,
    parts: |parts, config| {
        let identities = Identities::new(parts, config);
        parts.put(identities);
        parts.put(authority::Place::default());
        parts.put(wake::Waiters::default());
    },
    access: ACCESS,
    routes,
    stores: &[
        Stored { why: Some(|app, name| Box::pin(why::why(app, name))), ..Stored::of(document::KIND) },
        Stored::of(request::KIND),
        Stored::of(token::KIND),
    ],
    beats: Some(&silence::BEATING),
    jobs: |app| vec![wake::job(app)],
    words: &WORDS,
    faces: &[&face::FACE, &face::REQUESTS],
    problems: PROBLEMS,
    dialect: Some(flightctl::DIALECT),
};
