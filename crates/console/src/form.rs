//! Query strings and forms: read, and written with everything encoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What stays as it is in a part of a URL.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A value as one part of a path or a query.
#[must_use]
pub fn encoded(value: &str) -> String {
    utf8_percent_encode(value, PART).to_string()
}

/// The pairs of a form or a query, in their order.
#[must_use]
pub fn read(given: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = given.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// A query string with its question mark; nothing without pairs. Empty values are left out.
#[must_use]
pub fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut written = String::new();
    for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
        written.push(if written.is_empty() { '?' } else { '&' });
        written.push_str(&format!("{}={}", encoded(name), encoded(value)));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_it_was_written() {
        let pairs = [("q", "site=berlin,rack in (a,b)"), ("state", "é&=?#"), ("none", "")];
        let written = query(pairs);
        assert!(written.starts_with("?q=site%3Dberlin%2Crack%20in%20"), "{written}");
        let read = read(&written[1..]);
        let expected: Vec<_> = pairs[..2].iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(read, expected);
        assert_eq!(query([]), "");
    }

    #[test]
    fn a_form_has_plus_signs_for_spaces() {
        assert_eq!(
            read("comment=bad+image%2C+see+%2B1&x"),
            [("comment".to_owned(), "bad image, see +1".to_owned()), ("x".to_owned(), String::new())]
        );
    }
}
