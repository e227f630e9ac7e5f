//! Lists in the order of a field.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;

use crate::format::Path;

/// Sorts by what a path leads to: numbers by their size, texts by their letters; what has no value comes last.
pub(crate) fn by<T: Serialize>(path: &Path, items: &mut Vec<T>) -> anyhow::Result<()> {
    let mut keyed = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        let value = serde_json::to_value(&item)?;
        let key = path.of(&value).into_iter().find(|value| !value.is_null()).cloned();
        keyed.push((key, item));
    }
    keyed.sort_by(|(one, _), (other, _)| compare(one.as_ref(), other.as_ref()));
    items.extend(keyed.into_iter().map(|(_, item)| item));
    Ok(())
}

fn compare(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one.as_f64().unwrap_or_default().total_cmp(&other.as_f64().unwrap_or_default())
        }
        (Some(Value::String(one)), Some(Value::String(other))) => one.cmp(other),
        (Some(one), Some(other)) => one.to_string().cmp(&other.to_string()),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::by;
    use crate::format::Path;

    fn check(path: &str, mut items: Vec<Value>, expected: &[i64]) {
        by(&Path::parse(path).unwrap(), &mut items).unwrap();
        let order: Vec<_> = items.iter().map(|item| item["n"].as_i64().unwrap()).collect();
        assert_eq!(order, expected, "{path}");
    }

    #[test]
    fn numbers_texts_and_nothing_have_an_order() {
        let items = vec![json!({"n": 10, "a": "b"}), json!({"n": 9, "a": null}), json!({"n": 100, "a": "a"})];
        check(".n", items.clone(), &[9, 10, 100]);
        check(".a", items.clone(), &[100, 10, 9]);
        check(".none", items, &[10, 9, 100]);
    }
}
