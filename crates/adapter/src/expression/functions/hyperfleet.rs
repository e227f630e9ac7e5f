//! Functions that HyperFleet adds to CEL.

use jiff::Timestamp;

use super::unsuited;
use crate::expression::{
    Failure, Value,
    evaluate::{Evaluation, Outcome},
};

pub(super) fn call(evaluation: &Evaluation<'_>, name: &str, arguments: &[Value]) -> Outcome {
    match (name, arguments) {
        ("now", []) => {
            let now = Timestamp::from_second(evaluation.now().as_second()).unwrap_or_default();
            Ok(Value::text(now.to_string()))
        }
        ("toJson", [value]) => {
            evaluation.spend(value.size(evaluation.left()))?;
            Ok(Value::text(value.to_json().to_string()))
        }
        ("dig", [value, Value::Text(path)]) => Ok(dig(value, path)),
        ("conditionStatus", [conditions, Value::Text(kind)]) => {
            let status = condition(conditions, kind).and_then(|found| field(found, "status"));
            Ok(status
                .filter(|status| matches!(status, Value::Text(_)))
                .cloned()
                .unwrap_or_else(|| Value::text("Unknown")))
        }
        ("conditionAge", [conditions, Value::Text(kind)]) => {
            Ok(Value::Int(age(conditions, kind, evaluation.now()).unwrap_or(-1)))
        }
        ("stableFor", [conditions, Value::Text(kind), Value::Int(seconds)]) => {
            let is_true = condition(conditions, kind)
                .and_then(|found| field(found, "status"))
                .is_some_and(|status| status.equals(&Value::text("True")));
            let age = age(conditions, kind, evaluation.now());
            Ok(Value::Bool(is_true && age.is_some_and(|age| age >= *seconds)))
        }
        ("statusFeedbackValue", [feedback, Value::Text(name)]) => {
            Ok(feedback_value(feedback, name).unwrap_or_else(|| Value::text("")))
        }
        ("triState", [Value::Bool(is_true), Value::Bool(is_false)]) => Ok(Value::text(if *is_true {
            "True"
        } else if *is_false {
            "False"
        } else {
            "Unknown"
        })),
        (_, []) => Err(Failure::Mistake(format!("`{name}` cannot be called like this"))),
        (_, [.., last]) => Err(unsuited(name, last)),
    }
}

fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Map(entries) => entries.get(name),
        _ => None,
    }
}

/// Returns the value at a path such as `a.b.0.c`, or null.
fn dig(value: &Value, path: &str) -> Value {
    let mut found = value;
    for step in path.split('.').map(str::trim).filter(|step| !step.is_empty()) {
        let next = match found {
            Value::List(values) => step.parse::<usize>().ok().and_then(|at| values.get(at)),
            _ => field(found, step),
        };
        let Some(next) = next else { return Value::Null };
        found = next;
    }
    found.clone()
}

fn condition<'v>(conditions: &'v Value, kind: &str) -> Option<&'v Value> {
    let Value::List(conditions) = conditions else { return None };
    conditions.iter().find(|entry| field(entry, "type").is_some_and(|found| found.equals(&Value::text(kind))))
}

/// Returns for how many seconds a condition has its status.
fn age(conditions: &Value, kind: &str, now: Timestamp) -> Option<i64> {
    let Value::Text(since) = field(condition(conditions, kind)?, "last_transition_time")? else {
        return None;
    };
    let since: Timestamp = since.parse().ok()?;
    Some(now.duration_since(since).as_secs())
}

fn feedback_value(feedback: &Value, name: &str) -> Option<Value> {
    let Value::List(values) = field(feedback, "values")? else { return None };
    let named = |entry: &&Value| field(entry, "name").is_some_and(|found| found.equals(&Value::text(name)));
    let value = field(values.iter().find(named)?, "fieldValue")?;
    field(value, "string").filter(|text| matches!(text, Value::Text(_))).cloned()
}
