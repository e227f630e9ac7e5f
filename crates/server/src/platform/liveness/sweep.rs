//! The sweep: every second, members that are due go to the guard, and those that it releases to their kind.
//!
//! With several replicas on one database exactly one sweeps: the lease holder. Its lease is a fence in every change it
//! makes, so that one that was paused and wakes up late changes nothing. It asks the table for overdue rows beside the sweep,
//! and renews its lease however slow that is. A server without other replicas judges by its own memory.

use std::{collections::BTreeSet, sync::atomic::Ordering::Relaxed, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Interval, MissedTickBehavior},
};
use wardroom_core::liveness::{Cause, Held, Incident, Phase};
use wardroom_store::{BeatAt, Fence, Lease};

use super::{
    Liveness, Seat, flush, follow, incident,
    judge::Due,
    overdue::{self, Look, Looks},
    replicas::{self, LENGTH, RENEWAL, Renewal, Replicas, Written, before},
    stale::{self, Silent},
    unwatched,
};
use crate::platform::{app::App, http::error::Error, observed};

/// The lease of the sweep; as short as presence, so that silent members are found soon after its holder
/// crashes.
const LEASE: &str = "sweep";

/// How long the smallest query may take before the database counts as not answering.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a query for overdue rows may take.
const LONGEST_LOOK: Duration = Duration::from_secs(60);

/// After this many failed looks in a row the lease is released: another replica may be able to read the
/// table.
const MOST_FAILED: u32 = 10;

/// Members in one call to their kind.
const BATCH: usize = 1000;

/// Sweeps between two clean-ups of abandoned incidents and leases.
const STRAYS: u64 = 60;

/// Lets a server accept beats from its start. It also starts while the database does not answer, and accepts
/// beats once it does.
pub(crate) async fn arrive(app: &App) {
    if !app.liveness.settings.shared {
        return;
    }
    be_present(app, replicas::arrive(app)).await;
}

/// Renews the presence of this server, without waiting long for a dead connection. A server whose presence
/// expired accepts no beats, and is deaf.
pub(super) async fn be_present(app: &App, announced: impl Future<Output = Result<(), Error>>) {
    let late = |_| Err(Error::Unavailable("the database does not answer"));
    if let Err(error) = tokio::time::timeout(replicas::PATIENCE, announced).await.unwrap_or_else(late) {
        tracing::warn!(%error, "presence lease of this server not renewed; retrying");
    }
    app.liveness.status().absent = !app.liveness.is_present();
}

/// Starts the tasks of liveness; they end at `stop`.
pub(crate) fn spawn(app: &App, stop: &watch::Receiver<bool>, jobs: &mut JoinSet<()>) {
    jobs.spawn(pulse(app.clone(), stop.clone()));
    jobs.spawn(run(app.clone(), stop.clone()));
}

/// Stores the last beats and reports when the server stops.
pub(crate) async fn finish(app: &App) -> Result<(), Error> {
    flush::flush_all(app).await?;
    observed::flush_all(app).await
}

/// Detects pauses of the process, also while the sweep waits.
async fn pulse(app: App, mut stop: watch::Receiver<bool>) {
    while sleep(app.liveness.settings.sweep, &mut stop).await {
        app.liveness.pulse(&app);
    }
}

/// Presence and flushes start before loading, because beats arrive meanwhile.
async fn run(app: App, stop: watch::Receiver<bool>) {
    let announce = announce_always(&app, stop.clone());
    let flush = flush_always(&app, stop.clone());
    tokio::join!(announce, flush, watch(&app, stop.clone()));
    replicas::leave(&app).await;
}

async fn watch(app: &App, mut stop: watch::Receiver<bool>) {
    let cursor = loop {
        match start(app).await {
            Ok(cursor) => break cursor,
            Err(error) => tracing::warn!(%error, "members not loaded; retrying"),
        }
        if !sleep(app.liveness.settings.sweep, &mut stop).await {
            return;
        }
    };
    tokio::join!(follow::run(app, cursor, stop.clone()), sweep_always(app, stop.clone()));
}

