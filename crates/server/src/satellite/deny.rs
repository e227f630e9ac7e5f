//! What this server remembers of satellites, kept in step with what other servers do.
//!
//! Two ways lead here. The deny set is read several times a second and waits for nothing: it is what a revocation
//! relies on. The feed tells of everything else, in its own time: what fell silent, registered or changed.

use std::time::Duration;

use tokio::{sync::watch, task::JoinSet};
use wardroom_store::{Cursor, List, Store};

use super::document::KIND;
use crate::{app::App, error::Error};

/// How often the deny set is read; several times within the time that memory holds.
const POLL: Duration = Duration::from_millis(250);

/// How long the feed is left alone when it says nothing.
const QUIET: Duration = Duration::from_secs(1);

/// How long changes are gathered before they are read.
const GATHER: Duration = Duration::from_millis(10);

const PAGE: usize = 1000;

/// Starts what keeps memory in step; it ends when `stop` says so.
pub(crate) fn spawn(app: &App, stop: &watch::Receiver<bool>, jobs: &mut JoinSet<()>) {
    let loading = app.clone();
    jobs.spawn(until_stopped(stop.clone(), async move { load_all(&loading).await }));
    if app.satellites.is_shared() {
        let (polling, following) = (app.clone(), app.clone());
        jobs.spawn(until_stopped(stop.clone(), async move { poll(&polling).await }));
        jobs.spawn(until_stopped(stop.clone(), async move { follow(&following).await }));
    }
}

async fn until_stopped(mut stop: watch::Receiver<bool>, job: impl Future<Output = ()>) {
    tokio::select! {
        () = job => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Remembers every satellite, so that the first beats after a start ask no database.
async fn load_all(app: &App) {
    while let Err(error) = load(app).await {
        tracing::warn!(%error, "satellites could not be loaded; it is tried again");
        tokio::time::sleep(QUIET).await;
    }
    app.satellites.complete();
}

async fn load(app: &App) -> Result<(), Error> {
    let mut list = List { kind: KIND.to_owned(), limit: PAGE, ..List::default() };
    loop {
        let asked = app.moment();
        let page = app.store.list(&list).await?;
        page.items.iter().for_each(|satellite| app.satellites.note(satellite, asked));
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Reads the deny set again and again. While it cannot be read, nothing that is remembered is believed.
async fn poll(app: &App) {
    let mut failing = false;
    loop {
        let asked = app.moment();
        match app.store.reserved().denied().await {
            Ok(denied) => {
                app.satellites.confirm(&denied, asked, Store::DENIED_FOR / 2);
                failing = false;
            }
            Err(error) if !failing => {
                tracing::warn!(%error, "the deny set cannot be read: satellites are looked up one by one");
                failing = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Follows the feed: what another server created is read, what it changed is read again by who asks for it.
async fn follow(app: &App) {
    let mut news = app.store.watch();
    let mut at: Option<Cursor> = None;
    loop {
        match pass_on(app, &mut at).await {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%error, "the feed cannot be followed; it is tried again");
                tokio::time::sleep(QUIET).await;
            }
        }
        // A hint may be lost; the feed is not.
        let _ = tokio::time::timeout(QUIET, news.changed()).await;
        tokio::time::sleep(GATHER).await;
    }
}

async fn pass_on(app: &App, at: &mut Option<Cursor>) -> Result<(), Error> {
    let mut cursor = match at.take() {
        Some(cursor) => cursor,
        None => app.store.feed_tail().await?,
    };
    loop {
        let (items, next) = match app.store.feed_of(&[KIND], &cursor, PAGE).await {
            Ok(read) => read,
            Err(error) => {
                *at = Some(cursor);
                return Err(error.into());
            }
        };
        for row in items.iter().map(|item| &item.row) {
            app.satellites.announce(&row.resource_id, row.sequence, app.clock.instant());
            let asked = app.moment();
            if row.sequence == 1
                && let Ok(Some(satellite)) = app.store.get(KIND, &row.resource_id).await
            {
                app.satellites.note(&satellite, asked);
            }
        }
        cursor = next;
        if items.len() < PAGE {
            *at = Some(cursor);
            return Ok(());
        }
    }
}
