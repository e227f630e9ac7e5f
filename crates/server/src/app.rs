//! What every handler holds: the store, the clock and the settings. No upstream can be called from here.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;
use wardroom_store::{Change, Committed, Content, Entry, Error as StoreError, Resource, Store};

use crate::{
    access::Denials,
    artifact,
    auth::{Caller, Tokens},
    clock::{Hand, Timepiece},
    config::Config,
    events::tail::Tail,
    idempotency,
    limit::Limiter,
    liveness::{Liveness, kinds},
    metrics::Metrics,
    satellite::{
        self,
        facts::Facts,
        identity::{Identities, Moment},
    },
    secret::Key,
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
    /// The server's key.
    pub key: Key,
    /// The URL under which machines reach the server while they boot.
    pub boot_url: String,
    /// Since when this server listens without a break: silence before that is charged to nobody.
    listening_since: Mutex<Timestamp>,
    /// Who beats, and who fell silent.
    pub liveness: Liveness,
    pub(crate) metrics: Metrics,
    pub(crate) tokens: Tokens,
    pub(crate) limiter: Limiter,
    pub(crate) denials: Denials,
    /// The end of the feed, for those who follow it.
    pub(crate) tail: Tail,
    /// Discoveries of this server take turns, and its name for those of all servers.
    pub(crate) discovering: tokio::sync::Mutex<String>,
    /// Who satellites are.
    pub(crate) satellites: Identities,
    /// What satellites last said.
    pub(crate) facts: Facts,
    /// Images of states.
    pub(crate) artifacts: artifact::Cache,
    /// Says that the server is about to stop, so that nobody is kept waiting.
    pub(crate) stopping: watch::Sender<bool>,
    /// Changes that are carried to their end without their callers; each listens here until it is done.
    pub(crate) detached: watch::Sender<()>,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// What was decided about a resource.
pub(crate) enum Decided<T> {
    /// Commit this.
    Commit(Box<(Content, Entry)>, T),
    /// There is nothing to commit.
    Nothing(T),
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(store: Store, config: Config, key: Key, boot_url: String) -> Self {
        let hand = config.test_clock.clone().map(Hand::of_file);
        let clock = hand.map_or_else(Timepiece::default, Timepiece::turned_by);
        Self::with_clock(store, config, key, boot_url, clock)
    }

    /// The same with a clock that the caller turns.
    #[must_use]
    pub fn with_clock(store: Store, config: Config, key: Key, boot_url: String, clock: Timepiece) -> Self {
        let limiter = Limiter::new(&config);
        let tokens = Tokens::new(&config);
        let liveness = Liveness::new(clock, config.liveness.clone(), kinds::BEATING);
        let (denials, tail) = (Denials::default(), Tail::new(config.limits.streams));
        let (satellites, facts) = (Identities::new(&config), Facts::default());
        let listening_since = Mutex::new(clock.now());
        let discovering = tokio::sync::Mutex::new(uuid::Uuid::now_v7().to_string());
        let (stopping, detached) = (watch::Sender::new(false), watch::Sender::new(()));
        Self(Arc::new(Inner {
            store,
            clock,
            config,
            key,
            boot_url,
            listening_since,
            liveness,
            metrics: Metrics::new(),
            tokens,
            limiter,
            denials,
            tail,
            discovering,
            satellites,
            facts,
            artifacts: artifact::Cache::default(),
            stopping,
            detached,
        }))
    }

    /// Since when this server listens without a break.
    pub(crate) fn listening_since(&self) -> Timestamp {
        *self.listening_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that until now the server could not hear, because its database did not answer.
    pub(crate) fn was_deaf(&self) {
        *self.listening_since.lock().unwrap_or_else(PoisonError::into_inner) = self.now();
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The URL under which satellites reach the server.
    pub(crate) fn url(&self) -> &str {
        self.config.satellites.url.as_deref().unwrap_or_default()
    }

    /// The URL under which satellites with a certificate reach it, which count for nothing elsewhere.
    pub(crate) fn url_by_certificate(&self) -> Option<&str> {
        let spiffe = self.config.spiffe.as_ref().and_then(|spiffe| spiffe.url.as_deref());
        spiffe.or(self.config.satellites.url.as_deref())
    }

    /// The time now, on both clocks.
    pub(crate) fn moment(&self) -> Moment {
        Moment { instant: self.clock.instant(), time: self.now() }
    }

    /// Creates a resource.
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

    /// Commits all of these or none, as part of the request that is being run, and remembers as any other commit does.
    pub(crate) async fn commit_together(&self, changes: Vec<Change>) -> Result<Vec<Resource>, StoreError> {
        let (about, asked): (Vec<_>, _) = (changes.iter().map(About::of).collect(), self.moment());
        let mark = idempotency::mark(self);
        let committed = self.store.commit_together_for(changes, mark).await;
        if committed.as_ref().is_err_and(StoreError::leaves_doubt) {
            about.iter().for_each(|about| self.doubt(about));
        }
        Ok(committed?.into_iter().map(|committed| self.noted(committed, asked)).collect())
    }

    /// Commits each of these for itself, and remembers as any other commit does; what became of each.
    pub(crate) async fn commit_all(&self, changes: Vec<Change>) -> Vec<Result<Resource, StoreError>> {
        let about: Vec<_> = changes.iter().map(About::of).collect();
        let (asked, committed) = (self.moment(), self.store.commit_all(changes).await);
        let answers = about.iter().zip(committed).map(|(about, committed)| {
            if committed.as_ref().is_err_and(StoreError::leaves_doubt) {
                self.doubt(about);
            }
            Ok(self.noted(committed?, asked))
        });
        answers.collect()
    }

    /// Remembers what must be remembered before anybody is told.
    pub(crate) fn noted(&self, committed: Committed, asked: Moment) -> Resource {
        log(&committed);
        self.metrics.changed(&committed.row.kind);
        if committed.resource.content.kind == satellite::KIND {
            self.satellites.note(&committed.resource, asked);
        }
        committed.resource
    }

    /// A commit that was not answered may have happened.
    pub(crate) fn doubt(&self, about: &About) {
        if let About(Some((id, version))) = about {
            self.satellites.doubt(id, *version, self.clock.instant());
        }
    }
}

/// The satellite that a change is about, if it is one, and the version that it gets.
pub(crate) struct About(Option<(String, i64)>);

impl About {
    pub(crate) fn of(change: &Change) -> Self {
        let version = change.before.as_ref().map_or(1, |before| before.version + 1);
        Self((change.after.kind == satellite::KIND).then(|| (change.after.id.clone(), version)))
    }
}

/// One line for every change, with what history has.
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

/// A history entry for what a person does.
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

/// A history entry for what the server does by itself.
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
