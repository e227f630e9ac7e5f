//! The job of fleets: follows what changes of fleets and devices, settles who owns which device, and takes rollouts further.
//!
//! What must stay true: every step follows from what is stored, so that any server goes on where another one stopped; and
//! what is to be done is forgotten only once it was done.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use uuid::Uuid;
use wardroom_store::{Cursor, FeedItem, Fence, List};

use super::{
    super::document::KIND as DEVICE,
    check,
    document::{Document, KIND},
    own::{Fleets, Known, PAGE, lists, settle, settle_all, silence},
    roll::{self, Members},
};
use crate::platform::{
    app::App,
    feed::follow::{Follower, catch_up},
    http::error::Error,
    work::schedule::{Failed, Job, Next, Task},
};

/// How often times are looked at, and how long changes are gathered.
const PERIOD: Duration = Duration::from_secs(2);
const GATHER: Duration = Duration::from_millis(20);

/// The lease under which one of several servers does it.
const LEASE: &str = "fleets";
const HELD: Duration = Duration::from_secs(15);

/// A step that took a while is followed by a pause of so many times its length: reports of many devices come one by one, and
/// each step looks at all devices of the fleet.
const PAUSE: u32 = 3;

/// So many devices are kept in memory; those of further fleets are read for each step.
const MOST_KEPT: usize = 500_000;

/// The job of fleets.
pub(super) fn job(app: &App) -> Job {
    let job = Job::of("fleets", PERIOD, Work::default()).at_once().interruptible();
    let job = job.woken_by(app.store.watch(), GATHER);
    match app.store.is_shared() {
        true => job.under(LEASE, &format!("fleets {}", Uuid::now_v7()), HELD),
        false => job,
    }
}

/// What is known, and what is left to do.
#[derive(Default)]
struct Work {
    at: Option<Cursor>,
    fleets: Fleets,
    left: Left,
    /// The devices of fleets, as far as rollouts are decided by them; kept right by the feed.
    members: BTreeMap<String, Members>,
    /// The precondition of every change, where several servers share a database.
    fence: Option<Fence>,
    /// When a device of a fleet takes too long.
    ends: BTreeMap<String, Timestamp>,
    /// Until when a fleet pauses.
    pauses: BTreeMap<String, Instant>,
}

#[derive(Default)]
struct Left {
    /// Whether all devices have to be looked at.
    all: bool,
    /// Changed fleets.
    fleets: BTreeSet<String>,
    /// Devices whose owner may change.
    devices: BTreeSet<String>,
    /// All devices that changed.
    changed: BTreeSet<String>,
    /// Fleets whose rollout may go on.
    steps: BTreeSet<String>,
}

impl Task for Work {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            self.read(app).await?;
            self.settle(app).await?;
            self.refresh(app).await?;
            Ok(self.step(app).await?)
        })
    }

    fn fenced(&mut self, fence: Fence) {
        self.fence = Some(fence);
    }
}

impl Work {
    /// Reads what changed; at first, everything.
    async fn read(&mut self, app: &App) -> Result<(), Failed> {
        if let Some(at) = &mut self.at {
            return catch_up(app, at, &mut self.left).await;
        }
        // From before the first look, so that nothing is missed in between.
        let end = app.store.feed_tail().await?;
        let mut list = List { kind: KIND.to_owned(), limit: PAGE, ..List::default() };
        loop {
            let page = app.store.list(&list).await?;
            self.left.fleets.extend(page.items.into_iter().map(|fleet| fleet.content.id));
            list.after = page.next;
            if list.after.is_none() {
                break;
            }
        }
        // A device may belong to a fleet that was deleted just before the server stopped.
        let deleted = List { kind: KIND.to_owned(), limit: 1, deleted: true, ..List::default() };
        self.left.all = !self.left.fleets.is_empty() || !app.store.list(&deleted).await?.items.is_empty();
        self.at = Some(end);
        Ok(())
    }

