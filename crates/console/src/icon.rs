//! Icons: one sprite of symbols on each page, which the icons of the page refer to.

use maud::{Markup, PreEscaped, html};
use wardroom_core::tone::Tone;

/// Each symbol: its name, and its drawing in a box of 16 by 16. Lines have the colour of the text around them.
const SYMBOLS: &[(&str, &str)] = &[
    // The tones; `fill-opacity` gives a disc behind the mark.
    (
        "check",
        r#"<circle cx="8" cy="8" r="7" fill="currentColor" fill-opacity=".25" stroke="none"/><path d="m4.8 8.3 2.2 2.2 4.2-4.6" stroke-width="2"/>"#,
    ),
    (
        "turn",
        r#"<path d="M3.2 6.1A5.4 5.4 0 1 0 8 2.6H4.6" stroke-width="1.8"/><path d="M6.6.6 4.4 2.6l2.2 2"/>"#,
    ),
    ("clock", r#"<circle cx="8" cy="8" r="6.2"/><path d="M8 4.4V8l2.4 1.6"/>"#),
    ("triangle", r#"<path d="M8 1.9 14.6 13.6H1.4Z"/><path d="M8 6.2v3.4M8 11.6v.2" stroke-width="1.8"/>"#),
    (
        "cross",
        r#"<path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Z" fill="currentColor" fill-opacity=".25" stroke="none"/><path d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8" stroke-width="2"/>"#,
    ),
    (
        "shield",
        r#"<path d="M8 1.4 13.6 3v4.6c0 3.4-2.3 5.6-5.6 7-3.3-1.4-5.6-3.6-5.6-7V3Z"/><path d="M6.6 5.4v4.8m2.8-4.8v4.8"/>"#,
    ),
    ("dash", r#"<circle cx="8" cy="8" r="6.2"/><path d="M5.2 8h5.6" stroke-width="1.8"/>"#),
    (
        "question",
        r#"<circle cx="8" cy="8" r="6.4" stroke-dasharray="2.2 1.8"/><path d="M6.2 6.3A1.9 1.9 0 1 1 8 8.4v.9M8 11.3v.2"/>"#,
    ),
    // Places and things.
    ("home", r#"<path d="m2 7.4 6-5.2 6 5.2M3.6 6.4v7.2h8.8V6.4M6.6 13.4V9.6h2.8v3.8"/>"#),
    ("screen", r#"<rect x="2" y="3" width="12" height="8" rx="1"/><path d="M5.6 13.6h4.8"/>"#),
    (
        "chip",
        r#"<rect x="3.6" y="3.6" width="8.8" height="8.8" rx="1.4"/><rect x="6.2" y="6.2" width="3.6" height="3.6"/><path d="M5.8 1.4v2m4.4-2v2m-4.4 9.2v2m4.4-2v2M1.4 5.8h2m-2 4.4h2m9.2-4.4h2m-2 4.4h2"/>"#,
    ),
    (
        "server",
        r#"<rect x="2" y="2.4" width="12" height="4.8" rx="1"/><rect x="2" y="8.8" width="12" height="4.8" rx="1"/><path d="M4.6 4.8h.2m-.2 6.4h.2" stroke-width="1.8"/>"#,
    ),
    ("hexagon", r#"<path d="M8 1.4 13.8 4.7v6.6L8 14.6l-5.8-3.3V4.7Z"/><circle cx="8" cy="8" r="1.6"/>"#),
    (
        "radio",
        r#"<circle cx="8" cy="8" r="1.6"/><path d="M4.9 11.1a4.4 4.4 0 0 1 0-6.2m6.2 0a4.4 4.4 0 0 1 0 6.2M2.7 13.3a7.5 7.5 0 0 1 0-10.6m10.6 0a7.5 7.5 0 0 1 0 10.6"/>"#,
    ),
    (
        "branch",
        r#"<circle cx="4" cy="3.6" r="1.7"/><circle cx="4" cy="12.4" r="1.7"/><circle cx="12" cy="6.6" r="1.7"/><path d="M4 5.3v5.4m6.3-3.6C8.6 8 4.6 7.8 4 10.2"/>"#,
    ),
    (
        "grid",
        r#"<rect x="2" y="2" width="4.8" height="4.8"/><rect x="9.2" y="2" width="4.8" height="4.8"/><rect x="2" y="9.2" width="4.8" height="4.8"/><rect x="9.2" y="9.2" width="4.8" height="4.8"/>"#,
    ),
    (
        "book",
        r#"<rect x="2.8" y="1.8" width="10.4" height="12.4" rx="1.2"/><path d="M5.6 5.2h4.8M5.6 8h4.8m-4.8 2.8h2.8"/>"#,
    ),
    (
        "bell",
        r#"<path d="M3 11.4h10c-1.2-1.2-1.2-2.6-1.2-4.2a3.8 3.8 0 0 0-7.6 0c0 1.6 0 3-1.2 4.2ZM6.6 13.8h2.8"/>"#,
    ),
    (
        "share",
        r#"<circle cx="3.8" cy="8" r="1.8"/><circle cx="12.2" cy="3.8" r="1.8"/><circle cx="12.2" cy="12.2" r="1.8"/><path d="m5.4 7.2 5.2-2.6M5.4 8.8l5.2 2.6"/>"#,
    ),
    (
        "gear",
        r#"<circle cx="8" cy="8" r="2.2"/><path d="M8 1.8v2.4m0 7.6v2.4M1.8 8h2.4m7.6 0h2.4M3.6 3.6l1.7 1.7m5.4 5.4 1.7 1.7m0-8.8-1.7 1.7m-5.4 5.4-1.7 1.7"/>"#,
    ),
    ("person", r#"<circle cx="8" cy="5" r="2.8"/><path d="M2.8 14c.4-3 2.4-4.6 5.2-4.6s4.8 1.6 5.2 4.6"/>"#),
    ("search", r#"<circle cx="6.8" cy="6.8" r="4.6"/><path d="m10.2 10.2 4 4"/>"#),
    ("moon", r#"<path d="M13.4 9.8A6 6 0 0 1 6.2 2.6a6 6 0 1 0 7.2 7.2Z"/>"#),
    (
        "sun",
        r#"<circle cx="8" cy="8" r="3"/><path d="M8 1.2v1.6m0 10.4v1.6M1.2 8h1.6m10.4 0h1.6M3.2 3.2l1.1 1.1m7.4 7.4 1.1 1.1m0-9.6-1.1 1.1m-7.4 7.4-1.1 1.1"/>"#,
    ),
    (
        "contrast",
        r#"<circle cx="8" cy="8" r="6.2"/><path d="M8 1.8v12.4A6.2 6.2 0 0 0 8 1.8Z" fill="currentColor"/>"#,
    ),
    (
        "copy",
        r#"<rect x="5.4" y="5.4" width="8.4" height="8.4" rx="1.2"/><path d="M10.6 2.6H3.8c-.7 0-1.2.5-1.2 1.2v6.8"/>"#,
    ),
    ("menu", r#"<path d="M2.4 4.4h11.2M2.4 8h11.2M2.4 11.6h11.2"/>"#),
    (
        "chain",
        r#"<path d="m6.6 9.4 2.8-2.8M7 4.8l1.4-1.4a2.9 2.9 0 0 1 4.2 4.2L11.2 9M9 11.2l-1.4 1.4a2.9 2.9 0 0 1-4.2-4.2L4.8 7"/>"#,
    ),
    ("out", r#"<path d="M6.4 2.6H3.2v10.8h3.2m3-8 3 2.6-3 2.6M5.8 8h6.4"/>"#),
];

/// The symbols, once on each page.
#[must_use]
pub fn sprite() -> Markup {
    html! {
        svg .sprite width="0" height="0" aria-hidden="true" {
            @for (name, drawing) in SYMBOLS {
                symbol #{ "i-" (name) } viewBox="0 0 16 16" { (PreEscaped(drawing)) }
            }
        }
    }
}

/// An icon, which says nothing to readers of the screen: words beside it do.
#[must_use]
pub fn icon(name: &str) -> Markup {
    html! { svg .i aria-hidden="true" focusable="false" { use href={ "#i-" (name) } {} } }
}

/// The icon of a tone, in its colour.
#[must_use]
pub fn of(tone: Tone) -> Markup {
    html! { svg .i.(tone.class_name()) aria-hidden="true" focusable="false" { use href={ "#i-" (tone.icon()) } {} } }
}

/// The class of a tone in the style sheet.
pub trait Class {
    /// Returns it.
    fn class_name(self) -> &'static str;
}

impl Class for Tone {
    fn class_name(self) -> &'static str {
        match self {
            Self::Good => "t-good",
            Self::Work => "t-work",
            Self::Wait => "t-wait",
            Self::Warn => "t-warn",
            Self::Bad => "t-bad",
            Self::Held => "t-held",
            Self::Over => "t-over",
            Self::Unknown => "t-unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use wardroom_core::Named as _;

    use super::*;

    #[test]
    fn every_tone_has_its_symbol() {
        for tone in Tone::ALL {
            assert!(SYMBOLS.iter().any(|(name, _)| *name == tone.icon()), "{tone}");
        }
    }

    #[test]
    fn symbols_have_different_names() {
        let mut names: Vec<_> = SYMBOLS.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SYMBOLS.len());
    }
}
