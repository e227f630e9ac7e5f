//! What kinds keep in memory, registered as the server is put together.
//!
//! A kind calls `Parts::cache` for each sort of credential that it recognises, `Parts::reports` for what its members
//! report, and `Parts::put` for anything else. The platform then tells the caches of commits, keeps them in step with
//! the deny set and the feed, and flushes the reports.

use std::{any::Any, sync::Arc};

use axum::http::Extensions;
use wardroom_store::Resource;

use super::{
    clock::Moment,
    identity::{
        cache::{Cache, Cached, Turns},
        deny::Forgets,
    },
    observed::{Buffer, Flushes, Report},
};

/// What the kinds keep in memory.
pub struct Parts {
    by_type: Extensions,
    pub(super) caches: Vec<Arc<dyn Forgets>>,
    pub(super) reports: Vec<Arc<dyn Flushes>>,
    shared: bool,
    turns: Arc<Turns>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Parts {
    /// Starts empty. Caches of a shared database trust their entries for a shorter time.
    pub(super) fn new(shared: bool) -> Self {
        let turns = Arc::default();
        Self { by_type: Extensions::new(), caches: Vec::new(), reports: Vec::new(), shared, turns }
    }

    /// Keeps a part, which is found by its type.
    pub(crate) fn put<T: Any + Send + Sync>(&mut self, part: T) {
        self.by_type.insert(Arc::new(part));
    }

    pub(super) fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.by_type.get::<Arc<T>>().map(|part| &**part)
    }

    /// Makes the cache of a kind of credentials.
    pub(crate) fn cache<M: Cached>(&mut self, setup: M::Setup) -> Arc<Cache<M>> {
        let cache = Arc::new(Cache::new(setup, self.shared, Arc::clone(&self.turns)));
        self.caches.push(cache.clone());
        cache
    }

    /// Adds a record that was read to the cache of its kind, if that cache keeps all records.
    pub(crate) fn found(&self, resource: &Resource, asked: Moment) {
        let of_kind = |cache: &&Arc<dyn Forgets>| cache.keeps_all() && cache.kind() == resource.content.kind;
        self.caches.iter().filter(of_kind).for_each(|cache| cache.found(resource, asked));
    }

    /// Creates the buffer of the reports of a kind's members.
    pub(crate) fn reports<R: Report>(&mut self) -> Arc<Buffer<R>> {
        let buffer = Arc::new(Buffer::default());
        self.reports.push(buffer.clone());
        buffer
    }
}
