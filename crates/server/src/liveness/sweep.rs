//! The sweep: every second, who is due goes to the guard, and whom the guard lets go to its kind.
//!
//! With several servers on one database exactly one sweeps. Its lease is a fence in every change it makes, so
//! that one that was paused and wakes up late changes nothing. What the others heard is merged beside the sweep, which
//! renews its lease however slow that is.

use std::{collections::BTreeSet, sync::atomic::Ordering::Relaxed, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Interval, MissedTickBehavior},
};
use wardroom_core::liveness::{Cause, Held, Incident, Phase};
use wardroom_store::{Fence, Lease, List};

use super::{
    Liveness, astray,
    company::{self, Company, LENGTH, RENEWAL, Renewal, before},
    flush::{self, Wanted},
    follow, incident,
    judge::Due,
    stale,
};
use crate::{app::App, error::Error, satellite::facts};

/// Who sweeps; as long as its presence, so that the dead are found soon when it is the one that crashes.
const LEASE: &str = "sweep";

/// A database that takes longer to answer a question as small as can be does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A merge that takes longer does not end.
const LONGEST_MERGE: Duration = Duration::from_secs(60);

/// Whose merges fail so often in a row may be the only one.
const MOST_FAILED: u32 = 10;

/// Members in one call to their kind.
const BATCH: usize = 1000;

/// Sweeps between two looks for what nobody else ends: incidents, leases.
const STRAYS: u64 = 60;

/// Lets a server take beats from its first moment on. A database that does not answer must not keep it from starting: it
/// takes beats once there is an answer.
pub(crate) async fn arrive(app: &App) {
    if !app.liveness.settings.shared {
        return;
    }
    be_there(app, company::arrive(app)).await;
}

/// A connection that is dead is not waited for: presence is short. Who is not known to be there takes no beats, and is deaf.
pub(super) async fn be_there(app: &App, announced: impl Future<Output = Result<(), Error>>) {
    let late = |_| Err(Error::Unavailable("the database does not answer"));
    if let Err(error) = tokio::time::timeout(company::PATIENCE, announced).await.unwrap_or_else(late) {
        tracing::warn!(%error, "other servers could not be told that this one is there; it is tried again");
    }
    app.liveness.status().absent = !app.liveness.is_present();
}

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

/// Members are heard while they are loaded, so others are told of that from the beginning.
async fn run(app: App, stop: watch::Receiver<bool>) {
    let announce = announce_always(&app, stop.clone());
    let flush = flush_always(&app, stop.clone());
    tokio::join!(announce, flush, watch(&app, stop.clone()));
    company::leave(&app).await;
}

async fn watch(app: &App, mut stop: watch::Receiver<bool>) {
    let cursor = loop {
        match start(app).await {
            Ok(cursor) => break cursor,
            Err(error) => tracing::warn!(%error, "the members could not be loaded; it is tried again"),
        }
        if !sleep(app.liveness.settings.sweep, &mut stop).await {
            return;
        }
    };
    tokio::join!(follow::run(app, cursor, stop.clone()), sweep_always(app, stop.clone()));
}

/// Loads the members. The place in the feed comes first, so that no change falls between the two.
pub(super) async fn start(app: &App) -> Result<wardroom_store::Cursor, Error> {
    let cursor = app.store.feed_tail().await?;
    let live = &app.liveness;
    let began = live.clock.steady();
    // As with a merge: what they told is there when the rest is read.
    let told = company::ask(app).await?;
    let listened = flush::load(app).await?;
    live.judge_state().started(listened, live.clock.steady());
    let mut status = live.status();
    (status.loaded, status.merged, status.told) = (true, Some(began), told);
    Ok(cursor)
}

/// However long a sweep or a flush takes, and before the first sweep.
async fn announce_always(app: &App, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(company::RENEWAL);
    while next(&mut ticks, &mut stop).await {
        be_there(app, company::announce(app)).await;
    }
}

/// Beats, and then what satellites say. Others wait for beats: what is written beside them is a task of its own, and holds
/// up the next flush for no longer than flushes are apart.
async fn flush_always(app: &App, mut stop: watch::Receiver<bool>) {
    let period = app.liveness.settings.flush;
    let mut ticks = interval(period);
    let mut writing = JoinSet::new();
    while next(&mut ticks, &mut stop).await {
        let flushed = flush::flush(app).await;
        app.liveness.status().flush_failed = flushed.is_err();
        if let Err(error) = flushed {
            tracing::warn!(%error, "beats could not be written down; it is tried again");
        }
        if writing.is_empty() {
            writing.spawn(write_facts(app.clone()));
        }
        // Whoever waits in vain finds it still under way the next time.
        let _ = tokio::time::timeout(period, writing.join_next()).await;
    }
    // What was taken to be written counts as written: it is not left half way.
    while writing.join_next().await.is_some() {}
}

