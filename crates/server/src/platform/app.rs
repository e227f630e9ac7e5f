//! The state that every handler shares: store, clock and settings. No upstream can be called from here.

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use jiff::Timestamp;
use tokio::sync::watch;
use wardroom_store::{Change, Committed, Content, Entry, Error as StoreError, Resource, Store};

use crate::platform::{
    clock::{Hand, Moment, Timepiece},
    config::Config,
    feed::events::tail::Tail,
    http::{
        access::{Denials, Route, Routes},
        idempotency,
        limit::Limiter,
        metrics::Metrics,
        router,
    },
    identity::{
        auth::{Caller, KnownToken},
        cache::Cache,
        deny::Caches,
        secret::Key,
    },
    kind::{Dialect, Kind, Stored},
    liveness::Liveness,
    parts::Parts,
};

/// The server's shared state.
#[derive(Clone)]
pub struct App(Arc<Inner>);

/// The parts of the state.
pub struct Inner {
    /// The data.
    pub store: Store,
    /// The time.
    pub clock: Timepiece,
    /// The settings.
    pub config: Config,
    pub(crate) kinds: &'static [&'static Kind],
    pub(crate) parts: Parts,
    pub(crate) routes: Routes,
    /// The paths whose GET reads parameters.
    queries: OnceLock<BTreeSet<String>>,
    /// The server's key.
    pub key: Key,
    /// Since when this server listens without a break: earlier silence does not count.
    listening_since: Mutex<Timestamp>,
    /// The members that beat, and those that fell silent.
    pub liveness: Liveness,
    pub(crate) metrics: Metrics,
    pub(crate) tokens: Arc<Cache<KnownToken>>,
    pub(crate) limiter: Limiter,
    pub(crate) denials: Denials,
    /// The end of the feed, for its followers.
    pub(crate) tail: Tail,
    /// Says that the server is about to stop, so that long requests end early.
    pub(crate) stopping: watch::Sender<bool>,
    /// Changes whose callers hung up and that still run; each holds a receiver until it is done.
    pub(crate) detached: watch::Sender<()>,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

pub(crate) enum Decided<T> {
    Commit(Box<(Content, Entry)>, T),
    Nothing(T),
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(store: Store, config: Config, key: Key, kinds: &'static [&'static Kind]) -> Self {
        let hand = config.test_clock.clone().map(Hand::of_file);
        let clock = hand.map_or_else(Timepiece::default, Timepiece::turned_by);
        Self::with_clock(store, config, key, kinds, clock)
    }

    /// The same with a clock that the caller turns.
    #[must_use]
    pub fn with_clock(
        store: Store,
        config: Config,
        key: Key,
        kinds: &'static [&'static Kind],
        clock: Timepiece,
    ) -> Self {
        let beating = kinds.iter().filter_map(|kind| kind.beats).collect();
        let liveness = Liveness::new(clock, config.liveness.clone(), beating);
        let routes = Routes::of(kinds);
        let mut parts = Parts::new(config.location.is_shared());
        let tokens = parts.cache(());
        kinds.iter().for_each(|kind| (kind.parts)(&mut parts, &config));
        store.listen(Arc::new(Caches::new(clock, parts.caches.clone())));
        Self(Arc::new(Inner {
            store,
            clock,
            kinds,
            parts,
            key,
            listening_since: Mutex::new(clock.now()),
            liveness,
            metrics: Metrics::new(&routes),
            queries: OnceLock::new(),
            routes,
            tokens,
            limiter: Limiter::new(&config),
            denials: Denials::default(),
            tail: Tail::new(config.limits.streams),
            stopping: watch::Sender::new(false),
            detached: watch::Sender::new(()),
            config,
        }))
    }

    /// Returns the part that a kind keeps in memory.
    ///
    /// # Panics Panics if the kind is not served; code of such a kind is never called.
    pub(crate) fn part<T: Any + Send + Sync>(&self) -> &T {
        self.parts.get().expect("a kind keeps its parts while it is served")
    }

    /// Returns the row of a stored resource type.
    pub(crate) fn stored(&self, kind: &str) -> Option<&'static Stored> {
        self.kinds.iter().flat_map(|row| row.stores).find(|stored| stored.kind == kind)
    }

    /// Returns the foreign protocol that a path belongs to, if any.
    pub(crate) fn dialect(&self, path: &str) -> Option<Dialect> {
        self.kinds.iter().filter_map(|kind| kind.dialect).find(|dialect| (dialect.speaks)(path))
    }

    /// Whether a route reads parameters of a query.
    pub(crate) fn reads_a_query(&self, route: &Route) -> bool {
        let queries = || self.queries.get_or_init(|| router::queries(self.kinds));
        route.method == "GET" && queries().contains(route.path)
    }

    /// Since when this server listens without a break.
    pub(crate) fn listening_since(&self) -> Timestamp {
        *self.listening_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the server could not receive heartbeats until now because its database did not answer.
    pub(crate) fn was_deaf(&self) {
        *self.listening_since.lock().unwrap_or_else(PoisonError::into_inner) = self.now();
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time now, on both clocks.
    pub(crate) fn moment(&self) -> Moment {
        self.clock.moment()
    }

    pub(crate) async fn create(&self, content: Content, entry: Entry) -> Result<Resource, StoreError> {
        self.commit(Change {
            before: None,
            after: content,
            entry,
            effects: Vec::new(),
            fence: None,
            holds: Vec::new(),
        })
        .await
    }

    /// Commits all changes or none, as part of the current request.
    pub(crate) async fn commit_together(&self, changes: Vec<Change>) -> Result<Vec<Resource>, StoreError> {
        let committed = self.store.commit_together_for(changes, idempotency::mark(self)).await?;
        Ok(committed.into_iter().map(|committed| self.noted(committed)).collect())
    }

    /// Commits each change separately; returns an outcome for each.
    pub(crate) async fn commit_all(&self, changes: Vec<Change>) -> Vec<Result<Resource, StoreError>> {
        let committed = self.store.commit_all(changes).await;
        committed.into_iter().map(|committed| Ok(self.noted(committed?))).collect()
    }

    /// Logs and counts a commit.
    pub(crate) fn noted(&self, committed: Committed) -> Resource {
        log(&committed);
        self.metrics.changed(&committed.row.kind);
        committed.resource
    }
}

/// Logs one line for a change, with the fields of its history row.
pub(crate) fn log(committed: &Committed) {
    let row = &committed.row;
    tracing::info!(
        kind = row.kind,
        id = row.resource_id,
        sequence = row.sequence,
        r#type = row.entry.entry_type,
        from = row.from_state.as_deref().unwrap_or(""),
        to = row.to_state,
        triggered_by = row.entry.triggered_by,
        user = row.entry.user_id.as_deref().unwrap_or(""),
        request_id = row.entry.request_id.as_deref().unwrap_or(""),
        "changed"
    );
}

/// Builds the history entry of a person's action.
pub(crate) fn by_person(app: &App, caller: &Caller, entry_type: &str, comment: Option<String>) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "admin".to_owned(),
        user_id: Some(caller.name().to_owned()),
        comment,
        metadata: serde_json::Value::Null,
        request_id: Some(caller.request_id.to_string()),
        at: app.now(),
    }
}

/// Builds the history entry of an action of the server.
pub(crate) fn by_system(app: &App, entry_type: &str, metadata: serde_json::Value) -> Entry {
    Entry {
        entry_type: entry_type.to_owned(),
        triggered_by: "system".to_owned(),
        user_id: None,
        comment: None,
        metadata,
        request_id: None,
        at: app.now(),
    }
}
