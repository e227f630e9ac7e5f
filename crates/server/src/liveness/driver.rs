//! The machinery driven by hand, for benchmarks: they have no server around it.

use jiff::Timestamp;

use super::{
    company,
    flush::{self, Wanted},
    sweep,
};
use crate::app::App;

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

    /// Tells other servers that this one is there, and what it heard.
    ///
    /// # Errors
    /// What the store says.
    pub async fn tell(app: &App) -> Result<(), String> {
        company::arrive(app).await.map_err(|error| error.to_string())
    }

    /// Reads what other servers wrote down since the last time, as a sweep does while somebody is late.
    ///
    /// # Errors
    /// What the store says.
    pub async fn merge(app: &App) -> Result<(), String> {
        flush::merge(app, Wanted::Always).await.map_err(|error| error.to_string())
    }

    /// When the last merge began.
    #[must_use]
    pub fn merged(app: &App) -> Option<Timestamp> {
        app.liveness.status().merged
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
