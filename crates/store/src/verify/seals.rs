//! The feed, and the checkpoints that seal it.

use super::{CheckpointFault, Fault, Report};
use crate::checkpoint::{Checkpoint, SealKey, seal_row};
use crate::error::Result;
use crate::history::RawRow;
use crate::session::{Session, Stream};
use crate::sql;
use crate::value::{Row, params};

/// Checkpoints of the database and exported ones, in the order of what they cover.
pub(super) async fn walk(
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
        if key.is_some_and(|key| !checkpoint.is_signed_by(key)) {
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
