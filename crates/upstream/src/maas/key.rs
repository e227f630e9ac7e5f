//! The API key, and the header that proves it: OAuth 1.0 with the signature method PLAINTEXT.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// An API key, `consumer:token:secret`; it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    consumer: String,
    token: String,
    secret: String,
}

/// Not an API key. The value is not repeated: most of it is secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an API key of MAAS has three parts with colons between them")]
pub struct KeyError;

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let parts: Vec<_> = text.trim().split(':').collect();
        match parts[..] {
            [consumer, token, secret] if !(consumer.is_empty() || token.is_empty() || secret.is_empty()) => {
                Ok(Self { consumer: consumer.into(), token: token.into(), secret: secret.into() })
            }
            _ => Err(KeyError),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The value of `Authorization` for one request: MAAS takes a nonce once, and only within 300 s of its clock.
    pub(crate) fn authorization(&self, now: Timestamp, nonce: &str) -> String {
        format!(
            "OAuth oauth_version=\"1.0\", oauth_signature_method=\"PLAINTEXT\", \
             oauth_consumer_key=\"{}\", oauth_token=\"{}\", oauth_signature=\"%26{}\", \
             oauth_nonce=\"{nonce}\", oauth_timestamp=\"{}\"",
            encode(&self.consumer),
            encode(&self.token),
            encode(&self.secret),
            now.as_second(),
        )
    }

    /// The part that must never appear in a text that is kept.
    pub(crate) fn secret(&self) -> &str {
        &self.secret
    }
}

/// The characters that OAuth percent-encodes: everything but the unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_three_parts_and_is_not_shown() {
        let key: Key = "consumer:token:s/ecret\n".parse().unwrap();
        assert_eq!(format!("{key:?}"), "Key");
        let header = key.authorization(Timestamp::constant(1_700_000_000, 0), "n1");
        assert!(header.contains("oauth_signature=\"%26s%2Fecret\""), "{header}");
        assert!(header.contains("oauth_timestamp=\"1700000000\""), "{header}");
        for wrong in ["", "a:b", "a::c", "a:b:c:d"] {
            assert_eq!(wrong.parse::<Key>(), Err(KeyError), "{wrong:?}");
        }
    }
}
