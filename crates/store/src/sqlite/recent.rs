//! A cache of resources as they were last committed.
//!
//! Only the writer adds to it, after the commit is durable and before its callers are answered; before a
//! commit it removes the resources that change. So an entry is never older than the file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::resource::Resource;

/// The most entries of a generation.
const MOST: usize = 2048;
const MOST_BYTES: usize = 4 << 20;

/// Two generations by id: entries that did not change for a whole generation are dropped with it.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Arc<Resource>>,
    old: HashMap<String, Arc<Resource>>,
    bytes: usize,
}

impl Recent {
    pub(super) fn get(&self, kind: &str, id: &str) -> Option<Arc<Resource>> {
        let held = self.lock();
        let found = held.young.get(id).or_else(|| held.old.get(id))?;
        // Two kinds may have one id; the later one is here.
        (found.content.kind == kind).then(|| Arc::clone(found))
    }

    pub(super) fn keep(&self, resource: Arc<Resource>) {
        let id = resource.content.id.clone();
        let mut held = self.lock();
        if held.young.len() >= MOST || held.bytes >= MOST_BYTES {
            held.old = std::mem::take(&mut held.young);
            held.bytes = 0;
        }
        held.bytes += resource.content.document.as_str().len();
        held.young.insert(id, resource);
    }

    /// Removes an entry and returns it, so that the caller drops it.
    pub(super) fn forget(&self, id: &str) -> [Option<Arc<Resource>>; 2] {
        let mut held = self.lock();
        [held.young.remove(id), held.old.remove(id)]
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
