//! Tokens of an expression. Strings and comments are recognised here, so that nothing inside them is ever translated.

use super::Fault;

/// Longest expression, in bytes.
pub(super) const LONGEST: usize = 8 * 1024;

/// The most tokens of an expression: the parser and the evaluator recurse along them.
pub(super) const TOKENS: usize = 600;

/// Symbols of more than one character, longest first.
const SYMBOLS: &[&str] = &["??", ".?", "==", "!=", "<=", ">=", "&&", "||"];

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Number,
    Text,
    Symbol,
}

/// A token and its place in the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// The byte where it begins.
    pub(super) at: usize,
}

impl Token<'_> {
    pub(super) fn is(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }
}

/// Splits an expression into its tokens.
pub(super) fn tokens(source: &str) -> Result<Vec<Token<'_>>, Fault> {
    if source.len() > LONGEST {
        return Err(Fault::new(
            0,
            format!("is longer than {LONGEST} bytes: split it into several parameters"),
        ));
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = source[at..].chars().next() {
        if next.is_whitespace() {
            at += next.len_utf8();
            continue;
        }
        if source[at..].starts_with("//") {
            at += source[at..].find('\n').unwrap_or(source.len() - at);
            continue;
        }
        let (kind, length) = token(source, at, next)?;
        found.push(Token { kind, text: &source[at..at + length], at });
        if found.len() > TOKENS {
            let why = format!("has more than {TOKENS} names and symbols: split it into several parameters");
            return Err(Fault::new(at, why));
        }
        at += length;
    }
    Ok(found)
}

fn token(source: &str, at: usize, next: char) -> Result<(Kind, usize), Fault> {
    let rest = &source[at..];
    if let Some(length) = text(rest) {
        return length.map(|length| (Kind::Text, length)).ok_or_else(|| {
            Fault::new(at, "the text that begins here has no closing quotation mark".to_owned())
        });
    }
    if next == '_' || next.is_ascii_alphabetic() {
        let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
        return Ok((Kind::Name, rest.find(|c| !is_part(c)).unwrap_or(rest.len())));
    }
    if next.is_ascii_digit() {
        return Ok((Kind::Number, number(rest)));
    }
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return Ok((Kind::Symbol, symbol.len()));
    }
    if "()[]{}.,:?+-*/%<>!@".contains(next) {
        return Ok((Kind::Symbol, 1));
    }
    Err(Fault::new(at, format!("the character {next:?} has no place in an expression")))
}

/// Returns the length of a number such as `12`, `0x1f`, `1.5e-3` or `7u`.
fn number(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        let is_fraction = *byte == b'.' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        let is_sign = matches!(byte, b'+' | b'-')
            && length > 0
            && matches!(bytes[length - 1], b'e' | b'E')
            && !rest.starts_with("0x");
        if !(byte.is_ascii_alphanumeric() || is_fraction || is_sign) {
            break;
        }
        length += 1;
    }
    length
}

/// Returns the length of a text with its prefix and quotation marks: nothing when no text begins here, and an inner
/// nothing when it does not end.
fn text(rest: &str) -> Option<Option<usize>> {
    let prefix = rest.find(['"', '\'']).filter(|length| *length <= 2)?;
    if !rest[..prefix].chars().all(|c| matches!(c, 'r' | 'R' | 'b' | 'B')) {
        return None;
    }
    let is_raw = rest[..prefix].contains(['r', 'R']);
    let body = &rest[prefix..];
    let mark = &body[..1];
    let mark = if body.starts_with(&mark.repeat(3)) { mark.repeat(3) } else { mark.to_owned() };
    let mut at = mark.len();
    while at < body.len() {
        if body[at..].starts_with(&mark) {
            return Some(Some(prefix + at + mark.len()));
        }
        let next = body[at..].chars().next()?;
        if mark.len() == 1 && next == '\n' {
            return Some(None);
        }
        at += next.len_utf8();
        if next == '\\' && !is_raw {
            at += body[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(source: &str) -> Vec<&str> {
        tokens(source).unwrap().iter().map(|token| token.text).collect()
    }

    #[test]
    fn texts_are_one_token_whatever_they_contain() {
        assert_eq!(split(r#"a ?? "b ?? nil""#), ["a", "??", r#""b ?? nil""#]);
        assert_eq!(
            split(r#"r"\" + 'it\'s' + """a"b""" "#),
            [r#"r"\""#, "+", r"'it\'s'", "+", r#""""a"b""""#]
        );
        assert_eq!(split("a // ?? nil\n + b"), ["a", "+", "b"]);
        assert_eq!(split("rb"), ["rb"]);
    }

    #[test]
    fn symbols_and_numbers_are_whole() {
        assert_eq!(
            split("a.?b[?0] ?? c?d:e"),
            ["a", ".?", "b", "[", "?", "0", "]", "??", "c", "?", "d", ":", "e"]
        );
        assert_eq!(
            split("1.5e-3+0x1f-7u*x[0].y"),
            ["1.5e-3", "+", "0x1f", "-", "7u", "*", "x", "[", "0", "]", ".", "y"]
        );
    }

    #[test]
    fn mistakes_name_their_place() {
        for (source, at) in [("a == 'b", 5), ("a ; b", 2), ("a == \"b\n\"", 5)] {
            assert_eq!(tokens(source).unwrap_err().at, at, "{source}");
        }
        assert!(tokens(&"a".repeat(LONGEST + 1)).is_err());
        assert!(tokens(&"a ".repeat(TOKENS + 1)).is_err());
    }
}