/// Loads the members. The position in the feed is read first, so that no change is missed.
pub(super) async fn start(app: &App) -> Result<wardroom_store::Cursor, Error> {
    let cursor = app.store.feed_tail().await?;
    let live = &app.liveness;
    let listened = flush::load(app).await?;
    live.judge_state().started(listened, live.clock.steady());
    live.status().loaded = true;
    Ok(cursor)
}

/// Renews presence in a loop of its own, independent of sweeps and flushes.
async fn announce_always(app: &App, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(RENEWAL);
    while next(&mut ticks, &mut stop).await {
        be_present(app, replicas::announce(app)).await;
    }
}

/// Stores beats, then reports. Other servers wait for beats, so reports are written in a separate task, which
/// delays the next flush by at most one period.
async fn flush_always(app: &App, mut stop: watch::Receiver<bool>) {
    let period = app.liveness.settings.flush;
    let mut ticks = interval(period);
    let mut writing = JoinSet::new();
    while next(&mut ticks, &mut stop).await {
        let flushed = flush::flush(app).await;
        app.liveness.status().flush_failed = flushed.is_err();
        if let Err(error) = flushed {
            tracing::warn!(%error, "heartbeats not written; retrying");
        }
        if writing.is_empty() {
            writing.spawn(write_reports(app.clone()));
        }
        // If this times out, the next round waits for the same task.
        let _ = tokio::time::timeout(period, writing.join_next()).await;
    }
    // Reports taken from memory count as written: the task is not left half way.
    while writing.join_next().await.is_some() {}
}

async fn write_reports(app: App) {
    if let Err(error) = observed::flush(&app).await {
        tracing::warn!(%error, "last reports not written; retrying");
    }
}

async fn sweep_always(app: &App, mut stop: watch::Receiver<bool>) {
    let mut sweep = Sweep::new();
    // The next sweep begins a period after this one began.
    let mut ticks = interval(app.liveness.settings.sweep);
    while next(&mut ticks, &mut stop).await {
        if let Err(error) = sweep.tick(app).await {
            tracing::warn!(%error, "sweep failed; the next one tries again");
        }
    }
    sweep.let_go(app).await;
}

/// A timer that ticks at once; a late tick shifts the following ones.
fn interval(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Returns whether to continue.
async fn next(ticks: &mut Interval, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        _ = ticks.tick() => true,
        _ = stop.wait_for(|stop| *stop) => false,
    }
}

/// Returns whether to continue.
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
    replicas: Replicas,
    /// When the lease was last requested.
    asked: Option<Timestamp>,
    /// The lease while another server has it.
    held: Option<Renewal>,
    /// The query of the table under way, at most one.
    asking: JoinSet<Result<Answer, Error>>,
    /// The last answer that is not judged yet, and the moment as of which to judge.
    look: Option<(Look, Timestamp)>,
    looks: Looks,
    /// How many queries in a row failed.
    pub(super) failed_looks: u32,
    /// Incidents whose start or end is not stored yet.
    untold: Vec<Incident>,
    ticks: u64,
}

#[derive(Debug)]
struct Answer {
    /// When the replicas were read before the query.
    looked: Timestamp,
    written: Written,
    /// Overdue rows, if the query was for them.
    look: Option<Look>,
    /// Whether every row was read into memory.
    has_all: bool,
}

/// How members are judged, and the moment up to which every beat is known.
enum Judged {
    ByMemory(Timestamp),
    ByTable(Vec<(Seat, Option<BeatAt>)>, Timestamp),
}

