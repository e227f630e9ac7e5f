//! What adapters are told, of a kind that is made up.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::{sync::watch, task::JoinSet};
use utoipa_axum::router::OpenApiRouter;
use wardroom_api::reconcile::{Reconcile, ReconcileEvents};
use wardroom_core::table::Role;
use wardroom_store::{Change, Content, Cursor, Document, Entry, Location, Store};

use super::{Again, Following, Reconciling, followed, recheck};
use crate::platform::{
    app::{App, by_system},
    config::{self, Sources},
    feed::events::tail,
    http::{error::Error, vocabulary::Words},
    identity::{
        auth::{Caller, Identity, Principal, TokenDocument},
        secret::Key,
        token,
    },
    kind::{Kind, Stored},
    testing,
    work::{jobs::server_record, schedule},
};

const TOY: Kind = Kind {
    name: "toy",
    settings: |_| {},
    parts: |_, _| {},
    access: &[],
    routes: OpenApiRouter::new,
    stores: &[Stored { told: Some(&TOLD), ..Stored::of("toy") }, Stored::of("other")],
    beats: None,
    jobs: |_| Vec::new(),
    words: &Words { schemas: &[], parameters: &[] },
    faces: &[],
    problems: &[],
    dialect: None,
};

const KINDS: &[&Kind] = &[&TOY];

/// Changes with a generation are work; `dns` is required. A toy in state `rested` is due later only.
const TOLD: Reconciling = Reconciling {
    event_type: "com.wardroom.toy.reconcile",
    requires: |_, adapter| adapter == "dns",
    changed: |row| Some(toy(&row.resource_id, row.metadata["generation"].as_i64()?)),
    due: |app, resources| {
        Box::pin(async move {
            let again = |resource: &wardroom_store::Resource| {
                let is_rested = resource.content.state == "rested";
                let look_at = (!is_rested).then(|| toy(&resource.content.id, resource.version));
                Again { look_at, next: app.now() + SignedDuration::from_hours(1) }
            };
            Ok(resources.iter().map(again).collect())
        })
    },
};

fn toy(id: &str, generation: i64) -> Reconcile {
    let href = format!("/toys/{id}");
    Reconcile { id: id.to_owned(), kind: "Toy".to_owned(), href, generation, owner_references: None }
}

struct Server {
    app: App,
    _jobs: JoinSet<()>,
    /// Ends the jobs when it is gone.
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

/// A server with its tail and the job of re-checks.
async fn server(location: Option<Location>) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let location = location.unwrap_or(Location::Sqlite { dir: folder.path().to_owned() });
    let config = config::resolve(&Sources::default(), KINDS).unwrap();
    let key = Key::create(&folder.path().join("server.key")).unwrap();
    let app = App::new(Store::open(&location).await.unwrap(), config, key, KINDS);
    let (stop, stopped) = watch::channel(false);
    let mut jobs = JoinSet::new();
    schedule::start(&app, vec![recheck::job()], &stopped, &mut jobs);
    jobs.spawn(tail::run(app.clone(), stopped));
    Server { app, _jobs: jobs, _stop: stop, _folder: folder }
}

async fn caller(app: &App, adapter: Option<&str>, role: Role) -> Caller {
    static COUNT: Mutex<u32> = Mutex::new(0);
    let number = {
        let mut count = COUNT.lock().unwrap();
        *count += 1;
        *count
    };
    let expires_at = app.now() + SignedDuration::from_hours(1);
    let adapter = adapter.map(str::to_owned);
    let document = TokenDocument { role, kinds: Vec::new(), group_id: None, adapter, expires_at };
    let content =
        token::content(&app.key, &format!("caller {number}"), &document, &format!("wrt_{number}")).unwrap();
    let made = app.create(content, by_system(app, "registered", serde_json::Value::Null)).await.unwrap();
    let principal = Principal::Token(Arc::new(Identity::of(&made).unwrap()));
    Caller { principal, address: std::net::Ipv4Addr::LOCALHOST.into(), request_id: "test".into() }
}

