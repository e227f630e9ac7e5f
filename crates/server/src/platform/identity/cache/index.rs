//! Finds members by the names that callers show.
//!
//! A name is stored once, in the member; the index has only its number among the member's names.

use std::{hash::BuildHasher as _, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::Cached;

pub(super) struct Index<M> {
    hasher: DefaultHashBuilder,
    table: HashTable<Slot<M>>,
}

struct Slot<M> {
    member: Arc<M>,
    /// The number of the name under which the member is found here.
    number: u8,
}

impl<M> Default for Index<M> {
    fn default() -> Self {
        Self { hasher: DefaultHashBuilder::default(), table: HashTable::new() }
    }
}

impl<M: Cached> Slot<M> {
    /// The name, which the member of a slot has for as long as it is here.
    fn name(&self) -> &str {
        self.member.known_as(self.number).unwrap_or_default()
    }
}

impl<M: Cached> Index<M> {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<M>> {
        let found = self.table.find(self.hasher.hash_one(name), |slot| slot.name() == name);
        found.map(|slot| &slot.member)
    }

    /// Puts a member under one of its names, in the place of any other.
    pub(super) fn insert(&mut self, number: u8, member: Arc<M>) {
        let Self { hasher, table } = self;
        let slot = Slot { member, number };
        let hash = hasher.hash_one(slot.name());
        let found =
            table.entry(hash, |other| other.name() == slot.name(), |slot| hasher.hash_one(slot.name()));
        match found {
            Entry::Occupied(mut found) => *found.get_mut() = slot,
            Entry::Vacant(free) => drop(free.insert(slot)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        let hash = self.hasher.hash_one(name);
        if let Ok(found) = self.table.find_entry(hash, |slot| slot.name() == name) {
            found.remove();
        }
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&M) -> bool) {
        self.table.retain(|slot| keeps(&slot.member));
    }

    pub(super) fn clear(&mut self) {
        self.table.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}
