//! Slots: permits that are held for longer than one execution of a stage, such as those of deployments under way at a site.
//!
//! A slot is a lease in the store, so that all servers count the same slots and a restart forgets none. There are only as many
//! names as slots: two runs at the same moment cannot both take the last one.

use std::time::Duration;

use wardroom_store::{Lease, Result, Store};

/// The slots of all groups.
#[derive(Debug, Clone)]
pub struct Slots {
    store: Store,
}

/// How long a slot is kept for an owner that does not renew it.
const KEPT: Duration = Duration::from_mins(15);

impl Slots {
    /// The slots of a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Takes one of `cap` slots of a group for `owner`, or renews the slot that it has; false when none is free.
    pub async fn take(&self, group: &str, cap: usize, owner: &str) -> Result<bool> {
        let taken = self.taken(group).await?;
        if let Some(own) = taken.iter().find(|lease| lease.holder == owner) {
            return Ok(self.store.acquire_lease(&own.name, owner, KEPT).await?.is_some());
        }
        if taken.len() >= cap {
            return Ok(false);
        }
        for name in (0..cap).map(|number| format!("{group}/{number}")) {
            let is_free = taken.iter().all(|lease| lease.name != name);
            if is_free && self.store.acquire_lease(&name, owner, KEPT).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Releases the slot of `owner`, if it has one.
    pub async fn leave(&self, group: &str, owner: &str) -> Result<()> {
        for lease in self.taken(group).await?.iter().filter(|lease| lease.holder == owner) {
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