fn entry(app: &App, type_: &str, generation: Option<i64>) -> Entry {
    by_system(
        app,
        type_,
        generation.map_or(serde_json::Value::Null, |generation| json!({"generation": generation})),
    )
}

fn content(kind: &str, id: &str, due_at: Option<Timestamp>) -> Content {
    Content { due_at, document: Document::default(), labels: BTreeMap::new(), ..server_record(kind, id) }
}

/// One page, and where it ends.
async fn page(app: &App, caller: &Caller, after: &Cursor, wait: Duration) -> (ReconcileEvents, Cursor) {
    let mut following = Following::join(app, caller, "dns", after.clone()).await.unwrap();
    let page = following.page(wait, 100).await.unwrap();
    let next = app.store.feed_at(&page.next).unwrap();
    (page, next)
}

fn told(page: &ReconcileEvents) -> Vec<(String, i64)> {
    page.data.iter().map(|event| (event.data.id.clone(), event.data.generation)).collect()
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn an_adapter_is_told_of_work_and_not_of_reports() {
    let server = server(None).await;
    let app = &server.app;
    let dns = caller(app, Some("dns"), Role::Adapter).await;
    let start = app.store.feed_tail().await.unwrap();
    let made = app.create(content("toy", "a", None), entry(app, "registered", Some(1))).await.unwrap();
    app.create(content("other", "b", None), entry(app, "registered", Some(1))).await.unwrap();
    let (first, place) = page(app, &dns, &start, LONG).await;
    assert_eq!(told(&first), [("a".to_owned(), 1)]);
    let event = serde_json::to_value(&first.data[0]).unwrap();
    let expected = json!({
        "specversion": "1.0", "id": event["id"], "source": "wardroom", "type": "com.wardroom.toy.reconcile",
        "subject": "a", "time": event["time"], "datacontenttype": "application/json",
        "data": {"id": "a", "kind": "Toy", "href": "/toys/a", "generation": 1},
    });
    assert_eq!(event, expected);
    assert!(app.store.feed_at(event["id"].as_str().unwrap()).is_ok(), "a cursor to resume from");

    // A report has no generation of its own: no adapter is woken by it, and the place moves past it.
    let report = |before: wardroom_store::Resource, type_: &str, generation| {
        let (after, entry) = (before.content.clone(), entry(app, type_, generation));
        Change { before: Some(before), after, entry, effects: Vec::new(), fence: None, holds: Vec::new() }
    };
    let made = app.store.commit(report(made, "adapter_report", None)).await.unwrap().resource;
    let (none, place) = page(app, &dns, &place, SHORT).await;
    assert_eq!(told(&none), []);
    app.store.commit(report(made, "changed", Some(2))).await.unwrap();
    let (changed, _) = page(app, &dns, &place, LONG).await;
    assert_eq!(told(&changed), [("a".to_owned(), 2)]);
    // From the start it is the same again.
    let (again, _) = page(app, &dns, &start, LONG).await;
    assert_eq!(told(&again), [("a".to_owned(), 1), ("a".to_owned(), 2)]);

    let other = caller(app, None, Role::Adapter).await;
    let mut needless = Following::join(app, &other, "validation", start.clone()).await.unwrap();
    assert_eq!(told(&needless.page(SHORT, 100).await.unwrap()), [], "it is not required");
    assert_eq!(app.tail.rechecks.adapters(), BTreeMap::from([("validation".to_owned(), 1)]));
    drop(needless);
    assert!(app.tail.rechecks.adapters().is_empty() && !app.tail.rechecks.is_awaited("toy"));
}

#[tokio::test]
async fn callers_follow_the_adapter_that_they_may() {
    let server = server(None).await;
    let app = &server.app;
    let (dns, any) = (caller(app, Some("dns"), Role::Adapter).await, caller(app, None, Role::Adapter).await);
    let viewer = caller(app, None, Role::Viewer).await;
    assert_eq!(followed(&dns, Some("dns")).unwrap().as_deref(), Some("dns"));
    assert_eq!(followed(&any, Some("placement")).unwrap().as_deref(), Some("placement"));
    assert_eq!(followed(&viewer, Some("dns")).unwrap().as_deref(), Some("dns"));
    assert_eq!(followed(&viewer, None).unwrap(), None);
    let refused = |caller, named: Option<&str>| match followed(caller, named) {
        Err(Error::Forbidden(detail)) => detail,
        other => panic!("{named:?}: {other:?}"),
    };
    assert!(refused(&dns, Some("placement")).contains("\"dns\""));
    assert!(refused(&any, None).contains("?adapter="));
    for wrong in ["", "d\nns"] {
        assert!(matches!(followed(&any, Some(wrong)), Err(Error::Invalid(_))), "{wrong:?}");
    }
}

#[tokio::test]
async fn what_is_due_is_told_once_and_put_off() {
    let server = server(None).await;
    let app = &server.app;
    let ago = |seconds| Some(app.now() - SignedDuration::from_secs(seconds));
    for (id, due_at) in [("late", ago(9)), ("later", ago(99)), ("never", None), ("soon", ago(-3600))] {
        app.create(content("toy", id, due_at), entry(app, "registered", None)).await.unwrap();
    }
    let rested = Content { state: "rested".to_owned(), ..content("toy", "rested", ago(9)) };
    app.create(rested, entry(app, "registered", None)).await.unwrap();
    // While no adapter waits, what is due stays due.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(app.store.due_now("toy", 9).await.unwrap().len(), 3);

    let end = app.store.feed_tail().await.unwrap();
    let (one, two) = (caller(app, Some("dns"), Role::Adapter).await, caller(app, None, Role::Adapter).await);
    let both = tokio::join!(page(app, &one, &end, LONG), page(app, &two, &end, LONG));
    for (page, _) in [both.0, both.1] {
        let mut ids: Vec<_> = told(&page).into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["late", "later"]);
    }
    let until = tokio::time::Instant::now() + LONG;
    while !app.store.due_now("toy", 9).await.unwrap().is_empty() {
        assert!(tokio::time::Instant::now() < until, "what was told is put off");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (none, _) = page(app, &one, &end, SHORT).await;
    assert_eq!(told(&none), [], "once");
    assert_eq!(app.tail.rechecks.told(), 2);

    // One that is told while an adapter is between two pages.
    let _other = Following::join(app, &two, "dns", end.clone()).await.unwrap();
    let entry = entry(app, "registered", None);
    app.create(content("toy", "between", ago(1)), entry).await.unwrap();
    while app.tail.rechecks.told() < 3 {
        assert!(tokio::time::Instant::now() < until, "it is told");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (between, _) = page(app, &one, &end, LONG).await;
    assert_eq!(told(&between), [("between".to_owned(), 1)]);
}

#[tokio::test]
async fn replicas_tell_their_adapters_of_the_same_resources() {
    let database = testing::database().await;
    let location = Location::Postgres { url: database.url.clone() };
    let (first, second) = (server(Some(location.clone())).await, server(Some(location)).await);
    let at_first = caller(&first.app, Some("dns"), Role::Adapter).await;
    let at_second = caller(&second.app, Some("dns"), Role::Adapter).await;
    let due_at = Some(first.app.now() - SignedDuration::from_secs(9));
    let end = first.app.store.feed_tail().await.unwrap();
    first.app.create(content("toy", "due", due_at), entry(&first.app, "registered", None)).await.unwrap();
    let pages = tokio::join!(
        page(&first.app, &at_first, &end, LONG),
        page(&second.app, &at_second, &end, LONG),
        // They go on waiting, so that one of the servers puts it off.
        page(&second.app, &at_first, &end, LONG),
    );
    for (page, _) in [pages.0, pages.1, pages.2] {
        assert_eq!(told(&page), [("due".to_owned(), 1)]);
    }
    let _waiting = Following::join(&first.app, &at_first, "dns", end.clone()).await.unwrap();
    let until = tokio::time::Instant::now() + LONG;
    while !first.app.store.due_now("toy", 9).await.unwrap().is_empty() {
        assert!(tokio::time::Instant::now() < until, "what was told is put off");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!((first.app.tail.rechecks.told(), second.app.tail.rechecks.told()), (1, 1));
}
