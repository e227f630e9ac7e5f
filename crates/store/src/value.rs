//! Parameters and rows as both databases understand them.
//!
//! Only integers and text cross this line: times, hashes and JSON are text, so that both databases hold the
//! same bytes and one statement serves both.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    /// A text array; PostgreSQL only.
    Texts(Vec<String>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Self {
        Self::Text(time_text(value))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A borrowed parameter.
#[derive(Clone, Debug)]
pub(crate) enum Param<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    /// Arrays; PostgreSQL only.
    Texts(Vec<&'a str>),
    Ints(Vec<i64>),
    /// Texts, some of which are missing.
    Column(Vec<Option<&'a str>>),
}

impl<'a> Param<'a> {
    /// One column of many rows, which are all integers or all texts.
    pub(crate) fn column(params: impl Iterator<Item = Self>) -> Self {
        let (mut ints, mut texts) = (Vec::new(), Vec::new());
        for param in params {
            match param {
                Self::Int(value) => ints.push(value),
                Self::Text(text) => texts.push(Some(text)),
                Self::Null | Self::Texts(_) | Self::Ints(_) | Self::Column(_) => texts.push(None),
            }
        }
        if texts.is_empty() { Self::Ints(ints) } else { Self::Column(texts) }
    }
}

impl<'a> From<Option<&'a str>> for Param<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

impl<'a> From<&'a Value> for Param<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int(value) => Self::Int(*value),
            Value::Text(text) => Self::Text(text),
            Value::Texts(texts) => Self::Texts(texts.iter().map(String::as_str).collect()),
        }
    }
}

/// `params![a, b]` turns anything a column can hold into parameters.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        Vec::<$crate::value::Value>::from([$($crate::value::Value::from($value)),*])
    };
}
pub(crate) use params;

/// One row, read column by column in the order of its statement.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    /// The columns not read yet.
    pub(crate) fn rest(self) -> Vec<Value> {
        self.0.collect()
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        match self.0.next() {
            Some(Value::Int(value)) => Ok(value),
            other => Err(unexpected("an integer", other)),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        match self.0.next() {
            Some(Value::Text(value)) => Ok(value),
            other => Err(unexpected("a text", other)),
        }
    }

    pub(crate) fn opt_text(&mut self) -> Result<Option<String>> {
        match self.0.next() {
            Some(Value::Text(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            other => Err(unexpected("a text or nothing", other)),
        }
    }

    pub(crate) fn opt_int(&mut self) -> Result<Option<i64>> {
        match self.0.next() {
            Some(Value::Int(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            other => Err(unexpected("an integer or nothing", other)),
        }
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        parse_time(&self.text()?)
    }

    pub(crate) fn opt_time(&mut self) -> Result<Option<Timestamp>> {
        self.opt_text()?.as_deref().map(parse_time).transpose()
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        parse_json(&self.text()?)
    }
}

pub(crate) fn parse_time(text: &str) -> Result<Timestamp> {
    text.parse().map_err(|error| Error::Bug(format!("a stored time does not parse: {error}")))
}

pub(crate) fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Bug(format!("stored JSON does not parse: {error}")))
}

/// The value is not part of the message: it may be a secret.
fn unexpected(wanted: &str, found: Option<Value>) -> Error {
    let found = match found {
        None => "no column",
        Some(Value::Null) => "nothing",
        Some(Value::Int(_)) => "an integer",
        Some(Value::Text(_)) => "a text",
        Some(Value::Texts(_)) => "an array",
    };
    Error::Bug(format!("expected {wanted} in a row, found {found}"))
}

/// RFC 3339 in UTC with exactly six digits: sorts as text, and is what hashes cover.
pub(crate) fn time_text(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// Returns the time as the store keeps it, so that a commit and a read return the same time.
pub(crate) fn to_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// JSON text of a value that always has one.
pub(crate) fn json_text(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Bug(format!("a value has no JSON form: {error}")))
}

/// Names and texts, as labels and filterable fields are kept.
pub(crate) type Texts = BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits_and_sort_as_text() {
        let early = Timestamp::from_microsecond(1_769_000_000_000_001).unwrap();
        let late = Timestamp::from_second(1_769_000_001).unwrap();
        assert_eq!(time_text(early), "2026-01-21T12:53:20.000001Z");
        assert!(time_text(early) < time_text(late));
        assert_eq!(time_text(late).parse::<Timestamp>().unwrap(), late);
    }
}
