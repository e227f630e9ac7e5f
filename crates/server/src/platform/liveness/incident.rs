//! Incidents: a resource for members that fell silent together, with its own history.
//!
//! What must stay true: a zone, or the fleet, has at most one open incident, whichever server sweeps; a
//! sweeper that takes over continues the one it finds.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;
use wardroom_core::liveness::{Change as Turn, Held, Incident, Phase, Zone};
use wardroom_store::{Change, Content, Entry, Error as StoreError, Fence, List, Resource, TRANSITION};

use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

pub(crate) const KIND: &str = "incident";

/// The state of an incident that is over.
pub(crate) const ENDED: &str = "ended";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Document {
    /// The zone; nothing for the fleet as a whole.
    pub(crate) zone: Zone,
    pub(crate) why: String,
    /// How many members were silent when it last changed, and of how many.
    pub(crate) silent: u32,
    pub(crate) watched: u32,
    /// When holding ends at the latest.
    pub(crate) held_until: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
}

/// Raises or ends an incident as the guard decided; returns the id of the open one.
pub(super) async fn turn(
    app: &App,
    incident: &Incident,
    held: Option<&Held>,
    fence: Option<&Fence>,
) -> Result<Option<String>, Error> {
    let open = open(app, &incident.zone).await?;
    match (incident.change, open) {
        (Turn::Raise, Some(open)) => go_on(app, open, held, fence).await.map(Some),
        (Turn::Raise, None) => raise(app, incident, held, fence).await.map(Some),
        (Turn::Close, Some(open)) => {
            end(app, open, &incident.why, fence).await?;
            Ok(None)
        }
        (Turn::Close, None) => Ok(None),
    }
}

pub(crate) async fn open(app: &App, zone: &Zone) -> Result<Option<Resource>, Error> {
    Ok(app.store.get_by_key(KIND, &key(zone)).await?)
}

async fn raise(
    app: &App,
    incident: &Incident,
    held: Option<&Held>,
    fence: Option<&Fence>,
) -> Result<String, Error> {
    let why = held.map_or_else(|| incident.why.clone(), ToString::to_string);
    let document = Document {
        zone: incident.zone.clone(),
        why: why.clone(),
        silent: held.map_or(0, |held| held.silent),
        watched: held.map_or(0, |held| held.watched),
        held_until: held.map(|held| held.until),
        ended_at: None,
    };
    let label = incident.zone.clone().map(|zone| (app.liveness.settings.zone_label.clone(), zone));
    let content = Content {
        kind: KIND.to_owned(),
        id: Uuid::now_v7().to_string(),
        name: incident.zone.as_ref().map_or_else(|| "the fleet".to_owned(), |zone| format!("zone {zone}")),
        state: held.map_or(Phase::Holding, |held| held.phase).as_str().to_owned(),
        document: wardroom_store::Document::of(&document)?,
        labels: label.into_iter().collect(),
        fields: BTreeMap::new(),
        keys: BTreeSet::from([key(&incident.zone)]),
        due_at: None,
        deleted: false,
    };
    let of = content.name.clone();
    let mut entry = by_system(app, "raised", json!({"silent": document.silent, "watched": document.watched}));
    entry.comment = Some(why.clone());
    match commit(app, None, content, entry, fence).await {
        Ok(id) => {
            tracing::warn!(incident = id, of, why, "members fell silent together");
            Ok(id)
        }
        // The previous sweeper raised it a moment ago.
        Err(StoreError::KeyTaken { holder, .. }) => Ok(holder),
        Err(error) => Err(error.into()),
    }
}

/// Continues an earlier incident with the end of the guard that holds now.
async fn go_on(
    app: &App,
    open: Resource,
    held: Option<&Held>,
    fence: Option<&Fence>,
) -> Result<String, Error> {
    let Some(held) = held else { return Ok(open.content.id) };
    let until = Some(held.until);
    if open.content.document.read::<Document>()?.held_until == until {
        return Ok(open.content.id);
    }
    let is_other = open.content.state != held.phase.as_str();
    rewrite(app, open, held, until, if is_other { TRANSITION } else { "resumed" }, fence).await
}

