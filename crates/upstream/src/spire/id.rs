//! SPIFFE IDs: a trust domain and a path, of which every part counts.

use std::{fmt, str::FromStr};

use wardroom_spire_proto::types;

use crate::Failure;

/// An identity, such as `spiffe://example.org/satellite/region/eu/edge-01`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// The trust domain, without the scheme.
    pub trust_domain: String,
    /// The path, with its leading slash.
    pub path: String,
}

/// A text that is no SPIFFE ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SPIFFE ID such as spiffe://example.org/workload")]
pub struct NotAnId;

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let rest = text.strip_prefix("spiffe://").ok_or(NotAnId)?;
        let (domain, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Self { trust_domain: domain.to_owned(), path: path.to_owned() }.checked()
    }
}

impl Id {
    /// The same, when the characters are those that the standard allows.
    fn checked(self) -> Result<Self, NotAnId> {
        let is_domain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
        let is_path = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_path);
        let domain_is_good = !self.trust_domain.is_empty() && self.trust_domain.bytes().all(is_domain);
        let path_is_good = match self.path.strip_prefix('/') {
            Some(parts) => parts.split('/').all(is_part),
            None => self.path.is_empty(),
        };
        let is_short = self.trust_domain.len() <= 255 && self.path.len() <= 2048;
        if domain_is_good && path_is_good && is_short { Ok(self) } else { Err(NotAnId) }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}{}", self.trust_domain, self.path)
    }
}

impl From<&Id> for types::Spiffeid {
    fn from(id: &Id) -> Self {
        Self { trust_domain: id.trust_domain.clone(), path: id.path.clone() }
    }
}

impl TryFrom<Option<types::Spiffeid>> for Id {
    type Error = Failure;

    fn try_from(id: Option<types::Spiffeid>) -> Result<Self, Failure> {
        id.and_then(|id| Self { trust_domain: id.trust_domain, path: id.path }.checked().ok())
            .ok_or_else(|| Failure::Unexpected("something without a SPIFFE ID".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn identities_are_read_and_written() {
        for text in ["spiffe://example.org", "spiffe://td/a", "spiffe://td/satellite/region/eu/edge-01"] {
            assert_eq!(text.parse::<Id>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "td/a",
            "spiffe://",
            "spiffe:///a",
            "spiffe://td/",
            "spiffe://td//a",
            "spiffe://TD/a",
            "spiffe://td/a/../b",
            "spiffe://td/a?b",
            "spiffe://td/a%20",
            "spiffe://u@td/a",
            "spiffe://td:1/a",
            "http://td/a",
        ] {
            assert!(text.parse::<Id>().is_err(), "{text}");
        }
    }
}
