//! Verification: walks all of history and returns the first fault.
//!
//! Two walks over one snapshot, a page in memory at a time: the chains against their resources, then the feed
//! against its checkpoints. It only reads, so it runs beside servers.

mod chains;
mod seals;

use std::fmt;

use crate::checkpoint::{Checkpoint, SealKey};
use crate::error::Result;
use crate::guards;
use crate::location::Location;
use crate::session::Session;
use crate::value::params;

/// Counts of the verification, and the first fault if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Resources whose chain was walked.
    pub resources: i64,
    /// History rows in all chains.
    pub rows: i64,
    /// Checkpoints in the database that were compared.
    pub checkpoints: i64,
    /// Rows that the newest checkpoint covers; a cut among later ones cannot be noticed yet.
    pub sealed_rows: i64,
    /// The first fault.
    pub fault: Option<Fault>,
}

/// A fault in stored history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A row of a chain.
    Row {
        /// The kind of the resource.
        kind: String,
        /// The id of the resource.
        resource_id: String,
        /// Which row.
        sequence: i64,
        /// The fault.
        reason: RowFault,
    },
    /// A checkpoint, or the rows it covers.
    Checkpoint {
        /// Which one.
        number: i64,
        /// The fault.
        reason: CheckpointFault,
    },
    /// Every row is intact, but triggers that protect them are missing.
    Unguarded {
        /// The triggers that are not there, or switched off.
        triggers: Vec<&'static str>,
    },
}

/// Faults of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFault {
    /// Its hash does not match it or the previous row.
    Altered,
    /// It is not there.
    Missing,
    /// The resource has another version, head or state than its newest row.
    HeadDiffers,
    /// The resource itself is gone; even a deleted one keeps its row.
    ResourceGone,
}

/// Faults of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointFault {
    /// It is not there although later ones are.
    Missing,
    /// Its signature is not by the key.
    BadSignature,
    /// The rows it covers were cut, altered or put in another order.
    SealDiffers,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row { kind, resource_id, sequence, reason } => {
                let reason = match reason {
                    RowFault::Altered => "is not what was written",
                    RowFault::Missing => "is missing",
                    RowFault::HeadDiffers => "is the newest, but differs from the resource",
                    RowFault::ResourceGone => "is the newest of a resource that is gone",
                };
                write!(f, "{kind} {resource_id}: history row {sequence} {reason}")
            }
            Self::Checkpoint { number, reason } => {
                let reason = match reason {
                    CheckpointFault::Missing => "is missing",
                    CheckpointFault::BadSignature => "is not signed by this key",
                    CheckpointFault::SealDiffers => "covers rows that were cut, altered or reordered",
                };
                write!(f, "checkpoint {number} {reason}")
            }
            Self::Unguarded { triggers } => {
                let triggers = triggers.join(", ");
                write!(
                    f,
                    "the triggers that keep it append-only are missing ({triggers}); the next start of a server creates them again"
                )
            }
        }
    }
}

/// Verifies a database. With the key signatures count too; checkpoints that were exported before are compared
/// even if the database has lost them.
pub async fn verify(location: &Location, key: Option<&SealKey>, exported: &[Checkpoint]) -> Result<Report> {
    let session = Session::snapshot(location).await?;
    let mut report = Report::default();
    report.fault = chains::walk(&session, &mut report).await?;
    if report.fault.is_none() {
        report.fault = seals::walk(&session, key, exported, &mut report).await?;
    }
    if report.fault.is_none() {
        report.fault = unguarded(&session).await?;
    }
    Ok(report)
}

async fn unguarded(session: &Session) -> Result<Option<Fault>> {
    let dialect = session.dialect();
    let missing = guards::missing(dialect, session.run(dialect.guards_there, params![]).await?)?;
    let triggers: Vec<_> = missing.iter().map(|guard| guard.name).collect();
    Ok((!triggers.is_empty()).then_some(Fault::Unguarded { triggers }))
}
