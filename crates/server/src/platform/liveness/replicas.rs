//! The other replicas: which are present, and up to when each has stored every beat that it received.
//!
//! What must stay true: a replica takes beats only while the others count it as present, and no member is
//! judged past the least watermark of the replicas that are present. A replica that vanishes counts as one
//! deaf period, from its watermark until the others noticed; `core` bounds how long that is an excuse.
//!
//! ```text
//! watermark   each flush ends with: every beat received before it began is in the table (a row for each
//! replica) presence    a lease for each replica, taken after its first watermark, renewed in a loop of its
//! own known       the least of: the last look at the replicas, the watermark of each that is present
//! ```
//!
//! Times are stored by the database's clock and read as ages, so that clocks of two servers are never
//! compared. That clock may be set: each look compares it, and the renewal of leases, with this server's own
//! clock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::{Cause, Period};
use wardroom_store::{Moment, Refused, Replica};

use super::{Liveness, flush};
use crate::platform::{app::App, http::error::Error};

/// The prefix of presence leases. They are short, because no member is judged past the watermark of a crashed
/// replica until its lease expires. A replica that is too slow to renew its lease gets no beats until it is
/// back.
const PRESENCE: &str = "replica/";
pub(super) const LENGTH: Duration = Duration::from_secs(4);
pub(super) const RENEWAL: Duration = Duration::from_secs(1);

/// How long a renewal may take; a later one would hold for moments only.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// The longest that a replica takes to write its last beats after its lease lapsed.
const ALONE: Duration = Duration::from_secs(60);

/// After this time without a watermark, the name of a replica is forgotten; names are not reused earlier.
const GONE: Duration = Duration::from_secs(86_400);

/// How much two clocks may drift apart between two looks.
const SLACK: SignedDuration = SignedDuration::from_secs(1);

/// A lease, measured by this server's own clock: when the database's clock is set back, a lease that is not
/// renewed would seem to last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renewal {
    /// When it expires by the database's answer to the last renewal.
    lapses: Timestamp,
    /// When it expires by this server's clock, unless it is renewed.
    until: Timestamp,
}

/// A renewal moves the expiry by more than this; backwards if the database's clock was set back.
const RENEWED: SignedDuration = SignedDuration::from_millis(500);

impl Renewal {
    /// Updates the view of a lease.
    pub(super) fn look(before: Option<Self>, remaining: Duration, length: Duration, now: Timestamp) -> Self {
        let lapses = after(now, remaining);
        match before.filter(|before| lapses.duration_since(before.lapses).abs() <= RENEWED) {
            Some(before) => before,
            None => Self { lapses, until: after(now, remaining.min(length)) },
        }
    }

    pub(super) fn lasts(&self, now: Timestamp) -> bool {
        now < self.until
    }
}

/// Up to when a replica has written every beat that it heard.
#[derive(Debug, Clone, Copy)]
struct Watermark {
    /// As the replica wrote it.
    written: Moment,
    /// The same on this server's axis, fixed when it was read: a clock that is set later does not move it.
    at: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Replicas {
    /// Their leases, also those that seem to last only because a clock was set back.
    leases: BTreeMap<String, Renewal>,
    /// The present replicas, each with the last look before it appeared: it had received nothing by then.
    present: BTreeMap<String, Timestamp>,
    watermarks: HashMap<String, Watermark>,
    refused: HashMap<String, Refused>,
    /// When another replica was present last.
    together: Option<Timestamp>,
    looked: Option<Timestamp>,
    /// The last reading of the database's clock.
    reading: Option<Reading>,
}

/// Announces this server to the others before it accepts its first beat.
pub(super) async fn arrive(app: &App) -> Result<(), Error> {
    flush::flush(app).await?;
    announce(app).await
}

/// Renews the presence of this server, if it stores its beats.
pub(super) async fn announce(app: &App) -> Result<(), Error> {
    let live = &app.liveness;
    let writes = {
        let status = live.status();
        status.flushed.at.is_some() && !status.flush_failed
    };
    if !live.settings.shared || !writes {
        return Ok(());
    }
    let began = live.clock.steady_millis();
    let name = format!("{PRESENCE}{}", live.name);
    let presence = app.store.reserved().acquire_lease(&name, &live.name, LENGTH).await?;
    let until = began.saturating_add(i64::try_from(LENGTH.as_millis()).unwrap_or(0));
    live.present_until.store(if presence.is_some() { until } else { i64::MIN }, Relaxed);
    live.status().presence = presence;
    Ok(())
}

/// Whether a server is present, as far as the database knows.
pub(crate) async fn is_present(app: &App, server: &str) -> Result<bool, Error> {
    let presence = app.store.lease(&format!("{PRESENCE}{server}")).await?;
    Ok(presence.is_some_and(|presence| !presence.remaining.is_zero()))
}

/// Ends the presence of this server: it accepts no more beats.
pub(super) async fn leave(app: &App) {
    app.liveness.present_until.store(i64::MIN, Relaxed);
    let presence = app.liveness.status().presence.take();
    if let Some(presence) = presence
        && let Err(error) = app.store.reserved().release_lease(&presence).await
    {
        tracing::warn!(%error, lease = presence.name, "lease not released; it expires by itself");
    }
}

/// The watermarks of replicas, and when they were read.
#[derive(Debug)]
pub(super) struct Written {
    asked: Timestamp,
    answered: Timestamp,
    rows: Vec<Replica>,
}

pub(super) async fn written(app: &App) -> Result<Written, Error> {
    let live = &app.liveness;
    let asked = live.clock.steady();
    let rows = app.store.reserved().replicas().await?;
    Ok(Written { asked, answered: live.clock.steady(), rows })
}

impl Replicas {
    /// Checks which replicas are present. Each one that vanished counts as a deaf period.
    pub(super) async fn look(&mut self, app: &App) -> Result<(), Error> {
        let live = &app.liveness;
        let now = live.clock.steady();
        let leases = app.store.reserved().leases(PRESENCE).await?.into_iter();
        let answered = live.clock.steady();
        self.leases = leases
            .filter(|lease| !lease.remaining.is_zero() && lease.holder != live.name)
            .map(|lease| {
                let before = self.leases.get(&lease.holder).copied();
                (lease.holder, Renewal::look(before, lease.remaining, LENGTH, answered))
            })
            .collect();
        let present = self.leases.iter().filter(|(_, lease)| lease.lasts(answered)).map(|(name, _)| {
            let since = self.present.get(name).copied().or(self.looked);
            (name.clone(), since.unwrap_or(Timestamp::MIN))
        });
        let present: BTreeMap<_, _> = present.collect();
        for (gone, since) in self.present.iter().filter(|(name, _)| !present.contains_key(*name)) {
            let from = self.known_of(gone, *since).min(before(now, LENGTH));
            live.judge_state().was_deaf(Period { cause: Cause::Replica, from, to: answered });
            live.status().gone += 1;
        }
        if !present.is_empty() || !self.present.is_empty() {
            self.together = Some(now);
        }
        (self.present, self.looked) = (present, Some(now));
        Ok(())
    }

