//! Presence: counts the engines that work on a store, because each has a share of every limit.
//!
//! An engine announces itself before it works, and waits until the others have counted it. An engine that crashed is counted
//! until its lease expires. Together they never exceed a limit.

use std::time::Duration;

use crate::{engine::Engine, stages::Stages};

/// The prefix of the leases of engines.
pub(crate) const ENGINE: &str = "engine/";

impl<S: Stages> Engine<S> {
    /// Renews the presence of this engine, counts all engines and adjusts its share of the limits. Returns their number; the
    /// last known one when they cannot be counted.
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
            Err(error) => {
                tracing::warn!(%error, "engines not counted; the shares of the limits are unchanged")
            }
        }
        self.limits.servers()
    }

    /// Ends the presence of this engine.
    pub(crate) async fn leave(&self) {
        let name = format!("{ENGINE}{}", self.settings.holder);
        let left = async {
            match self.store.lease(&name).await? {
                Some(lease) => self.store.release_lease(&lease).await.map(drop),
                None => Ok(()),
            }
        };
        if let Err(error) = left.await {
            tracing::info!(%error, "presence not ended; this server is counted until its lease expires");
        }
    }
}
