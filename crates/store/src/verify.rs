//! Verification: walks all of history and names the first thing that is wrong.
//!
//! Two walks over one snapshot, a page in memory at a time: the chains against their resources, then the feed
//! against its checkpoints. It only reads, so it runs beside servers.

use std::fmt;

use crate::checkpoint::{Checkpoint, SealKey, seal_row};
use crate::error::Result;
use crate::history::{GENESIS, RawRow};
use crate::location::Location;
use crate::session::{Session, Stream};
use crate::sql;
use crate::value::{Row, params};

/// What was walked, and the first fault if there is one.
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

/// Something that is not as it was written.
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
        /// What is wrong.
        reason: RowFault,
    },
    /// A checkpoint, or the rows it covers.
    Checkpoint {
        /// Which one.
        number: i64,
        /// What is wrong.
        reason: CheckpointFault,
    },
}

/// What can be wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFault {
    /// It, or the row before, is not what was hashed.
    Altered,
    /// It is not there.
    Missing,
    /// The resource has another version, head or state than its newest row.
    HeadDiffers,
    /// The resource itself is gone; even a deleted one keeps its row.
    ResourceGone,
}

/// What can be wrong with a checkpoint.
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
                    RowFault::HeadDiffers => "is the newest, but the resource says otherwise",
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
        }
    }
}

/// Verifies a database. With the key signatures count too; checkpoints that were exported before are compared even
/// if the database has lost them.
pub async fn verify(location: &Location, key: Option<&SealKey>, exported: &[Checkpoint]) -> Result<Report> {
    let session = Session::snapshot(location).await?;
    let mut report = Report::default();
    report.fault = walk_chains(&session, &mut report).await?;
    if report.fault.is_none() {
        report.fault = walk_feed(&session, key, exported, &mut report).await?;
    }
    Ok(report)
}

struct Head {
    kind: String,
    id: String,
    version: i64,
    hash: String,
    state: String,
}

impl Head {
    fn from_row(mut row: Row) -> Result<Self> {
        let (kind, id, version) = (row.text()?, row.text()?, row.int()?);
        Ok(Self { kind, id, version, hash: row.text()?, state: row.text()? })
    }

    fn agrees_with(&self, row: &RawRow) -> bool {
        self.version == row.sequence && self.hash == row.hash && self.state == row.to_state
    }
}

fn heads() -> Stream<Head> {
    Stream::new(sql::HEADS, params!["", ""], |head: &Head| params![&head.kind, &head.id], Head::from_row)
}

fn chains() -> Stream<RawRow> {
    let key = |row: &RawRow| params![&row.kind, &row.resource_id, row.sequence];
    Stream::new(sql::CHAINS, params!["", "", i64::MIN], key, |mut row| RawRow::from_row(&mut row))
}

/// Rows and resources come in the same order, so each resource meets its chain in one pass.
async fn walk_chains(session: &Session, report: &mut Report) -> Result<Option<Fault>> {
    let (mut rows, mut heads) = (chains(), heads());
    let mut row = rows.next(session).await?;
    let mut head = heads.next(session).await?;
    while row.is_some() || head.is_some() {
        let owner = match (&row, &head) {
            (Some(row), Some(head)) => (&*row.kind, &*row.resource_id).min((&*head.kind, &*head.id)),
            (Some(row), None) => (&*row.kind, &*row.resource_id),
            (None, Some(head)) => (&*head.kind, &*head.id),
            (None, None) => break,
        };
        let owner = (owner.0.to_owned(), owner.1.to_owned());
        let fault = |sequence, reason| {
            let (kind, resource_id) = owner.clone();
            Some(Fault::Row { kind, resource_id, sequence, reason })
        };
        let mut newest: Option<RawRow> = None;
        while let Some(next) = row.take_if(|row| row.kind == owner.0 && row.resource_id == owner.1) {
            let (sequence, previous) =
                newest.map_or((1, GENESIS.to_owned()), |row| (row.sequence + 1, row.hash));
            if next.sequence != sequence {
                return Ok(fault(sequence, RowFault::Missing));
            }
            if next.hash != next.expected_hash(&previous) {
                return Ok(fault(sequence, RowFault::Altered));
            }
            report.rows += 1;
            newest = Some(next);
            row = rows.next(session).await?;
        }
        match (newest, head.take_if(|head| head.kind == owner.0 && head.id == owner.1)) {
            (Some(row), Some(head)) if head.agrees_with(&row) => {}
            (Some(row), Some(_)) => return Ok(fault(row.sequence, RowFault::HeadDiffers)),
            (Some(row), None) => return Ok(fault(row.sequence, RowFault::ResourceGone)),
            (None, _) => return Ok(fault(1, RowFault::Missing)),
        }
        report.resources += 1;
        head = heads.next(session).await?;
    }
    Ok(None)
}

struct Place {
    xid: i64,
    position: i64,
    row: RawRow,
}

fn feed(session: &Session) -> Stream<Place> {
    let parse = |mut row: Row| {
        let (xid, position) = (row.int()?, row.int()?);
        Ok(Place { xid, position, row: RawRow::from_row(&mut row)? })
    };
    let key = |place: &Place| params![place.xid, place.position];
    Stream::new(session.dialect().history_after, params![0, 0], key, parse)
}

fn checkpoints() -> Stream<Checkpoint> {
    let key = |checkpoint: &Checkpoint| params![checkpoint.number];
    Stream::new(sql::CHECKPOINTS_AFTER, params![0], key, |mut row| Checkpoint::from_row(&mut row))
}

/// The running seal, and how many rows it covers.
#[derive(Default)]
struct Sealed {
    rows: i64,
    seal: String,
}

impl Sealed {
    async fn reach(&mut self, rows: i64, feed: &mut Stream<Place>, session: &Session) -> Result<()> {
        while self.rows < rows
            && let Some(place) = feed.next(session).await?
        {
            self.seal = seal_row(&self.seal, &place.row);
            self.rows += 1;
        }
        Ok(())
    }
}

async fn walk_feed(
    session: &Session,
    key: Option<&SealKey>,
    exported: &[Checkpoint],
    report: &mut Report,
) -> Result<Option<Fault>> {
    let mut exported = exported.to_vec();
    exported.sort_by_key(|checkpoint| checkpoint.row_count);
    let mut exported = exported.into_iter().peekable();
    let (mut stored, mut feed, mut sealed) = (checkpoints(), feed(session), Sealed::default());
    let mut next = stored.next(session).await?;
    while next.is_some() || exported.peek().is_some() {
        let stored_rows = next.as_ref().map_or(i64::MAX, |next| next.row_count);
        let outside = exported.next_if(|checkpoint| checkpoint.row_count <= stored_rows);
        let is_stored = outside.is_none();
        let Some(checkpoint) = outside.or_else(|| next.take()) else { break };
        let fault = |number, reason| Ok(Some(Fault::Checkpoint { number, reason }));
        if let Some(key) = key
            && !checkpoint.is_signed_by(key)?
        {
            return fault(checkpoint.number, CheckpointFault::BadSignature);
        }
        sealed.reach(checkpoint.row_count, &mut feed, session).await?;
        if sealed.rows != checkpoint.row_count || sealed.seal != checkpoint.seal {
            return fault(checkpoint.number, CheckpointFault::SealDiffers);
        }
        report.sealed_rows = sealed.rows;
        if is_stored {
            report.checkpoints += 1;
            if checkpoint.number != report.checkpoints {
                return fault(report.checkpoints, CheckpointFault::Missing);
            }
            next = stored.next(session).await?;
        }
    }
    Ok(None)
}
