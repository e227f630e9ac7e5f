//! The functions that templates have beside those of Go.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use gotmpl::{FuncMap, TemplateError, Value};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value as Json;

use super::Values;

type Function = fn(&[Value]) -> Result<Value, TemplateError>;

/// Names, and what they do.
const TABLE: &[(&str, Function)] = &[
    ("lower", |arguments| with_text(arguments, |text| text.to_lowercase())),
    ("upper", |arguments| with_text(arguments, |text| text.to_uppercase())),
    ("title", |arguments| with_text(arguments, title)),
    ("trim", |arguments| with_text(arguments, |text| text.trim().to_owned())),
    ("quote", |arguments| with_text(arguments, |text| Json::from(text).to_string())),
    ("string", |arguments| with_text(arguments, str::to_owned)),
    ("trimPrefix", |arguments| {
        with_two(arguments, |text, part| Value::from(text.strip_prefix(part).unwrap_or(text)))
    }),
    ("trimSuffix", |arguments| {
        with_two(arguments, |text, part| Value::from(text.strip_suffix(part).unwrap_or(text)))
    }),
    ("contains", |arguments| with_two(arguments, |text, part| Value::Bool(text.contains(part)))),
    ("hasPrefix", |arguments| with_two(arguments, |text, part| Value::Bool(text.starts_with(part)))),
    ("hasSuffix", |arguments| with_two(arguments, |text, part| Value::Bool(text.ends_with(part)))),
    ("replace", replace),
    ("default", |arguments| match arguments {
        [default, value] => Ok(if value.is_truthy() { value.clone() } else { default.clone() }),
        _ => Err(wrong()),
    }),
    ("int", |arguments| number(arguments).map(|number| Value::Int(whole(number)))),
    ("int64", |arguments| number(arguments).map(|number| Value::Int(whole(number)))),
    ("float", |arguments| number(arguments).map(Value::Float)),
    ("float64", |arguments| number(arguments).map(Value::Float)),
    ("bool", |arguments| match arguments {
        [value] => match text(value).trim() {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }),
    ("date", |arguments| with_two(arguments, |layout, time| Value::from(date(layout, time)))),
    ("dateFormat", |arguments| with_two(arguments, |layout, time| Value::from(date(layout, time)))),
];

/// The functions of Go that templates have; `call` has nothing to call.
const BUILT_IN: &[&str] = &[
    "and", "or", "not", "len", "index", "slice", "print", "printf", "println", "html", "js", "urlquery",
    "eq", "ne", "lt", "le", "gt", "ge",
];

/// Returns whether there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    name == "now" || BUILT_IN.contains(&name) || TABLE.iter().any(|(known, _)| *known == name)
}

/// Returns all functions.
pub(super) fn map(now: &Arc<AtomicI64>) -> FuncMap {
    let mut map = FuncMap::new();
    for (name, function) in TABLE {
        map.insert((*name).to_owned(), Arc::new(function));
    }
    let now = Arc::clone(now);
    let read = move |_: &[Value]| {
        let now = Timestamp::from_second(now.load(Ordering::Relaxed)).unwrap_or_default();
        Ok(Value::from(now.to_string()))
    };
    map.insert("now".to_owned(), Arc::new(read));
    // Go's `printf` fills up to any width; texts here have none.
    map.insert("printf".to_owned(), Arc::new(printf));
    map
}

/// Returns the values of a template as one object.
pub(super) fn object(values: &Values) -> Value {
    let entries = values
        .by_name
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (Arc::from(name.as_str()), super::go(value)));
    Value::Map(Arc::new(entries.collect()))
}

fn wrong() -> TemplateError {
    TemplateError::Exec("wrong arguments".to_owned())
}

fn text(value: &Value) -> String {
    value.to_string()
}

fn with_text(arguments: &[Value], change: impl Fn(&str) -> String) -> Result<Value, TemplateError> {
    match arguments {
        [value] => Ok(Value::from(change(&text(value)))),
        _ => Err(wrong()),
    }
}

fn with_two(arguments: &[Value], change: impl Fn(&str, &str) -> Value) -> Result<Value, TemplateError> {
    match arguments {
        [first, second] => Ok(change(&text(first), &text(second))),
        _ => Err(wrong()),
    }
}

fn replace(arguments: &[Value]) -> Result<Value, TemplateError> {
    let [value, from, to] = arguments else { return Err(wrong()) };
    let (value, from, to) = (text(value), text(from), text(to));
    if value.len().saturating_mul(to.len().max(1)) > super::LONGEST {
        return Err(wrong());
    }
    Ok(Value::from(value.replace(&from, &to)))
}

fn title(text: &str) -> String {
    let mut is_first = true;
    let mut change = |c: char| {
        let changed = if is_first { c.to_uppercase().to_string() } else { c.to_string() };
        is_first = c.is_whitespace();
        changed
    };
    text.chars().map(&mut change).collect()
}

/// Reads a number; a text that is none is 0, as in Go's conversions of HyperFleet.
fn number(arguments: &[Value]) -> Result<f64, TemplateError> {
    match arguments {
        [Value::Bool(value)] => Ok(f64::from(u8::from(*value))),
        [value] => Ok(text(value).trim().parse().unwrap_or(0.0)),
        _ => Err(wrong()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a conversion to an integer cuts the fraction off")]
fn whole(number: f64) -> i64 {
    number as i64
}

fn printf(arguments: &[Value]) -> Result<Value, TemplateError> {
    let [Value::String(format), values @ ..] = arguments else { return Err(wrong()) };
    let mut values = values.iter();
    let mut result = String::new();
    let mut characters = format.chars();
    while let Some(next) = characters.next() {
        if next != '%' {
            result.push(next);
            continue;
        }
        match characters.next() {
            Some('%') => result.push('%'),
            Some('s' | 'd' | 'v') => result.push_str(&text(values.next().ok_or_else(wrong)?)),
            Some('q') => result.push_str(&Json::from(text(values.next().ok_or_else(wrong)?)).to_string()),
            _ => return Err(wrong()),
        }
    }
    Ok(Value::from(result))
}

/// Writes a time in a layout of Go, in UTC.
fn date(layout: &str, time: &str) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return String::new() };
    let parts = [
        ("2006", "%Y"),
        ("01", "%m"),
        ("02", "%d"),
        ("15", "%H"),
        ("04", "%M"),
        ("05", "%S"),
        ("Z07:00", "Z"),
        ("MST", "UTC"),
    ];
    let mut format = layout.replace('%', "%%");
    for (part, ours) in parts {
        format = format.replace(part, ours);
    }
    time.to_zoned(TimeZone::UTC).strftime(&format).to_string()
}
