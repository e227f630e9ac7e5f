//! The end of the feed, in memory, for all followers: one task reads the database, however many follow.
//!
//! What must stay true: the ring holds every change between its start and its end, so that a follower in
//! between misses nothing and sees nothing twice; a follower further behind reads the database until it
//! reaches the ring. A follower whose token was revoked gets no later change: tokens are checked between
//! reading and showing.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::response::sse;
use tokio::sync::{Notify, Semaphore, watch};
use wardroom_api::history::Row;
use wardroom_store::{Cursor, FeedItem};

use super::shown;
use crate::platform::{
    app::App,
    feed::reconcile::{Told, ring::Rechecks},
    http::error::Error,
    identity::auth::{Identity, TOKEN},
};

pub(in crate::platform::feed) const PAGE: usize = 500;

/// Changes that are kept, and how long they may be as text. A follower further behind reads the database.
const MOST: usize = 4096;
const MOST_BYTES: usize = 16 << 20;

/// How long changes are gathered before they are read.
const GATHER: Duration = Duration::from_millis(10);

/// The pause after the database did not answer.
const QUIET: Duration = Duration::from_secs(1);

/// How many followers read the database at a time: other requests need it too.
const CATCHING_UP: usize = 4;

/// One change, as it is sent to every follower.
pub(in crate::platform) struct Change {
    pub(in crate::platform::feed) cursor: Cursor,
    pub(in crate::platform) row: Row,
    pub(super) event: sse::Event,
    /// What it means to adapters; computed when the first of them reads it.
    told: OnceLock<Option<Arc<Told>>>,
    size: usize,
}

impl Change {
    pub(super) fn of(FeedItem { cursor, row }: FeedItem) -> Result<Arc<Self>, Error> {
        let id = cursor.to_string();
        let row = shown(row, id.clone());
        let text = serde_json::to_string(&row).map_err(|error| {
            tracing::error!(%error, cursor = id, "change not shown in the feed");
            Error::Internal
        })?;
        // The default event type: `onmessage` of clients gets every event, and its data says what changed.
        let event = sse::Event::default().id(id).data(&text);
        Ok(Arc::new(Self { cursor, row, event, told: OnceLock::new(), size: text.len() }))
    }

    /// Returns what adapters have to look at after it; nothing if it is no work for them.
    pub(in crate::platform::feed) fn told(&self, app: &App) -> Option<&Arc<Told>> {
        self.told.get_or_init(|| Told::by_change(app, &self.row)).as_ref()
    }
}

/// The state that the followers of this server share.
pub(crate) struct Tail {
    ring: RwLock<Ring>,
    followed: Mutex<HashMap<String, Followed>>,
    /// How many one token may have; 0 for any number.
    most: u32,
    /// Changes when there is a new change; followers wait for it.
    pub(in crate::platform::feed) news: watch::Sender<()>,
    /// The newest re-checks, for waiting adapters.
    pub(crate) rechecks: Rechecks,
    wake: Notify,
    pub(super) catching_up: Semaphore,
    reads: AtomicU64,
}

/// The streams and waiting requests of one token.
#[derive(Default)]
struct Followed {
    count: u32,
    /// Whether the token is revoked or has expired.
    over: bool,
}

/// The newest changes, all of those after `start`; nothing until the first follower.
struct Ring {
    start: Option<Cursor>,
    changes: VecDeque<Arc<Change>>,
    size: usize,
    most: usize,
}

impl Tail {
    pub(crate) fn new(most: u32) -> Self {
        Self {
            ring: RwLock::new(Ring { start: None, changes: VecDeque::new(), size: 0, most: MOST }),
            followed: Mutex::default(),
            most,
            news: watch::Sender::new(()),
            rechecks: Rechecks::default(),
            wake: Notify::new(),
            catching_up: Semaphore::new(CATCHING_UP),
            reads: AtomicU64::new(0),
        }
    }

    /// A short ring, for tests of followers that fall behind.
    #[cfg(test)]
    pub(super) fn keep(&self, most: usize) {
        self.ring.write().unwrap_or_else(PoisonError::into_inner).most = most;
    }

    pub(crate) fn followers(&self) -> usize {
        self.news.receiver_count()
    }

