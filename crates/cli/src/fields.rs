//! Names and values below each other, for one resource at a time.

use unicode_width::UnicodeWidthStr as _;

use crate::{output, text};

/// Writes a line for each field, their values in one column.
pub(crate) fn print(fields: &[(impl AsRef<str>, String)]) -> anyhow::Result<()> {
    let width = fields.iter().map(|(name, _)| name.as_ref().width()).max().unwrap_or_default() + 1;
    for (name, value) in fields {
        output::line(&format!("{:<width$}  {}", format!("{}:", name.as_ref()), text::clean(value)))?;
    }
    Ok(())
}
