//! Follows the server: the list of all clusters at the start and after anything was given up, then the events.

use std::sync::{Arc, atomic::Ordering};

use jiff::SignedDuration;
use serde_json::Value as Json;
use wardroom_api::client::{Error, Feed};
use wardroom_core::backoff::Backoff;

use super::{Adapter, queue::Work};

const BACKOFF: Backoff =
    Backoff { first: SignedDuration::from_millis(250), longest: SignedDuration::from_secs(15) };

/// Entries of a page of the list.
const PAGE: i64 = 100;

/// Where the events go on.
#[derive(Default)]
struct Place {
    cursor: Option<String>,
    /// Whether everything has to be listed.
    is_list_due: bool,
}

/// Follows until the process ends.
pub(super) async fn follow(adapter: Arc<Adapter>) {
    let mut place = Place { cursor: None, is_list_due: true };
    let mut failures = 0;
    loop {
        match attend(&adapter, &mut place, &mut failures).await {
            Ok(()) => tracing::debug!("the server closed the events"),
            Err(error) => {
                adapter.connection.refresh(&error).await;
                if matches!(error.status(), Some(400 | 410)) && place.cursor.is_some() {
                    tracing::warn!(
                        "the server no longer knows the place of the events; listing all clusters"
                    );
                    place = Place { cursor: None, is_list_due: true };
                }
                tracing::warn!("the events cannot be followed: {error}");
                failures += 1;
            }
        }
        // A server that closes every stream at once is not asked in a tight loop.
        tokio::time::sleep(BACKOFF.after(failures).unsigned_abs()).await;
    }
}

/// Opens the events, lists if that is due, and reads until the connection ends. Events come before the list, so that
/// no change falls between them.
async fn attend(adapter: &Adapter, place: &mut Place, failures: &mut u32) -> Result<(), Error> {
    let client = adapter.connection.client().await;
    let mut feed = client.follow_adapter(&adapter.config.name, place.cursor.as_deref()).await?;
    place.cursor = Some(feed.place().to_owned());
    let is_needless = feed.warning().is_some_and(|warning| {
        tracing::warn!("{warning}");
        warning.contains("required for nothing")
    });
    place.is_list_due |= adapter.has_given_up.swap(false, Ordering::Relaxed);
    if place.is_list_due && !is_needless {
        list(adapter).await?;
        place.is_list_due = false;
    }
    tracing::info!(adapter = adapter.config.name, server = adapter.connection.base, "following events");
    *failures = 0;
    while let Some((cursor, data)) = next(&mut feed).await? {
        place.cursor = Some(cursor);
        hear(adapter, data);
    }
    Ok(())
}

/// Returns the next event: its cursor and its data.
async fn next(feed: &mut Feed) -> Result<Option<(String, Json)>, Error> {
    let event = feed.next_with_place::<Json>().await?;
    Ok(event.map(|(cursor, event)| (cursor, event["data"].clone())))
}

/// Puts every resource of the adapter's kind into the queue.
async fn list(adapter: &Adapter) -> Result<(), Error> {
    let client = adapter.connection.client().await;
    let path = adapter.config.subject.list();
    let mut count = 0;
    for page in 1_i64.. {
        let found = client.read(&format!("{path}?page={page}&size={PAGE}")).await?;
        let items = found["items"].as_array().cloned().unwrap_or_default();
        let is_last = i64::try_from(items.len()).unwrap_or(0) < PAGE;
        count += items.len();
        for item in items {
            let mut data = serde_json::json!({});
            for field in ["id", "kind", "href", "generation", "owner_references"] {
                if let Some(value) = item.get(field) {
                    data[field] = value.clone();
                }
            }
            hear(adapter, data);
        }
        if is_last {
            break;
        }
    }
    tracing::info!(count, "listed");
    Ok(())
}

fn hear(adapter: &Adapter, data: Json) {
    // A kind that the configuration is not for needs other objects.
    if data["kind"].as_str().is_some_and(|kind| kind != adapter.config.subject.word()) {
        return;
    }
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let (id, href) = (text("id"), text("href"));
    if id.is_empty() || href.is_empty() {
        tracing::warn!("an event without `id` or `href` is left out");
        return;
    }
    adapter.queue.hear(Work { id, href, event: data });
}
