//! Background jobs: what has to happen without anybody asking.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use tokio::{sync::watch, task::JoinSet};
use wardroom_store::{Content, Error as StoreError, SealKey};

use crate::{
    access::Counts,
    app::{App, Decided, by_system},
    error::Error,
    events, gpu_node, installs, liveness, promote, satellite,
};

/// Starts all jobs; they end when `stop` says so.
pub(crate) fn spawn_all(app: &App, stop: &watch::Receiver<bool>) -> JoinSet<()> {
    let seconds = Duration::from_secs;
    let mut jobs = JoinSet::new();
    let start = |period, name, job| every(app.clone(), stop.clone(), period, name, job);
    jobs.spawn(start(seconds(5), "installs", |app| Box::pin(installs::time_out(app))));
    jobs.spawn(start(seconds(5), "promotions", |app| Box::pin(promote::carry_out_all(app))));
    jobs.spawn(start(seconds(5), "metrics", |app| Box::pin(tidy(app))));
    satellite::deny::spawn(app, stop, &mut jobs);
    jobs.spawn(events::tail::run(app.clone(), stop.clone()));
    jobs.spawn(start(seconds(30), "feed", |app| Box::pin(look_after_feed(app))));
    jobs.spawn(start(seconds(60), "denials", |app| Box::pin(record_denials(app))));
    jobs.spawn(start(seconds(300), "sweep", |app| Box::pin(sweep(app))));
    jobs.spawn(start(app.config.checkpoint, "checkpoint", |app| Box::pin(seal(app))));
    liveness::sweep::spawn(app, stop, &mut jobs);
    gpu_node::work::spawn_all(app, stop, &mut jobs);
    jobs
}

/// What should not be lost at the end.
pub(crate) async fn finish(app: &App) {
    let results = [
        ("liveness", liveness::sweep::finish(app).await),
        ("denials", record_denials(app).await),
        ("checkpoint", seal(app).await),
    ];
    for (name, result) in results {
        if let Err(error) = result {
            tracing::warn!(job = name, %error, "a job failed at the end");
        }
    }
}

type Job = for<'a> fn(&'a App) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

async fn every(app: App, mut stop: watch::Receiver<bool>, period: Duration, name: &'static str, job: Job) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        if let Err(error) = job(&app).await {
            tracing::warn!(job = name, %error, "a job failed; it is tried again");
            // What the database could not take, machines could not report either. Any other failure is ours
            // alone: it must not put off the patience with everybody.
            if matches!(error, Error::Unavailable(_) | Error::ReadOnly) {
                app.was_deaf();
            }
        }
    }
}

/// How long changes may wait before they are shown, for whom it is no longer a matter of course.
const HELD_BACK: Duration = Duration::from_secs(60);

/// Somebody's transaction that stays open on the same PostgreSQL holds back the feed and the seals of all: tells whose.
async fn look_after_feed(app: &App) -> Result<(), Error> {
    let held = app.store.feed_held_back().await?;
    app.metrics.feed_held_back(held.as_ref().map_or(Duration::ZERO, |held| held.since));
    if let Some(held) = held.filter(|held| held.since >= HELD_BACK) {
        tracing::warn!(
            seconds = held.since.as_secs(),
            by = held.by,
            "changes are not shown in the feed, nor sealed, until a transaction ends that stays open in PostgreSQL"
        );
    }
    Ok(())
}

/// Denials are recorded in aggregate: one row for what was refused since the last one.
async fn record_denials(app: &App) -> Result<(), Error> {
    let denials = app.denials.take();
    let recorded = record(app, &denials).await;
    if recorded.is_err() {
        app.denials.put_back(denials);
    }
    recorded
}

