//! Merge patches, strategic merge patches and JSON patches.

use serde_json::{Map, Value};

use super::{
    reply::Refusal,
    schema::{Type, key_of},
};

/// Merges a patch: null removes, maps are merged, everything else is replaced.
pub(super) fn merge(value: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Some(map) = value.as_object_mut() else { return };
    for (name, patch) in patch {
        if patch.is_null() {
            map.remove(name);
        } else {
            merge(map.entry(name.clone()).or_insert(Value::Null), patch);
        }
    }
}

/// Merges a patch that merges lists by the keys of their items. It knows `$patch: delete` and `$patch: replace`, and
/// `$deleteFromPrimitiveList`; the order of lists stays as it is.
pub(super) fn strategic(kind: Type, value: &mut Value, patch: &Value) {
    match (kind, patch) {
        (Type::Keyed(_, keys), Value::Array(items)) => {
            if !value.is_array() {
                *value = Value::Array(Vec::new());
            }
            let Some(list) = value.as_array_mut() else { return };
            for item in items {
                let key = key_of(keys, item);
                let position = list.iter().position(|live| key_of(keys, live) == key);
                match (position, item["$patch"].as_str()) {
                    (Some(position), Some("delete")) => drop(list.remove(position)),
                    (None, Some("delete")) => {}
                    (Some(position), _) => strategic(kind.item(), &mut list[position], item),
                    (None, _) => {
                        let mut new = Value::Null;
                        strategic(kind.item(), &mut new, item);
                        list.push(new);
                    }
                }
            }
        }
        (Type::Set, Value::Array(items)) => {
            let mut list = value.as_array().cloned().unwrap_or_default();
            list.extend(
                items
                    .iter()
                    .filter(|item| !value.as_array().is_some_and(|list| list.contains(item)))
                    .cloned(),
            );
            *value = Value::Array(list);
        }
        (_, Value::Object(patch)) => {
            if !value.is_object() || patch.get("$patch").is_some_and(|order| order == "replace") {
                *value = Value::Object(Map::new());
            }
            let Some(map) = value.as_object_mut() else { return };
            for (name, patch) in patch {
                if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
                    let gone = patch.as_array().cloned().unwrap_or_default();
                    if let Some(list) = map.get_mut(list).and_then(Value::as_array_mut) {
                        list.retain(|item| !gone.contains(item));
                    }
                } else if name.starts_with('$') {
                    // Orders of lists and retained keys do not matter to this fake.
                } else if patch.is_null() {
                    map.remove(name);
                } else {
                    let field = kind.field(name).unwrap_or(Type::Any);
                    strategic(field, map.entry(name.clone()).or_insert(Value::Null), patch);
                }
            }
        }
        _ => *value = patch.clone(),
    }
}

/// Applies the operations of a JSON patch, one after the other.
pub(super) fn json(value: &mut Value, patch: &Value) -> Result<(), Refusal> {
    let failed =
        || Refusal::new(422, "Invalid", "the server rejected our request due to an error in our request");
    for operation in patch.as_array().ok_or_else(failed)? {
        let path = operation["path"].as_str().unwrap_or_default();
        let (parent, last) = path.rsplit_once('/').ok_or_else(failed)?;
        let last = last.replace("~1", "/").replace("~0", "~");
        let what = operation["op"].as_str().unwrap_or_default();
        if what == "test" {
            if value.pointer(path) != Some(&operation["value"]) {
                return Err(failed());
            }
            continue;
        }
        match (value.pointer_mut(parent).ok_or_else(failed)?, what) {
            (Value::Object(map), "add" | "replace") => drop(map.insert(last, operation["value"].clone())),
            (Value::Object(map), "remove") => drop(map.remove(&last).ok_or_else(failed)?),
            (Value::Array(list), "add") if last == "-" => list.push(operation["value"].clone()),
            (Value::Array(list), what) => {
                let index: usize = last.parse().map_err(|_| failed())?;
                match what {
                    "add" if index <= list.len() => list.insert(index, operation["value"].clone()),
                    "replace" if index < list.len() => list[index] = operation["value"].clone(),
                    "remove" if index < list.len() => drop(list.remove(index)),
                    _ => return Err(failed()),
                }
            }
            _ => return Err(failed()),
        }
    }
    Ok(())
}
