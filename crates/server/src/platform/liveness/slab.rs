//! The seats of all members, packed: a beat writes a few atomics, a sweep reads one array of deadlines.
//!
//! What must stay true: memory only grows, in chunks, so that a beat needs no lock to reach its seat; a seat
//! that is reused by another member has another `life`, so that an old handle cannot beat for it; and the
//! deadline in the array is never later than the exact one, because deaf time only ever adds to it.

use std::sync::{
    OnceLock, PoisonError, RwLock,
    atomic::{
        AtomicI64, AtomicU8, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use wardroom_core::liveness::Interval;

/// A member's place. Cheap to keep for as long as a connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seat {
    pub(super) index: u32,
    pub(super) life: u32,
}

const BITS: u32 = 13;
const CHUNK: usize = 1 << BITS;
const CHUNKS: usize = 2048;

/// Milliseconds of one step of the deadlines.
pub(super) const STEP: i64 = 100;

/// The deadline of a seat that is not watched.
const NEVER: u32 = u32::MAX;

/// The facts of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) zone: u32,
    /// When it was last heard, in milliseconds of the steady axis.
    pub(super) last: i64,
    pub(super) interval: Option<Interval>,
    pub(super) given: Option<Interval>,
}

#[derive(Debug)]
pub(super) struct Slab {
    /// Where the steps of the deadlines start, in milliseconds of the steady axis.
    base: i64,
    chunks: Box<[OnceLock<Chunk>]>,
}

#[derive(Debug)]
pub(super) struct Chunk {
    late: Box<[AtomicU32]>,
    last: Box<[AtomicI64]>,
    stored: Box<[AtomicI64]>,
    interval: Box<[AtomicU32]>,
    given: Box<[AtomicU32]>,
    zone: Box<[AtomicU32]>,
    life: Box<[AtomicU32]>,
    claims: Box<[AtomicU32]>,
    kind: Box<[AtomicU8]>,
    names: RwLock<Box<[Box<str>]>>,
}

/// When no beat has been stored yet.
const NOTHING: i64 = i64::MIN;

