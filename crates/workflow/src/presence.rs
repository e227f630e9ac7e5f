//! Which engines work on a store, and how many: each has a part of every limit.
//!
//! Whoever comes says so before it works, and waits until the others have counted it. Whoever goes without a word is
//! counted until its lease has run out. Together they never do more than is allowed.

use std::time::Duration;

use crate::{engine::Engine, stages::Stages};

/// What the leases of engines begin with.
pub(crate) const ENGINE: &str = "engine/";

impl<S: Stages> Engine<S> {
    /// Says that this engine is there, counts those that are, and keeps to its part of the limits. How many there are;
    /// when they cannot be counted, as many as before.
    pub(crate) async fn be_present(&self) -> u32 {
        let (name, holder) = (format!("{ENGINE}{}", self.settings.holder), &self.settings.holder);
        let length: Duration = self.settings.presence * 4;
        let counted = async {
            self.store.acquire_lease(&name, holder, length).await?;
            let leases = self.store.leases(ENGINE).await?;
            Ok::<_, wardroom_store::Error>(leases.iter().filter(|lease| !lease.remaining.is_zero()).count())
        };
        match counted.await {
            Ok(count) => self.limits.share_among(count.max(1)),
            Err(error) => tracing::warn!(%error, "the servers that share the limits cannot be counted"),
        }
        self.limits.servers()
    }

    /// The others need not count this engine any more.
    pub(crate) async fn leave(&self) {
        let name = format!("{ENGINE}{}", self.settings.holder);
        let left = async {
            match self.store.lease(&name).await? {
                Some(lease) => self.store.release_lease(&lease).await.map(drop),
                None => Ok(()),
            }
        };
        if let Err(error) = left.await {
            tracing::info!(%error, "this server is counted until its lease has run out");
        }
    }
}
