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

/// Forms of ordinary characters, or characters that cannot be told from one: fullwidth, styled, phonetic and enclosed letters,
/// punctuation and symbols beside those of ASCII, accents apart from their letter, letters in parts, and the scripts whose letters
/// are those of Latin.
const DISGUISED: &[std::ops::RangeInclusive<char>] = &[
    '\u{a0}'..='\u{bf}',
    '\u{d7}'..='\u{d7}',
    '\u{f7}'..='\u{f7}',
    '\u{250}'..='\u{36f}',
    '\u{1100}'..='\u{11ff}',
    '\u{13a0}'..='\u{13ff}',
    '\u{1ab0}'..='\u{1aff}',
    '\u{1d00}'..='\u{1dff}',
    '\u{2000}'..='\u{2bff}',
    '\u{2c80}'..='\u{2cff}',
    '\u{3000}'..='\u{303f}',
    '\u{a4d0}'..='\u{a4ff}',
    '\u{ab30}'..='\u{abbf}',
    '\u{fb00}'..='\u{fb4f}',
    '\u{ff00}'..='\u{ffef}',
    '\u{10280}'..='\u{1029f}',
    '\u{1d400}'..='\u{1d7ff}',
    '\u{1f100}'..='\u{1f1ff}',
];

/// Scripts with letters like those of Latin: a word has letters of one only.
const SCRIPTS: &[(&str, std::ops::RangeInclusive<char>)] = &[
    ("Latin", 'A'..='\u{24f}'),
    ("Latin", '\u{1e00}'..='\u{1eff}'),
    ("Greek", '\u{370}'..='\u{3ff}'),
    ("Greek", '\u{1f00}'..='\u{1fff}'),
    ("Cyrillic", '\u{400}'..='\u{52f}'),
    ("Cyrillic", '\u{1c80}'..='\u{1c8f}'),
    ("Cyrillic", '\u{a640}'..='\u{a69f}'),
    ("Armenian", '\u{530}'..='\u{58f}'),
];

/// Capitals of other scripts that cannot be told from the character beside them, and signs of Katakana from those of Han.
const ALIKE: &[(&str, &str)] = &[
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺ", "ABEZHIKMNOPTYXCM"),
    ("АВЕНІЈКМОРЅСТУҮХЗԌԚԜӀҺЬ", "ABEHIJKMOPSCTYYX3GQWIHB"),
    ("ՍՏՕՈՀՅՑԶ", "USONHJGQ"),
    ("ニカロタトエハー", "二力口夕卜工八一"),
    // In many fonts, or in one case or the other, these are the same stroke or circle.
    ("0L1|", "OIII"),
];

/// Refuses a name with invisible characters, or one that history uses for other callers.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    text::check("name", name, 1..=100)?;
    let refuse = |message: String| Err(Error::invalid("name", message));
    if let Some(unseen) = name.chars().find(|character| !is_printable(*character)) {
        let code = u32::from(unseen);
        return refuse(format!("has the character U+{code:04X}, which is not printable: leave it out"));
    }
    if let Some(disguised) = name.chars().find(|character| is_disguised(*character)) {
        let code = u32::from(disguised);
        return refuse(format!(
            "has {disguised:?} (U+{code:04X}), which can be taken for another character: write an ordinary letter, 0 to 9, '-' or '.'"
        ));
    }
    if let Some((word, one, other)) = name.split(|letter: char| !letter.is_alphabetic()).find_map(mixed) {
        return refuse(format!(
            "mixes {one} and {other} letters, which look alike, in {word:?}: use letters of one script in a word"
        ));
    }
    if name.trim() != name {
        return refuse("begins or ends with a space: leave it out".to_owned());
    }
    if RESERVED.iter().any(|reserved| look(reserved) == look(name)) {
        return refuse(format!("{name:?} is reserved for callers without a token: use another"));
    }
    Ok(())
}

/// Returns a form of a name that is equal for names that look alike: case, repeated spaces, and letters that look like others are
/// ignored.
pub(crate) fn look(name: &str) -> String {
    let words: Vec<_> = name.split_whitespace().map(fold).collect();
    words.join(" ")
}

/// Upper case first: it unites letters that lower case distinguishes, such as both forms of the Greek sigma.
fn fold(word: &str) -> String {
    let capitals: String = word.to_uppercase().chars().map(alike).collect();
    capitals.to_lowercase().replace("rn", "m").replace("vv", "w")
}

fn alike(character: char) -> char {
    let stands_for = |(some, others): &(&str, &str)| {
        let place = some.chars().position(|one| one == character)?;
        others.chars().nth(place)
    };
    ALIKE.iter().find_map(stands_for).unwrap_or(character)
}

/// Whether a character is another form of an ordinary one. Digits are those of ASCII.
fn is_disguised(character: char) -> bool {
    let is_other_digit = character.is_numeric() && !character.is_ascii();
    is_other_digit || DISGUISED.iter().any(|range| range.contains(&character))
}

/// Returns a word with letters of two scripts, and the scripts.
fn mixed(word: &str) -> Option<(&str, &'static str, &'static str)> {
    let script =
        |letter: char| SCRIPTS.iter().find(|(_, range)| range.contains(&letter)).map(|(name, _)| *name);
    let mut scripts = word.chars().filter_map(script);
    let one = scripts.next()?;
    Some((word, one, scripts.find(|other| *other != one)?))
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
        for name in [
            "ada",
            "Ada Lovelace",
            "ci/deploy-2",
            "Zoë",
            "Łódź",
            "Αθήνα",
            "Москва-1",
            "हिन्दी",
            "日本",
            "it's \"x\" \\",
        ] {
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
            "anonyrnous",
            "adm1n",
            "vvorkflow",
            // Cyrillic letters among Latin ones.
            "s\u{443}stem",
            "\u{43e}ps",
            "\u{3bc}service",
            // Fullwidth, styled, Roman, Arabic, an accent apart from its letter, a hyphen that is none.
            "\u{ff4f}\u{ff50}\u{ff53}",
            "\u{1d428}\u{1d429}\u{1d42c}",
            "\u{217c}1",
            "ops\u{661}",
            "o\u{308}ps",
            "ci\u{2010}1",
            "ops\u{b2}",
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
        let alike = [
            ("ops", "0ps"),
            ("lab", "Iab"),
            ("node-1", "node-l"),
            ("arm", "arrn"),
            ("web", "vveb"),
            // Whole words of Cyrillic and Greek letters.
            ("cop", "\u{441}\u{43e}\u{440}"),
            ("TOKEN", "\u{3a4}\u{39f}\u{39a}\u{395}\u{39d}"),
            ("力", "カ"),
        ];
        for (one, other) in alike {
            assert_eq!(look(one), look(other), "{one} {other}");
        }
        assert_ne!(look("ada"), look("ad a"));
        assert_ne!(look("ops-1"), look("ops-2"));
        assert_ne!(look("ops"), look("öps"));
    }
}
