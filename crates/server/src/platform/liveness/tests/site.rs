//! A server with satellites, without its listeners.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use wardroom_core::liveness::Interval;
use wardroom_store::{Change, Content, Document, Location, Resource, Rows, Store};

use crate::platform::{
    app::{App, by_system},
    clock::{Hand, Timepiece},
    config::{self, Sources},
    identity::secret::Key,
    liveness::{
        NewSeat, incident,
        sweep::{self, Sweep},
    },
};

pub(super) const KIND: &str = "satellite";

pub(super) struct Site {
    pub(super) app: App,
    pub(super) hand: &'static Hand,
    sweep: Sweep,
    pub(super) folder: tempfile::TempDir,
}

/// The interval of every satellite here.
pub(super) const INTERVAL: i64 = 30;

impl Site {
    /// A server that has been listening for longer than its grace.
    pub(super) async fn settled() -> Self {
        let mut site = Self::new(tempfile::tempdir().unwrap()).await;
        site.start().await;
        site.pass(301, |_, _| {}).await;
        site
    }

    pub(super) async fn new(folder: tempfile::TempDir) -> Self {
        let location = Location::Sqlite { dir: folder.path().to_owned() };
        Self::at(folder, &location).await
    }

    /// A server that keeps its data there.
    pub(super) async fn at(folder: tempfile::TempDir, location: &Location) -> Self {
        let hand = Hand::forever();
        let app = app(&folder, location, hand, "").await;
        Self { app, hand, sweep: Sweep::new(), folder }
    }

    /// Loads the members, as a server does when it starts.
    pub(super) async fn start(&self) {
        sweep::start(&self.app).await.unwrap();
    }

    /// Ends the server and starts another one on the same folder.
    pub(super) async fn restart(self) -> Self {
        let Self { app, folder, .. } = self;
        sweep::finish(&app).await.unwrap();
        drop(app);
        let site = Self::new(folder).await;
        site.start().await;
        site
    }

    pub(super) async fn satellites(&self, count: usize, zone: Option<&str>) -> Vec<String> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(satellite(&self.app, zone).await);
        }
        ids
    }

    /// One sweep.
    pub(super) async fn tick(&mut self) {
        self.sweep.tick(&self.app).await.unwrap();
    }

    /// Lets so many seconds pass, with a sweep in each; `each` may beat.
    pub(super) async fn pass(&mut self, seconds: i64, each: impl Fn(&App, i64)) {
        for second in 1..=seconds {
            self.hand.pass(SignedDuration::from_secs(1));
            each(&self.app, second);
            self.tick().await;
        }
    }

    /// Lets time pass while these beat at their interval.
    pub(super) async fn pass_beating(&mut self, seconds: i64, ids: &[String]) {
        self.pass(seconds, |app, second| {
            if second % INTERVAL == 0 {
                beat(app, ids);
            }
        })
        .await;
    }

    pub(super) async fn stale(&self, ids: &[String]) -> usize {
        let mut stale = 0;
        for id in ids {
            stale += usize::from(self.get(id).await.content.state == "stale");
        }
        stale
    }

    pub(super) async fn get(&self, id: &str) -> Resource {
        self.app.store.get(KIND, id).await.unwrap().unwrap()
    }

    /// State and zone of every incident there ever was.
    pub(super) async fn incidents(&self) -> Vec<(String, Option<String>)> {
        let list =
            wardroom_store::List { kind: incident::KIND.to_owned(), limit: 1000, ..Default::default() };
        let found = self.app.store.list(&list).await.unwrap().items;
        let brief = |found: Resource| {
            let document: incident::Document = found.content.document.read().unwrap();
            (found.content.state, document.zone)
        };
        found.into_iter().map(brief).collect()
    }

    pub(super) async fn newest_row(&self, kind: &str, id: &str) -> wardroom_store::HistoryRow {
        self.app.store.history(kind, id, Rows::All, 1, 0).await.unwrap().0.remove(0)
    }
}

pub(super) async fn app(
    folder: &tempfile::TempDir,
    location: &Location,
    hand: &'static Hand,
    more: &str,
) -> App {
    let mut sources = Sources { file: Some(more.to_owned()), ..Sources::default() };
    if let Location::Postgres { url } = location {
        sources.flags.push(("server.database_url", url.clone()));
    }
    let config = config::resolve(&sources, crate::kinds::KINDS).unwrap();
    let store = Store::open(location).await.unwrap();
    let path = folder.path().join("server.key");
    let key = Key::load(&path).unwrap().unwrap_or_else(|| Key::create(&path).unwrap());
    App::with_clock(store, config, key, crate::kinds::KINDS, Timepiece::turned_by(hand))
}

pub(super) fn beat(app: &App, ids: &[String]) {
    for id in ids {
        if let Some(seat) = app.liveness.find(KIND, id) {
            app.liveness.beat(seat, Interval::from_seconds(INTERVAL as u32));
        }
    }
}

/// Stores a satellite that is online and gives it a seat.
pub(super) async fn satellite(app: &App, zone: Option<&str>) -> String {
    satellite_every(app, zone, INTERVAL as u32).await
}

pub(super) async fn satellite_every(app: &App, zone: Option<&str>, seconds: u32) -> String {
    let given = Interval::from_seconds(seconds);
    let id = store_satellite(app, zone, given).await;
    app.liveness.seat(KIND, &id, NewSeat { zone, given, last_seen: None, said: None });
    id
}

pub(super) async fn store_satellite(app: &App, zone: Option<&str>, given: Option<Interval>) -> String {
    let labels =
        zone.map(|zone| ("zone".to_owned(), zone.to_owned())).into_iter().collect::<BTreeMap<_, _>>();
    let interval = serde_json::json!({"heartbeat_interval": given});
    store_member(app, Content { labels, ..member(KIND, "online", &interval) }).await
}

/// A member of a kind that beats.
pub(super) fn member(kind: &str, state: &str, document: &impl serde::Serialize) -> Content {
    let id = uuid::Uuid::now_v7().to_string();
    Content {
        kind: kind.to_owned(),
        id: id.clone(),
        name: id,
        state: state.to_owned(),
        document: Document::of(document).unwrap(),
        labels: BTreeMap::new(),
        fields: BTreeMap::new(),
        keys: BTreeSet::new(),
        due_at: None,
        deleted: false,
    }
}

pub(super) async fn store_member(app: &App, after: Content) -> String {
    let id = after.id.clone();
    let entry = by_system(app, "registered", serde_json::Value::Null);
    let change = Change { before: None, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() };
    app.store.commit(change).await.unwrap();
    id
}

/// A connection to a database beside those of its servers.
pub(super) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
