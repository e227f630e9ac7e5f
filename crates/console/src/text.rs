//! Text that others wrote, made harmless: escaped, isolated, and with its control characters visible.

use maud::{Markup, html};

/// The most characters of a text in a table.
const MOST: usize = 200;

/// A text in running words: controls and line breaks are visible.
#[must_use]
pub fn text(given: &str) -> Markup {
    html! { bdi { (visible(given, false)) } }
}

/// A text in running words, in which words between backticks are shown as code.
#[must_use]
pub fn prose(given: &str) -> Markup {
    let parts: Vec<_> = given.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text(given);
    }
    html! {
        bdi {
            @for (at, part) in parts.iter().enumerate() {
                @if at % 2 == 1 { code { (visible(part, false)) } } @else { (visible(part, false)) }
            }
        }
    }
}

/// A text in a table: as [`text`], and cut.
#[must_use]
pub fn cut(given: &str) -> Markup {
    match given.char_indices().nth(MOST) {
        Some((end, _)) => html! { bdi { (visible(&given[..end], false)) "…" } },
        None => text(given),
    }
}

/// A text in a box of its own, which keeps its line breaks.
#[must_use]
pub fn block(given: &str) -> Markup {
    html! { bdi .block { (visible(given, true)) } }
}

/// Replaces every character that is not seen, or that changes how its neighbours are shown, by a visible one.
#[must_use]
pub fn visible(given: &str, breaks: bool) -> String {
    let mut shown = String::with_capacity(given.len());
    for character in given.chars() {
        match character {
            '\n' | '\t' if breaks => shown.push(character),
            // The pictures of the control characters are in their order.
            '\0'..='\u{1f}' => shown.extend(char::from_u32(0x2400 + u32::from(character))),
            '\u{7f}' => shown.push('␡'),
            '\u{80}'..='\u{9f}' => shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(character))),
            _ => match mark(character) {
                Some(name) => {
                    shown.push('⟨');
                    shown.push_str(name);
                    shown.push('⟩');
                }
                None => shown.push(character),
            },
        }
    }
    shown
}

/// The name of a character that turns the direction of writing, or has no width.
const fn mark(character: char) -> Option<&'static str> {
    Some(match character {
        '\u{ad}' => "SHY",
        '\u{61c}' => "ALM",
        '\u{200b}' => "ZWSP",
        '\u{200e}' => "LRM",
        '\u{200f}' => "RLM",
        '\u{2028}' => "LS",
        '\u{2029}' => "PS",
        '\u{202a}' => "LRE",
        '\u{202b}' => "RLE",
        '\u{202c}' => "PDF",
        '\u{202d}' => "LRO",
        '\u{202e}' => "RLO",
        '\u{2060}' => "WJ",
        '\u{2066}' => "LRI",
        '\u{2067}' => "RLI",
        '\u{2068}' => "FSI",
        '\u{2069}' => "PDI",
        '\u{feff}' => "BOM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_becomes_visible() {
        for (given, expected) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\0", "␛[31mred␀"),
            ("a\u{202e}b\u{200f}", "a⟨RLO⟩b⟨RLM⟩"),
            ("a\nb\tc", "a␊b␉c"),
            ("\u{85}\u{7f}", "⟨U+0085⟩␡"),
            ("é 日本 🚀", "é 日本 🚀"),
        ] {
            assert_eq!(visible(given, false), expected);
        }
        assert_eq!(visible("a\nb", true), "a\nb");
    }

    #[test]
    fn a_text_is_escaped_isolated_and_cut() {
        assert_eq!(text("<b>\"&").into_string(), "<bdi>&lt;b&gt;&quot;&amp;</bdi>");
        let long = cut(&"é".repeat(10_000)).into_string();
        assert_eq!(long, format!("<bdi>{}…</bdi>", "é".repeat(200)));
        assert_eq!(prose("a `b<` c").into_string(), "<bdi>a <code>b&lt;</code> c</bdi>");
        assert_eq!(prose("a ` c").into_string(), "<bdi>a ` c</bdi>");
        assert_eq!(cut("short").into_string(), "<bdi>short</bdi>");
    }
}
