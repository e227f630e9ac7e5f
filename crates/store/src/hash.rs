//! Hashes over several parts.

use sha2::{Digest as _, Sha256};

/// SHA-256 over parts that cannot run into each other: every text carries its length, every option a mark.
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

/// Lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
