//! A JSON object that is kept as the text it came in.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, value::RawValue};

/// A JSON object as it was sent: the order of its keys and the digits of its numbers stay as they are.
#[derive(Debug, Clone)]
pub struct Exact(Box<RawValue>);

impl Exact {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the object; numbers may lose digits that a double does not have.
    ///
    /// # Errors
    /// When a number has no counterpart at all, such as `1e999`.
    pub fn value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(self.as_str())
    }

    /// Keeps a JSON object.
    ///
    /// # Errors
    /// When the value is not an object.
    pub fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        Self::try_from(serde_json::value::to_raw_value(value)?)
    }
}

impl TryFrom<Box<RawValue>> for Exact {
    type Error = serde_json::Error;

    fn try_from(value: Box<RawValue>) -> Result<Self, Self::Error> {
        if value.get().starts_with('{') {
            return Ok(Self(value));
        }
        Err(de::Error::custom("expected an object"))
    }
}

/// The empty object.
impl Default for Exact {
    fn default() -> Self {
        Self(RawValue::from_string("{}".to_owned()).unwrap_or_default())
    }
}

/// Two texts are equal when they are the same to the byte.
impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Exact {}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Self::try_from(value).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Exact;

    #[test]
    fn the_text_of_an_object_stays_as_it_was_sent() {
        let text = r#"{"z":1.50,"a":123456789012345678901234567890,"e":1e400,"u":"\u0000"}"#;
        let kept: Exact = serde_json::from_str(text).expect("an object");
        assert_eq!(serde_json::to_string(&kept).expect("it is JSON"), text);
    }

    #[test]
    fn only_objects_are_kept() {
        for text in ["[]", "1", "null", "\"{}\""] {
            let error = serde_json::from_str::<Exact>(text).expect_err(text);
            assert!(error.to_string().contains("expected an object"), "{text}: {error}");
        }
        assert_eq!(Exact::of(&json!({"a": 1})).expect("an object").as_str(), r#"{"a":1}"#);
        assert_eq!(Exact::default().as_str(), "{}");
    }
}
