//! Texts for terminals: without control characters, and times as ages.

use jiff::{SignedDuration, Timestamp};

/// Removes characters that could change a terminal or the reading direction; a line break becomes a space.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .filter_map(|character| if is_space(character) { Some(' ') } else { shown(character) })
        .collect()
}

fn is_space(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}')
}

fn shown(character: char) -> Option<char> {
    let turns = matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    (!character.is_control() && !turns).then_some(character)
}

/// Returns an age in its largest useful unit.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(then).max(SignedDuration::ZERO))
}

/// Returns a length of time in its largest useful unit.
pub(crate) fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7_200 => format!("{minutes}m"),
        7_200..172_800 => format!("{hours}h"),
        172_800.. => format!("{days}d"),
    }
}

/// A name and its value, written `key=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// A stage and why it is skipped, written `STAGE=COMMENT`.
pub(crate) fn skip(text: &str) -> Result<(String, String), String> {
    pair(text).map_err(|_| "write STAGE=COMMENT".to_owned())
}

/// A label to set or remove, written `key=value` or `key-`.
pub(crate) fn label(text: &str) -> Result<(String, Option<String>), String> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) => Ok((key.to_owned(), Some(value.to_owned()))),
        (None, Some(key)) => Ok((key.to_owned(), None)),
        (None, None) => Err("write key=value to set a label, key- to remove it".to_owned()),
    }
}

/// Returns a number with its noun, in the plural if needed.
pub(crate) fn count(number: i64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A time to the second.
pub(crate) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{age, clean};

    #[test]
    fn nothing_reaches_the_terminal_that_is_not_text() {
        assert_eq!(clean("a\u{1b}[31mred\u{7}\u{9b}2J"), "a[31mred2J");
        assert_eq!(clean("two\nlines\tand\u{202e}back"), "two lines andback");
        assert_eq!(clean("Zürich ✓"), "Zürich ✓");
    }

    #[test]
    fn ages_have_one_unit() {
        let then = Timestamp::UNIX_EPOCH;
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (200_000, "2d"),
            (-5, "0s"),
        ] {
            assert_eq!(age(then, then + SignedDuration::from_secs(seconds)), expected);
        }
    }
}
