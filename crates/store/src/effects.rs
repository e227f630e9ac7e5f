//! Work that follows from changes, until it is done.
//!
//! What must stay true: effects of one type for one resource are performed one at a time, in the order they were
//! asked for; each at least once.

use std::time::Duration;

use jiff::Timestamp;

use crate::change::Effect;
use crate::error::Result;
use crate::sql;
use crate::store::Store;
use crate::value::{Row, params};

/// An effect that waits for a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingEffect {
    /// Its id.
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

/// An effect that a worker has claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedEffect {
    /// Its id.
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
    /// How often it was started, including this time.
    pub attempts: i64,
}

/// The progress of an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectProgress {
    /// Its number.
    pub id: i64,
    /// What to do.
    pub effect_type: String,
    /// The sequence of the change that asked for it.
    pub sequence: i64,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// How often it was begun.
    pub attempts: i64,
    /// The error of the last attempt.
    pub last_error: Option<String>,
    /// When it is tried again, if it has to be.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was done.
    pub done_at: Option<Timestamp>,
    /// When its claim expires, by the clock of the database.
    pub claimed_until: Option<Timestamp>,
}

/// Effects of one type that are not done.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenEffects {
    /// What to do.
    pub effect_type: String,
    /// How many there are.
    pub open: i64,
    /// How many of them failed at the last attempt.
    pub failing: i64,
    /// When the oldest was asked for.
    pub oldest: Timestamp,
}

impl PendingEffect {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            id: row.int()?,
            kind: row.text()?,
            resource_id: row.text()?,
            sequence: row.int()?,
            effect: Effect { effect_type: row.text()?, payload: row.json()? },
            created_at: row.time()?,
        })
    }
}

impl ClaimedEffect {
    fn from_row(mut row: Row) -> Result<Self> {
        let pending = PendingEffect::from_row(&mut row)?;
        let PendingEffect { id, kind, resource_id, sequence, effect, created_at } = pending;
        Ok(Self { id, kind, resource_id, sequence, effect, created_at, attempts: row.int()? })
    }
}

impl EffectProgress {
    fn from_row(mut row: Row) -> Result<Self> {
        Ok(Self {
            id: row.int()?,
            effect_type: row.text()?,
            sequence: row.int()?,
            created_at: row.time()?,
            attempts: row.int()?,
            last_error: row.opt_text()?,
            next_attempt_at: row.opt_time()?,
            done_at: row.opt_time()?,
            claimed_until: Timestamp::from_millisecond(row.int()?)
                .ok()
                .filter(|time| *time > Timestamp::UNIX_EPOCH),
        })
    }
}

impl Store {
    /// Effects not done yet with ids above `after`, oldest first. A slow commit may add a lower id later:
    /// start from 0 again after the last page.
    pub async fn pending_effects(&self, after: i64, limit: usize) -> Result<Vec<PendingEffect>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database.read(sql::EFFECTS_PENDING, params![after, limit]).await?;
        rows.into_iter().map(|mut row| PendingEffect::from_row(&mut row)).collect()
    }

    /// Claims effects of these types that are due and unclaimed, oldest first. Effects of one type for one
    /// resource run in order: the next one waits until the oldest is done. A claim that expires may be taken
    /// by another worker.
    pub async fn claim_effects(
        &self,
        holder: &str,
        length: Duration,
        limit: usize,
        types: &[&str],
    ) -> Result<Vec<ClaimedEffect>> {
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 2);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sql = self.database.dialect().effects_claim;
        let types = serde_json::json!(types).to_string();
        let rows = self.database.write(sql, params![holder, millis, limit, types]).await?;
        let mut claimed = rows.into_iter().map(ClaimedEffect::from_row).collect::<Result<Vec<_>>>()?;
        claimed.sort_by_key(|effect| effect.id);
        Ok(claimed)
    }

    /// Renews the claim of an effect that takes longer; false if another worker has claimed it.
    pub async fn renew_effect(&self, id: i64, holder: &str, length: Duration) -> Result<bool> {
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 2);
        let sql = self.database.dialect().effect_renew;
        Ok(!self.database.write(sql, params![id, holder, millis]).await?.is_empty())
    }

    /// Marks an effect as done; false when it was already.
    pub async fn finish_effect(&self, id: i64, at: Timestamp) -> Result<bool> {
        Ok(!self.database.write(sql::EFFECT_DONE, params![id, at]).await?.is_empty())
    }

    /// Releases an effect that failed, to be tried again from `at` on; false if it is done or claimed by
    /// another worker.
    pub async fn retry_effect(
        &self,
        id: i64,
        holder: &str,
        next_attempt_at: Timestamp,
        error: &str,
    ) -> Result<bool> {
        let error = error.replace('\0', "\u{fffd}");
        let params = params![id, holder, next_attempt_at, error];
        Ok(!self.database.write(sql::EFFECT_RETRY, params).await?.is_empty())
    }

    /// Releases all effects of a holder that stops; returns how many.
    pub async fn release_effects(&self, holder: &str) -> Result<usize> {
        Ok(self.database.write(sql::EFFECTS_RELEASE, params![holder]).await?.len())
    }

    /// Releases every claimed effect. Only for a caller that knows that no worker is running.
    pub async fn release_all_effects(&self) -> Result<usize> {
        Ok(self.database.write(sql::EFFECTS_RELEASE_ALL, params![]).await?.len())
    }

    /// Deletes old finished effects among the next ones after an id, except the last of each type of a
    /// resource. Returns where to continue and how many it deleted, or none at the end.
    pub async fn sweep_effects(
        &self,
        after: i64,
        batch: usize,
        before: Timestamp,
    ) -> Result<Option<(i64, usize)>> {
        let batch = i64::try_from(batch).unwrap_or(i64::MAX);
        let Some(mut step) = self.database.read_one(sql::EFFECTS_STEP, params![after, batch]).await? else {
            return Ok(None);
        };
        let Some(last) = step.opt_int()? else { return Ok(None) };
        let forgotten = self.database.write(sql::EFFECTS_SWEEP, params![after, last, before]).await?;
        Ok(Some((last, forgotten.len())))
    }

    /// Counts open effects, by type.
    pub async fn open_effects(&self) -> Result<Vec<OpenEffects>> {
        let open = |mut row: Row| {
            Ok(OpenEffects {
                effect_type: row.text()?,
                open: row.int()?,
                failing: row.int()?,
                oldest: row.time()?,
            })
        };
        self.database.read(sql::EFFECTS_OPEN, params![]).await?.into_iter().map(open).collect()
    }

    /// The effects of a resource that are not done, and the last one of each type that is.
    pub async fn effects_of(&self, kind: &str, id: &str) -> Result<Vec<EffectProgress>> {
        if id.contains('\0') {
            return Ok(Vec::new());
        }
        let rows = self.database.read(sql::EFFECTS_OF, params![kind, id]).await?;
        rows.into_iter().map(EffectProgress::from_row).collect()
    }
}
