//! Seats follow the feed: a member is watched exactly while its state is one that beats, whichever server
//! moved it.
//!
//! What must stay true: states that a member passed through while the feed was late neither end its watch nor
//! count as a beat.

use std::{collections::HashMap, time::Duration};

use tokio::sync::watch;
use wardroom_core::liveness::Interval;
use wardroom_store::{Cursor, FeedItem, HistoryRow, TRANSITION};

use super::kinds::{Beating, LastHeard};
use crate::platform::{app::App, http::error::Error, observed};

const PAGE: usize = 500;

/// How long changes are gathered before they are read.
const GATHER: Duration = Duration::from_millis(20);

/// Follows the feed from a place until `stop` says so.
pub(super) async fn run(app: &App, mut from: Cursor, mut stop: watch::Receiver<bool>) {
    let mut hint = app.store.watch();
    loop {
        hint.mark_unchanged();
        match catch_up(app, &mut from).await {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%error, "feed not read; retrying");
                tokio::select! {
                    () = tokio::time::sleep(app.liveness.settings.sweep) => continue,
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            }
        }
        tokio::select! {
            // The sender is gone when the store is about to close.
            changed = hint.changed() => if changed.is_err() { return },
            _ = stop.wait_for(|stop| *stop) => return,
        }
        // Members moved by this server get a seat at once; changes of other servers are gathered.
        tokio::time::sleep(GATHER).await;
    }
}

pub(super) async fn catch_up(app: &App, from: &mut Cursor) -> Result<(), Error> {
    let kinds: Vec<_> = app.liveness.kinds.iter().map(|row| row.kind).collect();
    loop {
        let (page, next) = app.store.feed_of(&kinds, from, PAGE).await?;
        for passed in passed(app, &page) {
            take_in(app, &passed).await?;
        }
        *from = next;
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// The moves of a member within a page of the feed.
struct Passed<'a> {
    row: &'static Beating,
    newest: &'a HistoryRow,
    /// Whether it was deleted; later rows do not matter.
    is_gone: bool,
    /// Whether all its changes are moves: any other change may set another zone or interval.
    is_moved_only: bool,
}

fn passed<'a>(app: &App, page: &'a [FeedItem]) -> Vec<Passed<'a>> {
    let mut all: Vec<Passed<'a>> = Vec::new();
    let mut places = HashMap::new();
    for FeedItem { row: change, .. } in page {
        let Some(row) = app.liveness.kinds.iter().find(|row| row.kind == change.kind) else { continue };
        let place = *places.entry((row.kind, change.resource_id.as_str())).or_insert(all.len());
        if place == all.len() {
            all.push(Passed { row, newest: change, is_gone: false, is_moved_only: true });
        }
        let passed = &mut all[place];
        passed.newest = change;
        passed.is_gone |=
            change.entry.entry_type == "deleted" || row.ends.contains(&change.to_state.as_str());
        passed.is_moved_only &= change.entry.entry_type == TRANSITION;
    }
    all
}

async fn take_in(app: &App, passed: &Passed<'_>) -> Result<(), Error> {
    let Passed { row, newest: change, is_gone, is_moved_only } = *passed;
    let (live, id) = (&app.liveness, change.resource_id.as_str());
    if is_gone {
        live.forget(row.kind, id);
        app.store.forget_seen(row.kind, id).await?;
        // The server that deleted it may have stopped before doing so.
        observed::forget(app, row.kind, id).await?;
        return Ok(());
    }
    if !row.states.contains(&change.to_state.as_str()) {
        live.unseat(row.kind, id);
        return Ok(());
    }
    // The server that moved it has already seated it.
    if is_moved_only && live.find(row.kind, id).is_some() {
        return Ok(());
    }
    let found = app.store.get(row.kind, id).await?;
    let beats = |found: &wardroom_store::Resource| row.states.contains(&found.content.state.as_str());
    if let Some(found) = found.filter(|found| !found.content.deleted && beats(found)) {
        if live.find(row.kind, id).is_some() {
            // This move was no beat.
            live.seat_stored(row, &found, i64::MIN, 0);
        } else if let Some(LastHeard { at, every }) = (row.heard)(app, id).await? {
            live.seat_stored(row, &found, live.steady_of(at), every.map_or(0, Interval::seconds));
        } else {
            live.seat_heard(row, &found);
        }
    }
    Ok(())
}
