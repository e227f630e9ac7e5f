//! Drives loading, sweeps and flushes by hand, for benchmarks without a server.

use super::{flush, overdue, replicas, sweep};
use crate::platform::app::App;

/// Loads, sweeps and flushes when told to.
#[derive(Debug)]
pub struct Driver(sweep::Sweep);

impl Driver {
    /// Loads the members of a store.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn start(app: &App) -> Result<Self, String> {
        sweep::start(app).await.map_err(|error| error.to_string())?;
        Ok(Self(sweep::Sweep::new()))
    }

    /// Does one sweep.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn sweep(&mut self, app: &App) -> Result<(), String> {
        self.0.tick(app).await.map_err(|error| error.to_string())
    }

    /// Makes other replicas count this one as present, and stores its beats.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn announce(app: &App) -> Result<(), String> {
        replicas::arrive(app).await.map_err(|error| error.to_string())
    }

    /// Asks the table for overdue rows, as the lease holder does beside other replicas.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn look(app: &App) -> Result<(), String> {
        overdue::look(app).await.map(drop).map_err(|error| error.to_string())
    }

    /// Stores every beat in memory; returns how many.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn flush(app: &App) -> Result<u64, String> {
        flush::flush_all(app).await.map_err(|error| error.to_string())?;
        Ok(app.liveness.status().flushed.rows)
    }
}
