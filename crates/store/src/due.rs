//! Resources with a due time, each handled by one server at a time.
//!
//! What must stay true: a server works under the lease `<kind>/<id>` of the resource, and no two servers have
//! it in one epoch.

use std::time::Duration;

use jiff::Timestamp;

use crate::error::Result;
use crate::lease::Lease;
use crate::resource::{Content, Resource};
use crate::sql;
use crate::store::Store;
use crate::value::{Row, json_text, params, time_text, to_micros};

impl Store {
    /// Claims living resources of a kind that are due by the database's clock and not leased, the longest
    /// overdue first. Each comes with its lease, which changes that are made under it carry as their fence.
    pub async fn claim_due(
        &self,
        kind: &str,
        holder: &str,
        length: Duration,
        limit: usize,
    ) -> Result<Vec<(Resource, Lease)>> {
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 2);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database.claim_due(params![kind, holder, millis, limit]).await?;
        let claimed = |mut row: Row| {
            let epoch = row.int()?;
            let resource = Resource::from_row(&mut row)?;
            let name = format!("{kind}/{}", resource.content.id);
            Ok((resource, Lease { name, holder: holder.to_owned(), epoch, remaining: length }))
        };
        let mut claimed = rows.into_iter().map(claimed).collect::<Result<Vec<_>>>()?;
        claimed.sort_by_key(|(resource, _)| resource.content.due_at);
        Ok(claimed)
    }

    /// Returns when a resource of a kind is next due, of those without a lease; a time that has passed means
    /// now.
    pub async fn next_due(&self, kind: &str) -> Result<Option<Timestamp>> {
        let row = self.database.read_one(self.database.dialect().due_next, params![kind]).await?;
        row.map(|mut row| row.time()).transpose()
    }

    /// Returns the living resources of a kind that are due by the database's clock, leased or not, and since when, the
    /// longest overdue first.
    pub async fn due_now(&self, kind: &str, limit: usize) -> Result<Vec<(String, Timestamp)>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database.read(self.database.dialect().due_now, params![kind, limit]).await?;
        rows.into_iter().map(|mut row| Ok((row.text()?, row.time()?))).collect()
    }

    /// Makes resources of a kind due at another time, each unless its due time is another one by now than the first of
    /// its times; returns how many. Like [`Store::put_off`] this is no change of the resource.
    pub async fn put_off_all(&self, kind: &str, moved: &[(String, Timestamp, Timestamp)]) -> Result<usize> {
        if moved.is_empty() {
            return Ok(0);
        }
        let rows: Vec<_> =
            moved.iter().map(|(id, was, next)| (id, time_text(*was), time_text(*next))).collect();
        let params = params![kind, json_text(&rows)?];
        Ok(self.database.write(self.database.dialect().due_move, params).await?.len())
    }

    /// Makes a resource due at another time, unless it was changed since it was read or its lease was lost. A
    /// new due time is no change of the resource: its version and history stay as they are.
    pub async fn put_off(&self, lease: &Lease, found: &Resource, until: Timestamp) -> Result<bool> {
        let Content { kind, id, .. } = &found.content;
        let params = params![kind, id, found.version, to_micros(until), &lease.name, lease.epoch];
        Ok(!self.database.write(sql::PUT_OFF, params).await?.is_empty())
    }
}
