//! A client that reads, and keeps changes to itself: what a command would send.

use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use super::{Client, Error};

/// A change that was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    /// The method.
    pub method: String,
    /// The whole path.
    pub path: String,
    /// The body; null for a deletion.
    pub body: Value,
}

impl Client {
    /// The same client, whose first change ends with [`Error::Unsent`] instead of being sent.
    #[must_use]
    pub fn rehearsal(&self) -> Self {
        Self { rehearses: true, ..self.clone() }
    }

    /// Returns the change as an error if nothing is to be sent.
    pub(super) fn check_sent(
        &self,
        method: &Method,
        segments: &[&str],
        body: &impl Serialize,
    ) -> Result<(), Error> {
        if !self.rehearses {
            return Ok(());
        }
        let body = serde_json::to_value(body).map_err(|error| Error::Setup(error.to_string()))?;
        Err(Error::Unsent(Box::new(Unsent { method: method.to_string(), path: self.path(segments), body })))
    }
}
