//! YAML with the place of every value, so that a problem can be told with line and column.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value as Json;
use serde_saphyr::Spanned;

/// Longest file that is read.
pub(crate) const LONGEST: u64 = 1 << 20;

/// A place in a file; both numbers begin at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) data: Data,
}

/// The content of a value.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map and its place.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) at: Place,
    pub(crate) text: String,
}

/// Reads a document. An error has its place where the reader knows it.
pub(crate) fn read(text: &str) -> Result<Node, (Place, String)> {
    serde_saphyr::from_str(text).map_err(|error| {
        let place = error.location().map_or(Place { line: 1, column: 1 }, |location| Place {
            line: usize::try_from(location.line()).unwrap_or(1),
            column: usize::try_from(location.column()).unwrap_or(1),
        });
        let text = error.without_snippet().to_string();
        (place, text.lines().next().unwrap_or_default().to_owned())
    })
}

impl Node {
    /// Returns the value without its places.
    pub(crate) fn to_json(&self) -> Json {
        match &self.data {
            Data::Null => Json::Null,
            Data::Bool(value) => Json::from(*value),
            Data::Int(value) => Json::from(*value),
            Data::Float(value) => Json::from(*value),
            Data::Text(text) => Json::from(text.as_str()),
            Data::List(nodes) => nodes.iter().map(Self::to_json).collect(),
            Data::Map(entries) => {
                Json::Object(entries.iter().map(|(key, node)| (key.text.clone(), node.to_json())).collect())
            }
        }
    }

    /// Returns the name of the type, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a boolean",
            Data::Int(_) | Data::Float(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// Returns the place in the file of a byte of a text, however the text is written there.
    pub(crate) fn place_in(&self, file: &str, text: &str, at: usize) -> Place {
        let before = &text[..at.min(text.len())];
        let (skipped, column) = match before.rsplit_once('\n') {
            Some((lines, last)) => (lines.matches('\n').count() + 1, last.chars().count()),
            None => (0, before.chars().count()),
        };
        let written = text.lines().nth(skipped).unwrap_or_default();
        // A block begins on the line after its `|`.
        for number in [self.at.line + skipped, self.at.line + skipped + 1] {
            let source = file.lines().nth(number.saturating_sub(1)).unwrap_or_default();
            let from = if number == self.at.line { self.at.column.saturating_sub(1) } else { 0 };
            let start: usize = source.chars().take(from).map(char::len_utf8).sum();
            if let Some(found) = source[start..].find(written) {
                let indent = source[..start + found].chars().count();
                return Place { line: number, column: indent + column + 1 };
            }
        }
        self.at
    }
}

fn place(location: serde_saphyr::Location) -> Place {
    Place {
        line: usize::try_from(location.line()).unwrap_or(1),
        column: usize::try_from(location.column()).unwrap_or(1),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Data>::deserialize(deserializer)?;
        Ok(Self { at: place(spanned.referenced), data: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Data;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Int(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "larger than every integer that is kept")]
    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(i64::try_from(value).map_or(Data::Float(value as f64), Data::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Data, E> {
        Ok(Data::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Data, E> {
        Ok(Data::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
        Data::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = access.next_element()? {
            nodes.push(node);
        }
        Ok(Data::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let key = Key { at: place(key.referenced), text: key.value };
            entries.push((key, access.next_value()?));
        }
        Ok(Data::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str =
        "a: 1\nb:\n  - {c: true}\n  - \"x y\"\nd: |\n  first\n    second\ne: plain text\nf: ~\ng: 1.5\n";

    #[test]
    fn values_keep_their_types_and_places() {
        let node = read(FILE).unwrap();
        let expected = json!({"a": 1, "b": [{"c": true}, "x y"], "d": "first\n  second\n", "e": "plain text", "f": null, "g": 1.5});
        assert_eq!(node.to_json(), expected);
        let Data::Map(entries) = &node.data else { panic!() };
        let (key, text) = &entries[2];
        assert_eq!((key.text.as_str(), key.at), ("d", Place { line: 5, column: 1 }));
        let Data::Text(content) = &text.data else { panic!() };
        assert_eq!(text.place_in(FILE, content, 0), Place { line: 6, column: 3 });
        assert_eq!(text.place_in(FILE, content, 10), Place { line: 7, column: 7 });
        let Data::List(items) = &entries[1].1.data else { panic!() };
        assert_eq!(items[1].place_in(FILE, "x y", 2), Place { line: 4, column: 8 });
        assert_eq!(entries[3].1.place_in(FILE, "plain text", 6), Place { line: 8, column: 10 });
    }

    #[test]
    fn a_mistake_has_a_place() {
        let (place, text) = read("a: 1\nb: [1\nc: 2\n").unwrap_err();
        assert!(place.line >= 2 && !text.is_empty(), "{place:?} {text}");
        assert!(read("a: 1\na: 2\n").unwrap_err().1.contains("duplicate"));
    }
}
