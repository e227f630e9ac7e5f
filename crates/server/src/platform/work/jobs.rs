//! The background jobs of the platform, independent of kinds.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use wardroom_store::{Content, Error as StoreError, SealKey};

use crate::platform::{
    app::{App, Decided, by_system},
    console::session,
    feed::{events, reconcile},
    http::{access::Counts, error::Error},
    identity::deny,
    liveness,
    work::schedule::Job,
};

pub(crate) fn jobs(app: &App) -> Vec<Job> {
    let (seconds, following) = (Duration::from_secs, app.clone());
    let mut jobs = deny::jobs(app);
    jobs.extend([
        Job::every("metrics", seconds(5), |app| Box::pin(tidy(app))),
        Job::every("members", seconds(5), |app| Box::pin(count_members(app))),
        Job::service("events", |stop| events::tail::run(following, stop)),
        reconcile::recheck::job(),
        Job::every("feed", seconds(30), |app| Box::pin(look_after_feed(app))),
        Job::every("denials", seconds(60), |app| Box::pin(record_denials(app))),
        Job::every("sweep", seconds(300), |app| Box::pin(sweep(app))),
        Job::every("checkpoint", app.config.checkpoint, |app| Box::pin(seal(app))),
    ]);
    jobs
}

/// Runs the last jobs when the server stops.
pub(crate) async fn finish(app: &App) {
    let results = [
        ("liveness", liveness::sweep::finish(app).await),
        ("denials", record_denials(app).await),
        ("checkpoint", seal(app).await),
    ];
    for (name, result) in results {
        if let Err(error) = result {
            tracing::warn!(job = name, %error, "job failed during shutdown");
        }
    }
}

/// How long changes may be held back before a warning is logged.
const HELD_BACK: Duration = Duration::from_secs(60);

/// Warns when an open transaction in PostgreSQL holds back the feed and the checkpoints, and names its
/// session.
async fn look_after_feed(app: &App) -> Result<(), Error> {
    let held = app.store.feed_held_back().await?;
    app.metrics.feed_held_back(held.as_ref().map_or(Duration::ZERO, |held| held.since));
    if let Some(held) = held.filter(|held| held.since >= HELD_BACK) {
        tracing::warn!(
            seconds = held.since.as_secs(),
            by = held.by,
            "an open transaction in PostgreSQL keeps new changes out of the feed and out of checkpoints; end its session"
        );
    }
    Ok(())
}

/// Records denials in aggregate: one row for all since the last one.
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

/// Builds a record that the server keeps about itself.
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

/// Counts members by kind and state for metrics, which must not read the database themselves.
async fn count_members(app: &App) -> Result<(), Error> {
    let began = app.clock.instant();
    if app.metrics.counts_again(began) {
        app.metrics.members(&app.store.count_by_state().await?);
        app.metrics.counted(began, app.clock.instant());
    }
    Ok(())
}

/// When expired leases of resources are deleted.
const FORGOTTEN: Duration = Duration::from_secs(24 * 60 * 60);

async fn sweep(app: &App) -> Result<(), Error> {
    app.limiter.sweep();
    app.store.sweep_denied().await?;
    app.store.sweep_keys(app.now()).await?;
    session::end_expired(app).await?;
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
    use tokio::task::JoinSet;
    use wardroom_store::{Location, Store};

    use super::*;
    use crate::platform::{bare::Lines, config, identity::secret::Key, testing};

    /// A session keeps a transaction open, and a change was made an hour ago.
    #[tokio::test]
    async fn a_session_that_holds_back_the_feed_is_logged() {
        let (database, folder) = (testing::database().await, tempfile::tempdir().unwrap());
        let store = Store::open(&Location::Postgres { url: database.url.clone() }).await.unwrap();
        let config = config::resolve(&config::Sources::default(), crate::kinds::KINDS).unwrap();
        let app =
            App::new(store, config, Key::create(&folder.path().join("key")).unwrap(), crate::kinds::KINDS);
        let (lines, _listening) = Lines::listen();
        let told = || {
            lines.with(
                "an open transaction in PostgreSQL keeps new changes out of the feed and out of checkpoints; end its session",
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
            // Inside a transaction PostgreSQL shows the sessions of the first look again and again.
            other.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
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
