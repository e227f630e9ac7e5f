//! Evaluates the syntax tree of an expression within a budget.
//!
//! Every step and every part of a value that is built costs something, so that no expression takes longer than a few
//! milliseconds for what it does. A field that is missing ends the evaluation as [`Failure::Missing`], which `??`
//! and comparisons with null catch; a mistake of type is never caught by them.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use cel::{
    IdedExpr,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators},
};
use jiff::Timestamp;

use super::{
    Failure, Scope, Value,
    functions::{self, unsuited},
    translate::{FIRST, OR},
};

mod operate;

/// The steps of one evaluation.
pub(super) const BUDGET: u64 = 200_000;

/// The result of a step.
pub(super) type Outcome = Result<Value, Failure>;

/// One evaluation.
pub(super) struct Evaluation<'s> {
    scope: &'s Scope,
    left: Cell<u64>,
}

/// Variables of loops, innermost last.
type Locals<'l> = Vec<(&'l str, Value)>;

impl<'s> Evaluation<'s> {
    pub(super) fn new(scope: &'s Scope) -> Self {
        Self { scope, left: Cell::new(BUDGET) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.scope.now
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes a cost from the budget.
    pub(super) fn spend(&self, cost: u64) -> Result<(), Failure> {
        let left = self.left.get().checked_sub(cost);
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(Failure::Budget)
    }

    pub(super) fn evaluate<'e>(&self, expression: &'e IdedExpr, locals: &mut Locals<'e>) -> Outcome {
        self.spend(1)?;
        match &expression.expr {
            Expr::Literal(literal) => literal_value(literal),
            Expr::Ident(name) => self.variable(name, locals),
            Expr::Select(select) => {
                let operand = self.evaluate(&select.operand, locals)?;
                member(&operand, &select.field)
            }
            Expr::List(list) => {
                if !list.optional_indices.is_empty() {
                    return Err(unsupported());
                }
                let values: Result<Vec<_>, _> =
                    list.elements.iter().map(|element| self.evaluate(element, locals)).collect();
                Ok(Value::list(values?))
            }
            Expr::Map(map) => self.map(&map.entries, locals),
            Expr::Call(call) => self.call(call, locals),
            Expr::Unspecified | Expr::Comprehension(_) | Expr::Struct(_) => Err(unsupported()),
        }
    }

    fn variable(&self, name: &str, locals: &Locals<'_>) -> Outcome {
        let local = locals.iter().rev().find(|(local, _)| *local == name).map(|(_, value)| value);
        let found = local.or_else(|| self.scope.variables.get(name));
        found.cloned().ok_or_else(|| Failure::Missing(format!("`{name}` has no value")))
    }

    fn map<'e>(&self, entries: &'e [cel::common::ast::IdedEntryExpr], locals: &mut Locals<'e>) -> Outcome {
        let mut map = BTreeMap::new();
        for entry in entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(unsupported()) };
            let Value::Text(key) = self.evaluate(&entry.key, locals)? else {
                return Err(Failure::Mistake("a key of a map is no text".to_owned()));
            };
            map.insert(key, self.evaluate(&entry.value, locals)?);
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn call<'e>(&self, call: &'e CallExpr, locals: &mut Locals<'e>) -> Outcome {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (OR, [first, second]) => match self.present(first, locals)? {
                Some(value) => Ok(value),
                None => self.evaluate(second, locals),
            },
            (operators::LOGICAL_AND, [left, right]) => self.logical(left, right, false, locals),
            (operators::LOGICAL_OR, [left, right]) => self.logical(left, right, true, locals),
            (operators::CONDITIONAL, [condition, yes, no]) => match self.evaluate(condition, locals)? {
                Value::Bool(is_true) => self.evaluate(if is_true { yes } else { no }, locals),
                other => Err(unsuited("?:", &other)),
            },
            (operators::EQUALS, [left, right]) => self.equal(left, right, locals).map(Value::Bool),
            (operators::NOT_EQUALS, [left, right]) => {
                self.equal(left, right, locals).map(|is_equal| Value::Bool(!is_equal))
            }
            ("has", [argument]) if call.target.is_none() => self.has(argument, locals),
            (name, arguments) => self.apply(name, call.target.as_deref(), arguments, locals),
        }
    }

    /// Applies an operator or a function to its operands.
    fn apply<'e>(
        &self,
        name: &str,
        target: Option<&'e IdedExpr>,
        arguments: &'e [IdedExpr],
        locals: &mut Locals<'e>,
    ) -> Outcome {
        // `optional.of(x)` is a function with a long name.
        let target = target.filter(|target| target.expr != Expr::Ident("optional".to_owned()));
        let Some(target) = target else {
            let values: Result<Vec<_>, _> = arguments.iter().map(|one| self.evaluate(one, locals)).collect();
            let values = values?;
            let result = match operate::operate(self, name, &values) {
                Some(result) => result,
                None => functions::plain_call(self, name, &values),
            }?;
            return Ok(result);
        };
        let target = self.evaluate(target, locals)?;
        if let (Some(variable), [_, body]) = (variable_of(name, arguments), arguments) {
            return self.bind(name, &target, variable, body, locals);
        }
        if let ("orValue", Value::Optional(value), [other]) = (name, &target, arguments) {
            return match value {
                Some(value) => Ok((**value).clone()),
                None => self.evaluate(other, locals),
            };
        }
        let values: Result<Vec<_>, _> = arguments.iter().map(|one| self.evaluate(one, locals)).collect();
        functions::member_call(self, &target, name, &values?)
    }

    /// Evaluates a body with a variable.
    fn bind<'e>(
        &self,
        name: &str,
        target: &Value,
        variable: &'e str,
        body: &'e IdedExpr,
        locals: &mut Locals<'e>,
    ) -> Outcome {
        if let ("optMap" | "optFlatMap", Value::Optional(value)) = (name, target) {
            let Some(value) = value else { return Ok(Value::none()) };
            let result = self.with(variable, (**value).clone(), body, locals)?;
            return Ok(if name == "optMap" { Value::some(result) } else { result });
        }
        let elements: Vec<Value> = match target {
            Value::List(values) => values.to_vec(),
            // Loops over a map see its keys.
            Value::Map(entries) => entries.keys().map(|key| Value::Text(Arc::clone(key))).collect(),
            Value::Null if name == FIRST => Vec::new(),
            _ => return Err(unsuited(if name == FIRST { "[?(…)]" } else { name }, target)),
        };
        match name {
            "map" => {
                let mut values = Vec::with_capacity(elements.len());
                for element in elements {
                    let value = self.with(variable, element, body, locals)?;
                    self.spend(value.size(self.left()))?;
                    values.push(value);
                }
                Ok(Value::list(values))
            }
            "sortBy" => {
                let mut pairs = Vec::with_capacity(elements.len());
                for element in elements {
                    pairs.push((self.with(variable, element.clone(), body, locals)?, element));
                }
                functions::sorted(pairs)
            }
            _ => self.select(name, elements, variable, body, locals),
        }
    }

    /// Loops whose body says yes or no.
    fn select<'e>(
        &self,
        name: &str,
        elements: Vec<Value>,
        variable: &'e str,
        body: &'e IdedExpr,
        locals: &mut Locals<'e>,
    ) -> Outcome {
        let mut kept = Vec::new();
        let mut failure = None;
        for element in elements {
            let is_true = match self.with(variable, element.clone(), body, locals) {
                Ok(Value::Bool(is_true)) => is_true,
                Ok(other) => return Err(unsuited(name, &other)),
                // An element without the field is no match of a filter; `exists` and `all` go on, as CEL does.
                Err(Failure::Missing(_)) if name == FIRST => false,
                Err(Failure::Budget) => return Err(Failure::Budget),
                Err(other) if matches!(name, "exists" | "all") => {
                    failure = Some(other);
                    continue;
                }
                Err(other) => return Err(other),
            };
            match (name, is_true) {
                (FIRST, true) => return Ok(element),
                ("exists", true) => return Ok(Value::Bool(true)),
                ("all", false) => return Ok(Value::Bool(false)),
                (_, true) => kept.push(element),
                (_, false) => {}
            }
        }
        match (name, failure) {
            (_, Some(failure)) => Err(failure),
            (FIRST, None) => Err(Failure::Missing("no element matches the filter".to_owned())),
            ("filter", None) => Ok(Value::list(kept)),
            ("exists", None) => Ok(Value::Bool(false)),
            ("all", None) => Ok(Value::Bool(true)),
            (_, None) => Ok(Value::Bool(kept.len() == 1)),
        }
    }

    fn with<'e>(
        &self,
        variable: &'e str,
        value: Value,
        body: &'e IdedExpr,
        locals: &mut Locals<'e>,
    ) -> Outcome {
        locals.push((variable, value));
        let result = self.evaluate(body, locals);
        locals.pop();
        result
    }

    /// Evaluates an operand: nothing when it is missing or null.
    fn present<'e>(&self, operand: &'e IdedExpr, locals: &mut Locals<'e>) -> Result<Option<Value>, Failure> {
        match self.evaluate(operand, locals) {
            Ok(Value::Null | Value::Optional(None)) | Err(Failure::Missing(_)) => Ok(None),
            Ok(Value::Optional(Some(value))) => Ok(Some((*value).clone())),
            Ok(value) => Ok(Some(value)),
            Err(other) => Err(other),
        }
    }

    /// Compares; null and missing are alike beside `null` and `nil`.
    fn equal<'e>(
        &self,
        left: &'e IdedExpr,
        right: &'e IdedExpr,
        locals: &mut Locals<'e>,
    ) -> Result<bool, Failure> {
        let is_null = |operand: &IdedExpr| operand.expr == Expr::Literal(LiteralValue::Null);
        if is_null(right) {
            return Ok(self.present(left, locals)?.is_none());
        }
        if is_null(left) {
            return Ok(self.present(right, locals)?.is_none());
        }
        let (left, right) = (self.evaluate(left, locals)?, self.evaluate(right, locals)?);
        self.spend(left.size(self.left()).min(right.size(self.left())))?;
        match (&left, &right) {
            (Value::Optional(_), Value::Optional(_)) => Ok(left.equals(&right)),
            (Value::Optional(_), _) | (_, Value::Optional(_)) => Err(unsuited("==", &Value::none())),
            _ => Ok(left.equals(&right)),
        }
    }

    /// `&&` and `||`: one side that decides is enough, as in CEL.
    fn logical<'e>(
        &self,
        left: &'e IdedExpr,
        right: &'e IdedExpr,
        decisive: bool,
        locals: &mut Locals<'e>,
    ) -> Outcome {
        let name = if decisive { "||" } else { "&&" };
        let side = |result: Outcome| match result {
            Ok(Value::Bool(value)) => Ok(value),
            Ok(other) => Err(unsuited(name, &other)),
            Err(failure) => Err(failure),
        };
        let first = match side(self.evaluate(left, locals)) {
            Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
            Err(Failure::Budget) => return Err(Failure::Budget),
            first => first,
        };
        let second = side(self.evaluate(right, locals));
        match (first, second) {
            (_, Ok(value)) if value == decisive => Ok(Value::Bool(decisive)),
            (_, Err(Failure::Budget)) => Err(Failure::Budget),
            // A mistake is told before something that is missing.
            (Err(mistake @ Failure::Mistake(_)), _) | (_, Err(mistake @ Failure::Mistake(_))) => Err(mistake),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
            (Ok(_), Ok(_)) => Ok(Value::Bool(!decisive)),
        }
    }

    /// `has(a.b)`: whether the last field is there and not null.
    fn has<'e>(&self, argument: &'e IdedExpr, locals: &mut Locals<'e>) -> Outcome {
        let Expr::Select(select) = &argument.expr else {
            return Err(Failure::Mistake("`has` needs a field, such as has(a.b)".to_owned()));
        };
        match self.evaluate(&select.operand, locals)? {
            Value::Null => Ok(Value::Bool(false)),
            operand => match member(&operand, &select.field) {
                Ok(Value::Optional(value)) => Ok(Value::Bool(value.is_some())),
                Ok(value) => Ok(Value::Bool(value != Value::Null)),
                Err(Failure::Missing(_)) => Ok(Value::Bool(false)),
                Err(other) => Err(other),
            },
        }
    }
}

