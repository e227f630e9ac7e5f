//! Lines in which callers that have to ask again keep their place.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// A waiting caller asks again at least this often, and keeps its place for as long again.
pub(super) const LOOK: Duration = Duration::from_secs(60);
/// A caller that is later than this is skipped.
pub(super) const LATE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) caller: String,
    /// The order of coming.
    pub(super) came: u64,
    /// When it was told to come back.
    pub(super) due: Instant,
    /// When the place in the line is lost, because its owner did not come back.
    pub(super) lost: Instant,
}

/// Counts the callers before a place that are waited for. Where other servers serve the same runs, one of
/// them may have served a late caller, so it is skipped; a server that is alone keeps the places of late
/// callers.
pub(super) fn ahead(line: &VecDeque<Waiter>, place: Option<usize>, others: u32, now: Instant) -> usize {
    let before = line.iter().take(place.unwrap_or(line.len()));
    before.filter(|waiter| others == 0 || waiter.due + LATE > now).count()
}

/// Keeps a place in a line, or stands at its end.
pub(super) fn stand(
    line: &mut VecDeque<Waiter>,
    place: Option<usize>,
    (caller, came): (&str, u64),
    due: Instant,
) {
    let lost = due + LOOK;
    match place.and_then(|place| line.get_mut(place)) {
        Some(waiter) => (waiter.due, waiter.lost) = (due, lost),
        None => line.push_back(Waiter { caller: caller.to_owned(), came, due, lost }),
    }
}
