//! Hashes over several parts.

use sha2::{Digest as _, Sha256};

/// SHA-256 over several parts, unambiguously: every text has its length, every option a mark.
pub(crate) struct Encoder(Sha256);

impl Encoder {
    pub(crate) fn new(domain: &str) -> Self {
        let mut encoder = Self(Sha256::new());
        encoder.text(domain);
        encoder
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    pub(crate) fn int(&mut self, value: i64) {
        self.0.update(value.to_be_bytes());
    }

    pub(crate) fn optional(&mut self, text: Option<&str>) {
        self.0.update([u8::from(text.is_some())]);
        if let Some(text) = text {
            self.text(text);
        }
    }

    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
