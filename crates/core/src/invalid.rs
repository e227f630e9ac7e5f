//! Mistakes of an input, field by field.

/// One invalid field of an input, and how to correct it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Invalid {
    /// Path of the field inside the input, e.g. `conditions[2].status`.
    pub field: String,
    /// The mistake, and what is expected.
    pub message: String,
}

impl Invalid {
    /// Names a field and what is wrong with it.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
