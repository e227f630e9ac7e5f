//! A follower of the feed: reads the database from its place on until it reaches the shared memory, then from
//! that.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use wardroom_store::Cursor;

use super::tail::Change;
use crate::platform::{
    app::App,
    http::error::Error,
    identity::auth::{Identity, Principal, TOKEN},
};

/// How often the token's expiry is checked without news.
const LOOK: Duration = Duration::from_secs(15);

/// A stream or a waiting request. It occupies one of its token's streams until it is dropped.
pub(in crate::platform) struct Follower {
    app: App,
    identity: Arc<Identity>,
    after: Cursor,
    news: watch::Receiver<()>,
}

impl Follower {
    /// Begins to follow after a place.
    pub(in crate::platform) async fn join(
        app: &App,
        principal: &Principal,
        after: Cursor,
    ) -> Result<Self, Error> {
        let Principal::Token(identity) = principal else { return Err(Error::Internal) };
        // Subscribed before reading, so that no wake-up is missed.
        let news = app.tail.news.subscribe();
        app.tail.enter(&identity.id)?;
        let this = Self { app: app.clone(), identity: Arc::clone(identity), after, news };
        // The check at the start of the request may be a moment old. The tail notices revocations from now
        // on.
        if this.is_let_in().await? { Ok(this) } else { Err(REFUSED) }
    }

    /// Where it is.
    pub(in crate::platform) fn place(&self) -> &Cursor {
        &self.after
    }

    /// Returns the next changes, if any; [`Follower::news`] waits for more.
    pub(in crate::platform) async fn look(&mut self, most: usize) -> Result<Vec<Arc<Change>>, Error> {
        self.news.mark_unchanged();
        let found = match self.app.tail.after(&self.after, most) {
            Some(changes) => changes,
            None => self.catch_up(most).await?,
        };
        // Checked after reading, so that no change after a revocation is shown.
        if self.app.tail.is_over(&self.identity.id) || self.identity.expires_at <= self.app.now() {
            return Err(REFUSED);
        }
        if let Some(last) = found.last() {
            self.after = last.cursor.clone();
        }
        Ok(found)
    }

    /// Waits for news; returns false when none will come.
    pub(in crate::platform) async fn news(&mut self) -> bool {
        !matches!(tokio::time::timeout(LOOK, self.news.changed()).await, Ok(Err(_)))
    }

    /// Reads from the database. The tail has not checked the token for these changes, so it is checked here.
    async fn catch_up(&self, most: usize) -> Result<Vec<Arc<Change>>, Error> {
        let tail = &self.app.tail;
        let _turn = tail.catching_up.acquire().await.map_err(|_| Error::Internal)?;
        tail.count_read();
        let items = self.app.store.feed_after(&self.after, most).await?;
        if !items.is_empty() && !self.is_let_in().await? {
            return Err(REFUSED);
        }
        items.into_iter().map(Change::of).collect()
    }

    async fn is_let_in(&self) -> Result<bool, Error> {
        self.app.tail.count_read();
        let found = self.app.store.get(TOKEN, &self.identity.id).await?;
        Ok(found.as_ref().and_then(Identity::of).is_some_and(|found| self.app.now() < found.expires_at))
    }
}

const REFUSED: Error = Error::Unauthenticated("the token is not valid any more");

impl Drop for Follower {
    fn drop(&mut self) {
        self.app.tail.leave(&self.identity.id);
    }
}
