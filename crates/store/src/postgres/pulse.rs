//! Detects a new primary, and closes the connections to the previous one.
//!
//! What must stay true: connections are closed only when another server has answered. A database that is slow
//! or paused for a while keeps its connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::SimpleQueryMessage;

use super::connector::{Connector, Opened};

/// How often the server is asked.
const EVERY: Duration = Duration::from_secs(1);
/// After this time without an answer another connection is opened, to the host that takes changes.
const SILENCE: Duration = Duration::from_secs(3);

/// The start time distinguishes servers behind the same address.
const STARTED: &str = "SELECT pg_postmaster_start_time()";

/// A task that asks the server every second; it ends when this is dropped.
pub(super) struct Pulse(JoinHandle<()>);

impl Pulse {
    pub(super) fn spawn(connector: &Arc<Connector>) -> Self {
        Self(tokio::spawn(watch(Arc::clone(connector))))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch(connector: Arc<Connector>) {
    let mut known = None;
    loop {
        if let Ok(opened) = connector.open().await {
            let opened = Closing(opened);
            if let Some(time) = started(&opened.0).await {
                let server = Some((opened.0.host, time));
                if known.is_some() && known != server {
                    connector.keep_only(&opened.0);
                }
                known = server;
                while started(&opened.0).await.is_some() {
                    sleep(EVERY).await;
                }
            }
        }
        sleep(EVERY).await;
    }
}

/// When the server started; nothing when it does not answer.
async fn started(opened: &Opened) -> Option<String> {
    let rows = timeout(SILENCE, opened.client.simple_query(STARTED)).await.ok()?.ok()?;
    let text = |said: &SimpleQueryMessage| {
        if let SimpleQueryMessage::Row(row) = said { row.get(0).map(str::to_owned) } else { None }
    };
    rows.iter().find_map(text)
}

/// Closes a connection when it is dropped, also while a statement waits for its answer.
struct Closing(Opened);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.driver.abort();
    }
}