async fn write_facts(app: App) {
    if let Err(error) = facts::flush(&app).await {
        tracing::warn!(%error, "what satellites say could not be written down; it is tried again");
    }
}

async fn sweep_always(app: &App, mut stop: watch::Receiver<bool>) {
    let mut sweep = Sweep::new();
    // However long a sweep takes, the next one begins a period after it began.
    let mut ticks = interval(app.liveness.settings.sweep);
    while next(&mut ticks, &mut stop).await {
        if let Err(error) = sweep.tick(app).await {
            tracing::warn!(%error, "a sweep failed; the next one is due in a moment");
        }
    }
    sweep.let_go(app).await;
}

/// Begins at once; what takes longer than a period puts off what comes after it.
fn interval(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// True: go on.
async fn next(ticks: &mut Interval, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        _ = ticks.tick() => true,
        _ = stop.wait_for(|stop| *stop) => false,
    }
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
    pub(super) lease: Option<Lease>,
    company: Company,
    /// When the leases were asked for last.
    asked: Option<Timestamp>,
    /// The lease while another server has it.
    held: Option<Renewal>,
    /// The merge that is under way, at most one.
    merging: JoinSet<Result<(), Error>>,
    /// Whether the next one is due whenever the last one was.
    merges_anew: bool,
    /// How many of the last ones did not work.
    pub(super) failed_merges: u32,
    /// What people were not told yet.
    untold: Vec<Incident>,
    ticks: u64,
}

impl Sweep {
    pub(super) fn new() -> Self {
        Self {
            lease: None,
            company: Company::default(),
            asked: None,
            held: None,
            merging: JoinSet::new(),
            merges_anew: false,
            failed_merges: 0,
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
        let reserved = app.store.reserved();
        let (answers, serves) = tokio::join!(
            tokio::time::timeout(PATIENCE, reserved.ping()),
            tokio::time::timeout(PATIENCE, app.store.ping()),
        );
        let is_hindered = {
            let status = live.status();
            status.flush_failed || status.absent
        };
        let database = matches!(answers, Ok(Ok(()))) && !is_hindered;
        let prepared = match database {
            true => self.prepare(app).await,
            false => Ok(false),
        };
        let cut_off = !database || prepared.is_err();
        // Who sweeps and does not learn what the others heard cannot judge. What it hears itself is written down all
        // the same, and so is what a server hears that does not sweep: nobody is sent away for that.
        // Requests have connections of their own. While those are all taken, who needs one to be heard is not.
        let starved = !matches!(serves, Ok(Ok(())));
        let deaf = cut_off || starved || (self.failed_merges > 0 && self.lease.is_some());
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
        if self.asked.is_none_or(|asked| asked <= before(now, RENEWAL)) {
            self.renew(app, now).await?;
        }
        self.merges_anew |= self.company.look(app).await?;
        self.merge(app, now);
        live.status().behind = now.duration_since(self.known_until(app, now));
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
            self.failed_merges = if ended.is_err() { self.failed_merges.saturating_add(1) } else { 0 };
            if let Err(error) = ended {
                tracing::warn!(%error, "what other servers heard could not be read; it is tried again");
            }
        }
        if self.company.is_alone(now) {
            // There is nothing to learn, also of what could not be read.
            self.failed_merges = 0;
            return;
        }
        if !self.merging.is_empty() {
            return;
        }
        let Some(wanted) = self.wants(live, now) else { return };
        self.merges_anew = false;
        let app = app.clone();
        self.merging.spawn(async move {
            let late = |_| Err(Error::Unavailable("the beats of other servers could not be read in time"));
            tokio::time::timeout(LONGEST_MERGE, flush::merge(&app, wanted)).await.unwrap_or_else(late)
        });
    }

    /// Whoever sweeps begins a merge with every sweep while somebody is late as far as it knows, or another server has
    /// heard what is not expected here. Otherwise they are for people only, and not as often.
    fn wants(&self, live: &Liveness, now: Timestamp) -> Option<Wanted> {
        let merged = live.status().merged.unwrap_or(now);
        let is_old = merged <= before(now, live.settings.flush * 10);
        let sweeps = self.lease.is_some();
        if is_old || self.merges_anew || self.failed_merges > 0 || sweeps && live.is_anyone_late(now) {
            return Some(Wanted::Always);
        }
        sweeps.then(|| Wanted::IfNewsOf(self.company.names()))
    }

    /// Until when is known who was heard by anybody.
    fn known_until(&self, app: &App, now: Timestamp) -> Timestamp {
        if app.liveness.settings.shared { self.company.known_until(app).min(now) } else { now }
    }

