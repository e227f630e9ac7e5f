//! Follows the feed. After a lost connection it continues after the last change it has seen.

use std::time::Duration;

use futures_util::FutureExt as _;
use wardroom_api::{
    client::{Client, Error, Feed},
    history::Row,
};

use crate::output;

/// How long to wait before the connection is tried again; doubled up to the longest.
pub(crate) const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(15);

/// The most changes returned together.
const TOGETHER: usize = 500;

/// The feed from some place on, for ever.
pub(crate) struct Follower {
    client: Client,
    after: String,
    feed: Option<Feed>,
    wait: Duration,
}

impl Follower {
    /// Follows from a cursor, from `start`, or from now on.
    pub(crate) async fn start(client: &Client, after: Option<&str>) -> anyhow::Result<Self> {
        let feed = client.follow(after).await?;
        // The feed names its place first, so that a connection lost before the first change loses nothing.
        let after = feed.place().to_owned();
        Ok(Self { client: client.clone(), after, feed: Some(feed), wait: SHORTEST })
    }

    /// Waits for the next change.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Row> {
        loop {
            match self.attempt().await {
                Ok(Some(row)) => {
                    self.after.clone_from(&row.cursor);
                    self.wait = SHORTEST;
                    return Ok(row);
                }
                Ok(None) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error.into()),
            }
            self.feed = None;
            if self.wait == SHORTEST {
                output::note("wardroom: lost the connection to the feed; reconnecting");
            }
            tokio::time::sleep(self.wait).await;
            self.wait = (self.wait * 2).min(LONGEST);
        }
    }

    /// Waits for the next change, and returns it with all changes that have arrived already.
    pub(crate) async fn together(&mut self) -> anyhow::Result<Vec<Row>> {
        let mut rows = vec![self.next().await?];
        while let Some(feed) = self.feed.as_mut().filter(|_| rows.len() < TOGETHER) {
            match feed.next().now_or_never() {
                Some(Ok(Some(row))) => {
                    self.after.clone_from(&row.cursor);
                    rows.push(row);
                }
                None => break,
                // The next call reconnects from here and meets the same end or error.
                Some(Ok(None) | Err(_)) => self.feed = None,
            }
        }
        Ok(rows)
    }

    async fn attempt(&mut self) -> Result<Option<Row>, Error> {
        let feed = match self.feed.take() {
            Some(feed) => feed,
            None => self.client.follow(Some(&self.after)).await?,
        };
        self.feed.insert(feed).next().await
    }
}

/// Returns whether a retry can help: after a restart of the server it can, after a revoked token it cannot.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error {
        Error::Timeout | Error::Unreachable(_) => true,
        Error::Problem(_) | Error::Unexpected { .. } => {
            matches!(error.status(), Some(429 | 502 | 503 | 504))
        }
        Error::Setup(_) | Error::Unsent(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
    };

    use serde_json::json;
    use wardroom_api::client::Options;

    use super::*;

    /// A server that sends this many changes at once and then nothing.
    fn sends(changes: u64) -> (TcpListener, String) {
        let events = (1..=changes).map(|number| {
            let row = json!({
                "id": "1", "cursor": number.to_string(), "kind": "node", "resource_id": "n", "sequence": number,
                "type": "changed", "to_state": "active", "triggered_by": "system", "metadata": null,
                "created_at": "2026-01-01T00:00:00Z", "hash": "",
            });
            format!("data: {row}\n\n")
        });
        let body: String = std::iter::once("id: 0\n\n".to_owned()).chain(events).collect();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = format!("{head}{:x}\r\n{body}\r\n", body.len());
        (TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    #[tokio::test]
    async fn what_came_together_is_told_together() {
        let (listener, answer) = sends(5);
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            let _ = wait.recv();
        });
        let client =
            Client::new(&Options { server, token: None, certificates: None, timeout: None, warned: None })
                .unwrap();
        let mut follower = Follower::start(&client, Some("start")).await.unwrap();
        let rows = follower.together().await.unwrap();
        let sequences: Vec<_> = rows.iter().map(|row| row.sequence).collect();
        assert_eq!((sequences, &*follower.after), (vec![1, 2, 3, 4, 5], "5"));
        drop(done);
        serving.join().unwrap();
    }
}
