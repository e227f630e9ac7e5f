//! Looks at many machines: a hundred with one request, and less with each when MAAS cannot list them.
//!
//! A machine that MAAS cannot list must not hide the others, which may be those of other sites. So what fails is asked
//! for again in halves, down to one that is shown by itself: some two requests for each machine at most.

use tokio::time::Instant;
use wardroom_upstream::maas::{Class, Error, Machine};

use super::upstream::{BATCH, Looker, SOON, Session, is_away};

/// Failures in a row after which MAAS itself is the trouble. One machine in a batch cannot cause as many: it is by itself
/// before that, and the one beside it is seen.
const IN_VAIN: u32 = BATCH.ilog2() + 3;

/// A look at machines that is under way.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    session: &'a Session,
    looker: Looker,
    /// What is still to be asked for, the next one last, and whether it could not be listed before.
    left: Vec<(&'a [&'a str], bool)>,
    in_vain: u32,
    error: Option<Error>,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(session: &'a Session, ids: &'a [&'a str], looker: Looker) -> Self {
        Self {
            session,
            looker,
            left: ids.chunks(BATCH).rev().map(|ids| (ids, false)).collect(),
            in_vain: 0,
            error: None,
        }
    }

    /// The next machines that MAAS answered for, and those of them that it has.
    pub(crate) async fn next(&mut self) -> Option<(&'a [&'a str], Vec<Machine>)> {
        while let Some((ids, again)) = self.left.pop() {
            let began = Instant::now();
            let found = match ids {
                [id] if again => self.session.show(id, self.looker).await.map(Vec::from_iter),
                ids => self.session.list(ids, self.looker).await,
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

    /// Why some were not seen, if so.
    pub(crate) const fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Whether nothing else is worth asking for. A status of 500 may be a machine's doing, unless it took its time.
    fn is_over(&self, error: &Error, began: Instant) -> bool {
        let away = is_away(&error.class);
        let perhaps = matches!(error.class, Class::Ambiguous(_));
        away && (!perhaps || began.elapsed() >= SOON || self.in_vain >= IN_VAIN)
    }
}
