//! Incidents: many members that fell silent together.

use super::{Client, Error, Query};
use crate::{
    Page,
    liveness::{Incident, Liveness},
};

impl Client {
    /// One page of incidents, the oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn incidents(&self, query: &Query) -> Result<Page<Incident>, Error> {
        self.page(&["incidents"], query).await
    }

    /// One incident.
    ///
    /// # Errors
    /// As for every call.
    pub async fn incident(&self, id: &str) -> Result<Incident, Error> {
        self.one(&["incidents", id]).await
    }

    /// How the server that answers listens, judges and guards.
    ///
    /// # Errors
    /// As for every call.
    pub async fn liveness(&self) -> Result<Liveness, Error> {
        self.one(&["liveness"]).await
    }
}