/// Returns the variable of a call that binds one.
fn variable_of<'e>(name: &str, arguments: &'e [IdedExpr]) -> Option<&'e str> {
    let binds = name == FIRST
        || functions::find(name, true).is_some_and(|function| function.shape != functions::Shape::Plain);
    match arguments {
        [IdedExpr { expr: Expr::Ident(variable), .. }, _] if binds => Some(variable),
        _ => None,
    }
}

fn unsupported() -> Failure {
    Failure::Mistake("this form of expression is not supported".to_owned())
}

/// Reads a field.
pub(super) fn member(operand: &Value, field: &str) -> Outcome {
    match operand {
        Value::Map(entries) => {
            entries.get(field).cloned().ok_or_else(|| Failure::Missing(format!("`{field}` is missing")))
        }
        Value::Null => Err(Failure::Missing(format!("`{field}` is missing: the object is null"))),
        Value::Optional(None) => Ok(Value::none()),
        Value::Optional(Some(value)) => optional_member(value, field),
        _ => Err(Failure::Mistake(format!("`{field}` cannot be read from {}", operand.kind()))),
    }
}

/// Reads a field that may be missing.
pub(super) fn optional_member(operand: &Value, field: &str) -> Outcome {
    match member(operand, field) {
        Ok(value @ Value::Optional(_)) => Ok(value),
        Ok(value) => Ok(Value::some(value)),
        Err(Failure::Missing(_)) => Ok(Value::none()),
        Err(other) => Err(other),
    }
}

fn literal_value(literal: &LiteralValue) -> Outcome {
    Ok(match literal {
        LiteralValue::Null => Value::Null,
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::UInt(value) => Value::Int(i64::try_from(*value.inner()).map_err(|_| unsupported())?),
        LiteralValue::Double(value) => Value::Double(*value.inner()),
        LiteralValue::String(value) => Value::text(value.inner()),
        LiteralValue::Bytes(_) => return Err(unsupported()),
    })
}
