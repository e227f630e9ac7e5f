//! Raw values laid over each other: default < file < environment < flags.

use toml::{Table, Value};

use super::{ConfigError, DEFAULT, Sources, resolving::Wrong};

/// Every value that holds.
pub(super) fn merged(sources: &Sources) -> Result<Table, ConfigError> {
    let default = parse(DEFAULT, "the built-in default")?;
    let mut table = default.clone();
    if let Some(file) = &sources.file {
        let name = sources.file_name.as_deref().unwrap_or("the configuration file");
        overlay(&mut table, parse(file, name)?, name)?;
    }
    for (name, value) in &sources.environment {
        if let Some((section, key)) = environment_key(&table, name)?
            && !(value.is_empty() && is_never_empty(&default, &section, &key))
        {
            set(&mut table, &section, &key, value, name)?;
        }
    }
    for (key, value) in &sources.flags {
        let (section, key) = key.split_once('.').ok_or_else(|| ConfigError(format!("flag {key}")))?;
        set(&mut table, section, key, value, key)?;
    }
    Ok(table)
}

/// Keys that may be emptied, although they are not empty by default.
const MAY_BE_EMPTY: [&str; 2] = ["boot.listen", "liveness.zone_label"];

/// An empty variable counts as not set, except for keys that may be empty: service and container files often
/// contain empty variables.
fn is_never_empty(default: &Table, section: &str, key: &str) -> bool {
    match default.get(section).and_then(|keys| keys.get(key)) {
        Some(Value::String(text)) => {
            !text.is_empty() && !MAY_BE_EMPTY.contains(&format!("{section}.{key}").as_str())
        }
        Some(value) => !value.is_array(),
        None => false,
    }
}

fn parse(text: &str, source: &str) -> Result<Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| ConfigError(format!("{source} is not TOML: {error}")))
}

/// Only keys that the default has exist: a typing error is an error.
fn overlay(table: &mut Table, over: Table, name: &str) -> Result<(), ConfigError> {
    let mut wrong = Wrong::default();
    for (section, values) in over {
        wrong.note(lay(table, &section, values));
    }
    if wrong.0.is_empty() { Ok(()) } else { Err(ConfigError(format!("{name}: {}", wrong.said()))) }
}

fn lay(table: &mut Table, section: &str, values: Value) -> Result<(), ConfigError> {
    let Value::Table(values) = values else {
        return Err(ConfigError(format!("{section}: is a section, write [{section}]")));
    };
    let sections = names(table);
    let known = table.get_mut(section).and_then(Value::as_table_mut);
    let known =
        known.ok_or_else(|| ConfigError(format!("[{section}]: no such section; there are {sections}")))?;
    let mut wrong = Wrong::default();
    for (key, value) in values {
        wrong.note(put(known, section, key, value));
    }
    if wrong.0.is_empty() { Ok(()) } else { Err(wrong.said()) }
}

fn put(known: &mut Table, section: &str, key: String, value: Value) -> Result<(), ConfigError> {
    let keys = || names(known);
    let default = known.get(&key);
    let default = default
        .ok_or_else(|| ConfigError(format!("{section}.{key}: no such key; [{section}] has {}", keys())))?;
    if !default.same_type(&value) {
        let (wanted, given) = (default.type_str(), value.type_str());
        return Err(ConfigError(format!("{section}.{key}: is of type {given}, must be of type {wanted}")));
    }
    known.insert(key, value);
    Ok(())
}

fn names(table: &Table) -> String {
    table.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Looks like a key of the section `server`, but is read by clients.
const OF_CLIENTS: &str = "WARDROOM_SERVER_URL";

/// A variable that names a section must also name a key of it: a typing error is an error.
fn environment_key(table: &Table, name: &str) -> Result<Option<(String, String)>, ConfigError> {
    let Some(rest) = name.strip_prefix("WARDROOM_").filter(|_| name != OF_CLIENTS) else { return Ok(None) };
    let rest = rest.to_lowercase();
    let in_section =
        |section: &String| Some(rest.strip_prefix(section.as_str())?.strip_prefix('_')?.to_owned());
    let Some((section, key)) = table.keys().find_map(|section| Some((section.clone(), in_section(section)?)))
    else {
        return Ok(None);
    };
    let keys = table.get(&section).and_then(Value::as_table);
    if keys.is_some_and(|keys| keys.contains_key(&key)) {
        return Ok(Some((section, key)));
    }
    let keys = keys.map(names).unwrap_or_default();
    Err(ConfigError(format!("{name}: no such key; [{section}] has {keys}")))
}

/// Reads a text as the type that the default has; a list is separated by commas.
fn set(table: &mut Table, section: &str, key: &str, text: &str, source: &str) -> Result<(), ConfigError> {
    let wrong = |wanted: &str| ConfigError(format!("{source}: {text:?} must be {wanted}"));
    let slot = table.get_mut(section).and_then(Value::as_table_mut).and_then(|keys| keys.get_mut(key));
    let slot = slot.ok_or_else(|| ConfigError(format!("{source}: no such key")))?;
    *slot = match slot {
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| wrong("true or false"))?),
        Value::Integer(_) => Value::Integer(text.parse().map_err(|_| wrong("a whole number"))?),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        Value::String(_) | Value::Float(_) | Value::Datetime(_) | Value::Table(_) => {
            Value::String(text.to_owned())
        }
    };
    Ok(())
}
