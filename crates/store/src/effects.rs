//! Work that changes asked for and that is not done yet.

use jiff::Timestamp;

use crate::change::Effect;
use crate::error::Result;
use crate::sql;
use crate::store::Store;
use crate::value::{Row, params};

/// An effect that waits for a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingEffect {
    /// Names it when it is done.
    pub id: i64,
    /// The kind of the resource whose change asked for it.
    pub kind: String,
    /// The id of that resource.
    pub resource_id: String,
    /// The sequence of that change.
    pub sequence: i64,
    /// What to do.
    pub effect: Effect,
    /// When it was asked for.
    pub created_at: Timestamp,
}

impl Store {
    /// Effects not done yet with ids above `after`, oldest first. A slow commit may add a lower id later:
    /// start from 0 again after the last page.
    pub async fn pending_effects(&self, after: i64, limit: usize) -> Result<Vec<PendingEffect>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let pending = |mut row: Row| {
            Ok(PendingEffect {
                id: row.int()?,
                kind: row.text()?,
                resource_id: row.text()?,
                sequence: row.int()?,
                effect: Effect { effect_type: row.text()?, payload: row.json()? },
                created_at: row.time()?,
            })
        };
        let rows = self.database.read(sql::EFFECTS_PENDING, params![after, limit]).await?;
        rows.into_iter().map(pending).collect()
    }

    /// Marks an effect as done; false when it was already.
    pub async fn finish_effect(&self, id: i64, at: Timestamp) -> Result<bool> {
        Ok(!self.database.write(sql::EFFECT_DONE, params![id, at]).await?.is_empty())
    }
}
