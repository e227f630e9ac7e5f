//! The sweep: every second, who is due goes to the guard, and whom the guard lets go to its kind.
//!
//! With several servers on one database exactly one sweeps. Its lease is a fence in every change it makes, so
//! that one that was paused and wakes up late changes nothing. What the others heard is merged beside the sweep, which
//! renews its lease however slow that is; and nobody is judged past what the last merge vouches for.

use std::{collections::BTreeSet, sync::atomic::Ordering::Relaxed, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{sync::watch, task::JoinSet};
use uuid::Uuid;
use wardroom_core::liveness::{Cause, Held, Incident, Period, Phase};
use wardroom_store::{Fence, Lease, List};

use super::{Liveness, flush, follow, incident, judge::Due, stale};
use crate::{app::App, error::Error, satellite::facts};

/// Who sweeps.
const LEASE: &str = "sweep";
/// That a server is there.
const PRESENCE: &str = "replica/";
const LENGTH: Duration = Duration::from_secs(15);
const RENEWAL: SignedDuration = SignedDuration::from_secs(5);

/// A database that takes longer to answer a question as small as can be does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A merge that takes longer does not end.
const LONGEST_MERGE: Duration = Duration::from_secs(60);

/// Members in one call to their kind.
const BATCH: usize = 1000;

/// Sweeps between two looks for what nobody else ends: incidents, leases.
const STRAYS: u64 = 60;

/// Starts everything that keeps watch; it ends when `stop` says so.
pub(crate) fn spawn(app: &App, stop: &watch::Receiver<bool>, jobs: &mut JoinSet<()>) {
    jobs.spawn(pulse(app.clone(), stop.clone()));
    jobs.spawn(run(app.clone(), stop.clone()));
}

/// What should not be lost at the end.
pub(crate) async fn finish(app: &App) -> Result<(), Error> {
    flush::flush_all(app).await?;
    facts::flush_all(app).await
}

/// Notices pauses of the process, whatever the sweep is waiting for.
async fn pulse(app: App, mut stop: watch::Receiver<bool>) {
    while sleep(app.liveness.settings.sweep, &mut stop).await {
        app.liveness.pulse(&app);
    }
}

async fn run(app: App, mut stop: watch::Receiver<bool>) {
    let cursor = loop {
        match start(&app).await {
            Ok(cursor) => break cursor,
            Err(error) => tracing::warn!(%error, "the members could not be loaded; it is tried again"),
        }
        if !sleep(app.liveness.settings.sweep, &mut stop).await {
            return;
        }
    };
    let follow = follow::run(&app, cursor, stop.clone());
    tokio::join!(follow, flush_always(&app, stop.clone()), sweep_always(&app, stop.clone()));
}

/// Loads the members. The place in the feed comes first, so that no change falls between the two.
pub(super) async fn start(app: &App) -> Result<wardroom_store::Cursor, Error> {
    let cursor = app.store.feed_tail().await?;
    let live = &app.liveness;
    let began = live.clock.steady();
    let listened = flush::load(app).await?;
    live.judge_state().started(listened, live.clock.steady());
    live.status().loaded = true;
    live.status().merged = Some(began);
    Ok(cursor)
}

async fn flush_always(app: &App, mut stop: watch::Receiver<bool>) {
    while sleep(app.liveness.settings.flush, &mut stop).await {
        let flushed = flush::flush(app).await;
        app.liveness.status().flush_failed = flushed.is_err();
        if let Err(error) = flushed {
            tracing::warn!(%error, "beats could not be written down; it is tried again");
        }
        if let Err(error) = facts::flush(app).await {
            tracing::warn!(%error, "what satellites say could not be written down; it is tried again");
        }
    }
}

async fn sweep_always(app: &App, mut stop: watch::Receiver<bool>) {
    let mut sweep = Sweep::new();
    while sleep(app.liveness.settings.sweep, &mut stop).await {
        if let Err(error) = sweep.tick(app).await {
            tracing::warn!(%error, "a sweep failed; the next one is due in a moment");
        }
    }
    sweep.let_go(app).await;
}

/// True: go on.
async fn sleep(period: Duration, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        () = tokio::time::sleep(period) => true,
        _ = stop.wait_for(|stop| *stop) => false,
    }
}

