//! Deleted members: read by their ids, explained and listed in the same way for every kind.
//!
//! Deletion is a flag beside the state. What must stay true: a deleted member is never changed and never listed among the
//! living, and its name belongs to the living member that has it, if there is one.

use std::borrow::Cow;

use jiff::Timestamp;
use wardroom_core::{
    table::Role,
    why::{Blocker, Next, Why},
};
use wardroom_store::{EffectProgress, Entry, List, Resource, Rows};

use crate::platform::{app::App, http::error::Error, identity::auth::Caller};

/// Roles that may list deleted members.
const ROLES: &[Role] = &[Role::Operator, Role::Auditor, Role::Admin];

/// The state in which a deleted member is explained, whatever state it was deleted in.
const STATE: &str = "deleted";

/// How many of the newest history rows are searched for the deletion; few rows come after it.
const ROWS: usize = 20;

/// Reads a member by its id, living or deleted.
pub(crate) async fn read(app: &App, kind: &'static str, id: &str) -> Result<Resource, Error> {
    app.store.get(kind, id).await?.ok_or_else(|| Error::not_found(kind, id))
}

/// Changes a list to deleted members if the caller asked for them and may see them.
pub(crate) fn list(list: List, asked: Option<bool>, caller: &Caller) -> Result<List, Error> {
    if !asked.unwrap_or(false) {
        return Ok(list);
    }
    if !caller.identity().is_some_and(|identity| ROLES.contains(&identity.role)) {
        let roles: Vec<_> = ROLES.iter().map(|role| role.as_str()).collect();
        let message = format!("deleted members are listed for the roles {}", roles.join(", "));
        return Err(Error::Forbidden(message));
    }
    if !(list.fields.is_empty() && list.labels.is_empty()) {
        return Err(Error::invalid("deleted", "deleted members are selected by their state only"));
    }
    Ok(List { deleted: true, ..list })
}

/// Explains a deleted member, found by its id or its last name; empty if there is none.
pub(crate) async fn why(app: &App, kind: &'static str, called: &str) -> Result<Option<Why>, Error> {
    let found = match app.store.get(kind, called).await? {
        Some(found) => Some(found),
        None => match app.store.last_deleted(kind, called).await? {
            Some(id) => app.store.get(kind, &id).await?,
            None => None,
        },
    };
    let Some(gone) = found.filter(|found| found.content.deleted) else { return Ok(None) };
    let id = &gone.content.id;
    let (rows, _) = app.store.history(kind, id, Rows::All, ROWS, 0).await?;
    let row = rows.into_iter().find(|row| row.entry.entry_type == STATE || row.to_state == STATE);
    let entry = row.map(|row| row.entry);
    let effects = app.store.effects_of(kind, id).await?;
    Ok(Some(Why {
        about: "state",
        state: STATE,
        meaning: Cow::Owned(meaning(&gone, entry.as_ref())),
        since: Some(since(&gone, entry.as_ref())),
        patience_ends: None,
        overdue: false,
        blockers: effects.iter().filter_map(pending).collect(),
        fine: Vec::new(),
        exits: Vec::new(),
        next: Next::Nothing,
    }))
}

fn since(gone: &Resource, entry: Option<&Entry>) -> Timestamp {
    entry.map_or(gone.updated_at, |entry| entry.at)
}

fn meaning(gone: &Resource, entry: Option<&Entry>) -> String {
    let by = entry.map(|entry| entry.user_id.as_deref().unwrap_or(&entry.triggered_by));
    let by = by.map_or_else(String::new, |by| format!(" by {by}"));
    let comment = entry.and_then(|entry| entry.comment.as_deref());
    let comment = comment.map_or_else(String::new, |comment| format!(" ({comment})"));
    let state = &gone.content.state;
    let was = if state == STATE { String::new() } else { format!(" It was {state}.") };
    format!("Deleted for good{by}{comment}.{was} Its record and its history stay.")
}

/// Describes an effect on another system that is still to be carried out.
pub(crate) fn pending(effect: &EffectProgress) -> Option<Blocker> {
    let EffectProgress { effect_type, attempts, last_error, done_at: None, .. } = effect else { return None };
    let what = match last_error {
        Some(error) if *attempts == 1 => format!("{effect_type} was tried once and failed: {error}"),
        Some(error) => format!("{effect_type} was tried {attempts} times and failed: {error}"),
        None => format!("{effect_type} has not been done yet"),
    };
    Some(Blocker { what: what.into(), fix: None })
}
