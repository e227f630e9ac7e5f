//! A text that is never printed.

use std::fmt;

/// A password, a token or the like. Neither `Debug` nor an error shows it.
#[derive(Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "harbor", derive(serde::Deserialize), serde(transparent))]
pub struct Secret(String);

impl Secret {
    /// Takes a text as a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, for sending it on.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}
