//! A server without listeners, and a million members in its memory.

use std::{collections::BTreeMap, fmt};

use jiff::SignedDuration;
use wardroom_core::liveness::Interval;
use wardroom_server::{
    platform::app::App,
    platform::clock::{Hand, Timepiece},
    platform::config::{self, Sources},
    platform::identity::secret::Key,
    platform::liveness::{Driver, NewSeat, Seat},
};
use wardroom_store::{Change, Content, Document, Entry, Location, Store};

pub(crate) const MEMBERS: usize = 1_000_000;
pub(crate) const KIND: &str = "satellite";

/// Zones that members are spread over.
const ZONES: usize = 100;

/// Which database.
pub(crate) enum Where {
    Sqlite,
    Postgres(String),
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        })
    }
}

pub(crate) fn databases() -> Vec<Where> {
    let postgres = std::env::var("WARDROOM_TEST_POSTGRES").ok().map(Where::Postgres);
    if postgres.is_none() {
        println!("PostgreSQL: WARDROOM_TEST_POSTGRES is not set, not measured");
    }
    [Where::Sqlite].into_iter().chain(postgres).collect()
}

/// Creates a database of its own in a cluster.
pub(crate) async fn new_database(admin: &str) -> String {
    let (client, connection) = tokio_postgres::connect(admin, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let millis = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let name = format!("live_bench_{}_{millis}", std::process::id());
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    format!("{}/{name}", admin.rsplit_once('/').unwrap().0)
}

pub(crate) struct Fleet {
    pub(crate) app: App,
    pub(crate) driver: Driver,
    pub(crate) hand: &'static Hand,
    /// Where its PostgreSQL is, if it has one.
    pub(crate) url: Option<String>,
    _folder: tempfile::TempDir,
}

impl Fleet {
    pub(crate) async fn new(at: &Where) -> Self {
        let url = match at {
            Where::Sqlite => None,
            Where::Postgres(admin) => Some(new_database(admin).await),
        };
        Self::over(url).await
    }

    async fn over(url: Option<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut sources = Sources::default();
        let location = match &url {
            None => Location::Sqlite { dir: folder.path().to_owned() },
            Some(url) => {
                sources.flags.push(("server.database_url", url.clone()));
                Location::Postgres { url: url.clone() }
            }
        };
        sources.file = Some("[liveness]\ngrace_seconds = 0\n".to_owned());
        let (config, store) = (
            config::resolve(&sources, wardroom_server::KINDS).unwrap(),
            Store::open(&location).await.unwrap(),
        );
        let (key, hand) = (Key::create(&folder.path().join("server.key")).unwrap(), Hand::forever());
        let app = App::with_clock(store, config, key, wardroom_server::KINDS, Timepiece::turned_by(hand));
        let driver = Driver::start(&app).await.unwrap();
        Self { app, driver, hand, url, _folder: folder }
    }

    pub(crate) fn seat_all(&self) {
        for member in 0..MEMBERS {
            let (zone, given) = (zone(member), Interval::from_seconds(30));
            self.app.liveness.seat(
                KIND,
                &id(member),
                NewSeat { zone: Some(&zone), given, ..NewSeat::default() },
            );
        }
    }

    pub(crate) fn find(&self, member: usize) -> Seat {
        self.app.liveness.find(KIND, &id(member)).unwrap()
    }

    pub(crate) fn beat(&self, seat: Seat) {
        std::hint::black_box(self.app.liveness.beat(seat, Interval::from_seconds(30)));
    }

    /// Beats for every member from a number on.
    pub(crate) fn beat_from(&self, first: usize) {
        (first..MEMBERS).for_each(|member| self.beat(self.find(member)));
    }

    /// Lets seconds pass, with a sweep in each.
    pub(crate) async fn seconds(&mut self, count: u32) {
        for _ in 0..count {
            self.hand.pass(SignedDuration::from_secs(1));
            self.driver.sweep(&self.app).await.unwrap();
        }
    }

    pub(crate) async fn flush(&mut self) -> u64 {
        Driver::flush(&self.app).await.unwrap()
    }

    /// Stores the first members, online.
    pub(crate) async fn store_members(&self, count: usize) {
        let changes = (0..count).map(|member| self.registered(member)).collect();
        for result in self.app.store.commit_all(changes).await {
            result.unwrap();
        }
    }

    fn registered(&self, member: usize) -> Change {
        let document = serde_json::json!({"heartbeat_interval": "@every 00h00m30s"});
        let after = Content {
            kind: KIND.to_owned(),
            id: id(member),
            name: format!("sat-{member}"),
            state: "online".to_owned(),
            document: Document::of(&document).unwrap(),
            labels: BTreeMap::from([("zone".to_owned(), zone(member))]),
            fields: BTreeMap::new(),
            keys: [format!("name/sat-{member}")].into(),
            due_at: None,
            deleted: false,
        };
        let entry = Entry {
            entry_type: "registered".to_owned(),
            triggered_by: "system".to_owned(),
            user_id: None,
            comment: None,
            metadata: serde_json::Value::Null,
            request_id: None,
            at: self.app.now(),
        };
        Change { before: None, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() }
    }
}

fn zone(member: usize) -> String {
    format!("zone-{}", member % ZONES)
}

/// As long as the ids that members have, and like them in the order in which they came.
pub(crate) fn id(member: usize) -> String {
    format!("01920000-0000-7000-8000-{member:012}")
}

/// Every member once, in an order that no cache can guess.
pub(crate) fn shuffled() -> Vec<u32> {
    let mut order: Vec<u32> = (0..MEMBERS as u32).collect();
    let mut state = 88_172_645_463_325_252_u64;
    for last in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    order
}
