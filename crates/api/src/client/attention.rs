//! What needs a person.

use super::{Client, Error};
use crate::{Envelope, attention::Attention};

impl Client {
    /// What needs a person: of one kind, or of all.
    ///
    /// # Errors
    /// As for every call.
    pub async fn attention(&self, kind: Option<&str>) -> Result<Attention, Error> {
        self.get::<Envelope<_>>(&["attention"], &[("kind", kind)]).await.map(|answer| answer.data)
    }
}