/// One server's part in sweeping.
#[derive(Debug)]
pub(super) struct Sweep {
    /// What this server is called; no two are called the same.
    name: String,
    pub(super) lease: Option<Lease>,
    presence: Option<Lease>,
    /// When the leases were asked for last.
    asked: Option<Timestamp>,
    /// The other servers that were there.
    others: BTreeSet<String>,
    /// When there was one last.
    together: Option<Timestamp>,
    /// The merge that is under way, at most one.
    merging: JoinSet<Result<(), Error>>,
    /// Whether the next one is due whenever the last one was.
    merges_anew: bool,
    /// Whether the last one that ended did not work.
    pub(super) merge_failed: bool,
    /// What people were not told yet.
    untold: Vec<Incident>,
    ticks: u64,
}

impl Sweep {
    pub(super) fn new() -> Self {
        Self {
            name: Uuid::now_v7().to_string(),
            lease: None,
            presence: None,
            asked: None,
            others: BTreeSet::new(),
            together: None,
            merging: JoinSet::new(),
            merges_anew: false,
            merge_failed: false,
            untold: Vec::new(),
            ticks: 0,
        }
    }

    /// One sweep.
    pub(super) async fn tick(&mut self, app: &App) -> Result<(), Error> {
        let live = &app.liveness;
        live.clock.follow();
        live.pulse(app);
        self.ticks += 1;
        let answers = tokio::time::timeout(PATIENCE, app.store.ping()).await;
        let database = matches!(answers, Ok(Ok(()))) && !live.status().flush_failed;
        let prepared = match database {
            true => self.prepare(app).await,
            false => Ok(false),
        };
        let cut_off = !database || prepared.is_err();
        // Who sweeps and does not learn what the others heard cannot judge. What it hears itself is written down all
        // the same, and so is what a server hears that does not sweep: nobody is sent away for that.
        let deaf = cut_off || (self.merge_failed && self.lease.is_some());
        live.judge_state().set(Cause::Database, deaf, live.clock.steady());
        live.cut_off.store(cut_off && live.settings.shared, Relaxed);
        if deaf {
            app.was_deaf();
        }
        if prepared? && !deaf {
            self.sweep(app).await?;
        }
        Ok(())
    }

    /// Whether this server sweeps.
    async fn prepare(&mut self, app: &App) -> Result<bool, Error> {
        let live = &app.liveness;
        if !live.settings.shared {
            live.status().sweeping.get_or_insert(live.clock.steady());
            return Ok(true);
        }
        let now = live.clock.steady();
        if self.asked.is_none_or(|asked| now.duration_since(asked) >= RENEWAL) {
            self.renew(app, now).await?;
        }
        self.merge(app, now);
        Ok(self.lease.is_some())
    }

    /// Learns how the last merge ended, and begins the next one when it is time.
    fn merge(&mut self, app: &App, now: Timestamp) {
        let live = &app.liveness;
        if let Some(ended) = self.merging.try_join_next() {
            let ended = ended.unwrap_or_else(|error| {
                tracing::error!(%error, "a merge panicked");
                Err(Error::Internal)
            });
            self.merge_failed = ended.is_err();
            if let Err(error) = ended {
                tracing::warn!(%error, "what other servers heard could not be read; it is tried again");
            }
        }
        // Who is alone has nobody to learn from, and judges again.
        self.merge_failed &= !self.is_alone(now);
        // Whoever sweeps begins one with every sweep; the others merge for people only, and not as often.
        let wait = if self.lease.is_some() { Duration::ZERO } else { live.settings.flush * 10 };
        let merged = live.status().merged.unwrap_or(now);
        let since = Duration::try_from(now.duration_since(merged)).unwrap_or(Duration::ZERO);
        let is_due = since >= wait || self.merges_anew || self.merge_failed;
        if is_due && !self.is_alone(now) && self.merging.is_empty() {
            self.merges_anew = false;
            let app = app.clone();
            self.merging.spawn(async move {
                let late =
                    |_| Err(Error::Unavailable("the beats of other servers could not be read in time"));
                tokio::time::timeout(LONGEST_MERGE, flush::merge(&app)).await.unwrap_or_else(late)
            });
        }
    }

    /// Whoever is alone for longer than anybody takes to write down the last beats has nothing to learn.
    fn is_alone(&self, now: Timestamp) -> bool {
        self.together.is_none_or(|together| together < before(now, LENGTH * 4))
    }

    /// Until when the last merge vouches for who was not heard.
    fn vouched(&self, app: &App, now: Timestamp) -> Timestamp {
        if !app.liveness.settings.shared || self.is_alone(now) {
            return Timestamp::MAX;
        }
        let merged = app.liveness.status().merged.unwrap_or(Timestamp::MIN);
        merged.saturating_add(app.liveness.settings.vouched()).unwrap_or(Timestamp::MAX)
    }

