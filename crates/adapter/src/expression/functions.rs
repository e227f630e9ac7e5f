//! The functions of expressions: a table for the check, and what each of them does.

use std::{ops::RangeInclusive, sync::Arc};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use super::{
    Failure, Value,
    evaluate::{Evaluation, Outcome},
};

mod hyperfleet;
mod lists;
mod matching;
mod texts;

pub(super) use lists::sorted;
pub(super) use matching::matches;

/// How a function treats its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Arguments are values.
    Plain,
    /// The first argument names a variable; the second is evaluated for each element.
    Loop,
    /// The first argument names a variable; the second is evaluated at most once.
    Bind,
}

/// A function that expressions may call.
#[derive(Debug)]
pub(super) struct Function {
    name: &'static str,
    /// Whether it is called as `value.name(…)`.
    is_member: bool,
    pub(super) arguments: RangeInclusive<usize>,
    pub(super) shape: Shape,
}

const fn plain(name: &'static str, arguments: RangeInclusive<usize>) -> Function {
    Function { name, is_member: false, arguments, shape: Shape::Plain }
}

const fn member(name: &'static str, arguments: RangeInclusive<usize>) -> Function {
    Function { name, is_member: true, arguments, shape: Shape::Plain }
}

const fn looping(name: &'static str) -> Function {
    Function { name, is_member: true, arguments: 2..=2, shape: Shape::Loop }
}

const fn binding(name: &'static str) -> Function {
    Function { name, is_member: true, arguments: 2..=2, shape: Shape::Bind }
}

const TABLE: &[Function] = &[
    plain("has", 1..=1),
    plain("size", 1..=1),
    plain("int", 1..=1),
    plain("double", 1..=1),
    plain("string", 1..=1),
    plain("bool", 1..=1),
    plain("timestamp", 1..=1),
    plain("duration", 1..=1),
    plain("of", 1..=1),
    plain("none", 0..=0),
    plain("now", 0..=0),
    plain("toJson", 1..=1),
    plain("dig", 2..=2),
    plain("conditionStatus", 2..=2),
    plain("conditionAge", 2..=2),
    plain("stableFor", 3..=3),
    plain("statusFeedbackValue", 2..=2),
    plain("triState", 2..=2),
    looping("map"),
    looping("filter"),
    looping("exists"),
    looping("all"),
    looping("exists_one"),
    looping("existsOne"),
    looping("sortBy"),
    binding("optMap"),
    binding("optFlatMap"),
    member("size", 0..=0),
    member("contains", 1..=1),
    member("startsWith", 1..=1),
    member("endsWith", 1..=1),
    member("matches", 1..=1),
    member("split", 1..=2),
    member("join", 0..=1),
    member("replace", 2..=2),
    member("substring", 1..=2),
    member("lowerAscii", 0..=0),
    member("upperAscii", 0..=0),
    member("trim", 0..=0),
    member("charAt", 1..=1),
    member("indexOf", 1..=1),
    member("lastIndexOf", 1..=1),
    member("format", 1..=1),
    member("first", 0..=0),
    member("last", 0..=0),
    member("distinct", 0..=0),
    member("sort", 0..=0),
    member("reverse", 0..=0),
    member("slice", 2..=2),
    member("flatten", 0..=1),
    member("orValue", 1..=1),
    member("or", 1..=1),
    member("hasValue", 0..=0),
    member("value", 0..=0),
    member("getFullYear", 0..=0),
    member("getMonth", 0..=0),
    member("getDate", 0..=0),
    member("getDayOfMonth", 0..=0),
    member("getDayOfWeek", 0..=0),
    member("getDayOfYear", 0..=0),
    member("getHours", 0..=0),
    member("getMinutes", 0..=0),
    member("getSeconds", 0..=0),
    member("getMilliseconds", 0..=0),
];

/// Returns a function by its name and the way it is called.
pub(super) fn find(name: &str, is_member: bool) -> Option<&'static Function> {
    TABLE.iter().find(|function| function.name == name && function.is_member == is_member)
}

/// Returns a mistake about the type of an operand.
pub(super) fn unsuited(name: &str, value: &Value) -> Failure {
    match value {
        Value::Null => Failure::Missing(format!("the operand of `{name}` is null")),
        Value::Optional(_) => {
            Failure::Mistake(format!("`{name}` is applied to an optional value: add .orValue(…) or use `??`"))
        }
        _ => Failure::Mistake(format!("`{name}` cannot be applied to {}", value.kind())),
    }
}

/// Calls a function that takes values.
pub(super) fn plain_call(evaluation: &Evaluation<'_>, name: &str, arguments: &[Value]) -> Outcome {
    match (name, arguments) {
        ("size", [value]) => size(value),
        ("int", [value]) => int(value),
        ("double", [value]) => double(value),
        ("string", [value]) => string(value),
        ("bool", [value]) => boolean(value),
        ("timestamp", [value]) => timestamp(value),
        ("duration", [value]) => duration(value),
        ("of", [value]) => Ok(Value::Optional(Some(Arc::new(value.clone())))),
        ("none", []) => Ok(Value::none()),
        _ => hyperfleet::call(evaluation, name, arguments),
    }
}

