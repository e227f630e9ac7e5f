//! Accepting the report of an adapter: the one place where a report becomes what is known.
//!
//! What must stay true: the adapter's status, the conditions that follow from it, the history row and the removal after the
//! last `Finalized` are one commit. Reports of one resource are folded one after the other; one that has to wait its turn
//! is accepted like any other.

use jiff::Timestamp;
use serde_json::json;
use wardroom_core::cluster::{AdapterStatus, Discard, RECONCILED, Report, Verdict, classify, upsert};
use wardroom_store::{Entry, TRANSITION, attempts, unless_conflict};

use super::{
    CLUSTER, Sort,
    adapters::silence,
    commit::{Moved, Settled, Step, commit},
    delete::{DELETED, owner_without},
    facts::{Facts, Said},
    pools_of,
    turns::Turns,
};
use crate::platform::{app::App, http::error::Error, identity::auth::Caller};

mod incoming;

pub(crate) use incoming::Incoming;

/// What became of a valid report.
pub(crate) enum Accepted {
    /// It is what is known of its adapter now.
    Stored(Said),
    /// It changes nothing.
    Discarded {
        why: Discard,
        /// The generation of the resource.
        generation: i64,
    },
}

/// A report, and when and from which caller it came.
struct Arrived<'a> {
    incoming: &'a Incoming,
    caller: &'a Caller,
    at: Timestamp,
}

/// Takes in a report about the resource of this id.
pub(crate) async fn accept(
    app: &App,
    caller: &Caller,
    sort: &'static Sort,
    id: &str,
    incoming: &Incoming,
) -> Result<Accepted, Error> {
    let arrived = Arrived { incoming, caller, at: app.now() };
    let _turn = app.part::<Turns>().take(id).await;
    attempts(|| attempt(app, sort, id, &arrived)).await
}

/// Decides on what is known now; nothing comes back when another writer had its turn.
async fn attempt(
    app: &App,
    sort: &'static Sort,
    id: &str,
    arrived: &Arrived<'_>,
) -> Result<Option<Accepted>, Error> {
    let facts = Facts::read(app, sort, id).await?.ok_or_else(|| Error::not_found(sort.kind, id))?;
    let Incoming { report, data, metadata, .. } = arrived.incoming;
    silence::heard(app, sort, id, &report.adapter);
    let before = facts.said(&report.adapter).map(|said| &said.status);
    let generation = facts.document.generation;
    let folds = match classify(generation, before, report) {
        Verdict::Discard(why) => return Ok(Some(Accepted::Discarded { why, generation })),
        Verdict::Store { folds } => folds,
    };
    let status: AdapterStatus = upsert(before, report.clone());
    let (data, metadata) = (data.clone(), metadata.clone());
    let said = Said { status, data, metadata, received_at: arrived.at };
    let settled = settle(app, &facts, arrived, said.clone(), folds).await?;
    Ok(unless_conflict(commit(app, settled).await)?.map(|_| Accepted::Stored(said)))
}

/// What is committed with a report: a step of its resource and, when that is removed, of the cluster that owned it.
async fn settle(
    app: &App,
    facts: &Facts,
    arrived: &Arrived<'_>,
    said: Said,
    folds: bool,
) -> Result<Vec<Settled>, Error> {
    let owns = facts.is_being_deleted() && *facts.sort == CLUSTER;
    let has_children = owns && !pools_of(app, facts.id()).await?.is_empty();
    let step = Step { said: Some(said), folds, has_children, ..Step::of(facts) };
    let own = step.settle(app, |moved, is_gone| entry(arrived, moved, is_gone))?;
    let is_gone = own.is_gone;
    let mut settled = vec![own];
    if is_gone {
        let removal = || Some(by_adapter(arrived, DELETED, json!({ "adapter": arrived.report().adapter })));
        settled.extend(owner_without(app, facts, &removal).await?);
    }
    Ok(settled)
}

/// The history row of a report: only when a status moves.
fn entry(arrived: &Arrived<'_>, moved: &Moved, is_gone: bool) -> Option<Entry> {
    let stays = moved.adapter.is_empty() && moved.conditions.is_empty();
    if stays && !is_gone {
        return None;
    }
    let moves = moved.conditions.iter().any(|one| one.type_ == RECONCILED && one.from.is_some());
    let entry_type = match (is_gone, moves) {
        (true, _) => DELETED,
        (false, true) => TRANSITION,
        (false, false) => "reported",
    };
    let Report { adapter, observed_generation, .. } = arrived.report();
    let metadata = json!({ "adapter": adapter, "observed_generation": observed_generation, "moved": moved });
    Some(by_adapter(arrived, entry_type, metadata))
}

fn by_adapter(arrived: &Arrived<'_>, entry_type: &str, metadata: serde_json::Value) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "adapter_report".to_owned(),
        user_id: Some(arrived.caller.name().to_owned()),
        comment: None,
        metadata,
        request_id: Some(arrived.caller.request_id.to_string()),
        at: arrived.at,
    }
}

impl Arrived<'_> {
    fn report(&self) -> &Report {
        &self.incoming.report
    }
}