    async fn renew(&mut self, app: &App, now: Timestamp) -> Result<(), Error> {
        let live = &app.liveness;
        // Who cannot learn what others heard lets one of them judge.
        let lease = if self.failed_merges >= MOST_FAILED && !self.company.is_empty() {
            self.let_go(app).await;
            None
        } else {
            self.acquire(app).await?
        };
        self.asked = Some(now);
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
        // Whoever swept before is an excuse when it is gone, as any other server, and none when it only stopped sweeping.
        self.merges_anew |= took_over;
        let sweeping = live.status().sweeping.filter(|_| !took_over).unwrap_or(now);
        live.status().sweeping = lease.as_ref().map(|_| sweeping);
        self.lease = lease;
        Ok(())
    }

    /// Takes the lease, also from a holder that does not renew it: by the database's clock, which may have been set back,
    /// it would last.
    async fn acquire(&mut self, app: &App) -> Result<Option<Lease>, Error> {
        let (live, store) = (&app.liveness, app.store.reserved());
        let acquired = store.acquire_lease(LEASE, &live.name, LENGTH).await?;
        let held = if acquired.is_none() { store.lease(LEASE).await? } else { None };
        let Some(held) = held.filter(|held| !held.remaining.is_zero()) else {
            self.held = None;
            return Ok(acquired);
        };
        let now = live.clock.steady();
        let renewal = Renewal::look(self.held, held.remaining, LENGTH, now);
        self.held = Some(renewal);
        if renewal.lasts(now) {
            return Ok(None);
        }
        tracing::warn!(holder = held.holder, "who sweeps does not renew its lease; it is taken over");
        store.release_lease(&held).await?;
        Ok(store.acquire_lease(LEASE, &live.name, LENGTH).await?)
    }

    async fn sweep(&mut self, app: &App) -> Result<(), Error> {
        let live = &app.liveness;
        let fence = self.lease.as_ref().map(Lease::fence);
        live.pulse(app);
        let began = app.clock.instant();
        let (now, verdict) = {
            let mut judge = live.judge_state();
            if judge.listening.deaf_now().is_some() {
                return Ok(());
            }
            // Judged at the time at which the clocks were read: a pause since then is noticed by the next sweep.
            let now = judge.noticed();
            let known = self.known_until(app, now);
            (now, live.judge(&mut judge, now, known))
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
            outcome = self.mark_all(app, kind, &due).await.and(outcome);
        }
        let fence = self.lease.as_ref().map(Lease::fence);
        astray::look(app, fence.as_ref()).await.and(outcome)?;
        if self.ticks.is_multiple_of(STRAYS) {
            company::forget_gone(app, now).await?;
            end_strays(app, fence.as_ref()).await?;
        }
        Ok(())
    }

    /// The lease is renewed meanwhile: very many take longer than it lasts.
    async fn mark_all(&mut self, app: &App, kind: u8, due: &[Due]) -> Result<(), Error> {
        let live = &app.liveness;
        for batch in due.chunks(BATCH) {
            let fence = self.lease.as_ref().map(Lease::fence);
            mark(app, kind, batch, fence.as_ref()).await?;
            let now = live.clock.steady();
            let is_old = self.asked.is_none_or(|asked| asked <= before(now, RENEWAL));
            let Some(before) = self.lease.as_ref().filter(|_| is_old).map(|lease| lease.epoch) else {
                continue;
            };
            let lease = app.store.reserved().acquire_lease(LEASE, &live.name, LENGTH).await?;
            // One that lapsed has another epoch now. If somebody had it in between, as whoever lost it, the next batch is
            // refused.
            if let Some(lease) = lease.filter(|lease| lease.epoch <= before + 1) {
                (self.lease, self.asked) = (Some(lease), Some(now));
            }
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
        if let Some(lease) = &self.lease
            && let Err(error) = app.store.reserved().release_lease(lease).await
        {
            tracing::warn!(%error, lease = lease.name, "a lease could not be let go; it lapses by itself");
        }
    }
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
        // It was heard while it was marked.
        if live.slab.record(due.seat).is_some_and(|record| record.last > due.last) {
            live.heard_unwatched(due.seat);
        }
    }
    Ok(())
}

/// Ends incidents of zones in which nothing is going on any more: whoever raised them may have been stopped.
async fn end_strays(app: &App, fence: Option<&Fence>) -> Result<(), Error> {
    let live = &app.liveness;
    // Who took over a moment ago has not found everybody yet who is silent.
    // One lock at a time: elsewhere the judge is asked first.
    let sweeping = live.status().sweeping;
    let since = sweeping.max(Some(live.judge_state().since)).unwrap_or(Timestamp::MIN);
    let settled = since.checked_add(live.settings.policy.at_most(None));
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
        let (noticed, refused) = {
            let mut judge = self.judge_state();
            let noticed = judge.pulse(self.clock, expected);
            // After the clocks were read: whoever is judged by that is not charged for what was refused before.
            (noticed, self.refused().map(|period| judge.was_deaf(period)))
        };
        if let Some(cause) = noticed {
            tracing::warn!(%cause, "the server was deaf for a while; nobody is charged for it");
        }
        // Why they are refused was said when it began.
        if noticed.or(refused).is_some() {
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