    /// Settles who owns the devices that changed, and those that changed fleets select or own.
    async fn settle(&mut self, app: &App) -> Result<(), Error> {
        let mut lists = Vec::new();
        for name in &self.left.fleets {
            let before = self.fleets.get(name);
            let found = app.store.get(KIND, name).await?.filter(|found| !found.content.deleted);
            let now = found.map(|found| known(app, &Document::of(&found)?)).transpose()?;
            let is_same = before.map(|before| &before.selector) == now.as_ref().map(|now| &now.selector);
            if !is_same && !self.left.all {
                lists.push((name.clone(), now.as_ref().map(|now| now.selector.clone())));
            }
            match now {
                Some(now) => drop(self.fleets.insert(name.clone(), now)),
                None => {
                    self.fleets.remove(name);
                    self.members.remove(name);
                }
            }
            self.left.steps.insert(name.clone());
        }
        let mut all: Vec<_> =
            lists.iter().flat_map(|(name, selector)| self::lists(name, selector.as_ref())).collect();
        all.extend(self.left.all.then(List::default));
        if !all.is_empty() {
            // Any device may change its owner below.
            self.members.clear();
        }
        for list in all {
            self.left.steps.extend(settle_all(app, &self.fleets, list, self.fence.as_ref()).await?);
        }
        (self.left.all, self.left.fleets) = (false, BTreeSet::new());
        if self.fleets.is_empty() {
            self.left.devices.clear();
        }
        let changed: Vec<_> = self.left.devices.iter().cloned().collect();
        for page in changed.chunks(PAGE) {
            let devices = app.store.get_all(DEVICE, page).await?;
            self.left.steps.extend(settle(app, &self.fleets, &devices, self.fence.as_ref()).await?);
        }
        self.left.devices.clear();
        Ok(())
    }

    /// Reads the devices that changed, for the fleets whose devices are known.
    async fn refresh(&mut self, app: &App) -> Result<(), Error> {
        if self.members.is_empty() {
            self.left.changed.clear();
        }
        let changed: Vec<_> = self.left.changed.iter().cloned().collect();
        for page in changed.chunks(PAGE) {
            for device in app.store.get_all(DEVICE, page).await? {
                for (fleet, members) in &mut self.members {
                    members.note(fleet, &device)?;
                }
            }
        }
        self.left.changed.clear();
        Ok(())
    }

    /// Takes the rollouts further whose fleet or devices changed, and those whose time has come.
    async fn step(&mut self, app: &App) -> Result<Next, Error> {
        let (now, instant) = (app.now(), app.clock.instant());
        let due = self.ends.iter().filter(|(_, end)| **end <= now).map(|(name, _)| name.clone());
        self.left.steps.extend(due);
        self.pauses.retain(|_, end| instant < *end);
        let ready: Vec<_> =
            self.left.steps.iter().filter(|name| !self.pauses.contains_key(*name)).cloned().collect();
        let mut soonest = self.pauses.values().min().map(|end| end.saturating_duration_since(instant));
        for name in ready {
            let began = app.clock.instant();
            let known = self.members.remove(&name);
            let (stepped, known) = roll::step(app, &name, known, self.fence.clone()).await?;
            let kept: usize = self.members.values().map(Members::len).sum();
            if let Some(known) = known.filter(|known| kept + known.len() <= MOST_KEPT) {
                self.members.insert(name.clone(), known);
            }
            self.left.steps.remove(&name);
            match stepped.next {
                Some(end) => drop(self.ends.insert(name.clone(), end)),
                None => drop(self.ends.remove(&name)),
            }
            let ended = app.clock.instant();
            let pause = ended.saturating_duration_since(began) * PAUSE;
            self.pauses.insert(name.clone(), ended + pause);
            soonest = Some(soonest.map_or(pause, |soonest| soonest.min(pause)));
            if stepped.again {
                self.left.steps.insert(name);
            }
        }
        let waits = self.left.steps.is_empty();
        Ok(soonest.filter(|_| !waits).map_or(Next::Period, |pause| Next::After(pause.min(PERIOD))))
    }
}

fn known(app: &App, document: &Document) -> Result<Known, Error> {
    let checked = check::read(&document.spec)?;
    let silence_seconds = silence(app, checked.silence_seconds);
    Ok(Known { selector: checked.selector, version: document.version, silence_seconds })
}

impl Follower for Left {
    fn kinds(&self) -> Vec<&'static str> {
        vec![DEVICE, KIND]
    }

    fn page(&self) -> usize {
        1000
    }

    fn take<'a>(&'a mut self, _: &'a App, page: &'a [FeedItem]) -> BoxFuture<'a, Result<(), Failed>> {
        for row in page.iter().map(|item| &item.row) {
            let id = row.resource_id.clone();
            if row.kind == DEVICE {
                self.changed.insert(id.clone());
            }
            if row.kind == KIND {
                self.fleets.insert(id);
            } else if let Some(fleet) = row.entry.metadata["fleet"].as_str() {
                // What this job did to a device changes no owner.
                self.steps.insert(fleet.to_owned());
            } else {
                self.devices.insert(id);
            }
        }
        Box::pin(async { Ok(()) })
    }
}
