//! Conditions follow the settings: after a start with other required adapters, the conditions that depend on them are
//! folded again.
//!
//! Whether a reconciled resource is concerned shows in its conditions alone, so that a start with the same settings reads
//! no status of it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use wardroom_core::cluster::{Condition, RECONCILED, Status, is_folded_for};
use wardroom_store::{Entry, List, TRANSITION, attempts, unless_conflict};

use super::{
    CLUSTER, NODE_POOL, Sort,
    commit::{Moved, Step, commit},
    delete::{DELETED, owner_without},
    facts::Facts,
    list::conditions_of,
    pools_of,
    settings::Settings,
    turns::Turns,
};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
    work::schedule::Job,
};

/// How many resources are looked at together.
const PAGE: usize = 500;

/// When a pass that failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// The history row of conditions that the settings moved, when `Reconciled` stays.
const REFOLDED: &str = "required_adapters_changed";

/// The job that looks at every cluster and node pool once after the start.
pub(super) fn job() -> Job {
    Job::once("required adapters", AGAIN, all)
}

pub(super) fn all(app: &App) -> BoxFuture<'_, Result<(), Error>> {
    Box::pin(async move {
        // A node pool that goes with its last adapter lets its cluster go.
        for sort in [&NODE_POOL, &CLUSTER] {
            pass(app, sort).await?;
        }
        Ok(())
    })
}

async fn pass(app: &App, sort: &'static Sort) -> Result<(), Error> {
    let required = Settings::of(&app.config).required(sort);
    let mut list = List { kind: sort.kind.to_owned(), limit: PAGE, ..List::default() };
    loop {
        let page = app.store.list(&list).await?;
        let conditions = conditions_of(app, sort, &page.items).await?;
        for resource in &page.items {
            let id = &resource.content.id;
            if !conditions.get(id).is_some_and(|found| stays(required, found)) {
                let _turn = app.part::<Turns>().take(id).await;
                attempts(|| attempt(app, sort, id)).await?;
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Whether another fold would give the same, as far as the conditions alone can tell.
fn stays(required: &[String], conditions: &[Condition]) -> bool {
    let reconciled = |one: &Condition| one.type_ == RECONCILED && one.status == Status::True;
    conditions.iter().any(reconciled) && is_folded_for(required, conditions)
}

/// Folds again what is known now; nothing comes back when another writer had its turn.
async fn attempt(app: &App, sort: &'static Sort, id: &str) -> Result<Option<()>, Error> {
    let Some(facts) = Facts::read(app, sort, id).await? else { return Ok(Some(())) };
    let owns = facts.is_being_deleted() && *sort == CLUSTER;
    let has_children = owns && !pools_of(app, id).await?.is_empty();
    let step = Step { has_children, ..Step::of(&facts) };
    let own = step.settle(app, |moved, is_gone| Some(entry(app, moved, is_gone)))?;
    let is_gone = own.is_gone;
    if own.conditions == facts.conditions && !is_gone {
        return Ok(Some(()));
    }
    let mut settled = vec![own];
    if is_gone {
        let removal = || Some(by_system(app, DELETED, json!({ "settings": "required_adapters" })));
        settled.extend(owner_without(app, &facts, &removal).await?);
    }
    Ok(unless_conflict(commit(app, settled).await)?.map(|_| ()))
}

fn entry(app: &App, moved: &Moved, is_gone: bool) -> Entry {
    let moves = moved.conditions.iter().any(|one| one.type_ == RECONCILED);
    let entry_type = match (is_gone, moves) {
        (true, _) => DELETED,
        (false, true) => TRANSITION,
        (false, false) => REFOLDED,
    };
    by_system(app, entry_type, json!({ "settings": "required_adapters", "moved": moved }))
}
