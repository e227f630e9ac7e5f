//! A request of a device: judged by its certificate, noted as a sign of life, and the end of an absence.
//!
//! What must stay true: every request of a device counts as a sign of life; one that comes from a device that counted as
//! lost brings it back before it is answered, with all its statuses.

use std::sync::Arc;

use serde_json::json;
use wardroom_store::{Content, Entry, Resource, TRANSITION};

use super::{
    document::{Document, Heard, KIND},
    identity::{DeviceIdentity, Identities, Known},
};
use crate::platform::{
    app::{App, Decided},
    http::error::Error,
    identity::auth::Caller,
    liveness::NewSeat,
};

/// Judges a device that calls, and notes that it was heard.
pub(super) async fn heard(
    app: &App,
    caller: &Caller,
    identity: &DeviceIdentity,
) -> Result<Arc<Known>, Error> {
    app.liveness.takes_beats()?;
    let mut known = Identities::of(app).standing(app, identity).await?;
    if known.is_lost {
        come_back(app, caller, identity).await?;
        known = Identities::of(app).standing(app, identity).await?;
    }
    note(app, &known, &identity.name);
    app.liveness.takes_beats()?;
    Ok(known)
}

/// Notes a sign of life without another look at the device.
pub(super) fn note(app: &App, known: &Known, name: &str) {
    if known.is_lost {
        return;
    }
    let seat = app.liveness.find(KIND, name).unwrap_or_else(|| {
        let new = NewSeat { zone: known.zone.as_deref(), given: known.given, last_seen: None, said: None };
        app.liveness.seat(KIND, name, new)
    });
    app.liveness.beat(seat, None);
}

async fn come_back(app: &App, caller: &Caller, identity: &DeviceIdentity) -> Result<(), Error> {
    let changed = app.change(KIND, &identity.name, |device| {
        if Heard::of(device) == Heard::Lately {
            return Ok(Decided::Nothing(()));
        }
        // No replica may find it back with an old beat.
        app.liveness.hear(KIND, &identity.name, None);
        let document = Document { was_heard: true, ..Document::of(device)? };
        let entry = by_device(app, caller, TRANSITION, json!({"event": "connected"}));
        commit(app, document, device, entry)
    });
    match changed.await {
        // It was deleted meanwhile: the next look says so.
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Commits what a device that is heard now has changed.
pub(super) fn commit(
    app: &App,
    document: Document,
    before: &Resource,
    entry: Entry,
) -> Result<Decided<()>, Error> {
    let labels = before.content.labels.clone();
    let content = document.into_content_of(before, labels, Heard::Lately, app.now())?;
    Ok(Decided::Commit(Box::new((content.clone(), described(entry, before, &content))), ()))
}

/// Says in a row of history which statuses changed: summary is the state, the others are in the metadata.
pub(super) fn described(mut entry: Entry, before: &Resource, after: &Content) -> Entry {
    let changed: serde_json::Map<_, _> =
        [super::document::UPDATED, super::document::APPLICATIONS, super::document::LIFECYCLE]
            .into_iter()
            .filter_map(|field| {
                let (from, to) = (before.content.fields.get(field), after.fields.get(field));
                (from != to).then(|| (field.to_owned(), json!({"from": from, "to": to})))
            })
            .collect();
    if before.content.state != after.state {
        TRANSITION.clone_into(&mut entry.entry_type);
    }
    if !changed.is_empty() {
        if entry.metadata.is_null() {
            entry.metadata = json!({});
        }
        entry.metadata["statuses"] = changed.into();
    }
    entry
}

/// A history entry for what a device does.
pub(super) fn by_device(app: &App, caller: &Caller, entry_type: &str, metadata: serde_json::Value) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "agent_report".to_owned(),
        user_id: None,
        comment: None,
        metadata,
        request_id: Some(caller.request_id.to_string()),
        at: app.now(),
    }
}
