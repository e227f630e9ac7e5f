//! Leases: give a job to one server at a time, by the database's clock.
//!
//! What must stay true: within an epoch one holder has the lease without interruption. A change under a lease
//! carries its [`Fence`], so that a holder that lost the lease without noticing changes nothing.

use std::time::Duration;

use crate::change::Fence;
use crate::error::Result;
use crate::sql;
use crate::store::Store;
use crate::value::{Row, params};

/// A lease as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub name: String,
    /// The server that holds it.
    pub holder: String,
    /// Grows whenever the holder changes or the lease had expired.
    pub epoch: i64,
    /// How long it is still held; zero when it has lapsed.
    pub remaining: Duration,
}

impl Lease {
    /// The precondition for changes under this lease.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence { lease: self.name.clone(), epoch: self.epoch, beat: None }
    }

    fn from_row(mut row: Row) -> Result<Self> {
        let (name, holder, epoch) = (row.text()?, row.text()?, row.int()?);
        let remaining = Duration::from_millis(u64::try_from(row.int()?).unwrap_or(0));
        Ok(Self { name, holder, epoch, remaining })
    }
}

impl Store {
    /// Takes a free lease or renews its own; returns nothing while another holder has it.
    pub async fn acquire_lease(&self, name: &str, holder: &str, length: Duration) -> Result<Option<Lease>> {
        crate::condition::check_write()?;
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 2);
        let sql = self.database.dialect().lease_acquire;
        let mut rows = self.database.write(sql, params![name, holder, millis]).await?;
        let lease = |mut row: Row| {
            let (name, holder) = (name.to_owned(), holder.to_owned());
            Ok(Lease { name, holder, epoch: row.int()?, remaining: length })
        };
        rows.pop().map(lease).transpose()
    }

    /// Releases a lease; returns false if it was no longer held.
    pub async fn release_lease(&self, lease: &Lease) -> Result<bool> {
        let params = params![&lease.name, &lease.holder, lease.epoch];
        Ok(!self.database.write(sql::LEASE_RELEASE, params).await?.is_empty())
    }

    /// Ends a lease of any holder: for a caller that knows that the holder is gone.
    pub async fn void_lease(&self, name: &str) -> Result<()> {
        self.database.write(sql::LEASE_VOID, params![name]).await.map(drop)
    }

    /// Deletes leases of single resources that expired this long ago.
    pub async fn sweep_leases(&self, ago: Duration) -> Result<usize> {
        let millis = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX / 2);
        Ok(self.database.write(self.database.dialect().lease_sweep, params![millis]).await?.len())
    }

    /// Removes the lease of a due resource whose work is done, of any holder. The next claim gets a higher
    /// epoch than every earlier one.
    pub async fn forget_lease(&self, kind: &str, id: &str) -> Result<()> {
        let name = format!("{kind}/{id}");
        self.database.write(sql::LEASE_FORGET, params![&name]).await.map(drop)
    }

    /// The leases whose names begin like this, held or lapsed.
    pub async fn leases(&self, prefix: &str) -> Result<Vec<Lease>> {
        let end = format!("{prefix}{}", char::MAX);
        let rows = self.database.read(self.database.dialect().leases, params![prefix, &end]).await?;
        rows.into_iter().map(Lease::from_row).collect()
    }

    /// Returns a lease, held or expired; nothing if it was not held lately.
    pub async fn lease(&self, name: &str) -> Result<Option<Lease>> {
        let row = self.database.read_one(self.database.dialect().lease, params![name]).await?;
        row.map(Lease::from_row).transpose()
    }
}
