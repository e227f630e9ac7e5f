//! Seats follow the feed: whoever moved a member, and on whichever server, it is watched exactly while its
//! state is one that beats.

use std::time::Duration;

use tokio::sync::watch;
use wardroom_store::{Cursor, HistoryRow, TRANSITION};

use super::kinds::Beating;
use crate::{app::App, error::Error};

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
                tracing::warn!(%error, "the feed could not be followed; it is tried again");
                tokio::select! {
                    () = tokio::time::sleep(app.liveness.settings.sweep) => continue,
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            }
        }
        tokio::select! {
            // A store without its sender is about to close.
            changed = hint.changed() => if changed.is_err() { return },
            _ = stop.wait_for(|stop| *stop) => return,
        }
        // Who is moved here is seated at once; of the others many come together.
        tokio::time::sleep(GATHER).await;
    }
}

pub(super) async fn catch_up(app: &App, from: &mut Cursor) -> Result<(), Error> {
    let kinds: Vec<_> = app.liveness.kinds.iter().map(|row| row.kind).collect();
    loop {
        let (page, next) = app.store.feed_of(&kinds, from, PAGE).await?;
        for item in &page {
            if let Some(row) = app.liveness.kinds.iter().find(|row| row.kind == item.row.kind) {
                take_in(app, row, &item.row).await?;
            }
            *from = item.cursor.clone();
        }
        *from = next;
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

async fn take_in(app: &App, row: &Beating, change: &HistoryRow) -> Result<(), Error> {
    let (live, id) = (&app.liveness, change.resource_id.as_str());
    if change.entry.entry_type == "deleted" || row.ends.contains(&change.to_state.as_str()) {
        live.forget(row.kind, id);
        app.facts.forget(id);
        app.store.forget_seen(row.kind, id).await?;
        // Whoever deleted it may have ended before it came to that.
        app.store.forget_observations(row.kind, id).await?;
        return Ok(());
    }
    if !row.states.contains(&change.to_state.as_str()) {
        live.unseat(row.kind, id);
        return Ok(());
    }
    // Who moved it here has seated it already; any other change may have given it another zone or interval.
    if change.entry.entry_type == TRANSITION && live.find(row.kind, id).is_some() {
        return Ok(());
    }
    let found = app.store.get(row.kind, id).await?;
    let beats = |found: &wardroom_store::Resource| row.states.contains(&found.content.state.as_str());
    if let Some(found) = found.filter(|found| !found.content.deleted && beats(found)) {
        // One that is new here was heard a moment ago, wherever that was; another one was not heard by this.
        let last = live.find(row.kind, id).map_or_else(|| live.clock.steady_millis(), |_| i64::MIN);
        live.seat_stored(row, &found, last, 0);
    }
    Ok(())
}
