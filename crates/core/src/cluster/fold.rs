//! The fold: what the adapters of a cluster say, added up to the cluster's own conditions.
//!
//! A report counts when its adapter is required, when it does not speak of a generation from the future, and
//! when it says whether the adapter is available. What counts is looked up once; three rules read it:
//! [`reconciled`], [`last_known`] and [`successful`].

use std::borrow::Cow;

use jiff::Timestamp;

use super::{
    AVAILABLE, AdapterCondition, AdapterStatus, Condition, Desired, LAST_KNOWN_RECONCILED, RECONCILED,
    Reason, Status, last_known::last_known, reconciled::reconciled, successful_type,
};

/// The conditions of a cluster: `Reconciled`, `LastKnownReconciled`, then one per required adapter whose report
/// counts, in the order of the configuration.
///
/// `previous` is what the last fold gave; the answer remembers through it since when things are as they are.
#[must_use]
pub fn fold(desired: &Desired<'_>, statuses: &[AdapterStatus], previous: &[Condition]) -> Vec<Condition> {
    let adapters: Vec<_> =
        desired.required_adapters.iter().map(|name| find(name, desired, statuses)).collect();

    let mut conditions = Vec::with_capacity(2 + adapters.len());
    conditions.push(reconciled(desired, &adapters, previous));
    conditions.push(last_known(desired, &adapters, previous));
    conditions.extend(adapters.iter().filter_map(|adapter| successful(desired, adapter, previous)));
    conditions
}

/// Whether a fold for these required adapters made the conditions, if it found each of them reporting.
#[must_use]
pub fn is_folded_for(required_adapters: &[String], conditions: &[Condition]) -> bool {
    let own = [RECONCILED, LAST_KNOWN_RECONCILED];
    let adapters = conditions.iter().filter(|condition| !own.contains(&&*condition.type_));
    adapters
        .map(|condition| condition.type_.to_string())
        .eq(required_adapters.iter().map(|name| successful_type(name)))
}

/// Whether every required adapter says, at this generation, that nothing of its own is left.
///
/// Unlike the fold this does not ask whether an adapter is available: it has nothing left to be available with.
#[must_use]
pub fn all_finalized(required_adapters: &[String], generation: i64, statuses: &[AdapterStatus]) -> bool {
    let finalized = |name: &String| {
        statuses.iter().any(|status| status.adapter == *name && status.finalized_at(generation))
    };
    required_adapters.iter().all(finalized)
}

/// An adapter's condition repeats what the adapter says of being available, also of an older generation.
fn successful(desired: &Desired<'_>, adapter: &Adapter<'_>, previous: &[Condition]) -> Option<Condition> {
    let report = adapter.report.as_ref()?;
    let next = Next {
        type_: successful_type(adapter.name).into(),
        status: report.available.status,
        reason: report.available.reason.clone().map(Cow::Owned),
        message: report.available.message.clone().map(Cow::Owned),
        observed_generation: report.generation,
        last_updated_time: report.time,
    };
    Some(next.after(previous, desired))
}

/// A required adapter.
pub(super) struct Adapter<'a> {
    pub(super) name: &'a str,
    /// Its report, when it counts.
    pub(super) report: Option<Counted<'a>>,
}

/// A report that counts.
pub(super) struct Counted<'a> {
    pub(super) generation: i64,
    pub(super) time: Timestamp,
    /// True or False, never Unknown.
    pub(super) available: &'a AdapterCondition,
    pub(super) finalized: bool,
}

impl Counted<'_> {
    pub(super) fn is_available(&self) -> bool {
        self.available.status == Status::True
    }
}

fn find<'a>(name: &'a str, desired: &Desired<'_>, statuses: &'a [AdapterStatus]) -> Adapter<'a> {
    let counted = |status: &'a AdapterStatus| {
        let available =
            status.condition(AVAILABLE).filter(|available| available.status != Status::Unknown)?;
        (status.observed_generation <= desired.generation).then(|| Counted {
            generation: status.observed_generation,
            time: status.last_report_time,
            available,
            finalized: status.finalized_at(desired.generation),
        })
    };
    Adapter { name, report: statuses.iter().find(|status| status.adapter == name).and_then(counted) }
}

/// The reports that count.
pub(super) fn counted<'s, 'a>(adapters: &'s [Adapter<'a>]) -> impl Iterator<Item = &'s Counted<'a>> {
    adapters.iter().filter_map(|adapter| adapter.report.as_ref())
}

/// The oldest observation of a generation: a condition is as fresh as the stalest report it rests on.
pub(super) fn oldest_at(adapters: &[Adapter<'_>], generation: i64) -> Option<Timestamp> {
    counted(adapters).filter(|report| report.generation == generation).map(|report| report.time).min()
}

/// What a rule says: whether, why, and why in words.
pub(super) type Finding = (Status, Reason, Cow<'static, str>);

/// A condition that does not know its past yet.
pub(super) struct Next {
    pub(super) type_: Cow<'static, str>,
    pub(super) status: Status,
    pub(super) reason: Option<Cow<'static, str>>,
    pub(super) message: Option<Cow<'static, str>>,
    pub(super) observed_generation: i64,
    pub(super) last_updated_time: Timestamp,
}

impl Next {
    /// A condition of the cluster's own.
    pub(super) fn new(
        type_: &'static str,
        (status, reason, message): Finding,
        observed_generation: i64,
        last_updated_time: Timestamp,
    ) -> Self {
        Self {
            type_: Cow::Borrowed(type_),
            status,
            reason: Some(Cow::Borrowed(reason.as_str())),
            message: Some(message),
            observed_generation,
            last_updated_time,
        }
    }

    /// Takes over from the previous condition of its type when it was created and, while the status stays,
    /// since when it stays.
    pub(super) fn after(self, previous: &[Condition], desired: &Desired<'_>) -> Condition {
        let before = before(previous, &self.type_);
        let unmoved = before.filter(|before| before.status == self.status);
        Condition {
            created_time: before.map_or(desired.updated_time, |before| before.created_time),
            last_transition_time: unmoved
                .map_or(self.last_updated_time, |before| before.last_transition_time),
            type_: self.type_,
            status: self.status,
            reason: self.reason,
            message: self.message,
            observed_generation: self.observed_generation,
            last_updated_time: self.last_updated_time,
        }
    }
}

/// The previous condition of a type.
pub(super) fn before<'a>(previous: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    previous.iter().find(|condition| condition.type_ == type_)
}
