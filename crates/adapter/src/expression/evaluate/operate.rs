//! Operators: arithmetic, order, membership and indexes.

use cel::common::ast::operators;

use super::{Evaluation, Outcome, optional_member};
use crate::expression::{Failure, Value, functions::unsuited};

/// Applies an operator; nothing when the name is that of a function.
pub(super) fn operate(evaluation: &Evaluation<'_>, name: &str, values: &[Value]) -> Option<Outcome> {
    let result = match (name, values) {
        (operators::LOGICAL_NOT, [Value::Bool(value)]) => Ok(Value::Bool(!value)),
        (operators::LOGICAL_NOT, [value]) => Err(unsuited("!", value)),
        (operators::NEGATE, [value]) => negate(value),
        (operators::ADD, [left, right]) => add(evaluation, left, right),
        (operators::SUBSTRACT, [left, right]) => subtract(left, right),
        (operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [left, right]) => {
            number(name, left, right)
        }
        (operators::LESS, [left, right]) => order(left, right, "<", std::cmp::Ordering::is_lt),
        (operators::LESS_EQUALS, [left, right]) => order(left, right, "<=", std::cmp::Ordering::is_le),
        (operators::GREATER, [left, right]) => order(left, right, ">", std::cmp::Ordering::is_gt),
        (operators::GREATER_EQUALS, [left, right]) => order(left, right, ">=", std::cmp::Ordering::is_ge),
        (operators::IN, [element, container]) => within(evaluation, element, container),
        (operators::INDEX, [operand, index]) => at(operand, index),
        (operators::OPT_INDEX, [operand, index]) => optional_at(operand, index),
        (operators::OPT_SELECT, [operand, Value::Text(field)]) => optional_member(operand, field),
        _ => return None,
    };
    Some(result)
}

fn overflow() -> Failure {
    Failure::Mistake("the result is outside of the range of integers".to_owned())
}

/// Returns a mistake about two operands, or what is missing when one of them is null.
fn mismatch(name: &str, left: &Value, right: &Value) -> Failure {
    for value in [left, right] {
        if matches!(value, Value::Null | Value::Optional(_)) {
            return unsuited(name, value);
        }
    }
    Failure::Mistake(format!("`{name}` cannot be applied to {} and {}", left.kind(), right.kind()))
}

fn negate(value: &Value) -> Outcome {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(number) => Ok(Value::Double(-number)),
        _ => Err(unsuited("-", value)),
    }
}

fn add(evaluation: &Evaluation<'_>, left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            evaluation.spend((left.len() + right.len()) as u64 / 64)?;
            Ok(Value::text(format!("{left}{right}")))
        }
        (Value::List(left), Value::List(right)) => {
            evaluation.spend((left.len() + right.len()) as u64)?;
            Ok(Value::list(left.iter().chain(right.iter()).cloned().collect()))
        }
        (Value::Time(time), Value::Span(span)) | (Value::Span(span), Value::Time(time)) => {
            time.checked_add(*span).map(Value::Time).map_err(|_| overflow())
        }
        (Value::Span(left), Value::Span(right)) => {
            left.checked_add(*right).map(Value::Span).ok_or_else(overflow)
        }
        _ => number(operators::ADD, left, right),
    }
}

fn subtract(left: &Value, right: &Value) -> Outcome {
    match (left, right) {
        (Value::Time(left), Value::Time(right)) => Ok(Value::Span(left.duration_since(*right))),
        (Value::Time(time), Value::Span(span)) => {
            time.checked_sub(*span).map(Value::Time).map_err(|_| overflow())
        }
        (Value::Span(left), Value::Span(right)) => {
            left.checked_sub(*right).map(Value::Span).ok_or_else(overflow)
        }
        _ => number(operators::SUBSTRACT, left, right),
    }
}

fn number(operator: &str, left: &Value, right: &Value) -> Outcome {
    let symbol = operator.trim_matches('_');
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
            if *right == 0 && matches!(operator, operators::DIVIDE | operators::MODULO) {
                return Err(Failure::Mistake(format!("`{symbol}` by zero")));
            }
            let result = match operator {
                operators::ADD => left.checked_add(*right),
                operators::SUBSTRACT => left.checked_sub(*right),
                operators::MULTIPLY => left.checked_mul(*right),
                operators::DIVIDE => left.checked_div(*right),
                _ => left.checked_rem(*right),
            };
            result.map(Value::Int).ok_or_else(overflow)
        }
        (Value::Double(left), Value::Double(right)) => match operator {
            operators::ADD => Ok(Value::Double(left + right)),
            operators::SUBSTRACT => Ok(Value::Double(left - right)),
            operators::MULTIPLY => Ok(Value::Double(left * right)),
            operators::DIVIDE => Ok(Value::Double(left / right)),
            _ => Err(Failure::Mistake("`%` needs integers".to_owned())),
        },
        _ => Err(mismatch(symbol, left, right)),
    }
}

fn order(left: &Value, right: &Value, name: &str, holds: fn(std::cmp::Ordering) -> bool) -> Outcome {
    let order = left.order(right).ok_or_else(|| mismatch(name, left, right))?;
    Ok(Value::Bool(holds(order)))
}

fn within(evaluation: &Evaluation<'_>, element: &Value, container: &Value) -> Outcome {
    match (element, container) {
        (_, Value::List(values)) => {
            evaluation.spend(values.len() as u64)?;
            Ok(Value::Bool(values.iter().any(|value| value.equals(element))))
        }
        (Value::Text(key), Value::Map(entries)) => Ok(Value::Bool(entries.contains_key(key))),
        _ => Err(mismatch("in", element, container)),
    }
}

fn at(operand: &Value, index: &Value) -> Outcome {
    match (operand, index) {
        (Value::Optional(_), _) => optional_at(operand, index),
        (Value::List(values), Value::Int(at)) => {
            let value = usize::try_from(*at).ok().and_then(|at| values.get(at));
            value.cloned().ok_or_else(|| Failure::Missing("the list has no such element".to_owned()))
        }
        (Value::Map(_), Value::Text(key)) => super::member(operand, key),
        _ => Err(mismatch("[]", operand, index)),
    }
}

fn optional_at(operand: &Value, index: &Value) -> Outcome {
    let inner = match operand {
        Value::Null | Value::Optional(None) => return Ok(Value::none()),
        Value::Optional(Some(inner)) => inner,
        other => other,
    };
    match at(inner, index) {
        Ok(value @ Value::Optional(_)) => Ok(value),
        Ok(value) => Ok(Value::some(value)),
        Err(Failure::Missing(_)) => Ok(Value::none()),
        Err(other) => Err(other),
    }
}