    /// Takes over the watermarks of replicas.
    pub(super) fn take(&mut self, live: &Liveness, written: Written) {
        let Written { asked, answered, rows } = written;
        if let Some(row) = rows.first() {
            self.compare_clocks(live, Reading { asked, moment: row.now, answered });
        }
        for row in rows.into_iter().filter(|row| *row.name != *live.name) {
            self.note_watermark(&row, asked);
            self.note_refusal(live, &row, answered);
        }
    }

    fn note_watermark(&mut self, row: &Replica, asked: Timestamp) {
        let age = row.now.since(row.watermark);
        let is_new = self.watermarks.get(&*row.name).is_none_or(|known| known.written != row.watermark);
        // A time in the future, after the clock was set back, is not trusted: the next one comes soon.
        if is_new && !age.is_negative() {
            let at = asked.checked_sub(age).unwrap_or(Timestamp::MIN);
            self.watermarks.insert(row.name.to_string(), Watermark { written: row.watermark, at });
        }
    }

    fn note_refusal(&mut self, live: &Liveness, row: &Replica, answered: Timestamp) {
        let Some(refused) = row.refused else { return };
        if self.refused.insert(row.name.to_string(), refused) == Some(refused) {
            return;
        }
        let age = row.now.since(refused.until).max(SignedDuration::ZERO);
        let to = answered.checked_sub(age).unwrap_or(Timestamp::MIN);
        let from = before(to, Duration::from_secs(refused.seconds.into()));
        live.judge_state().was_deaf(Period { cause: Cause::Replica, from, to });
    }

    /// Detects that the database's clock was set. Ages of earlier beats are wrong then, so silence counts
    /// from that moment on, except on a server that is alone: its memory has every beat.
    fn compare_clocks(&mut self, live: &Liveness, reading: Reading) {
        let before = self.reading.replace(reading).filter(|_| !self.is_alone(reading.answered));
        if let Some(before) = before.filter(|before| reading.is_off(before)) {
            tracing::warn!(
                "the clock of the database was set; the silence of every member counts from now on"
            );
            let period = Period { cause: Cause::Database, from: before.asked, to: reading.answered };
            let mut judge = live.judge_state();
            judge.was_deaf(period);
            judge.counts_from = reading.answered;
        }
    }

    /// Forgets replicas that are gone for good.
    pub(super) async fn forget_gone(&mut self, app: &App, now: Timestamp) -> Result<(), Error> {
        app.store.reserved().forget_lapsed_leases(PRESENCE).await?;
        let gone = self.watermarks.iter().filter(|(_, known)| known.at < before(now, GONE));
        for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            app.store.reserved().forget_replica(&name).await?;
            self.watermarks.remove(&name);
            self.refused.remove(&name);
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// True if no other replica was ever present as far as this one knows.
    pub(super) fn never_met(&self) -> bool {
        self.together.is_none()
    }

    /// True once no other replica was present for [`ALONE`]: no more beats of others will be written.
    pub(super) fn is_alone(&self, now: Timestamp) -> bool {
        self.together.is_none_or(|together| together < before(now, ALONE))
    }

    /// When the replicas were last read; a replica that appeared later had received nothing by then.
    pub(super) fn looked(&self) -> Timestamp {
        self.looked.unwrap_or(Timestamp::MIN)
    }

    /// The time up to which every beat is in the table or was received here.
    pub(super) fn known_until(&self) -> Timestamp {
        let all = self.present.iter().map(|(name, since)| self.known_of(name, *since));
        all.fold(self.looked(), Timestamp::min)
    }

    /// The time up to which every beat of a newly appeared replica is in the table.
    fn known_of(&self, name: &str, since: Timestamp) -> Timestamp {
        self.watermarks.get(name).map_or(since, |known| known.at.max(since))
    }
}

/// The database's clock, read between two instants of the steady axis.
#[derive(Debug, Clone, Copy)]
struct Reading {
    asked: Timestamp,
    moment: Moment,
    answered: Timestamp,
}

impl Reading {
    /// Whether the database's clock advanced by less or more than this server's can have.
    fn is_off(&self, before: &Self) -> bool {
        let passed = self.moment.since(before.moment);
        let least = self.asked.duration_since(before.answered).saturating_sub(SLACK);
        let most = self.answered.duration_since(before.asked).saturating_add(SLACK);
        passed < least || passed > most
    }
}

fn after(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

pub(super) fn before(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}
