//! Satellites: registries at the edge that register by themselves, beat, fall silent, are revoked and come back.
//!
//! ```text
//! create ─▶ pending ─ztr─▶ online ◀─▶ stale          one commit each; a beat is none
//!              ▲              └──────┬───┘
//!              └─ reenable ─ revoked ◀┘               denied from memory, before anybody else is told
//! ```
//!
//! What must stay true: every move is a row of `core`'s table, every secret is shown once, and what other systems
//! have to be told is an effect of the commit, never a call of a handler.

pub(crate) mod beat;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod deny;
pub(crate) mod document;
pub(crate) mod effects;
pub(crate) mod facts;
pub(crate) mod identity;
pub(crate) mod patch;
pub(crate) mod place;
pub(crate) mod reenable;
pub(crate) mod refresh;
pub(crate) mod revoke;
pub(crate) mod secret;
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
use wardroom_store::{Change, Entry, Error as StoreError, Resource};

use crate::{
    app::{App, Decided},
    auth::Caller,
    error::Error,
};

/// How often a change is decided again when others change the satellite at the same moment.
const DECISIONS: usize = 200;

/// The living satellite of a name or an id.
pub(crate) async fn find(app: &App, name: &str) -> Result<Resource, Error> {
    if let Some(found) = app.store.get_by_key(KIND, &document::name_key(name)).await? {
        return Ok(found);
    }
    let by_id = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
    by_id.ok_or_else(|| Error::not_found(KIND, name))
}

/// Reads, decides and commits, with effects if there is a cause to name; decides again when somebody else was faster.
pub(crate) async fn change<T>(
    app: &App,
    id: &str,
    cause: Option<&str>,
    decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
) -> Result<(Resource, T), Error> {
    for _ in 0..DECISIONS {
        let asked = app.moment();
        let found = app.store.get(KIND, id).await?.filter(|found| !found.content.deleted);
        let before = found.ok_or_else(|| Error::not_found(KIND, id))?;
        let (content, entry, answer) = match decide(&before)? {
            Decided::Nothing(answer) => {
                // What was done before may have been answered by nobody: it is remembered now at the latest.
                app.satellites.note(&before, asked);
                return Ok((before, answer));
            }
            Decided::Commit(change, answer) => (change.0, change.1, answer),
        };
        let effects = match cause {
            Some(cause) => effects::effects_for(app, &document::Document::of(&before)?, cause),
            None => Vec::new(),
        };
        let change =
            Change { before: Some(before), after: content, entry, effects, fence: None, holds: Vec::new() };
        match app.commit(change).await {
            Ok(resource) => return Ok((resource, answer)),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable("the satellite is changed by too many at once: repeat"))
}

/// The move that an event makes, or what is allowed instead.
pub(crate) fn step(state: State, on: Event) -> Result<&'static Row<State, Event>, Error> {
    TABLE.find(state, on).ok_or_else(|| Error::Conflict {
        code: "no_such_move",
        detail: format!("the satellite is {state}, and {on} is no move from there"),
        allowed: TABLE
            .moves_from(state)
            .filter(|row| row.on.call().is_some())
            .map(|row| row.on.to_string())
            .collect(),
    })
}

/// A history entry for what a satellite does.
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
