//! Names and values below each other, for one resource at a time.

use unicode_width::UnicodeWidthStr as _;

use crate::{output, text};

/// Writes a line for each field, their values in one column.
pub(crate) fn print(fields: &[(impl AsRef<str>, String)]) -> anyhow::Result<()> {
    indented("", fields)
}

/// Writes the fields of a layer under its name; nothing for a layer without any.
pub(crate) fn section(layer: &str, fields: &[(impl AsRef<str>, String)]) -> anyhow::Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    output::line(&format!("\n{layer}:"))?;
    indented("  ", fields)
}

fn indented(indent: &str, fields: &[(impl AsRef<str>, String)]) -> anyhow::Result<()> {
    let width = fields.iter().map(|(name, _)| name.as_ref().width()).max().unwrap_or_default() + 1;
    for (name, value) in fields {
        output::line(&format!("{indent}{:<width$}  {}", format!("{}:", name.as_ref()), text::clean(value)))?;
    }
    Ok(())
}
