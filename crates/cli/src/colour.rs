//! Colours of a terminal: one for each tone. Colour is never alone: the text or a mark says the same.

use std::{ffi::OsString, io::IsTerminal as _};

use wardroom_core::tone::Tone;

/// Whether texts are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Coloured,
}

impl Paint {
    /// A text in the colour of a tone.
    pub(crate) fn toned(self, tone: Tone, text: &str) -> String {
        self.with(colour(tone), text)
    }

    /// A text in bold.
    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

const fn colour(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "32",
        Tone::Work => "34",
        Tone::Wait => "35",
        Tone::Warn => "33",
        Tone::Bad => "31",
        Tone::Held => "36",
        Tone::Over | Tone::Unknown => "90",
    }
}

/// Whether results are coloured: only on a terminal that takes colours.
pub(crate) fn of_output() -> Paint {
    let coloured = is_terminal() && takes_colours(|name| std::env::var_os(name));
    if coloured { Paint::Coloured } else { Paint::Plain }
}

/// Whether results are read on a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Returns whether the terminal takes colours and `NO_COLOR` is not set.
fn takes_colours(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && variable("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use wardroom_core::tone::Tone;

    use super::{Paint, takes_colours};

    #[test]
    fn colours_are_for_terminals() {
        let with = |set: &[(&str, &str)]| {
            takes_colours(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert!(with(&[]) && with(&[("TERM", "xterm")]) && with(&[("NO_COLOR", "")]));
        assert!(!with(&[("NO_COLOR", "1")]));
        assert!(!with(&[("TERM", "dumb")]));
    }

    #[test]
    fn a_plain_text_stays_as_it_is() {
        assert_eq!(Paint::Plain.toned(Tone::Bad, "x"), "x");
        assert_eq!(Paint::Coloured.toned(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
