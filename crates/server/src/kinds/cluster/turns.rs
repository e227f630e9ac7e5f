//! Reports of one cluster wait for each other in this process, in the order in which they came.
//!
//! The database decides whose turn it is; this only spares it attempts that are bound to fail when many adapters report at
//! once. With replicas, two servers at most try for one cluster at the same moment.

use std::hash::BuildHasher as _;

use hashbrown::DefaultHashBuilder;
use tokio::sync::{Mutex, MutexGuard};

/// Clusters that share a queue wait for each other too, so there are many.
const QUEUES: usize = 1024;

/// The queues.
pub(super) struct Turns {
    queues: Box<[Mutex<()>]>,
    hasher: DefaultHashBuilder,
}

impl Default for Turns {
    fn default() -> Self {
        let queues = (0..QUEUES).map(|_| Mutex::default()).collect();
        Self { queues, hasher: DefaultHashBuilder::default() }
    }
}

impl Turns {
    /// Waits for the turn of a resource; it ends when the guard is dropped.
    pub(super) async fn take(&self, id: &str) -> MutexGuard<'_, ()> {
        let number = self.hasher.hash_one(id) % QUEUES as u64;
        self.queues[usize::try_from(number).unwrap_or_default()].lock().await
    }
}
