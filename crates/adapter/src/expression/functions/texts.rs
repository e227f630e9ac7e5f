//! Functions of texts.

use jiff::SignedDuration;

use super::{lists, unsuited};
use crate::expression::{
    Failure, Value,
    evaluate::{Evaluation, Outcome},
};

/// Longest text that a function may build.
const LONGEST: usize = 256 * 1024;

pub(super) fn call(evaluation: &Evaluation<'_>, text: &str, name: &str, arguments: &[Value]) -> Outcome {
    evaluation.spend(text.len() as u64 / 64)?;
    match (name, arguments) {
        ("contains", [Value::Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::Text(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::Text(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("split", [Value::Text(separator)]) => split(evaluation, text, separator, usize::MAX),
        ("split", [Value::Text(separator), Value::Int(count)]) => {
            split(evaluation, text, separator, usize::try_from(*count).unwrap_or(usize::MAX))
        }
        ("replace", [Value::Text(from), Value::Text(to)]) => {
            let count = if from.is_empty() { text.chars().count() + 1 } else { text.len() / from.len() };
            let longest = text.len().saturating_add(count.saturating_mul(to.len()));
            if longest > LONGEST {
                return Err(Failure::Budget);
            }
            Ok(Value::text(text.replace(&**from, to)))
        }
        ("substring", [Value::Int(from)]) => part(text, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => part(text, *from, Some(*to)),
        ("charAt", [Value::Int(at)]) => part(text, *at, Some(at.saturating_add(1))),
        ("indexOf", [Value::Text(part)]) => Ok(place(text, text.find(&**part))),
        ("lastIndexOf", [Value::Text(part)]) => Ok(place(text, text.rfind(&**part))),
        ("format", [Value::List(values)]) => lists::format(text, values),
        (_, arguments) => {
            let unsuitable = arguments.iter().find(|argument| !matches!(argument, Value::Text(_)));
            Err(unsuited(name, unsuitable.unwrap_or(&Value::text(""))))
        }
    }
}

fn split(evaluation: &Evaluation<'_>, text: &str, separator: &str, count: usize) -> Outcome {
    let parts: Vec<_> = match (separator, count) {
        (_, 0) => Vec::new(),
        ("", count) => text.chars().take(count).map(|c| Value::text(c.to_string())).collect(),
        (separator, count) => text.splitn(count, separator).map(Value::text).collect(),
    };
    evaluation.spend(parts.len() as u64)?;
    Ok(Value::list(parts))
}

/// A part of a text by the places of its characters.
fn part(text: &str, from: i64, to: Option<i64>) -> Outcome {
    let outside = || Failure::Mistake("an index reaches outside of the text".to_owned());
    let count = text.chars().count();
    let from = usize::try_from(from).map_err(|_| outside())?;
    let to = to.map_or(Ok(count), usize::try_from).map_err(|_| outside())?;
    if from > to || to > count {
        return Err(outside());
    }
    Ok(Value::text(text.chars().skip(from).take(to - from).collect::<String>()))
}

fn place(text: &str, found: Option<usize>) -> Value {
    let place = found.map(|at| text[..at].chars().count());
    Value::Int(place.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

/// Returns a value as people write it.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.0}"),
        Value::Double(number) => number.to_string(),
        Value::Time(time) => time.to_string(),
        other => match other.to_json() {
            serde_json::Value::String(text) => text,
            json => json.to_string(),
        },
    }
}

/// Reads a duration such as `1h30m`, `300s` or `1.5s`.
pub(super) fn span(text: &str) -> Option<SignedDuration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    if rest.is_empty() || rest.len() > 40 {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units =
            [("ms", 0.001), ("us", 0.000_001), ("ns", 0.000_000_001), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        seconds += number * factor;
    }
    SignedDuration::try_from_secs_f64(sign * seconds).ok()
}
