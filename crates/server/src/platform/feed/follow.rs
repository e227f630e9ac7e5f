//! Follows the feed of some kinds: reads every change once, in order, and hands it on page by page.
//!
//! What must stay true: the position advances only after a page was processed, so that a failed page is
//! repeated.

use std::time::Duration;

use futures_util::future::BoxFuture;
use wardroom_store::{Cursor, FeedItem};

use crate::platform::{
    app::App,
    work::schedule::{Failed, Job, Next, Task},
};

/// How often the feed is read without a hint: hints may be lost, changes are not.
const PERIOD: Duration = Duration::from_secs(1);

/// How long changes are gathered after a hint, before they are read together.
const GATHER: Duration = Duration::from_millis(10);

pub(crate) trait Follower: Send + 'static {
    fn kinds(&self) -> Vec<&'static str>;

    /// How many changes it takes at once.
    fn page(&self) -> usize;

    /// Takes a page of changes; the same page again after a failure.
    fn take<'a>(&'a mut self, app: &'a App, page: &'a [FeedItem]) -> BoxFuture<'a, Result<(), Failed>>;
}

/// Returns the job that follows the feed after a place; without one, from the end that the feed has when the job starts.
pub(crate) fn job(name: &'static str, app: &App, after: Option<Cursor>, follower: impl Follower) -> Job {
    let follow = Follow { follower, at: after };
    Job::of(name, PERIOD, follow).at_once().interruptible().woken_by(app.store.watch(), GATHER)
}

struct Follow<F> {
    follower: F,
    at: Option<Cursor>,
}

impl<F: Follower> Task for Follow<F> {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            let at = match &mut self.at {
                Some(at) => at,
                none => none.insert(app.store.feed_tail().await?),
            };
            catch_up(app, at, &mut self.follower).await?;
            Ok(Next::Period)
        })
    }
}

/// Takes all changes after a place, and moves the place.
pub(crate) async fn catch_up(app: &App, at: &mut Cursor, follower: &mut impl Follower) -> Result<(), Failed> {
    let (kinds, size) = (follower.kinds(), follower.page());
    loop {
        let (page, next) = app.store.feed_of(&kinds, at, size).await?;
        follower.take(app, &page).await?;
        *at = next;
        if page.len() < size {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::{sync::watch, task::JoinSet};

    use super::*;
    use crate::platform::{
        app::by_system,
        bare,
        work::{jobs::server_record, schedule},
    };

    /// Records what it is given; its first call fails.
    struct Noting {
        fails: bool,
        taken: Arc<Mutex<Vec<String>>>,
    }

    impl Follower for Noting {
        fn kinds(&self) -> Vec<&'static str> {
            vec!["server"]
        }

        fn page(&self) -> usize {
            2
        }

        fn take<'a>(&'a mut self, _: &'a App, page: &'a [FeedItem]) -> BoxFuture<'a, Result<(), Failed>> {
            let fails = !page.is_empty() && std::mem::take(&mut self.fails);
            Box::pin(async move {
                if fails {
                    return Err(Failed::Other("not yet".to_owned()));
                }
                let ids = page.iter().map(|item| item.row.resource_id.clone());
                self.taken.lock().unwrap().extend(ids);
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn every_change_is_taken_once_and_again_after_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let app = bare::app(&dir).await;
        let create = async |id: &str| {
            let entry = by_system(&app, "registered", serde_json::Value::Null);
            app.create(server_record("server", id), entry).await.unwrap();
        };
        create("before").await;
        let taken = Arc::<Mutex<Vec<String>>>::default();
        let (running, stop) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let follower = Noting { fails: true, taken: Arc::clone(&taken) };
        let end = app.store.feed_tail().await.unwrap();
        schedule::start(&app, vec![job("test", &app, Some(end), follower)], &stop, &mut tasks);
        let ids = ["a", "b", "c", "d", "e"];
        for id in ids {
            create(id).await;
        }
        while taken.lock().unwrap().len() < ids.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        create("f").await;
        while taken.lock().unwrap().last().is_none_or(|last| last != "f") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running.send_replace(true);
        tasks.join_all().await;
        assert_eq!(*taken.lock().unwrap(), ["a", "b", "c", "d", "e", "f"]);
    }
}