    async fn renew(&mut self, app: &App, now: Timestamp) -> Result<(), Error> {
        let live = &app.liveness;
        let presence = format!("{PRESENCE}{}", self.name);
        self.presence = app.store.acquire_lease(&presence, &self.name, LENGTH).await?;
        let lease = app.store.acquire_lease(LEASE, &self.name, LENGTH).await?;
        self.asked = Some(now);
        self.mind_the_others(app, now).await?;
        let took_over = match (&self.lease, &lease) {
            (Some(before), Some(after)) => before.epoch != after.epoch,
            (None, Some(_)) => true,
            (Some(_) | None, None) => false,
        };
        if self.lease.is_some() && lease.is_none() {
            // Somebody else judges now, with guards of its own.
            self.untold.clear();
            live.judge_state().step_down();
            let mut status = live.status();
            (status.silent, status.due, status.held, status.swept) = (0, 0, 0, None);
        }
        if took_over {
            // Whoever swept before was away: what it heard last may not have been written down, and its members
            // have to find another server first.
            live.judge_state().was_deaf(away(now));
            self.merges_anew = true;
        }
        let sweeping = live.status().sweeping.unwrap_or(now);
        live.status().sweeping = lease.as_ref().map(|_| sweeping);
        self.lease = lease;
        Ok(())
    }

    /// A server that is gone takes the members that it heard with it, until they find another one.
    async fn mind_the_others(&mut self, app: &App, now: Timestamp) -> Result<(), Error> {
        let leases = app.store.leases(PRESENCE).await?;
        let there =
            leases.into_iter().filter(|lease| !lease.remaining.is_zero() && lease.holder != self.name);
        let there: BTreeSet<_> = there.map(|lease| lease.name).collect();
        if self.others.difference(&there).next().is_some() {
            app.liveness.judge_state().was_deaf(away(now));
        }
        if !there.is_empty() || !self.others.is_empty() {
            self.together = Some(now);
        }
        self.others = there;
        Ok(())
    }

    async fn sweep(&mut self, app: &App) -> Result<(), Error> {
        let live = &app.liveness;
        let fence = self.lease.as_ref().map(Lease::fence);
        live.pulse(app);
        let began = app.clock.instant();
        let vouched = self.vouched(app, live.clock.steady());
        let (now, verdict) = {
            let mut judge = live.judge_state();
            if judge.listening.deaf_now().is_some() {
                return Ok(());
            }
            // Judged at the time at which the clocks were read: a pause since then is noticed by the next sweep.
            let now = judge.noticed();
            (now, live.judge(&mut judge, now, vouched))
        };
        {
            let mut status = live.status();
            status.sweeps += 1;
            status.swept = Some((now, began.elapsed()));
            (status.silent, status.due, status.held) = (verdict.silent, verdict.due, verdict.held);
        }
        self.untold.extend(verdict.incidents);
        let mut outcome = self.tell(app, fence.as_ref()).await;
        for (kind, due) in verdict.release {
            // What ails one kind is no reason to leave another one to itself.
            outcome = mark_all(app, kind, &due, fence.as_ref()).await.and(outcome);
        }
        outcome?;
        if self.ticks.is_multiple_of(STRAYS) {
            app.store.forget_lapsed_leases(PRESENCE).await?;
            end_strays(app, fence.as_ref()).await?;
        }
        Ok(())
    }

    /// Tells people of incidents; what cannot be told now is told later.
    async fn tell(&mut self, app: &App, fence: Option<&Fence>) -> Result<(), Error> {
        let live = &app.liveness;
        while let Some(next) = self.untold.first().cloned() {
            let held = live.held_at(&next.zone);
            let open = incident::turn(app, &next, held.as_ref(), fence).await?;
            let mut judge = live.judge_state();
            match open {
                Some(id) => judge.incidents.insert(next.zone, id),
                None => judge.incidents.remove(&next.zone),
            };
            self.untold.remove(0);
        }
        let open: Vec<_> = live.judge_state().incidents.clone().into_iter().collect();
        for (zone, id) in open {
            if let Some(held) = live.held_at(&zone).filter(|held| held.phase == Phase::Releasing)
                && live.status().releasing.insert(id.clone())
            {
                let noted = incident::releasing(app, &id, &held, fence).await;
                if noted.is_err() {
                    live.status().releasing.remove(&id);
                }
                noted?;
            }
        }
        Ok(())
    }

