//! Names that another system accepts.
//!
//! Our names are less strict: `a--b` and `a.` are names of satellites. A name that is valid there stays the
//! same. Any other one becomes a marker, its readable part and a digest of the whole; a name that begins with
//! the marker itself gets a digest too, so that no two names collide.

use sha2::{Digest as _, Sha256};

/// The prefix of names with a digest.
const MARKER: &str = "x-";

/// Longest name that stays as it is, so that prefixes and paths around it fit into 255 characters.
const LONGEST: usize = 128;

/// How much of a name stays legible beside its digest.
const LEGIBLE: usize = 32;

/// A name within a pattern that both Harbor's robots and the paths of registries allow: runs of lower-case letters
/// and digits, with single separators between them.
pub(crate) fn legal(name: &str) -> String {
    if is_legal(name) && name.len() <= LONGEST && !name.starts_with(MARKER) {
        return name.to_owned();
    }
    let digest = hex(&Sha256::digest(name.as_bytes()));
    let legible: String = name.chars().filter(char::is_ascii_alphanumeric).take(LEGIBLE).collect();
    let legible = legible.to_ascii_lowercase();
    if legible.is_empty() { format!("{MARKER}{digest}") } else { format!("{MARKER}{legible}-{digest}") }
}

fn is_legal(name: &str) -> bool {
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.split(['.', '_', '-']).all(is_word)
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{is_legal, legal};

    #[test]
    fn legal_names_stay() {
        for name in ["a", "edge-01", "a.b_c-d", "7", "eu.berlin-2"] {
            assert_eq!(legal(name), name);
        }
    }

    #[test]
    fn every_name_becomes_a_legal_one_and_no_two_the_same() {
        let mut seen = BTreeSet::new();
        let long = ["a".repeat(255), "a".repeat(254), "a".repeat(128), "a".repeat(129)];
        let mut names: Vec<String> = ["a", "a-", "a--b", "a-b", "a..b", "a.", "a_", "x-a", "x-", "x", "0-."]
            .map(str::to_owned)
            .into_iter()
            .chain(long)
            .collect();
        // A name may itself look like a mapped one.
        names.extend(names.clone().iter().map(|name| legal(name)).filter(|name| name.starts_with("x-")));
        for name in &names {
            let mapped = legal(name);
            assert!(is_legal(&mapped) && mapped.len() <= 128, "{name:?} became {mapped:?}");
            assert!(seen.insert(mapped), "{name:?} meets another");
        }
    }
}
