//! Text: what info texts are put together from.
//!
//! An info is a line on a screen. What a device sends may be long or blank, so it is cut, and lists are counted.

use std::fmt::{self, Display, Formatter};

const SHOWN_CHARS: usize = 250;
const SHOWN_ITEMS: usize = 5;

/// A text from another program inside a sentence of ours: cut when long, and without its own full stop.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = self.0.trim().trim_end_matches('.');
        match text.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None if text.is_empty() => f.write_str("(blank)"),
            None => f.write_str(text),
        }
    }
}

/// Writes items as a list, the first few of them in full.
pub(super) fn list<T: ToString>(mut items: impl Iterator<Item = T>) -> String {
    let shown: Vec<String> = items.by_ref().take(SHOWN_ITEMS).map(|item| item.to_string()).collect();
    let shown = shown.join(", ");
    match items.count() {
        0 => shown,
        hidden => format!("{shown} and {hidden} more"),
    }
}
