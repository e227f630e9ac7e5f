//! Deadline: until when a member may be silent, derived from when it was heard and when we listened.
//!
//! ```text
//! due = the later of
//!         last heard + allowance + deaf time since then
//!         end of each deaf period since then + grace
//!
//! allowance   beats allowed × interval in force; 15 min when there never was an interval
//! grace       what a member that is well needs to be heard again: the longest healthy gap, and after a
//!             start or an outage the time in which members that backed off return
//! ```
//!
//! Time in which other servers were gone, or refused members, is excused as well. In total it moves a
//! deadline by at most the rule once more and twice the longest of these times. That fully excuses one such
//! time, wherever it falls: it began before the member was due, ends after its length, and then the member
//! has its grace. A healthy member is marked only if each of its beats for twice the rule went to a server
//! that was about to crash. The bound is needed because a server that crashes again and again would otherwise
//! hide dead members.
//!
//! What must stay true: no deaf period of ours, however short and wherever it falls, makes a healthy member
//! due; and a dead member is due once we listened without a break for [`Policy::at_most`]. A deaf period that
//! ended before the member's last beat is no excuse: the member came back.
//!
//! All instants are our receive time on an axis that does not jump.

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};

use super::{Cause, Interval, Listening, Period, later};
use crate::names::names;

/// The recorded beats of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// When the last beat was received.
    pub last: Timestamp,
    /// The interval in force; nothing when there never was one.
    pub interval: Option<Interval>,
}

/// How much silence is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many beats may be missed.
    pub beats: NonZeroU32,
    /// The allowance of a member that never had an interval.
    pub fallback: SignedDuration,
    /// The least allowance of a member that has one, for kinds whose users set a timeout.
    pub least: SignedDuration,
    /// How long after a start, or an outage of at least this length, members may take to return.
    pub settle: SignedDuration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            beats: NonZeroU32::MIN.saturating_add(2),
            fallback: SignedDuration::from_mins(15),
            least: SignedDuration::ZERO,
            settle: SignedDuration::from_mins(5),
        }
    }
}

impl Policy {
    /// How long a member may be silent while we listen.
    #[must_use]
    pub fn allowance(&self, interval: Option<Interval>) -> SignedDuration {
        interval.map_or(self.fallback, |interval| interval.times(self.beats.get()).max(self.least))
    }

    /// How many beats that is.
    #[must_use]
    pub fn allowed_beats(&self, interval: Interval) -> u32 {
        let beats = self.allowance(Some(interval)).as_secs() / i64::from(interval.seconds());
        u32::try_from(beats).unwrap_or(u32::MAX)
    }

    /// How long a healthy member may need until its next beat, once we listen again.
    #[must_use]
    pub fn grace(&self, interval: Option<Interval>) -> SignedDuration {
        interval.map_or(self.fallback, Interval::healthy_gap)
    }

    /// The longest that a dead member can stay undiscovered while we listen without a break.
    #[must_use]
    pub fn at_most(&self, interval: Option<Interval>) -> SignedDuration {
        self.allowance(interval).max(self.grace(interval)).max(self.settle)
    }

    /// The least grace after a deaf period, whatever a member's interval.
    ///
    /// Members back off while they are refused, but never longer than they have been refused already. A
    /// clock jump may be a host that slept, for longer than the steady clock shows.
    fn settle_after(&self, period: &Period) -> SignedDuration {
        match period.cause {
            Cause::StartUp | Cause::ClockJump => self.settle,
            Cause::Pause | Cause::Database | Cause::Replica | Cause::Listener => {
                self.settle.min(period.length())
            }
        }
    }
}

/// When a member's silence means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// Past this, it is silent for longer than a member that is well; never after `due`.
    pub late: Timestamp,
    /// Past this, it missed more beats than the rule allows.
    pub due: Timestamp,
    /// The deaf time since its last beat, which does not count.
    pub credit: SignedDuration,
    /// The latest possible deadline, however often other servers are gone; none if none was.
    pub bound: Option<Timestamp>,
}

names! {
    /// The judgement of a member's silence at a moment.
    pub enum Standing {
        /// Heard recently enough.
        Heard = "heard",
        /// Silent for longer than a member that is well, within what the rule allows.
        Late = "late",
        /// More beats were missed than the rule allows, but most of the zone fell silent together.
        Suspected = "suspected",
        /// More beats were missed than the rule allows.
        Due = "due",
    }
}

/// Until when a member may be silent. `now` matters only while the server is deaf.
#[must_use]
pub fn deadline(heard: &Heard, policy: &Policy, listening: &Listening, now: Timestamp) -> Deadline {
    let allowance = policy.allowance(heard.interval);
    let grace = policy.grace(heard.interval);
    let settled = |period: Period| later(period.to, policy.settle_after(&period).max(grace));
    let after = |silence: SignedDuration, credit, settled: Timestamp| {
        later(heard.last, silence.saturating_add(credit)).max(settled)
    };
    let here = listening.deaf_here(heard.last, now);
    let settled_here = listening.since(heard.last, now).map(settled).fold(Timestamp::MIN, Timestamp::max);
    let due_here = after(allowance, here, settled_here);
    let (settled_all, longest) =
        listening.elsewhere_since(heard.last).fold((settled_here, None), |(all, most), (period, longest)| {
            (all.max(settled(period)), most.max(Some(longest)))
        });
    let Some(longest) = longest else {
        return Deadline {
            late: after(grace.min(allowance), here, settled_here),
            due: due_here,
            credit: here,
            bound: None,
        };
    };
    let bound = later(due_here, allowance.max(grace).saturating_add(longest.saturating_mul(2)));
    let credit = listening.deaf_between(heard.last, now);
    let due = after(allowance, credit, settled_all).min(bound);
    Deadline {
        late: after(grace.min(allowance), credit, settled_all).min(due),
        due,
        credit,
        bound: Some(bound),
    }
}

impl Deadline {
    /// Returns the judgement at a moment, without the guard.
    #[must_use]
    pub fn standing(&self, now: Timestamp) -> Standing {
        if now > self.due {
            Standing::Due
        } else if now > self.late {
            Standing::Late
        } else {
            Standing::Heard
        }
    }
}

/// How many beats were missed while we listened; nothing without an interval.
#[must_use]
pub fn missed_beats(heard: &Heard, listening: &Listening, now: Timestamp) -> Option<u32> {
    let interval = heard.interval?;
    let charged = now.duration_since(heard.last).saturating_sub(listening.deaf_between(heard.last, now));
    let beats = charged.as_secs().max(0) / i64::from(interval.seconds());
    Some(u32::try_from(beats).unwrap_or(u32::MAX))
}