/// Records that the members of an open incident are being released.
pub(super) async fn releasing(app: &App, id: &str, held: &Held, fence: Option<&Fence>) -> Result<(), Error> {
    let Some(before) = app.store.get(KIND, id).await? else { return Ok(()) };
    if before.content.state != Phase::Holding.as_str() {
        return Ok(());
    }
    let until = before.content.document.read::<Document>()?.held_until;
    rewrite(app, before, held, until, TRANSITION, fence).await.map(drop)
}

/// Stores the present state of a guard.
async fn rewrite(
    app: &App,
    before: Resource,
    held: &Held,
    held_until: Option<Timestamp>,
    entry_type: &str,
    fence: Option<&Fence>,
) -> Result<String, Error> {
    let document = Document {
        why: held.to_string(),
        silent: held.silent,
        watched: held.watched,
        held_until,
        ..before.content.document.read::<Document>()?
    };
    let content = Content {
        state: held.phase.as_str().to_owned(),
        document: wardroom_store::Document::of(&document)?,
        ..before.content.clone()
    };
    let mut entry = by_system(app, entry_type, json!({"silent": held.silent, "watched": held.watched}));
    entry.comment = Some(held.to_string());
    Ok(commit(app, Some(before), content, entry, fence).await?)
}

pub(super) async fn end(app: &App, open: Resource, why: &str, fence: Option<&Fence>) -> Result<(), Error> {
    let document = Document {
        why: why.to_owned(),
        ended_at: Some(app.now()),
        ..open.content.document.read::<Document>()?
    };
    let content = Content {
        state: ENDED.to_owned(),
        document: wardroom_store::Document::of(&document)?,
        keys: BTreeSet::new(),
        ..open.content.clone()
    };
    let of = content.name.clone();
    let mut entry = by_system(app, TRANSITION, serde_json::Value::Null);
    entry.comment = Some(why.to_owned());
    let id = commit(app, Some(open), content, entry, fence).await?;
    tracing::info!(incident = id, of, why, "an incident ended");
    Ok(())
}

async fn commit(
    app: &App,
    before: Option<Resource>,
    after: Content,
    entry: Entry,
    fence: Option<&Fence>,
) -> Result<String, StoreError> {
    let change =
        Change { before, after, entry, effects: Vec::new(), fence: fence.cloned(), holds: Vec::new() };
    Ok(app.store.commit(change).await?.resource.content.id)
}

fn key(zone: &Zone) -> String {
    zone.as_ref().map_or_else(|| "open/fleet".to_owned(), |zone| format!("open/zone/{zone}"))
}

/// Ends incidents of zones in which no guard holds any more: the server that raised them may have stopped.
pub(super) async fn end_strays(app: &App, fence: Option<&Fence>) -> Result<(), Error> {
    let live = &app.liveness;
    // A lease holder that just took over has not found every silent member yet. Takes one lock at a time:
    // elsewhere the judge is locked first.
    let sweeping = live.status().sweeping;
    let since = sweeping.max(Some(live.judge_state().since)).unwrap_or(Timestamp::MIN);
    let settled = since.checked_add(live.settings.policy.at_most(None));
    if settled.is_ok_and(|settled| live.clock.steady() < settled) {
        return Ok(());
    }
    for phase in [Phase::Holding, Phase::Releasing] {
        let state = Some(phase.as_str().to_owned());
        let list = List { kind: KIND.to_owned(), state, limit: 1000, ..List::default() };
        for open in app.store.list(&list).await?.items {
            let zone = open.content.document.read::<Document>()?.zone;
            if !live.judge_state().incidents.contains_key(&zone) {
                end(app, open, "It is over: no guard holds these members any more.", fence).await?;
            }
        }
    }
    Ok(())
}