impl Slab {
    pub(super) fn new(base: i64) -> Self {
        Self { base, chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    /// How many seats there may be.
    pub(super) const MOST: u32 = (CHUNK * CHUNKS) as u32;

    /// Fills an empty seat; it is not watched until its deadline is set.
    pub(super) fn fill(&self, index: u32, id: &str, record: &Record) -> Seat {
        let chunk = self.chunks[(index >> BITS) as usize].get_or_init(Chunk::default);
        let at = place(index);
        chunk.names.write().unwrap_or_else(PoisonError::into_inner)[at] = id.into();
        chunk.kind[at].store(record.kind, Relaxed);
        chunk.zone[at].store(record.zone, Relaxed);
        chunk.last[at].store(record.last, Relaxed);
        chunk.stored[at].store(NOTHING, Relaxed);
        chunk.interval[at].store(number(record.interval), Relaxed);
        chunk.given[at].store(number(record.given), Relaxed);
        chunk.claims[at].store(0, Relaxed);
        chunk.late[at].store(NEVER, Relaxed);
        let life = chunk.life[at].fetch_add(1, Release).wrapping_add(1);
        Seat { index, life }
    }

    pub(super) fn empty(&self, seat: Seat) {
        let Some((chunk, at)) = self.at(seat) else { return };
        chunk.life[at].fetch_add(1, Release);
        chunk.late[at].store(NEVER, Relaxed);
        chunk.names.write().unwrap_or_else(PoisonError::into_inner)[at] = Box::default();
    }

    /// Returns the seat at an index, with its current life.
    pub(super) fn seat(&self, index: u32) -> Option<Seat> {
        let chunk = self.chunks.get((index >> BITS) as usize)?.get()?;
        let life = chunk.life[place(index)].load(Acquire);
        (life % 2 == 1).then_some(Seat { index, life })
    }

    /// Returns the chunk and index of a seat, unless another member has it now.
    pub(super) fn at(&self, seat: Seat) -> Option<(&Chunk, usize)> {
        let chunk = self.chunks.get((seat.index >> BITS) as usize)?.get()?;
        let at = place(seat.index);
        (chunk.life[at].load(Acquire) == seat.life).then_some((chunk, at))
    }

    pub(super) fn record(&self, seat: Seat) -> Option<Record> {
        self.at(seat).map(|(chunk, at)| chunk.record(at))
    }

    pub(super) fn name(&self, seat: Seat) -> Option<Box<str>> {
        let (chunk, at) = self.at(seat)?;
        Some(chunk.names.read().unwrap_or_else(PoisonError::into_inner)[at].clone())
    }

    /// Whether the member of an index has this kind and name.
    pub(super) fn is(&self, index: u32, kind: u8, id: &str) -> bool {
        let chunk = self.chunks.get((index >> BITS) as usize).and_then(OnceLock::get);
        chunk.is_some_and(|chunk| {
            let at = place(index);
            chunk.kind[at].load(Relaxed) == kind
                && *chunk.names.read().unwrap_or_else(PoisonError::into_inner)[at] == *id
        })
    }

    /// The kind and the name of an index, for the directory's hashes.
    pub(super) fn with_name<T>(&self, index: u32, then: impl Fn(u8, &str) -> T) -> Option<T> {
        let chunk = self.chunks.get((index >> BITS) as usize)?.get()?;
        let names = chunk.names.read().unwrap_or_else(PoisonError::into_inner);
        Some(then(chunk.kind[place(index)].load(Relaxed), &names[place(index)]))
    }

    /// The step of an instant.
    pub(super) fn step(&self, millis: i64) -> u32 {
        let steps = millis.saturating_sub(self.base) / STEP;
        u32::try_from(steps.max(0)).unwrap_or(NEVER).min(NEVER - 1)
    }

    /// Calls `each` with every seat that may be late at a step.
    pub(super) fn late(&self, step: u32, mut each: impl FnMut(u32)) {
        for (number, chunk) in self.made() {
            for (block, steps) in chunk.late.chunks(64).enumerate() {
                // Without a branch per seat: most blocks have no late member.
                let any = steps.iter().fold(false, |any, late| any | (late.load(Relaxed) <= step));
                if any {
                    let first = number * CHUNK + block * 64;
                    let late = steps.iter().enumerate().filter(|(_, late)| late.load(Relaxed) <= step);
                    late.for_each(|(at, _)| each((first + at) as u32));
                }
            }
        }
    }

    /// Calls `each` with the zone and the interval in force of every watched member.
    pub(super) fn watched(&self, mut each: impl FnMut(u8, u32, u32)) {
        for (_, chunk) in self.made() {
            for (at, late) in chunk.late.iter().enumerate() {
                if late.load(Relaxed) != NEVER {
                    let (zone, interval) = (&chunk.zone[at], &chunk.interval[at]);
                    each(chunk.kind[at].load(Relaxed), zone.load(Relaxed), interval.load(Relaxed));
                }
            }
        }
    }

    /// Calls `each` with every seat whose last beat is newer than the stored one by at least `by`
    /// milliseconds.
    pub(super) fn moved(&self, by: i64, mut each: impl FnMut(Seat)) {
        for (number, chunk) in self.made() {
            for at in 0..CHUNK {
                let (last, stored) = (chunk.last[at].load(Relaxed), chunk.stored[at].load(Relaxed));
                let life = chunk.life[at].load(Acquire);
                if life % 2 == 1 && last != NOTHING && last > stored && last.saturating_sub(stored) >= by {
                    each(Seat { index: (number * CHUNK + at) as u32, life });
                }
            }
        }
    }

    /// Calls `each` with the name of every member of a kind that was last heard before an instant.
    pub(super) fn heard_before(&self, kind: u8, before: i64, mut each: impl FnMut(&str)) {
        for (_, chunk) in self.made() {
            let names = chunk.names.read().unwrap_or_else(PoisonError::into_inner);
            for (at, name) in names.iter().enumerate() {
                let is_taken = chunk.life[at].load(Acquire) % 2 == 1;
                if is_taken && chunk.kind[at].load(Relaxed) == kind && chunk.last[at].load(Relaxed) < before {
                    each(name);
                }
            }
        }
    }

    fn made(&self) -> impl Iterator<Item = (usize, &Chunk)> {
        self.chunks.iter().enumerate().filter_map(|(number, chunk)| Some((number, chunk.get()?)))
    }
}

impl Chunk {
    pub(super) fn record(&self, at: usize) -> Record {
        Record {
            kind: self.kind[at].load(Relaxed),
            zone: self.zone[at].load(Relaxed),
            last: self.last[at].load(Relaxed),
            interval: Interval::from_seconds(self.interval[at].load(Relaxed)),
            given: Interval::from_seconds(self.given[at].load(Relaxed)),
        }
    }

    pub(super) fn is_watched(&self, at: usize) -> bool {
        self.late[at].load(Relaxed) != NEVER
    }

    pub(super) fn beat(&self, at: usize, now: i64, interval: Option<Interval>, late: u32) {
        self.interval[at].store(number(interval), Relaxed);
        self.last[at].fetch_max(now, Relaxed);
        // A late beat does not watch an unwatched seat again.
        self.set_late(at, late);
    }

    /// Records a beat received elsewhere; returns whether it is newer.
    pub(super) fn heard(&self, at: usize, last: i64) -> bool {
        self.last[at].fetch_max(last, Relaxed) < last
    }

    pub(super) fn watch(&self, at: usize, late: u32) {
        self.late[at].store(late, Relaxed);
    }

    /// Moves the deadline on, unless a beat has moved it further already.
    pub(super) fn put_off(&self, at: usize, late: u32) {
        self.late[at].fetch_max(late, Relaxed);
    }

    /// Sets the deadline of a watched seat, also to an earlier one, because the interval may have become
    /// shorter.
    pub(super) fn set_late(&self, at: usize, late: u32) {
        let watched = |before: u32| (before != NEVER).then_some(late);
        // Fails for an unwatched seat, which stays as it is.
        let _ = self.late[at].fetch_update(Relaxed, Relaxed, watched);
    }

    pub(super) fn rest(&self, at: usize) {
        self.late[at].store(NEVER, Relaxed);
    }

    pub(super) fn set(&self, at: usize, zone: u32, given: Option<Interval>, interval: Option<Interval>) {
        self.zone[at].store(zone, Relaxed);
        self.given[at].store(number(given), Relaxed);
        self.interval[at].store(number(interval), Relaxed);
    }

    /// Counts a request to watch this seat.
    pub(super) fn claim(&self, at: usize) {
        self.claims[at].fetch_add(1, Release);
    }

    pub(super) fn claims(&self, at: usize) -> u32 {
        self.claims[at].load(Acquire)
    }

    pub(super) fn stored(&self, at: usize, last: i64) {
        self.stored[at].fetch_max(last, Relaxed);
    }
}

impl Default for Chunk {
    fn default() -> Self {
        let numbers = |value| (0..CHUNK).map(|_| AtomicU32::new(value)).collect();
        let times = || (0..CHUNK).map(|_| AtomicI64::new(NOTHING)).collect();
        Self {
            late: numbers(NEVER),
            last: times(),
            stored: times(),
            interval: numbers(0),
            given: numbers(0),
            zone: numbers(0),
            life: numbers(0),
            claims: numbers(0),
            kind: (0..CHUNK).map(|_| AtomicU8::new(0)).collect(),
            names: RwLock::new(vec![Box::<str>::default(); CHUNK].into()),
        }
    }
}

fn place(index: u32) -> usize {
    index as usize % CHUNK
}

fn number(interval: Option<Interval>) -> u32 {
    interval.map_or(0, Interval::seconds)
}
