//! The pieces that pages are made of.

use jiff::Timestamp;
use maud::{Markup, html};
use wardroom_core::tone::{self, Tone};

use crate::{
    face::{Cell, Chip, Seen},
    icon::{self, Class as _, icon},
    text::{block, cut, text},
    time,
};

/// A state: icon, word as on the wire, tone.
#[must_use]
pub fn badge(tone: Tone, word: &str) -> Markup {
    html! { span .badge.(tone.class_name()) { (icon(tone.icon())) (text(word)) } }
}

/// The state of a kind, or of one of its statuses.
#[must_use]
pub fn state(what: &str, state: &str) -> Markup {
    badge(tone::of(what, state), tone::word(what, state))
}

/// A word beside a state.
#[must_use]
pub fn chip(chip: &Chip) -> Markup {
    badge(chip.tone, &chip.text)
}

/// A value in a table, or in a list of facts.
#[must_use]
pub fn cell(cell: &Cell, now: Timestamp) -> Markup {
    html! {
        @match cell {
            Cell::None => { span .quiet.none { "–" } },
            Cell::Text(words) => { (cut(words)) },
            Cell::Mono(words) => { span .mono { (cut(words)) } },
            Cell::State(what, word) => { (state(what, word)) },
            Cell::Link(path, words) => { a href=(path) { (cut(words)) } },
            Cell::Time(at) => { (time::ago(*at, now)) },
            Cell::Whole(words) => { (block(words)) },
            Cell::Took(length) => { (wardroom_core::why::length(*length)) },
            Cell::Word(tone, word) => { (badge(*tone, word)) },
            Cell::Labels(labels) => {
                @if labels.is_empty() { span .quiet.none { "–" } }
                @for (key, value) in labels { span .label { (text(key)) "=" (text(value)) } " " }
            },
        }
    }
}

/// When a member was last heard.
#[must_use]
pub fn seen(seen: Seen, now: Timestamp) -> Markup {
    html! {
        @match seen {
            Seen::Unknown => { span .quiet.none { "–" } },
            Seen::Never => { "never" },
            Seen::At(at) => { (time::since(at, now)) },
        }
    }
}

/// A command to copy.
#[must_use]
pub fn command(command: &str) -> Markup {
    html! {
        div .command {
            code { (text(command)) }
            button .needs-script type="button" data-copy { (icon("copy")) span { "Copy" } }
        }
    }
}

/// What has to be said before anything else.
#[must_use]
pub fn banner(tone: Tone, said: &Markup) -> Markup {
    html! { div .banner.(tone.class_name()) { (icon::of(tone)) div .said { (said) } } }
}

/// A bar of parts in the proportion of their counts. A part is never too narrow to be seen.
#[must_use]
pub fn bar(parts: &[(Tone, i64)], said: &str) -> Markup {
    let widths = widths(&parts.iter().map(|(_, count)| *count).collect::<Vec<_>>());
    let starts = widths.iter().scan(0, |next, width| {
        let at = *next;
        *next += width;
        Some(at)
    });
    html! {
        svg .bar viewBox="0 0 1000 8" preserveAspectRatio="none" role="img" aria-label=(said) {
            @for (((tone, _), width), at) in parts.iter().zip(&widths).zip(starts).filter(|((_, width), _)| **width > 0) {
                rect .(tone.class_name()) x=(at) y="0" width=(width - 3) height="8" {}
            }
        }
    }
}

/// How wide each part is of 1000, and at least 10 if it is there at all.
fn widths(counts: &[i64]) -> Vec<i64> {
    const LEAST: i64 = 10;
    let total: i64 = counts.iter().sum();
    let mut widths: Vec<_> = counts.iter().map(|count| count * 1000 / total.max(1)).collect();
    for (width, count) in widths.iter_mut().zip(counts) {
        if *count > 0 {
            *width = (*width).max(LEAST);
        }
    }
    // What the small ones take, and what rounding lost, is the largest one's.
    let over = widths.iter().sum::<i64>() - 1000;
    if total > 0
        && let Some(largest) = widths.iter_mut().max()
    {
        *largest -= over;
    }
    widths
}

/// A count as people read it: `1,204`.
#[must_use]
pub fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut written = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    if number < 0 { format!("-{written}") } else { written }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_many_are_seen() {
        for counts in [vec![1201, 3], vec![0, 5], vec![1, 1, 1], vec![100_000, 1, 1, 1, 0]] {
            let widths = widths(&counts);
            assert_eq!(widths.iter().sum::<i64>(), 1000, "{counts:?}");
            assert!(
                counts.iter().zip(&widths).all(|(count, width)| (*count > 0) == (*width >= 10)),
                "{widths:?}"
            );
        }
        assert_eq!(widths(&[]), Vec::<i64>::new());
        assert_eq!(widths(&[0, 0]), [0, 0]);
    }

    #[test]
    fn counts_have_commas() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1204, "1,204"), (1_234_567, "1,234,567"), (-1000, "-1,000")]
        {
            assert_eq!(count(number), expected);
        }
    }
}