/// Calls a function of a value.
pub(super) fn member_call(
    evaluation: &Evaluation<'_>,
    target: &Value,
    name: &str,
    arguments: &[Value],
) -> Outcome {
    match (target, name, arguments) {
        (_, "size", []) => size(target),
        (Value::Optional(value), "hasValue", []) => Ok(Value::Bool(value.is_some())),
        (Value::Optional(value), "value", []) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(Failure::Missing("an optional value is empty".to_owned())),
        },
        (Value::Optional(value), "or", [other]) => {
            Ok(if value.is_some() { target.clone() } else { other.clone() })
        }
        (Value::Text(text), "matches", [Value::Text(pattern)]) => {
            evaluation.spend((text.len() + pattern.len()) as u64 / 16)?;
            matching::matches(text, pattern)
        }
        (Value::Text(text), _, _) => texts::call(evaluation, text, name, arguments),
        (Value::List(values), _, _) => lists::call(evaluation, values, name, arguments),
        (Value::Time(time), _, []) => part(*time, name),
        (Value::Span(span), _, []) => span_part(*span, name),
        _ => Err(unsuited(name, target)),
    }
}

fn size(value: &Value) -> Outcome {
    let size = match value {
        Value::Text(text) => text.chars().count(),
        Value::List(values) => values.len(),
        Value::Map(entries) => entries.len(),
        _ => return Err(unsuited("size", value)),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// Returns a mistake about a text that does not have the form of a type.
fn unread(name: &str, form: &str) -> Failure {
    Failure::Mistake(format!("`{name}` cannot read the text: {form} is expected"))
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be within the range")]
fn int(value: &Value) -> Outcome {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Double(number) if number.abs() < 9.2e18 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => {
            Err(Failure::Mistake("`int` is applied to a number that is too large".to_owned()))
        }
        Value::Text(text) => text.parse().map(Value::Int).map_err(|_| unread("int", "an integer such as 42")),
        Value::Time(time) => Ok(Value::Int(time.as_second())),
        _ => Err(unsuited("int", value)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as CEL converts an integer")]
fn double(value: &Value) -> Outcome {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Text(text) => {
            text.parse().map(Value::Double).map_err(|_| unread("double", "a number such as 1.5"))
        }
        _ => Err(unsuited("double", value)),
    }
}

fn string(value: &Value) -> Outcome {
    match value {
        Value::Text(_) => Ok(value.clone()),
        Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::Time(_) | Value::Span(_) => {
            Ok(Value::text(texts::plain(value)))
        }
        _ => Err(unsuited("string", value)),
    }
}

fn boolean(value: &Value) -> Outcome {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::Text(text) => match &**text {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            _ => Err(unread("bool", "`true` or `false`")),
        },
        _ => Err(unsuited("bool", value)),
    }
}

fn timestamp(value: &Value) -> Outcome {
    match value {
        Value::Time(_) => Ok(value.clone()),
        Value::Text(text) => text
            .parse()
            .map(Value::Time)
            .map_err(|_| unread("timestamp", "a time such as 2026-01-31T12:00:00Z")),
        Value::Int(seconds) => Timestamp::from_second(*seconds)
            .map(Value::Time)
            .map_err(|_| Failure::Mistake("`timestamp` is applied to a number that is no time".to_owned())),
        _ => Err(unsuited("timestamp", value)),
    }
}

fn duration(value: &Value) -> Outcome {
    match value {
        Value::Span(_) => Ok(value.clone()),
        Value::Text(text) => {
            texts::span(text).map(Value::Span).ok_or_else(|| unread("duration", "a duration such as 1h30m"))
        }
        _ => Err(unsuited("duration", value)),
    }
}

/// A part of a time in UTC.
fn part(time: Timestamp, name: &str) -> Outcome {
    let zoned = time.to_zoned(TimeZone::UTC);
    let value = match name {
        "getFullYear" => i64::from(zoned.year()),
        "getMonth" => i64::from(zoned.month()) - 1,
        "getDate" => i64::from(zoned.day()),
        "getDayOfMonth" => i64::from(zoned.day()) - 1,
        "getDayOfWeek" => i64::from(zoned.weekday().to_sunday_zero_offset()),
        "getDayOfYear" => i64::from(zoned.day_of_year()) - 1,
        "getHours" => i64::from(zoned.hour()),
        "getMinutes" => i64::from(zoned.minute()),
        "getSeconds" => i64::from(zoned.second()),
        "getMilliseconds" => i64::from(zoned.millisecond()),
        _ => return Err(unsuited(name, &Value::Time(time))),
    };
    Ok(Value::Int(value))
}

/// A duration in a unit.
fn span_part(span: SignedDuration, name: &str) -> Outcome {
    let value = match name {
        "getHours" => span.as_secs() / 3600,
        "getMinutes" => span.as_secs() / 60,
        "getSeconds" => span.as_secs(),
        "getMilliseconds" => i64::from(span.subsec_millis()),
        _ => return Err(unsuited(name, &Value::Span(span))),
    };
    Ok(Value::Int(value))
}