    /// How often the database was asked for all of them together.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    pub(super) fn count_read(&self) {
        self.reads.fetch_add(1, Relaxed);
    }

    /// The changes after a place; nothing when some of them may not be here.
    pub(super) fn after(&self, place: &Cursor, most: usize) -> Option<Vec<Arc<Change>>> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).after(place, most)
    }

    /// Takes a place for a token, which must not have too many.
    pub(super) fn enter(&self, id: &str) -> Result<(), Error> {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let of = followed.entry(id.to_owned()).or_default();
        if self.most > 0 && of.count >= self.most {
            return Err(Error::TooManyStreams(self.most));
        }
        of.count += 1;
        self.wake.notify_one();
        Ok(())
    }

    pub(super) fn leave(&self, id: &str) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = followed.get_mut(id) {
            of.count -= 1;
            if of.count == 0 {
                followed.remove(id);
            }
        }
    }

    /// Whether the token of a follower was found to be revoked.
    pub(super) fn is_over(&self, id: &str) -> bool {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.get(id).is_none_or(|of| of.over)
    }

    /// Looks at the tokens of all followers at once.
    async fn check_tokens(&self, app: &App) -> Result<(), Error> {
        let ids: Vec<_> = {
            let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            followed.keys().cloned().collect()
        };
        self.count_read();
        let found = app.store.get_all(TOKEN, &ids).await?;
        let valid: BTreeSet<_> = found.iter().filter_map(Identity::of).map(|identity| identity.id).collect();
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids.iter().filter(|id| !valid.contains(*id)) {
            if let Some(of) = followed.get_mut(id) {
                of.over = true;
            }
        }
        Ok(())
    }

    /// Begins where the feed ends now. Followers read older changes from the database.
    async fn begin(&self, app: &App) -> Result<(), Error> {
        self.count_read();
        let end = app.store.feed_tail().await?;
        if self.end().as_ref() == Some(&end) {
            return Ok(());
        }
        // A revocation may be among the skipped changes.
        self.check_tokens(app).await?;
        self.ring.write().unwrap_or_else(PoisonError::into_inner).start_at(end);
        self.news.send_replace(());
        Ok(())
    }

    /// Reads new changes; returns whether there may be more.
    async fn take_in(&self, app: &App) -> Result<bool, Error> {
        let Some(end) = self.end() else { return Ok(false) };
        self.count_read();
        let items = app.store.feed_after(&end, PAGE).await?;
        if items.is_empty() {
            return Ok(false);
        }
        let (more, tokens) = (items.len() == PAGE, items.iter().any(|item| item.row.kind == TOKEN));
        let changes = items.into_iter().map(Change::of).collect::<Result<Vec<_>, _>>()?;
        if tokens {
            self.check_tokens(app).await?;
        }
        self.ring.write().unwrap_or_else(PoisonError::into_inner).extend(changes);
        self.news.send_replace(());
        Ok(more)
    }

    fn end(&self) -> Option<Cursor> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).end()
    }
}

impl Ring {
    fn end(&self) -> Option<Cursor> {
        self.changes.back().map(|last| last.cursor.clone()).or_else(|| self.start.clone())
    }

    fn start_at(&mut self, place: Cursor) {
        self.changes.clear();
        (self.start, self.size) = (Some(place), 0);
    }

    fn after(&self, place: &Cursor, most: usize) -> Option<Vec<Arc<Change>>> {
        if self.start.as_ref().is_none_or(|start| place < start) {
            return None;
        }
        let passed = self.changes.partition_point(|change| change.cursor <= *place);
        Some(self.changes.iter().skip(passed).take(most).cloned().collect())
    }

    fn extend(&mut self, changes: Vec<Arc<Change>>) {
        for change in changes {
            self.size += change.size;
            self.changes.push_back(change);
            while self.changes.len() > self.most || self.size > MOST_BYTES {
                let Some(oldest) = self.changes.pop_front() else { break };
                self.size -= oldest.size;
                self.start = Some(oldest.cursor.clone());
            }
        }
    }
}

/// Reads the feed while there are followers, until `stop` says so.
pub(crate) async fn run(app: App, mut stop: watch::Receiver<bool>) {
    tokio::select! {
        () = serve(&app) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn serve(app: &App) {
    let tail = &app.tail;
    let mut hint = app.store.watch();
    loop {
        tail.wake.notified().await;
        tokio::select! {
            () = follow(app, &mut hint) => return,
            () = tail.news.closed() => {}
        }
    }
}

/// Ends when the store is about to close.
async fn follow(app: &App, hint: &mut watch::Receiver<u64>) {
    while let Err(error) = app.tail.begin(app).await {
        tracing::warn!(%error, "end of the feed not found; retrying");
        tokio::time::sleep(QUIET).await;
    }
    loop {
        hint.mark_unchanged();
        match app.tail.take_in(app).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "feed not read; its followers wait for the next attempt");
                tokio::time::sleep(QUIET).await;
                continue;
            }
        }
        if hint.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(GATHER).await;
    }
}
