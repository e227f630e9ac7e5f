//! The chain of every resource, and the resource it belongs to.

use super::{Fault, Report, RowFault};
use crate::error::Result;
use crate::history::{GENESIS, RawRow};
use crate::session::{Session, Stream};
use crate::sql;
use crate::value::{Row, params};

/// Rows and resources come in the same order, so each resource meets its chain in one pass.
pub(super) async fn walk(session: &Session, report: &mut Report) -> Result<Option<Fault>> {
    let (mut rows, mut heads) = (rows(), heads());
    let mut row = rows.next(session).await?;
    let mut head = heads.next(session).await?;
    while let Some(owner) = row.as_ref().map(owner).into_iter().chain(head.as_ref().map(Head::owner)).min() {
        let mut newest = None;
        while let Some(next) = row.take_if(|row| self::owner(row) == owner) {
            if let Some((sequence, reason)) = broken(newest.as_ref(), &next) {
                return Ok(Some(fault(owner, sequence, reason)));
            }
            report.rows += 1;
            newest = Some(next);
            row = rows.next(session).await?;
        }
        if let Some((sequence, reason)) = at_odds(newest, head.take_if(|head| head.owner() == owner)) {
            return Ok(Some(fault(owner, sequence, reason)));
        }
        report.resources += 1;
        head = heads.next(session).await?;
    }
    Ok(None)
}

/// Kind and id, in the order of both streams.
type Owner = (String, String);

fn owner(row: &RawRow) -> Owner {
    (row.kind.clone(), row.resource_id.clone())
}

fn fault((kind, resource_id): Owner, sequence: i64, reason: RowFault) -> Fault {
    Fault::Row { kind, resource_id, sequence, reason }
}

/// What is wrong with a row after the one before.
fn broken(before: Option<&RawRow>, row: &RawRow) -> Option<(i64, RowFault)> {
    let (sequence, previous) = before.map_or((1, GENESIS), |before| (before.sequence + 1, &before.hash));
    if row.sequence != sequence {
        return Some((sequence, RowFault::Missing));
    }
    (row.hash != row.expected_hash(previous)).then_some((sequence, RowFault::Altered))
}

/// What is wrong between the newest row and the resource.
fn at_odds(newest: Option<RawRow>, head: Option<Head>) -> Option<(i64, RowFault)> {
    match (newest, head) {
        (Some(row), Some(head)) if head.agrees_with(&row) => None,
        (Some(row), Some(_)) => Some((row.sequence, RowFault::HeadDiffers)),
        (Some(row), None) => Some((row.sequence, RowFault::ResourceGone)),
        (None, _) => Some((1, RowFault::Missing)),
    }
}

struct Head {
    kind: String,
    id: String,
    version: i64,
    hash: String,
    state: String,
}

impl Head {
    fn owner(&self) -> Owner {
        (self.kind.clone(), self.id.clone())
    }

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

fn rows() -> Stream<RawRow> {
    let key = |row: &RawRow| params![&row.kind, &row.resource_id, row.sequence];
    Stream::new(sql::CHAINS, params!["", "", i64::MIN], key, |mut row| RawRow::from_row(&mut row))
}
