//! The rollout: which devices are given the current template now.
//!
//! A function of facts that were gathered once. A batch takes devices that are heard, in the order of their names; the
//! last one takes all that are left. Under a disruption budget a device that is not heard waits until it is: given the
//! template while it is away, it would go out of service whenever it comes back.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{
    State,
    budget::{Budget, Held, Left},
    selector::Selector,
};
use crate::{device::text::Quoted, why::length};

/// How a template reaches the devices of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Batches, one after the other; all devices that are left form the last one.
    pub batches: Vec<Batch>,
    /// How many percent of a batch must succeed, where the batch says nothing else.
    pub threshold: u8,
    /// How long a device may take.
    pub timeout: SignedDuration,
    /// How many devices may be out of service at a time.
    pub budget: Option<Budget>,
}

impl Default for Policy {
    /// All at once, with nine of ten to succeed within a day.
    fn default() -> Self {
        Self { batches: Vec::new(), threshold: 90, timeout: SignedDuration::from_hours(24), budget: None }
    }
}

/// One batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Which devices of the fleet; all when there is none.
    pub selector: Option<Selector>,
    /// How many of them; all when there is none.
    pub limit: Option<Limit>,
    /// How many percent must succeed.
    pub threshold: Option<u8>,
}

/// How many devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many.
    Count(usize),
    /// So many percent of those that the batch selects, rounded up.
    Percent(u8),
}

/// How far the rollout of a template has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Course {
    /// The batch, from 0; the number of configured batches is the last one.
    pub batch: usize,
    /// How many failures of this batch a person accepted.
    pub accepted: usize,
    /// Whether a person paused it.
    pub is_paused: bool,
    /// Whether it brings back an earlier template: then all devices are one batch, which failures do not end.
    pub is_rollback: bool,
}

/// A device of the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// How it stands to the current template.
    pub standing: Standing,
    /// Whether it has not been silent for too long.
    pub is_heard: bool,
    /// Whether it was given a version, of this or another template, that it neither runs nor gave up.
    pub is_busy: bool,
    /// Whether its spec is the template's already, so that being given it changes nothing on the device.
    pub has_spec: bool,
    /// Why its last update failed, in the words of its agent.
    pub said: Option<&'a str>,
}

/// How a device stands to the current template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It was not given the template.
    Waiting,
    /// It was given the template.
    Given {
        /// In this batch.
        batch: usize,
        /// At this time.
        at: Timestamp,
        /// With this outcome.
        outcome: Outcome,
    },
}

/// What became of a device that was given the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has not finished.
    Working,
    /// It runs the template's spec.
    Updated,
    /// Its agent gave the update up.
    Failed,
}

/// What is to be done, and how the rollout stands then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The state.
    pub state: State,
    /// The batch.
    pub batch: usize,
    /// The places of the members to give the template to, in this batch.
    pub gives: Vec<usize>,
    /// How many members stand where, once those were given it.
    pub counts: Counts,
    /// How many failures of the batch count against it.
    pub failed: usize,
    /// The first few of them.
    pub failures: Vec<Failure>,
    /// The groups in which the budget holds devices back.
    pub held: Vec<Held>,
    /// How many devices wait until they are heard.
    pub unheard: usize,
    /// When the next device that works on the template takes too long.
    pub next: Option<Timestamp>,
}

/// How many members stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// All.
    pub devices: usize,
    /// They run the template's spec.
    pub updated: usize,
    /// They were given the template and have time left.
    pub updating: usize,
    /// They failed, or took too long.
    pub failed: usize,
    /// They were not given the template.
    pub waiting: usize,
}

/// A device that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    /// The device.
    pub name: String,
    /// Why, in the words of its agent.
    pub reason: String,
}

/// How many failures are named.
const NAMED: usize = 5;