async fn record(app: &App, denials: &Counts) -> Result<(), Error> {
    const KIND: &str = "server";
    const ID: &str = "access";
    if denials.is_empty() {
        return Ok(());
    }
    let total: u64 = denials.values().sum();
    let shown = denials.iter().take(200).map(|((caller, path, status), count)| {
        json!({"caller": caller, "path": path, "status": status, "count": count})
    });
    let metadata = json!({"total": total, "denials": shown.collect::<Vec<_>>()});
    let entry = by_system(app, "denials", metadata);
    match app.create(server_record(KIND, ID), entry.clone()).await {
        Ok(_) => return Ok(()),
        Err(StoreError::Conflict) => {}
        Err(error) => return Err(error.into()),
    }
    let again = |before: &wardroom_store::Resource| {
        Ok(Decided::Commit(Box::new((before.content.clone(), entry.clone())), ()))
    };
    app.change(KIND, ID, again).await.map(drop)
}

/// What the server keeps about itself.
pub(crate) fn server_record(kind: &str, id: &str) -> Content {
    Content {
        kind: kind.to_owned(),
        id: id.to_owned(),
        name: id.to_owned(),
        state: "kept".to_owned(),
        document: wardroom_store::Document::default(),
        labels: BTreeMap::new(),
        fields: BTreeMap::new(),
        keys: std::collections::BTreeSet::new(),
        deleted: false,
        due_at: None,
    }
}

async fn tidy(app: &App) -> Result<(), Error> {
    app.metrics.tidy();
    Ok(())
}

/// When the lease of a single resource is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(24 * 60 * 60);

async fn sweep(app: &App) -> Result<(), Error> {
    app.limiter.sweep();
    app.satellites.sweep(app.clock.instant());
    app.store.sweep_denied().await?;
    app.store.sweep_keys(app.now()).await?;
    app.store.sweep_leases(FORGOTTEN).await?;
    Ok(())
}

/// Seals the heads of all histories, so that a tail that is cut off is noticed.
async fn seal(app: &App) -> Result<(), Error> {
    let key = SealKey::new(&app.key.derive("checkpoint"))?;
    app.store.seal(&key, app.now()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use wardroom_store::{Location, Store};

    use super::*;
    use crate::{bare::Lines, config, secret::Key, testing};

    /// Somebody keeps a transaction open, and a change was made an hour ago.
    #[tokio::test]
    async fn who_holds_the_feed_back_is_told() {
        let (database, folder) = (testing::database().await, tempfile::tempdir().unwrap());
        let store = Store::open(&Location::Postgres { url: database.url.clone() }).await.unwrap();
        let config = config::resolve(&config::Sources::default()).unwrap();
        let app = App::new(store, config, Key::create(&folder.path().join("key")).unwrap(), String::new());
        let (lines, _listening) = Lines::listen();
        let told = || {
            lines.with(
                "changes are not shown in the feed, nor sealed, until a transaction ends that stays open in PostgreSQL",
            )
        };
        look_after_feed(&app).await.unwrap();
        assert_eq!(told().len(), 0);

        let (other, connection) =
            tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.unwrap();
        let mut jobs = JoinSet::new();
        jobs.spawn(async move { drop(connection.await) });
        other.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
        let mut entry = by_system(&app, "registered", serde_json::Value::Null);
        entry.at = app.now() - SignedDuration::from_hours(1);
        app.create(server_record("server", "late"), entry).await.unwrap();
        let pid: i32 = other.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        // Transactions of other tests that began before this one end by themselves.
        let older = "SELECT FROM pg_stat_activity WHERE age(backend_xid) > age(pg_current_xact_id()::xid)";
        while !other.query(older, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        look_after_feed(&app).await.unwrap();
        let [line] = told().try_into().unwrap();
        assert_eq!(line["fields"]["by"], format!("the session with pid {pid}"));
        assert!(line["fields"]["seconds"].as_u64().is_some_and(|seconds| seconds >= 3600), "{line}");

        other.batch_execute("COMMIT").await.unwrap();
        look_after_feed(&app).await.unwrap();
        assert_eq!(told().len(), 1, "it is shown now");
    }
}
