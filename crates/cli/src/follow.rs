//! Following the feed: a cut is mended by going on behind the last change that was seen.

use std::time::Duration;

use wardroom_api::{
    client::{Client, Error, Feed},
    history::Row,
};

use crate::output;

/// How long to wait before the connection is tried again; doubled up to the longest.
pub(crate) const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(15);

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
        let after = match after {
            Some(after) => after.to_owned(),
            // The place has a name before anything happens, so that a cut before the first change loses nothing.
            None => client.events(None, Some(1)).await?.next.unwrap_or_default(),
        };
        let feed = Some(client.follow(&after).await?);
        Ok(Self { client: client.clone(), after, feed, wait: SHORTEST })
    }

    /// The next change, however long it takes.
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
                output::note("wardroom: the feed was cut; connecting again");
            }
            tokio::time::sleep(self.wait).await;
            self.wait = (self.wait * 2).min(LONGEST);
        }
    }

    async fn attempt(&mut self) -> Result<Option<Row>, Error> {
        let feed = match self.feed.take() {
            Some(feed) => feed,
            None => self.client.follow(&self.after).await?,
        };
        self.feed.insert(feed).next().await
    }
}

/// Whether waiting helps: a server that starts again does, a token that was revoked does not.
pub(crate) fn is_passing(error: &Error) -> bool {
    match error {
        Error::Timeout | Error::Unreachable(_) => true,
        Error::Problem(_) | Error::Unexpected { .. } => {
            matches!(error.status(), Some(429 | 502 | 503 | 504))
        }
        Error::Setup(_) => false,
    }
}
