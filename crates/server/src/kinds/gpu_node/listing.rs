//! Reads many machines: up to a hundred with one request, fewer if MAAS cannot list them.
//!
//! A machine that MAAS cannot list must not hide the others, which may belong to other sites. So a failed
//! batch is repeated in halves, down to single machines: about two requests for each machine at most.

use tokio::time::Instant;
use wardroom_upstream::maas::{Class, Error, Machine};

use super::upstream::{BATCH, Reader, SOON, Session, is_away};

/// Consecutive failures after which MAAS itself has failed. One bad machine cannot cause as many: it is
/// isolated before that, and its neighbour succeeds.
const IN_VAIN: u32 = BATCH.ilog2() + 3;

/// A read of machines that is under way.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    session: &'a Session,
    reader: Reader,
    /// Batches still to be read, the next one last, and whether each failed before.
    left: Vec<(&'a [&'a str], bool)>,
    in_vain: u32,
    error: Option<Error>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(session: &'a Session, ids: &'a [&'a str], reader: Reader) -> Self {
        Self {
            session,
            reader,
            left: ids.chunks(BATCH).rev().map(|ids| (ids, false)).collect(),
            in_vain: 0,
            error: None,
        }
    }

    /// Returns the next batch that MAAS answered, and the machines that it has.
    pub(crate) async fn next(&mut self) -> Option<(&'a [&'a str], Vec<Machine>)> {
        while let Some((ids, again)) = self.left.pop() {
            let began = Instant::now();
            let found = match ids {
                [id] if again => self.session.show(id, self.reader).await.map(Vec::from_iter),
                ids => self.session.list(ids, self.reader).await,
            };
            let error = match found {
                Ok(found) => {
                    self.in_vain = 0;
                    return Some((ids, found));
                }
                Err(error) => error,
            };
            self.in_vain += 1;
            match ids {
                _ if self.is_over(&error, began) => self.left.clear(),
                [_] if again => {}
                ids => {
                    tracing::debug!(machines = ids.len(), %error, "machines that cannot be listed are asked for in halves");
                    let (first, second) = ids.split_at(ids.len().div_ceil(2));
                    let halves = [second, first].into_iter().filter(|half| !half.is_empty());
                    self.left.extend(halves.map(|half| (half, true)));
                    continue;
                }
            }
            self.error = Some(error);
        }
        None
    }

    /// The error, if some were not read.
    pub(crate) const fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Whether further requests are pointless. A quick 500 may be caused by a single machine.
    fn is_over(&self, error: &Error, began: Instant) -> bool {
        let away = is_away(&error.class);
        let perhaps = matches!(error.class, Class::Ambiguous(_));
        away && (!perhaps || began.elapsed() >= SOON || self.in_vain >= IN_VAIN)
    }
}