/// Decides what the rollout does now.
#[must_use]
pub fn decide(policy: &Policy, course: Course, members: &[Member<'_>], now: Timestamp) -> Decision {
    let last = policy.batches.len();
    let mut batch = if course.is_rollback { last } else { course.batch.min(last) };
    let mut accepted = course.accepted;
    let look = loop {
        let look = Look::at(policy, batch, members, now);
        let goes_on = batch < last && look.is_over() && !look.is_lost(policy, accepted);
        if !goes_on || course.is_paused {
            break look;
        }
        (batch, accepted) = (batch + 1, 0);
    };
    let is_lost = !course.is_rollback && look.is_lost(policy, accepted);
    let stands = course.is_paused || is_lost;
    let chosen = if stands { Chosen::default() } else { look.choose(policy, members, now) };
    let counts = counted(policy, members, &chosen.gives, now);
    let state = if course.is_paused {
        State::Paused
    } else if is_lost {
        State::Suspended
    } else if counts.updating > 0 || !chosen.gives.is_empty() {
        State::Active
    } else if counts.waiting > 0 {
        State::Waiting
    } else {
        State::Inactive
    };
    let Chosen { gives, held, unheard } = chosen;
    let failures = failures(policy, &look.failed, members);
    let ends = members.iter().filter_map(|member| deadline(policy, member)).filter(|end| now < *end);
    Decision {
        state,
        batch,
        gives,
        counts,
        failed: look.failed.len(),
        failures,
        held,
        unheard,
        next: ends.min(),
    }
}

/// A batch as it stands.
struct Look {
    batch: usize,
    /// Those that are to be given the template, as many as the batch takes.
    candidates: Vec<usize>,
    given: usize,
    working: usize,
    failed: Vec<usize>,
}

impl Look {
    fn at(policy: &Policy, batch: usize, members: &[Member<'_>], now: Timestamp) -> Self {
        let mut look = Self { batch, candidates: Vec::new(), given: 0, working: 0, failed: Vec::new() };
        let configured = policy.batches.get(batch);
        let selected = |member: &Member<'_>| {
            let selector = configured.and_then(|configured| configured.selector.as_ref());
            selector.is_none_or(|selector| selector.selects(member.labels))
        };
        let mut population = 0;
        for (at, member) in members.iter().enumerate() {
            population += usize::from(selected(member));
            match member.standing {
                Standing::Waiting if selected(member) && (configured.is_none() || member.is_heard) => {
                    look.candidates.push(at);
                }
                Standing::Given { batch: of, outcome, .. } if of == batch => {
                    look.given += 1;
                    match outcome {
                        Outcome::Updated => {}
                        Outcome::Working if is_working(policy, member, now) => look.working += 1,
                        Outcome::Working | Outcome::Failed => look.failed.push(at),
                    }
                }
                Standing::Waiting | Standing::Given { .. } => {}
            }
        }
        let most = configured.and_then(|configured| configured.limit).map(|limit| match limit {
            Limit::Count(count) => count,
            Limit::Percent(percent) => (population * usize::from(percent)).div_ceil(100),
        });
        if let Some(most) = most {
            look.candidates.sort_by_key(|at| members[*at].name);
            look.candidates.truncate(most.saturating_sub(look.given));
        }
        look
    }

    /// Whether all devices of the batch have been given the template, and none works on it.
    fn is_over(&self) -> bool {
        self.candidates.is_empty() && self.working == 0
    }

    /// Whether the batch cannot succeed any more, with more failures than a person accepted.
    fn is_lost(&self, policy: &Policy, accepted: usize) -> bool {
        let configured = policy.batches.get(self.batch);
        let threshold = configured.and_then(|configured| configured.threshold).unwrap_or(policy.threshold);
        let (failed, size) = (self.failed.len(), self.given + self.candidates.len());
        failed > accepted && failed * 100 > size * usize::from(100 - threshold.min(100))
    }

    fn choose(&self, policy: &Policy, members: &[Member<'_>], now: Timestamp) -> Chosen {
        let Some(budget) = &policy.budget else {
            return Chosen { gives: self.candidates.clone(), ..Chosen::default() };
        };
        let mut left = Left::of(budget, members, |member| is_working(policy, member, now));
        let mut chosen = Chosen::default();
        for at in self.candidates.iter().copied() {
            let member = &members[at];
            if member.has_spec || (member.is_busy && member.is_heard) {
                chosen.gives.push(at);
            } else if !member.is_heard {
                chosen.unheard += 1;
            } else if left.take(member) {
                chosen.gives.push(at);
            }
        }
        chosen.held = left.held();
        chosen
    }
}

#[derive(Default)]
struct Chosen {
    gives: Vec<usize>,
    held: Vec<Held>,
    unheard: usize,
}

/// When a device that works on the template takes too long.
fn deadline(policy: &Policy, member: &Member<'_>) -> Option<Timestamp> {
    match member.standing {
        Standing::Given { at, outcome: Outcome::Working, .. } => {
            Some(at.saturating_add(policy.timeout).unwrap_or(Timestamp::MAX))
        }
        Standing::Waiting | Standing::Given { .. } => None,
    }
}

fn is_late(policy: &Policy, member: &Member<'_>, now: Timestamp) -> bool {
    deadline(policy, member).is_some_and(|end| end <= now)
}

fn is_working(policy: &Policy, member: &Member<'_>, now: Timestamp) -> bool {
    let works = matches!(member.standing, Standing::Given { outcome: Outcome::Working, .. });
    works && !is_late(policy, member, now)
}

/// Counts the members as they stand once some were given the template.
fn counted(policy: &Policy, members: &[Member<'_>], gives: &[usize], now: Timestamp) -> Counts {
    let mut counts = Counts { devices: members.len(), ..Counts::default() };
    for member in members {
        let place = match member.standing {
            Standing::Waiting => &mut counts.waiting,
            Standing::Given { outcome: Outcome::Updated, .. } => &mut counts.updated,
            Standing::Given { .. } if is_working(policy, member, now) => &mut counts.updating,
            Standing::Given { .. } => &mut counts.failed,
        };
        *place += 1;
    }
    counts.waiting -= gives.len();
    let at_once = gives.iter().filter(|at| members[**at].has_spec && !members[**at].is_busy).count();
    counts.updated += at_once;
    counts.updating += gives.len() - at_once;
    counts
}

fn failures(policy: &Policy, failed: &[usize], members: &[Member<'_>]) -> Vec<Failure> {
    let named = failed.iter().take(NAMED).map(|at| {
        let member = &members[*at];
        let reason = match (member.standing, member.said) {
            (Standing::Given { outcome: Outcome::Failed, .. }, Some(said)) => Quoted(said).to_string(),
            (Standing::Given { outcome: Outcome::Failed, .. }, None) => "its agent gave no reason".to_owned(),
            (Standing::Given { .. } | Standing::Waiting, _) => {
                let away = if member.is_heard { "" } else { "; it is offline" };
                format!("did not finish within {}{away}", length(policy.timeout))
            }
        };
        Failure { name: member.name.to_owned(), reason }
    });
    named.collect()
}
