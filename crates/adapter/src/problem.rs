//! Problems of a configuration, each with its file, line and column.

use std::fmt;

use crate::yaml::Place;

/// A problem of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) file: String,
    pub(crate) at: Place,
    /// Such as `post.payloads[0].build.data`.
    pub(crate) field: String,
    pub(crate) why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, at, field, why } = self;
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        write!(f, "{file}:{}:{}: {field}{why}", at.line, at.column)
    }
}
