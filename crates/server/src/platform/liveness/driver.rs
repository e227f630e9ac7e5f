//! The machinery driven by hand, for benchmarks: they have no server around it.

use super::{flush, overdue, replicas, sweep};
use crate::platform::app::App;

/// Loads, sweeps and flushes when told to.
#[derive(Debug)]
pub struct Driver(sweep::Sweep);

impl Driver {
    /// Loads the members of a store.
    ///
    /// # Errors
    /// What the store says.
    pub async fn start(app: &App) -> Result<Self, String> {
        sweep::start(app).await.map_err(|error| error.to_string())?;
        Ok(Self(sweep::Sweep::new()))
    }

    /// One sweep.
    ///
    /// # Errors
    /// What the store says.
    pub async fn sweep(&mut self, app: &App) -> Result<(), String> {
        self.0.tick(app).await.map_err(|error| error.to_string())
    }

    /// Makes other replicas count this one as present, and writes what it heard.
    ///
    /// # Errors
    /// What the store says.
    pub async fn announce(app: &App) -> Result<(), String> {
        replicas::arrive(app).await.map_err(|error| error.to_string())
    }

    /// Asks the table for overdue rows, as the lease holder does beside other replicas.
    ///
    /// # Errors
    /// What the store says.
    pub async fn look(app: &App) -> Result<(), String> {
        overdue::look(app).await.map(drop).map_err(|error| error.to_string())
    }

    /// Writes down every beat that was not; answers how many.
    ///
    /// # Errors
    /// What the store says.
    pub async fn flush(app: &App) -> Result<u64, String> {
        flush::flush_all(app).await.map_err(|error| error.to_string())?;
        Ok(app.liveness.status().flushed.rows)
    }
}
