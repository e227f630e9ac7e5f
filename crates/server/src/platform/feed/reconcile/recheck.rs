//! Re-checks: adapters are told of a resource whose due time has come, although it did not change.
//!
//! Every server with waiting adapters looks for due resources, so that the adapters of each are told. One of
//! them, which holds the lease, gives them their next due time; on a shared database it first leaves the others
//! the time to look. While no adapter waits anywhere, what is due stays due.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Again, Reconciling, Told};
use crate::platform::{
    app::App,
    http::error::Error,
    work::schedule::{Failed, Job, Next, Task},
};

/// How often due resources are looked for.
const PERIOD: Duration = Duration::from_secs(1);

/// How long servers that share a database have to find what is due.
const SHARED: Duration = Duration::from_secs(3);

/// How long the lease lasts.
const LEASE: Duration = Duration::from_secs(5);

/// Due resources that are looked at together: more than that are told a little later.
const MOST: usize = 500;

/// The job that tells of due resources.
pub(crate) fn job() -> Job {
    Job::of("rechecks", PERIOD, Rechecking::default())
}

/// What was told and is not put off yet: by kind and id.
#[derive(Default)]
struct Rechecking(HashMap<&'static str, HashMap<String, Seen>>);

/// A due resource that was looked at.
struct Seen {
    was: Timestamp,
    next: Timestamp,
    at: Instant,
}

impl Task for Rechecking {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            for stored in app.kinds.iter().flat_map(|kind| kind.stores) {
                let Some(told) = stored.told else { continue };
                if app.tail.rechecks.is_awaited(stored.kind) {
                    look(app, (stored.kind, told), self.0.entry(stored.kind).or_default()).await?;
                } else {
                    self.0.remove(stored.kind);
                }
            }
            Ok(Next::Period)
        })
    }
}

async fn look(
    app: &App,
    (kind, told): (&'static str, &Reconciling),
    seen: &mut HashMap<String, Seen>,
) -> Result<(), Error> {
    let due: HashMap<_, _> = app.store.due_now(kind, MOST).await?.into_iter().collect();
    seen.retain(|id, seen| due.get(id) == Some(&seen.was));
    let new: Vec<_> = due.keys().filter(|id| !seen.contains_key(*id)).cloned().collect();
    if !new.is_empty() {
        let resources = app.store.get_all(kind, &new).await?;
        let again = (told.due)(app, &resources).await?;
        let mut events = Vec::new();
        for (resource, Again { look_at, next }) in resources.iter().zip(again) {
            let id = &resource.content.id;
            let Some(was) = due.get(id).copied() else { continue };
            if let Some(data) = look_at {
                events.push(Told::of(kind, Uuid::now_v7().to_string(), told.event_type, app.now(), data)?);
            }
            seen.insert(id.clone(), Seen { was, next, at: Instant::now() });
        }
        tell(app, events);
    }
    put_off(app, kind, seen).await
}

fn tell(app: &App, events: Vec<Arc<Told>>) {
    if !events.is_empty() {
        app.tail.rechecks.push(events);
        app.tail.news.send_replace(());
    }
}

/// Gives what was told its next due time.
async fn put_off(app: &App, kind: &'static str, seen: &HashMap<String, Seen>) -> Result<(), Error> {
    let shared = app.store.is_shared();
    let patience = if shared { SHARED } else { Duration::ZERO };
    let ripe = seen.iter().filter(|(_, seen)| seen.at.elapsed() >= patience);
    let ripe: Vec<_> = ripe.map(|(id, seen)| (id.clone(), seen.was, seen.next)).collect();
    if ripe.is_empty() {
        return Ok(());
    }
    let lease = format!("rechecks/{kind}");
    if shared && app.store.acquire_lease(&lease, app.liveness.name(), LEASE).await?.is_none() {
        return Ok(());
    }
    app.store.put_off_all(kind, &ripe).await?;
    Ok(())
}
