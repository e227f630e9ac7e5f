//! From a member's kind and id to its seat.
//!
//! Only seat numbers are kept here; the names they are compared with are in the slab, once. The map is cut
//! into shards so that beats wait neither for each other nor for a new member's seat.

use std::{
    hash::BuildHasher as _,
    sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::slab::{Record, Seat, Slab};

const SHARDS: usize = 64;

#[derive(Debug)]
pub(super) struct Directory {
    hasher: DefaultHashBuilder,
    shards: Box<[RwLock<HashTable<u32>>]>,
    free: Mutex<Free>,
}

/// Freed seats, and the first seat that was never used.
#[derive(Debug, Default)]
struct Free {
    back: Vec<u32>,
    next: u32,
}

impl Directory {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { hasher: DefaultHashBuilder::default(), shards, free: Mutex::default() }
    }

    pub(super) fn find(&self, slab: &Slab, kind: u8, id: &str) -> Option<Seat> {
        let hash = self.hash(kind, id);
        let index = *self.read(hash).find(hash, |index| slab.is(*index, kind, id))?;
        slab.seat(index)
    }

    /// Returns the member's seat, or takes a new one with this record; true if the seat is new.
    pub(super) fn find_or_take(&self, slab: &Slab, id: &str, record: &Record) -> Option<(Seat, bool)> {
        let kind = record.kind;
        let hash = self.hash(kind, id);
        let mut shard = self.write(hash);
        if let Some(index) = shard.find(hash, |index| slab.is(*index, kind, id)) {
            return slab.seat(*index).map(|seat| (seat, false));
        }
        let index = self.take()?;
        let seat = slab.fill(index, id, record);
        let rehash = |index: &u32| slab.with_name(*index, |kind, id| self.hash(kind, id)).unwrap_or(0);
        shard.insert_unique(hash, index, rehash);
        Some((seat, true))
    }

    /// Gives the member's seat back.
    pub(super) fn remove(&self, slab: &Slab, kind: u8, id: &str) {
        let hash = self.hash(kind, id);
        let mut shard = self.write(hash);
        let Ok(entry) = shard.find_entry(hash, |index| slab.is(*index, kind, id)) else { return };
        let (index, _) = entry.remove();
        if let Some(seat) = slab.seat(index) {
            slab.empty(seat);
        }
        self.free.lock().unwrap_or_else(PoisonError::into_inner).back.push(index);
    }

    fn take(&self) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = free.back.pop() {
            return Some(index);
        }
        let index = free.next;
        (index < Slab::MOST).then(|| {
            free.next += 1;
            index
        })
    }

    fn hash(&self, kind: u8, id: &str) -> u64 {
        self.hasher.hash_one((kind, id))
    }

    // The low bits choose the bucket within a shard.
    fn shard(&self, hash: u64) -> &RwLock<HashTable<u32>> {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    fn read(&self, hash: u64) -> RwLockReadGuard<'_, HashTable<u32>> {
        self.shard(hash).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, HashTable<u32>> {
        self.shard(hash).write().unwrap_or_else(PoisonError::into_inner)
    }
}
