//! Cursors as text: a position, and a checksum over it and the name of its list.
//!
//! What must stay true: a cursor that was cut, changed or taken from another list is refused, because it
//! would silently skip items. The checksum only guards against accidents: a position is no secret, and a
//! caller that may read a list may start anywhere in it.

/// The cursor of a place in a list.
#[must_use]
pub fn at(list: &str, place: &str) -> String {
    format!("{place}.{:08x}", sum(list, place))
}

/// Returns the position of a cursor of this list.
#[must_use]
pub fn place<'text>(list: &str, cursor: &'text str) -> Option<&'text str> {
    let (place, _) = cursor.rsplit_once('.')?;
    (at(list, place) == cursor).then_some(place)
}

/// FNV-1a: texts of one length that differ in one byte have different sums.
fn sum(list: &str, place: &str) -> u32 {
    let bytes = list.bytes().chain([0]).chain(place.bytes());
    bytes.fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
