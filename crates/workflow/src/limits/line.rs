//! Lines in which whoever was sent away keeps a place until it comes back.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Whoever stands in a line looks this often at least, and keeps the place for as long again.
pub(super) const LOOK: Duration = Duration::from_secs(60);
/// Whoever is later than this is not waited for.
pub(super) const LATE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) who: String,
    /// The order of coming.
    pub(super) came: u64,
    /// When it was told to come back.
    pub(super) due: Instant,
    /// When the place in the line is lost, because its owner did not come back.
    pub(super) lost: Instant,
}

/// How many before a place are waited for. Where others serve the same runs, whoever is late may have been served by
/// one of them, and holds up nobody; a server by itself keeps the places of those it is late for.
pub(super) fn ahead(line: &VecDeque<Waiter>, place: Option<usize>, others: u32, now: Instant) -> usize {
    let before = line.iter().take(place.unwrap_or(line.len()));
    before.filter(|waiter| others == 0 || waiter.due + LATE > now).count()
}

/// Keeps a place in a line, or stands at its end.
pub(super) fn stand(
    line: &mut VecDeque<Waiter>,
    place: Option<usize>,
    (who, came): (&str, u64),
    due: Instant,
) {
    let lost = due + LOOK;
    match place.and_then(|place| line.get_mut(place)) {
        Some(waiter) => (waiter.due, waiter.lost) = (due, lost),
        None => line.push_back(Waiter { who: who.to_owned(), came, due, lost }),
    }
}
