//! Places that are held for longer than a stage is executed, such as those of deployments under way at a site.
//!
//! A place is a lease in the store, so that all servers count the same ones and a restart forgets none. There are only
//! as many names as places: two who come at the same moment cannot both have the last one.

use std::time::Duration;

use wardroom_store::{Lease, Result, Store};

/// The places of all groups.
#[derive(Debug, Clone)]
pub struct Slots {
    store: Store,
}

/// How long a place is kept for an owner that is not heard of.
const KEPT: Duration = Duration::from_mins(15);

impl Slots {
    /// The places that a store knows of.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Takes one of `cap` places of a group, or keeps the one that `who` has; false when there is none.
    pub async fn take(&self, group: &str, cap: usize, who: &str) -> Result<bool> {
        let taken = self.taken(group).await?;
        if let Some(own) = taken.iter().find(|lease| lease.holder == who) {
            return Ok(self.store.acquire_lease(&own.name, who, KEPT).await?.is_some());
        }
        if taken.len() >= cap {
            return Ok(false);
        }
        for name in (0..cap).map(|number| format!("{group}/{number}")) {
            let is_free = taken.iter().all(|lease| lease.name != name);
            if is_free && self.store.acquire_lease(&name, who, KEPT).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the place of `who` back, if it has one.
    pub async fn leave(&self, group: &str, who: &str) -> Result<()> {
        for lease in self.taken(group).await?.iter().filter(|lease| lease.holder == who) {
            self.store.release_lease(lease).await?;
        }
        Ok(())
    }

    async fn taken(&self, group: &str) -> Result<Vec<Lease>> {
        let mut leases = self.store.leases(&format!("{group}/")).await?;
        leases.retain(|lease| !lease.remaining.is_zero());
        Ok(leases)
    }
}
