//! Names of tokens: history tells callers apart by them, so no two may look alike.

use crate::platform::http::{error::Error, text};

/// Names of callers without a token in history and the log.
const RESERVED: &[&str] =
    &["system", "admin", "workflow", "node_report", "agent_report", "machine", "anonymous", "others"];

/// Characters that count as printable but are invisible, or only modify the one before.
const UNSEEN: &[std::ops::RangeInclusive<char>] = &[
    '\u{34f}'..='\u{34f}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{e0100}'..='\u{e01ef}',
];

/// Refuses a name with invisible characters, or one that history uses for other callers.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    text::check("name", name, 1..=100)?;
    let refuse = |message: String| Err(Error::invalid("name", message));
    if let Some(unseen) = name.chars().find(|character| !is_printable(*character)) {
        let code = u32::from(unseen);
        return refuse(format!("has the character U+{code:04X}, which is not printable: leave it out"));
    }
    if name.trim() != name {
        return refuse("begins or ends with a space: leave it out".to_owned());
    }
    if RESERVED.contains(&&*look(name)) {
        return refuse(format!("{name:?} is reserved for callers without a token: use another"));
    }
    Ok(())
}

/// Returns a form of a name that is equal for names that look alike: case and repeated spaces are ignored.
pub(crate) fn look(name: &str) -> String {
    let words: Vec<_> = name.split_whitespace().map(fold).collect();
    words.join(" ")
}

/// Upper case first: it unites letters that lower case distinguishes, such as both forms of the Greek sigma.
fn fold(word: &str) -> String {
    word.to_uppercase().to_lowercase()
}

/// Whether a character shows. The space is the only white space that does: all others look like it.
fn is_printable(character: char) -> bool {
    // The standard library escapes invisible characters, but combining marks only at the start of a text.
    let is_escaped = format!("a{character}").escape_debug().count() > 2;
    let shows = !is_escaped || matches!(character, '"' | '\'' | '\\');
    shows && !UNSEEN.iter().any(|range| range.contains(&character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_seen() {
        for name in ["ada", "Ada Lovelace", "ci/deploy-2", "Zoë", "हिन्दी", "日本", "it's \"x\" \\"]
        {
            check(name).unwrap();
        }
        for name in [
            "",
            " ada",
            "ada ",
            " ",
            "a\u{a0}b",
            "a\u{2003}b",
            "a\u{3000}b",
            "a\u{200b}b",
            "ada\u{202e}",
            "ad\u{ad}a",
            "ada\u{feff}",
            "ada\u{3164}",
            "ada\u{fe0f}",
            "a\tb",
            "a\u{2028}b",
            "\u{e000}",
            "system",
            "System",
            "ADMIN",
            "workflow",
            "Node_Report",
            "anonymous",
        ] {
            let Err(Error::Invalid(errors)) = check(name) else { panic!("{name:?} was taken") };
            assert_eq!(errors[0].field, "name", "{name:?}");
        }
    }

    #[test]
    fn names_that_look_alike_are_one() {
        for (one, other) in [("ada", "ADA"), ("a b", "A  b"), ("straße", "STRASSE"), ("ς", "Σ")] {
            assert_eq!(look(one), look(other));
        }
        assert_ne!(look("ada"), look("ad a"));
    }
}
