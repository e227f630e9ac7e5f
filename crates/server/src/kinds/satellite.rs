//! Satellites: registries at the edge that register, send heartbeats, become stale, are revoked and
//! re-enabled.
//!
//! ```text
//! create ─▶ pending ─ztr─▶ online ◀─▶ stale          one commit each; a beat is none
//!              ▲              └──────┬───┘
//!              └─ reenable ─ revoked ◀┘               denied from memory, before the caller gets its answer
//! ```
//!
//! What must stay true: every move is a row of `core`'s table, every secret is shown once, and other systems
//! are changed by effects of the commit, never by a handler.

pub(crate) mod artifact;
pub(crate) mod asked;
pub(crate) mod assignment;
pub(crate) mod beat;
pub(crate) mod config;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod document;
pub(crate) mod effects;
mod face;
pub(crate) mod facts;
pub(crate) mod group;
pub(crate) mod identity;
mod knocks;
pub(crate) mod patch;
pub(crate) mod place;
mod problems;
mod proof;
pub(crate) mod pull;
pub(crate) mod reenable;
pub(crate) mod refresh;
pub(crate) mod registry;
mod replication;
pub(crate) mod revoke;
pub(crate) mod routes;
pub(crate) mod row;
pub(crate) mod secret;
pub mod settings;
pub(crate) mod spiffe;
pub(crate) mod stale;
pub(crate) mod svid;
pub(crate) mod sync;
pub(crate) mod view;
pub(crate) mod why;
pub(crate) mod ztr;

pub(crate) use document::KIND;
use wardroom_core::{
    satellite::{Event, State, TABLE},
    table::{Event as _, Row},
};
use wardroom_store::{Entry, Resource};

use crate::platform::{
    app::{App, Decided},
    http::error::Error,
    identity::auth::Caller,
};

/// The living satellite of a name or an id.
pub(crate) async fn find(app: &App, name: &str) -> Result<Resource, Error> {
    if let Some(found) = app.store.get_by_key(KIND, &document::name_key(name)).await? {
        return Ok(found);
    }
    let by_id = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
    by_id.ok_or_else(|| Error::not_found(KIND, name))
}

/// Changes a satellite, with the effects that follow if there is a cause to name.
pub(crate) async fn change<T>(
    app: &App,
    id: &str,
    cause: Option<&str>,
    decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
) -> Result<(Resource, T), Error> {
    let effects = |before: &Resource| match cause {
        Some(cause) => Ok(asked::effects_for(app, &document::Document::of(before)?, cause)),
        None => Ok(Vec::new()),
    };
    app.changing(KIND, id).with_effects(&effects).decide(decide).await
}

/// Returns the move of an event, or a refusal with the allowed ones.
pub(crate) fn step(name: &str, state: State, on: Event) -> Result<&'static Row<State, Event>, Error> {
    TABLE.find(state, on).ok_or_else(|| Error::Conflict {
        code: "no_such_move",
        detail: format!("the satellite is {state}, which does not allow {on}"),
        allowed: TABLE.moves_from(state).filter_map(|row| row.on.call()).map(|call| call.of(name)).collect(),
    })
}

/// Builds the history entry of a satellite's action.
pub(crate) fn by_satellite(app: &App, caller: &Caller, entry_type: &str) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "agent_report".to_owned(),
        user_id: None,
        comment: None,
        metadata: serde_json::Value::Null,
        request_id: Some(caller.request_id.to_string()),
        at: app.now(),
    }
}
