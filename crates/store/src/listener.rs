//! Notifies listeners in this process of every commit before its caller is answered.
//!
//! What must stay true: each commit that a listener asked about ends in exactly one way. A commit whose outcome is not
//! known, because the database did not answer or its caller went away, ends by dropping the [`PendingCommit`].

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::change::Change;
use crate::error::{Error, Result};
use crate::resource::Resource;

/// Learns of commits of this process.
pub trait CommitListener: Send + Sync {
    /// Called before a commit that gives a resource this version. Returns none for irrelevant commits.
    fn begins(&self, kind: &str, id: &str, version: i64) -> Option<Box<dyn PendingCommit>>;
}

/// A commit under way. Dropping it means that its outcome is unknown.
pub trait PendingCommit: Send {
    /// The commit is durable.
    fn committed(self: Box<Self>, resource: &Resource);
    /// The commit did not happen.
    fn refused(self: Box<Self>);
}

#[derive(Clone, Default)]
pub(crate) struct Listeners(Arc<RwLock<Vec<Arc<dyn CommitListener>>>>);

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listeners")
    }
}

/// Commits under way that listeners asked about, each with the number of its change.
pub(crate) struct Pending(Vec<(usize, Box<dyn PendingCommit>)>);

impl Listeners {
    pub(crate) fn add(&self, listener: Arc<dyn CommitListener>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    pub(crate) fn begins(&self, changes: &[Change]) -> Pending {
        let listeners = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut pending = Vec::new();
        for (number, Change { before, after, .. }) in changes.iter().enumerate() {
            let version = before.as_ref().map_or(1, |before| before.version + 1);
            let begun = listeners.iter().filter_map(|one| one.begins(&after.kind, &after.id, version));
            pending.extend(begun.map(|begun| (number, begun)));
        }
        Pending(pending)
    }
}

impl Pending {
    /// Passes on the outcomes; `resources` are in the order of the changes.
    pub(crate) fn end<'a, T>(
        self,
        outcome: &'a Result<T>,
        resources: impl FnOnce(&'a T) -> Vec<&'a Resource>,
    ) {
        match outcome {
            Ok(committed) => {
                let resources = resources(committed);
                for (number, pending) in self.0 {
                    pending.committed(resources[number]);
                }
            }
            Err(error) if Error::leaves_doubt(error) => drop(self),
            Err(_) => self.0.into_iter().for_each(|(_, pending)| pending.refused()),
        }
    }
}
