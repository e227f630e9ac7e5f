//! Reads a report with bad fields: a bad field is dropped, not the whole report.

use std::{cell::RefCell, collections::BTreeSet, fmt};

use serde::{
    Deserializer as _,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

/// The most bad fields; a report with more is refused.
const MOST: usize = 16;

/// Returns the report without its bad fields, and their names. None if it is no object, has too many bad
/// fields, or a needed one is bad.
pub(super) fn salvage<T: DeserializeOwned>(bytes: &[u8], needed: &[&str]) -> Option<(T, BTreeSet<String>)> {
    let mut bad = BTreeSet::new();
    let mut facts = loop {
        let at = RefCell::new(String::new());
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let read = json.deserialize_map(Readable { wanted: None, bad: &bad, at: &at });
        match read {
            Ok(facts) => {
                json.end().ok()?;
                break facts;
            }
            // Malformed JSON fails at the same field again.
            Err(_) if bad.len() == MOST || !bad.insert(at.take()) => return None,
            Err(_) => {}
        }
    };
    loop {
        if bad.len() > MOST || bad.iter().any(|fact| needed.contains(&fact.as_str())) {
            return None;
        }
        match serde_path_to_error::deserialize(Value::Object(facts.clone())) {
            Ok(value) => return Some((value, bad)),
            Err(error) => {
                let path = error.path().to_string();
                let fact = path.split(['.', '[']).next().unwrap_or_default();
                facts.remove(fact)?;
                bad.insert(fact.to_owned());
            }
        }
    }
}

/// Returns some fields of a report and skips the others. None if it is no report.
pub(super) fn only<T: DeserializeOwned>(bytes: &[u8], wanted: &[&str]) -> Option<T> {
    let (bad, at) = (BTreeSet::new(), RefCell::default());
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let facts = json.deserialize_map(Readable { wanted: Some(wanted), bad: &bad, at: &at }).ok()?;
    json.end().ok()?;
    T::deserialize(Value::Object(facts)).ok()
}

/// Deserializes an object without some of its fields, and remembers the current field.
struct Readable<'a> {
    /// Other fields are skipped.
    wanted: Option<&'a [&'a str]>,
    bad: &'a BTreeSet<String>,
    at: &'a RefCell<String>,
}

impl<'de> Visitor<'de> for Readable<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut facts = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.at.replace(name.clone());
            let is_wanted = self.wanted.is_none_or(|wanted| wanted.contains(&name.as_str()));
            if !is_wanted || self.bad.contains(&name) {
                members.next_value::<IgnoredAny>()?;
            } else {
                let value = members.next_value()?;
                facts.insert(name, value);
            }
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{only, salvage};

    #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Report {
        interval: Option<String>,
        images: Option<u64>,
        load: Option<f64>,
    }

    fn read(text: &str) -> Option<(Report, Vec<String>)> {
        let (report, bad) = salvage(text.as_bytes(), &["interval"])?;
        Some((report, bad.into_iter().collect()))
    }

    #[test]
    fn a_bad_fact_costs_itself() {
        let good = Report { interval: Some("1m".to_owned()), images: None, load: Some(0.5) };
        for images in ["-1", "1e999", "\"three\"", "[1]", "18446744073709551616"] {
            let text = format!(r#"{{"interval": "1m", "images": {images}, "load": 0.5}}"#);
            assert_eq!(read(&text), Some((good.clone(), vec!["images".to_owned()])), "{images}");
        }
        let both = read(r#"{"images": 1e999, "load": 1e999}"#).unwrap();
        assert_eq!(both, (Report::default(), vec!["images".to_owned(), "load".to_owned()]));
    }

    #[test]
    fn unwanted_fields_are_skipped() {
        let interval = |text: &str| only::<Report>(text.as_bytes(), &["interval"]);
        let found = Report { interval: Some("1m".to_owned()), ..Report::default() };
        assert_eq!(interval(r#"{"images": "three", "interval": "1m", "load": [1]}"#), Some(found));
        assert_eq!(interval(r#"{"images": 3}"#), Some(Report::default()));
        for text in [r#"{"interval": 3}"#, r#"{"interval": "1m""#, "[]", ""] {
            assert_eq!(interval(text), None, "{text}");
        }
    }

    #[test]
    fn nonsense_is_not_salvaged() {
        for text in [r#"{"images": 1"#, "[1]", "1", "", r#"{"images": oops}"#, r#"{"interval": 3}"#] {
            assert_eq!(read(text), None, "{text}");
        }
        let many: Vec<_> = (0..17).map(|number| format!(r#""f{number}": 1e999"#)).collect();
        assert_eq!(read(&format!("{{{}}}", many.join(","))), None);
    }
}