    /// Waits for the merge that is under way.
    #[cfg(test)]
    pub(super) async fn merged(&mut self) {
        while let Some(ended) = self.merging.join_next().await {
            ended.unwrap().unwrap();
        }
    }

    async fn let_go(&self, app: &App) {
        for lease in [&self.lease, &self.presence].into_iter().flatten() {
            if let Err(error) = app.store.release_lease(lease).await {
                tracing::warn!(%error, lease = lease.name, "a lease could not be let go; it lapses by itself");
            }
        }
    }
}

/// The time for which a server that did not renew its lease may have been away.
fn away(now: Timestamp) -> Period {
    Period { cause: Cause::Listener, from: before(now, LENGTH), to: now }
}

fn before(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}

async fn mark_all(app: &App, kind: u8, due: &[Due], fence: Option<&Fence>) -> Result<(), Error> {
    for batch in due.chunks(BATCH) {
        mark(app, kind, batch, fence).await?;
    }
    Ok(())
}

/// Hands due members to their kind, and watches those no longer that it marked.
pub(super) async fn mark(app: &App, kind: u8, batch: &[Due], fence: Option<&Fence>) -> Result<(), Error> {
    let live = &app.liveness;
    let Some(row) = live.kinds.get(usize::from(kind)) else { return Ok(()) };
    let named: Vec<_> =
        batch.iter().filter_map(|due| Some((live.slab.name(due.seat)?.into_string(), due))).collect();
    let ids: Vec<_> = named.iter().map(|(id, _)| id.clone()).collect();
    let done: BTreeSet<_> = stale::go_stale(app, row, &ids, fence).await?.into_iter().collect();
    live.status().stale += done.len() as u64;
    for (id, due) in named.iter().filter(|(id, _)| done.contains(id)) {
        let mut claims = due.claims;
        // Somebody asked for the seat meanwhile: the stored state says whether the member beats again.
        while let Some(newer) = live.leave(due.seat, claims) {
            let found = app.store.get(row.kind, id).await?;
            let beats = found.is_some_and(|found| {
                !found.content.deleted && row.states.contains(&found.content.state.as_str())
            });
            if beats {
                break;
            }
            claims = newer;
        }
    }
    Ok(())
}

/// Ends incidents of zones in which nothing is going on any more: whoever raised them may have been stopped.
async fn end_strays(app: &App, fence: Option<&Fence>) -> Result<(), Error> {
    let live = &app.liveness;
    let settled = live.judge_state().since.checked_add(live.settings.policy.at_most(None));
    if settled.is_ok_and(|settled| live.clock.steady() < settled) {
        return Ok(());
    }
    for phase in [Phase::Holding, Phase::Releasing] {
        let state = Some(phase.as_str().to_owned());
        let list = List { kind: incident::KIND.to_owned(), state, limit: 1000, ..List::default() };
        for open in app.store.list(&list).await?.items {
            let zone = open.content.document.read::<incident::Document>()?.zone;
            if !live.judge_state().incidents.contains_key(&zone) {
                incident::end(app, open, "It is over: no guard holds these members any more.", fence).await?;
            }
        }
    }
    Ok(())
}

impl Liveness {
    fn pulse(&self, app: &App) {
        let expected = SignedDuration::try_from(self.settings.sweep).unwrap_or(SignedDuration::ZERO);
        let noticed = self.judge_state().pulse(self.clock, expected);
        if let Some(cause) = noticed {
            tracing::warn!(%cause, "the server was deaf for a while; nobody is charged for it");
            app.was_deaf();
        }
    }

    /// The guard of a zone, or that of the fleet, while it holds; times are wall times.
    fn held_at(&self, zone: &wardroom_core::liveness::Zone) -> Option<Held> {
        let judge = self.judge_state();
        let guard = match zone {
            Some(label) => judge.fleet.zones().get(label)?,
            None => judge.fleet.whole(),
        };
        let mut held = Held::by(guard, zone.clone(), &self.settings.limits)?;
        held.since = self.clock.wall_of(held.since);
        held.until = self.clock.wall_of(held.until);
        Some(held)
    }

    /// Watches a member no longer, unless somebody asked for its seat since; then answers how often.
    pub(super) fn leave(&self, seat: super::Seat, claims: u32) -> Option<u32> {
        let (chunk, at) = self.slab.at(seat)?;
        chunk.rest(at);
        let newer = chunk.claims(at);
        if newer == claims {
            return None;
        }
        let record = chunk.record(at);
        chunk.watch(at, self.late_step(record.last, record.interval));
        Some(newer)
    }
}
