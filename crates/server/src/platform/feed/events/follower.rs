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

/// The clock is looked at this often although nothing happens: a token may expire.
const LOOK: Duration = Duration::from_secs(15);

/// A stream or a request that waits. It has a place of its token until it goes.
pub(super) struct Follower {
    app: App,
    identity: Arc<Identity>,
    after: Cursor,
    news: watch::Receiver<()>,
}

impl Follower {
    /// Begins to follow after a place.
    pub(super) async fn join(app: &App, principal: &Principal, after: Cursor) -> Result<Self, Error> {
        let Principal::Token(identity) = principal else { return Err(Error::Internal) };
        // Subscribed before reading, so that no wake-up is missed.
        let news = app.tail.news.subscribe();
        app.tail.enter(&identity.id)?;
        let this = Self { app: app.clone(), identity: Arc::clone(identity), after, news };
        // What let the request in may be some moments old. A revocation from now on is noticed by the tail.
        if this.is_let_in().await? { Ok(this) } else { Err(REFUSED) }
    }

    /// Where it is.
    pub(super) fn place(&self) -> &Cursor {
        &self.after
    }

    /// What is next, if there is something; [`Follower::news`] says when to look again.
    pub(super) async fn look(&mut self, most: usize) -> Result<Vec<Arc<Change>>, Error> {
        self.news.mark_unchanged();
        let found = match self.app.tail.after(&self.after, most) {
            Some(changes) => changes,
            None => self.catch_up(most).await?,
        };
        // After the look, so that nothing is shown that came after a revocation.
        if self.app.tail.is_over(&self.identity.id) || self.identity.expires_at <= self.app.now() {
            return Err(REFUSED);
        }
        if let Some(last) = found.last() {
            self.after = last.cursor.clone();
        }
        Ok(found)
    }

    /// Waits until it may be worth to look; whether it ever will be.
    pub(super) async fn news(&mut self) -> bool {
        !matches!(tokio::time::timeout(LOOK, self.news.changed()).await, Ok(Err(_)))
    }

    /// Out of the database. The tail does not know what is found here, so the token is asked for as well.
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