impl Sweep {
    pub(super) fn new() -> Self {
        Self {
            lease: None,
            replicas: Replicas::default(),
            asked: None,
            held: None,
            asking: JoinSet::new(),
            look: None,
            looks: Looks::default(),
            failed_looks: 0,
            untold: Vec::new(),
            ticks: 0,
        }
    }

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
        // A lease holder that cannot read the table cannot judge, but it accepts beats: they are still
        // written. Requests use other connections; while those are all in use, a beat that needs one is not
        // received.
        let starved = !matches!(serves, Ok(Ok(())));
        let blind = self.failed_looks > 0 && self.lease.is_some() && !live.knows_all.load(Relaxed);
        let deaf = cut_off || starved || blind;
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
        self.replicas.look(app).await?;
        self.ask_table(app, live.clock.steady());
        live.status().behind = now.duration_since(self.replicas.known_until().min(now));
        Ok(self.lease.is_some())
    }

    /// Takes the answer to the last query, and starts the next one: the watermarks of replicas, and, if this
    /// server judges, the overdue rows; once no replicas are left, every row.
    fn ask_table(&mut self, app: &App, now: Timestamp) {
        let live = &app.liveness;
        if let Some(ended) = self.asking.try_join_next() {
            self.take_answer(live, ended);
        }
        let is_alone = self.replicas.is_alone(now);
        if !is_alone {
            live.knows_all.store(false, Relaxed);
        } else if self.replicas.never_met() {
            // Every row was read at the start.
            live.knows_all.store(live.status().loaded, Relaxed);
        }
        if !self.asking.is_empty() {
            return;
        }
        let (app, looked) = (app.clone(), self.replicas.looked());
        let judges = self.lease.is_some() && !live.knows_all.load(Relaxed);
        let (has_all, looks) = (judges && is_alone, judges && !is_alone && self.looks.is_due(now));
        self.asking.spawn(in_time(async move {
            // Read before the rows, so that the rows include every beat up to the watermarks.
            let written = replicas::written(&app).await?;
            if has_all {
                flush::read_all(&app).await?;
            }
            let look = if looks { Some(overdue::look(&app).await?) } else { None };
            Ok(Answer { looked, written, look, has_all })
        }));
    }

    fn take_answer(&mut self, live: &Liveness, ended: Result<Result<Answer, Error>, JoinError>) {
        let ended = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "the query for silent members panicked");
            Err(Error::Internal)
        });
        self.failed_looks = if ended.is_err() { self.failed_looks.saturating_add(1) } else { 0 };
        match ended {
            Ok(Answer { looked, written, look, has_all }) => {
                self.replicas.take(live, written);
                if has_all {
                    live.knows_all.store(true, Relaxed);
                }
                let known = self.replicas.known_until().min(looked);
                self.look = look.map(|look| (look, known)).or(self.look.take());
            }
            Err(error) => tracing::warn!(%error, "last heartbeats not read; retrying"),
        }
    }

    async fn renew(&mut self, app: &App, now: Timestamp) -> Result<(), Error> {
        let live = &app.liveness;
        // Another replica may be able to read the table.
        let lease = if self.failed_looks >= MOST_FAILED && !self.replicas.is_empty() {
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
            // Another lease holder judges now, with guards of its own.
            self.untold.clear();
            (self.look, self.looks) = (None, Looks::default());
            live.judge_state().step_down();
            let mut status = live.status();
            (status.silent, status.due, status.held, status.swept) = (0, 0, 0, None);
        }
        // The previous lease holder is an excuse if it vanished, like any replica, but not if it released the
        // lease.
        let sweeping = live.status().sweeping.filter(|_| !took_over).unwrap_or(now);
        live.status().sweeping = lease.as_ref().map(|_| sweeping);
        self.lease = lease;
        Ok(())
    }

    /// Takes the lease, also from a holder that stopped renewing it: if the database's clock was set back,
    /// the lease would seem to last.
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
        tracing::warn!(holder = held.holder, "sweep lease expired; taking over");
        store.release_lease(&held).await?;
        Ok(store.acquire_lease(LEASE, &live.name, LENGTH).await?)
    }

    async fn sweep(&mut self, app: &App) -> Result<(), Error> {
        let live = &app.liveness;
        let fence = self.lease.as_ref().map(Lease::fence);
        live.pulse(app);
        let began = app.clock.instant();
        let Some(late) = self.judged(live) else { return self.follow_up(app).await };
        let (now, verdict) = {
            let mut judge = live.judge_state();
            if judge.listening.deaf_now().is_some() {
                return Ok(());
            }
            // Judged at the time at which the clocks were read: a pause since then is noticed by the next sweep.
            let now = judge.noticed();
            match late {
                Judged::ByMemory(known) => (now, live.judge_by_memory(&mut judge, now, known.min(now))),
                Judged::ByTable(late, known) => (now, live.judge(&mut judge, late, now, known.min(now))),
            }
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
            // An error of one kind does not stop the others.
            outcome = self.mark_all(app, kind, &due).await.and(outcome);
        }
        self.follow_up(app).await.and(outcome)
    }

    /// Ends each sweep, with or without members to judge.
    async fn follow_up(&mut self, app: &App) -> Result<(), Error> {
        let fence = self.lease.as_ref().map(Lease::fence);
        unwatched::look(app, fence.as_ref()).await?;
        if self.ticks.is_multiple_of(STRAYS) {
            self.replicas.forget_gone(app, app.liveness.clock.steady()).await?;
            incident::end_strays(app, fence.as_ref()).await?;
        }
        Ok(())
    }

    /// Returns the members that may be late: from memory if it has every beat, otherwise from the last answer
    /// of the table.
    fn judged(&mut self, live: &Liveness) -> Option<Judged> {
        let look = self.look.take();
        if !live.settings.shared {
            return Some(Judged::ByMemory(Timestamp::MAX));
        }
        if live.knows_all.load(Relaxed) {
            return Some(Judged::ByMemory(self.replicas.known_until()));
        }
        let (look, known) = look?;
        Some(Judged::ByTable(self.looks.take(live, look, known), known))
    }

    /// Marks all due members, and renews the lease meanwhile: many members take longer than the lease lasts.
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
            // A lease that expired has a higher epoch now. If another server had it in between, the next
            // batch is refused, as it // is for any server that lost the lease.
            if let Some(lease) = lease.filter(|lease| lease.epoch <= before + 1) {
                (self.lease, self.asked) = (Some(lease), Some(now));
            }
        }
        Ok(())
    }

    /// Stores the start and end of incidents; retries failures later.
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

    /// Waits for the query under way.
    #[cfg(test)]
    pub(super) async fn looked(&mut self, app: &App) {
        while let Some(ended) = self.asking.join_next().await {
            self.take_answer(&app.liveness, ended);
        }
    }

    async fn let_go(&self, app: &App) {
        if let Some(lease) = &self.lease
            && let Err(error) = app.store.reserved().release_lease(lease).await
        {
            tracing::warn!(%error, lease = lease.name, "lease not released; it expires by itself");
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Err(Error::Unavailable("last heartbeats not read in time"));
    tokio::time::timeout(LONGEST_LOOK, asked).await.unwrap_or_else(late)
}

/// Passes due members to their kind, and stops watching the marked ones.
pub(super) async fn mark(app: &App, kind: u8, batch: &[Due], fence: Option<&Fence>) -> Result<(), Error> {
    let live = &app.liveness;
    let Some(row) = live.kinds.get(usize::from(kind)) else { return Ok(()) };
    let named: Vec<_> =
        batch.iter().filter_map(|due| Some((live.slab.name(due.seat)?.into_string(), due))).collect();
    let silent: Vec<_> = named.iter().map(|(id, due)| Silent { id: id.clone(), beat: due.beat }).collect();
    let done: BTreeSet<_> = stale::go_stale(app, row, &silent, fence).await?.into_iter().collect();
    live.status().stale += done.len() as u64;
    for (id, due) in named.iter().filter(|(id, _)| done.contains(id)) {
        let mut claims = due.claims;
        // The seat was requested meanwhile: the stored state decides whether the member is watched.
        while let Some(newer) = live.leave(due.seat, claims) {
            if app.store.get(row.kind, id).await?.is_some_and(|found| row.must_beat(&found)) {
                break;
            }
            claims = newer;
        }
        // A beat arrived while it was being marked.
        if live.slab.record(due.seat).is_some_and(|record| record.last > due.last) {
            live.heard_unwatched(due.seat);
        }
    }
    Ok(())
}

impl Liveness {
    /// Notices a pause of the process or a jump of a clock; called before members are judged.
    pub(super) fn pulse(&self, app: &App) {
        let expected = SignedDuration::try_from(self.settings.sweep).unwrap_or(SignedDuration::ZERO);
        let (noticed, refused) = {
            let mut judge = self.judge_state();
            let noticed = judge.pulse(self.clock, expected);
            // After the clocks were read, so that beats refused before that do not count as silence.
            (noticed, self.refused().map(|period| judge.was_deaf(period)))
        };
        if let Some(cause) = noticed {
            tracing::warn!(%cause, "the server could not receive heartbeats for a while; this time does not count as silence of members");
        }
        // The reason was logged when the refusals began.
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

    /// Stops watching a member, unless its seat was asked for since; then returns the new count of requests.
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
