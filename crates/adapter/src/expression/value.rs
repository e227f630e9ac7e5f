//! Values of expressions. Copies are cheap, since lists and maps are shared.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Arc<str>),
    List(Arc<Vec<Value>>),
    Map(Arc<BTreeMap<Arc<str>, Value>>),
    Time(Timestamp),
    Span(SignedDuration),
    Optional(Option<Arc<Value>>),
}

impl Value {
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Arc::from(text.as_ref()))
    }

    pub(crate) fn list(values: Vec<Value>) -> Self {
        Self::List(Arc::new(values))
    }

    pub(crate) fn none() -> Self {
        Self::Optional(None)
    }

    /// Returns the optional of a value; null is nothing.
    pub(crate) fn some(value: Value) -> Self {
        match value {
            Self::Null => Self::none(),
            value => Self::Optional(Some(Arc::new(value))),
        }
    }

    /// Returns the name of the type, for messages: a message never shows a value.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Double(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
            Self::Time(_) => "a time",
            Self::Span(_) => "a duration",
            Self::Optional(_) => "an optional value",
        }
    }

    /// Returns the value as JSON; nothing is null.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Double(value) => Json::from(*value),
            Self::Text(text) => Json::from(&**text),
            Self::List(values) => values.iter().map(Self::to_json).collect(),
            Self::Map(entries) => {
                Json::Object(entries.iter().map(|(key, value)| (key.to_string(), value.to_json())).collect())
            }
            Self::Time(time) => Json::from(time.to_string()),
            Self::Span(span) => Json::from(format!("{}s", span.as_secs_f64())),
            Self::Optional(Some(value)) => value.to_json(),
        }
    }

    /// Returns whether two values are equal; numbers are compared by value.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(_) | Self::Double(_), Self::Int(_) | Self::Double(_)) => {
                self.order(other) == Some(Ordering::Equal)
            }
            (Self::List(left), Self::List(right)) => {
                left.len() == right.len()
                    && left.iter().zip(right.iter()).all(|(left, right)| left.equals(right))
            }
            (Self::Map(left), Self::Map(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| value.equals(other)))
            }
            (Self::Optional(Some(left)), Self::Optional(Some(right))) => left.equals(right),
            _ => self == other,
        }
    }

    /// Returns the order of two values of one type that has an order.
    #[expect(clippy::cast_precision_loss, reason = "as CEL compares an integer with a double")]
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(right)),
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(right),
            (Self::Int(left), Self::Double(right)) => (*left as f64).partial_cmp(right),
            (Self::Double(left), Self::Int(right)) => left.partial_cmp(&(*right as f64)),
            (Self::Text(left), Self::Text(right)) => Some(left.cmp(right)),
            (Self::Bool(left), Self::Bool(right)) => Some(left.cmp(right)),
            (Self::Time(left), Self::Time(right)) => Some(left.cmp(right)),
            (Self::Span(left), Self::Span(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }

    /// Returns how much of the budget a value costs to build, up to a limit.
    pub(crate) fn size(&self, limit: u64) -> u64 {
        let mut total = 1;
        match self {
            Self::Text(text) => total += text.len() as u64 / 64,
            Self::List(values) => {
                for value in values.iter() {
                    if total >= limit {
                        return limit;
                    }
                    total += value.size(limit - total);
                }
            }
            Self::Map(entries) => {
                for value in entries.values() {
                    if total >= limit {
                        return limit;
                    }
                    total += value.size(limit - total);
                }
            }
            Self::Optional(Some(value)) => total += value.size(limit),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Double(_)
            | Self::Time(_)
            | Self::Span(_)
            | Self::Optional(None) => {}
        }
        total.min(limit)
    }
}

impl From<&Json> for Value {
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::text(text),
            Json::Array(values) => Self::list(values.iter().map(Self::from).collect()),
            Json::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| (Arc::from(key.as_str()), Self::from(value)));
                Self::Map(Arc::new(entries.collect()))
            }
        }
    }
}
