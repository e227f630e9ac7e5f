//! Polls that are held, and what wakes them: a change of their device, from whichever server it came.
//!
//! What must stay true: a change that commits after a poll has begun to wait wakes it; a change of one device wakes no
//! other.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use wardroom_store::FeedItem;

use super::{document::KIND, identity::Identities};
use crate::platform::{
    app::App,
    feed::follow::{self, Follower},
    work::schedule::{Failed, Job},
};

/// The devices whose polls are held.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<HashMap<Box<str>, Waiter>>);

#[derive(Debug, Default)]
struct Waiter {
    notify: Arc<Notify>,
    polls: usize,
}

/// A poll that is held.
pub(super) struct Waiting<'a> {
    waiters: &'a Waiters,
    name: Box<str>,
    notify: Arc<Notify>,
    woken: std::pin::Pin<Box<tokio::sync::futures::OwnedNotified>>,
}

impl<'a> Waiting<'a> {
    /// Begins to listen to the changes of a device.
    pub(super) fn of(app: &'a App, name: &str) -> Self {
        let waiters = app.part::<Waiters>();
        let notify = {
            let mut all = waiters.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waiter = all.entry(name.into()).or_default();
            waiter.polls += 1;
            Arc::clone(&waiter.notify)
        };
        let woken = listen(&notify);
        Self { waiters, name: name.into(), notify, woken }
    }

    /// Waits for the next change.
    pub(super) async fn woken(&mut self) {
        self.woken.as_mut().await;
        self.woken = listen(&self.notify);
    }
}

/// Counts from now on, not from the first time that it is waited for.
fn listen(notify: &Arc<Notify>) -> std::pin::Pin<Box<tokio::sync::futures::OwnedNotified>> {
    let mut woken = Box::pin(Arc::clone(notify).notified_owned());
    woken.as_mut().enable();
    woken
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = self.waiters.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = all.get_mut(&self.name) {
            waiter.polls -= 1;
            if waiter.polls == 0 {
                all.remove(&self.name);
            }
        }
    }
}

impl Waiters {
    fn wake(&self, name: &str) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiter) = all.get(name) {
            waiter.notify.notify_waiters();
        }
    }
}

/// The job that wakes polls.
pub(super) fn job(app: &App) -> Job {
    follow::job("device polls", app, None, Wake)
}

struct Wake;

impl Follower for Wake {
    fn kinds(&self) -> Vec<&'static str> {
        vec![KIND]
    }

    fn page(&self) -> usize {
        1000
    }

    fn take<'a>(&'a mut self, app: &'a App, page: &'a [FeedItem]) -> BoxFuture<'a, Result<(), Failed>> {
        Box::pin(async move {
            let waiters = app.part::<Waiters>();
            for row in page.iter().map(|item| &item.row) {
                // The commit of another server may be news to the cache, which the poll is about to ask.
                if app.store.is_shared() {
                    Identities::of(app).changed(&row.resource_id, row.sequence, app.moment());
                }
                waiters.wake(&row.resource_id);
            }
            Ok(())
        })
    }
}
