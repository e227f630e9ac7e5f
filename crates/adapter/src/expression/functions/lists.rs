//! Functions of lists.

use std::{cmp::Ordering, sync::Arc};

use super::{texts, unsuited};
use crate::expression::{
    Failure, Value,
    evaluate::{Evaluation, Outcome},
};

pub(super) fn call(
    evaluation: &Evaluation<'_>,
    values: &Arc<Vec<Value>>,
    name: &str,
    arguments: &[Value],
) -> Outcome {
    evaluation.spend(values.len() as u64)?;
    match (name, arguments) {
        ("first", []) => Ok(values.first().cloned().map_or_else(Value::none, Value::some)),
        ("last", []) => Ok(values.last().cloned().map_or_else(Value::none, Value::some)),
        ("join", []) => join(values, ""),
        ("join", [Value::Text(separator)]) => join(values, separator),
        ("reverse", []) => Ok(Value::list(values.iter().rev().cloned().collect())),
        ("distinct", []) => {
            // Each element is compared with those before it.
            evaluation.spend(values.len() as u64 * values.len() as u64 / 2)?;
            let mut kept: Vec<Value> = Vec::new();
            for value in values.iter() {
                if !kept.iter().any(|other| other.equals(value)) {
                    kept.push(value.clone());
                }
            }
            Ok(Value::list(kept))
        }
        ("sort", []) => sorted(values.iter().map(|value| (value.clone(), value.clone())).collect()),
        ("slice", [Value::Int(from), Value::Int(to)]) => {
            let range = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
            let part = range.and_then(|(from, to)| values.get(from..to));
            let part =
                part.ok_or_else(|| Failure::Mistake("`slice` reaches outside of the list".to_owned()))?;
            Ok(Value::list(part.to_vec()))
        }
        ("flatten", []) => flatten(values, 1),
        ("flatten", [Value::Int(depth)]) => flatten(values, *depth),
        (_, [argument]) => Err(unsuited(name, argument)),
        _ => Err(unsuited(name, &Value::List(Arc::clone(values)))),
    }
}

fn join(values: &[Value], separator: &str) -> Outcome {
    let texts: Result<Vec<_>, _> = values
        .iter()
        .map(|value| match value {
            Value::Text(text) => Ok(&**text),
            _ => Err(unsuited("join", value)),
        })
        .collect();
    Ok(Value::text(texts?.join(separator)))
}

/// Returns values in the order of their keys.
pub(in crate::expression) fn sorted(mut pairs: Vec<(Value, Value)>) -> Outcome {
    let mut is_mixed = false;
    pairs.sort_by(|(left, _), (right, _)| {
        left.order(right).unwrap_or_else(|| {
            is_mixed = true;
            Ordering::Equal
        })
    });
    if is_mixed {
        return Err(Failure::Mistake("`sort` needs elements of one type that has an order".to_owned()));
    }
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
}

fn flatten(values: &[Value], depth: i64) -> Outcome {
    let mut flat = Vec::new();
    for value in values {
        match value {
            Value::List(inner) if depth > 0 => {
                if let Value::List(inner) = flatten(inner, depth - 1)? {
                    flat.extend(inner.iter().cloned());
                }
            }
            _ => flat.push(value.clone()),
        }
    }
    Ok(Value::list(flat))
}

/// Returns `%s` and `%d` of a format filled with values.
pub(super) fn format(format: &str, values: &[Value]) -> Outcome {
    let mut text = String::new();
    let mut values = values.iter();
    let mut characters = format.chars();
    while let Some(next) = characters.next() {
        if next != '%' {
            text.push(next);
            continue;
        }
        match characters.next() {
            Some('%') => text.push('%'),
            Some('s' | 'd') => {
                let value = values.next();
                let value =
                    value.ok_or_else(|| Failure::Mistake("`format` has too few values".to_owned()))?;
                text.push_str(&texts::plain(value));
            }
            _ => return Err(Failure::Mistake("`format` knows %s, %d and %% only".to_owned())),
        }
    }
    Ok(Value::text(text))
}
