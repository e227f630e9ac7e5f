//! The disruption budget: how many devices of a group may be out of service at a time.

use std::collections::BTreeMap;

use super::rollout::Member;

/// How many devices may be out of service at a time, in each group of devices with the same values of some labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    /// The labels that make a group; the whole fleet is one when there is none.
    pub group_by: Vec<String>,
    /// How many devices of a group must stay in service.
    pub min_available: Option<usize>,
    /// How many devices of a group may be updating.
    pub max_unavailable: Option<usize>,
}

/// A group in which devices wait for the budget.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Held {
    /// The group, such as `site=berlin`; empty for the whole fleet.
    pub group: String,
    /// How many of its devices wait.
    pub waiting: usize,
    /// How many of its devices are in service.
    pub available: usize,
    /// How many are updating.
    pub updating: usize,
    /// How many there are.
    pub total: usize,
    /// Whether no device of the group could ever be updated, even with all of them in service.
    pub is_impossible: bool,
}

/// What is left of the budget, group by group.
pub(super) struct Left<'a> {
    budget: &'a Budget,
    groups: BTreeMap<Vec<Option<&'a str>>, Group>,
}

#[derive(Default)]
struct Group {
    total: usize,
    available: usize,
    updating: usize,
    waiting: usize,
}

impl<'a> Left<'a> {
    /// `is_working` says which members were given the current template and have time left.
    pub(super) fn of(
        budget: &'a Budget,
        members: &'a [Member<'_>],
        is_working: impl Fn(&Member<'_>) -> bool,
    ) -> Self {
        let mut left = Self { budget, groups: BTreeMap::new() };
        for member in members {
            let group = left.group(member);
            group.total += 1;
            group.available += usize::from(member.is_heard && !member.is_busy);
            // A device that was lost long ago is out of service, but not updating any more.
            group.updating += usize::from(member.is_busy && (member.is_heard || is_working(member)));
        }
        left
    }

    fn group(&mut self, member: &'a Member<'_>) -> &mut Group {
        let key = self.budget.group_by.iter().map(|label| member.labels.get(label).map(String::as_str));
        self.groups.entry(key.collect()).or_default()
    }

    /// Takes one device out of service, if the budget allows it.
    pub(super) fn take(&mut self, member: &'a Member<'_>) -> bool {
        let (min, max) = (self.budget.min_available, self.budget.max_unavailable);
        let group = self.group(member);
        let allows =
            min.is_none_or(|min| group.available > min) && max.is_none_or(|max| group.updating < max);
        if allows {
            group.available -= 1;
            group.updating += 1;
        } else {
            group.waiting += 1;
        }
        allows
    }

    /// The groups in which devices wait.
    pub(super) fn held(&self) -> Vec<Held> {
        let labels = &self.budget.group_by;
        let held = self.groups.iter().filter(|(_, group)| group.waiting > 0).map(|(key, group)| {
            let named = labels.iter().zip(key).map(|(label, value)| match value {
                Some(value) => format!("{label}={value}"),
                None => format!("without {label}"),
            });
            let min = self.budget.min_available.unwrap_or(0);
            Held {
                group: named.collect::<Vec<_>>().join(", "),
                waiting: group.waiting,
                available: group.available,
                updating: group.updating,
                total: group.total,
                is_impossible: group.total <= min || self.budget.max_unavailable == Some(0),
            }
        });
        held.collect()
    }
}
