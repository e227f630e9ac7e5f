//! The typed document of a resource, kept as the JSON text that the database has.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};
use crate::value::json_text;

/// JSON text that its kind can read. Each reader parses it straight into the type of the kind.
#[derive(Clone, PartialEq, Eq)]
pub struct Document(String);

impl Document {
    /// The document of a value.
    pub fn of(value: &impl Serialize) -> Result<Self> {
        json_text(value).map(Self)
    }

    /// Parses it into the kind's type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.0)
            .map_err(|error| Error::Bug(format!("the stored document is not valid: {error}")))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn from_stored(text: String) -> Self {
        Self(text)
    }
}

/// For kinds without a document.
impl Default for Document {
    fn default() -> Self {
        Self("null".to_owned())
    }
}

/// The text is omitted, because it may contain secrets.
impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").finish_non_exhaustive()
    }
}
