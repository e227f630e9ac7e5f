//! Resources found by what people call them.

use super::{Client, Error};
use crate::{Page, found::Found};

impl Client {
    /// Finds resources by a name, an id or the start of an id, of one kind or of all; with `deleted`, a deleted one
    /// when no living one is called so.
    ///
    /// # Errors
    /// As for every call.
    pub async fn find(&self, kind: Option<&str>, name: &str, deleted: bool) -> Result<Vec<Found>, Error> {
        let deleted = deleted.then_some("true");
        let query = [("name", Some(name)), ("kind", kind), ("deleted", deleted)];
        let page: Page<Found> = self.get(&["resources"], &query).await?;
        Ok(page.data)
    }
}
