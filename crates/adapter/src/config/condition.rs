//! Preconditions: what has to hold before anything is applied, and what is remembered of an answer on the way.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{
    Call, FieldPath, Names,
    reader::{Fields, Reader},
};
use crate::{
    expression::{Declared, Expression},
    yaml::Node,
};

/// A precondition.
#[derive(Debug, Clone)]
pub(crate) struct Precondition {
    pub(crate) name: String,
    pub(crate) call: Option<Call>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) condition: Option<Condition>,
}

/// A value that is remembered of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    pub(crate) name: String,
    pub(crate) from: Captured,
}

/// The origin of a remembered value: the answer of the call, or the variables when there is no call.
#[derive(Debug, Clone)]
pub(crate) enum Captured {
    Field(FieldPath),
    Expression(Expression),
}

/// What has to hold.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Expression(Expression),
    All(Vec<Comparison>),
}

/// One comparison of a field with a value.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub(crate) source: String,
    pub(crate) field: FieldPath,
    pub(crate) operator: Operator,
    pub(crate) operand: Json,
}

/// An operator of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals,
    NotEquals,
    In,
    NotIn,
    Contains,
    GreaterThan,
    LessThan,
    Exists,
}

const OPERATORS: &[(&str, Operator)] = &[
    ("equals", Operator::Equals),
    ("notEquals", Operator::NotEquals),
    ("in", Operator::In),
    ("notIn", Operator::NotIn),
    ("contains", Operator::Contains),
    ("greaterThan", Operator::GreaterThan),
    ("lessThan", Operator::LessThan),
    ("exists", Operator::Exists),
];

impl Operator {
    /// Returns whether it holds between a field, which may be missing, and a value.
    pub(crate) fn holds(self, field: Option<&Json>, operand: &Json) -> Result<bool, String> {
        let null = Json::Null;
        let value = field.unwrap_or(&null);
        match self {
            Self::Exists => Ok(match value {
                Json::Null => false,
                Json::String(text) => !text.is_empty(),
                Json::Array(values) => !values.is_empty(),
                Json::Object(entries) => !entries.is_empty(),
                Json::Bool(_) | Json::Number(_) => true,
            }),
            Self::Equals => Ok(same(value, operand)),
            Self::NotEquals => Ok(!same(value, operand)),
            Self::In | Self::NotIn => {
                let Json::Array(values) = operand else {
                    return Err("a list is expected as value".to_owned());
                };
                let is_in = values.iter().any(|other| same(value, other));
                Ok(is_in == (self == Self::In))
            }
            Self::Contains => match value {
                Json::String(text) => match operand {
                    Json::String(part) => Ok(text.contains(part.as_str())),
                    _ => Err("a text contains only texts".to_owned()),
                },
                Json::Array(values) => Ok(values.iter().any(|other| same(other, operand))),
                Json::Object(entries) => Ok(operand.as_str().is_some_and(|key| entries.contains_key(key))),
                Json::Null => Ok(false),
                Json::Bool(_) | Json::Number(_) => {
                    Err("only texts, lists and objects contain anything".to_owned())
                }
            },
            Self::GreaterThan | Self::LessThan => match (value.as_f64(), operand.as_f64()) {
                (Some(left), Some(right)) if self == Self::GreaterThan => Ok(left > right),
                (Some(left), Some(right)) => Ok(left < right),
                _ if value.is_null() => Ok(false),
                _ => Err("numbers are expected".to_owned()),
            },
        }
    }
}

/// Returns whether two values are equal; numbers are compared by value.
fn same(left: &Json, right: &Json) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left.total_cmp(&right).is_eq(),
        _ => left == right,
    }
}

impl Reader {
    pub(super) fn preconditions(&mut self, fields: &Fields<'_>, names: &mut Names) -> Vec<Precondition> {
        let mut taken = BTreeSet::new();
        let nodes = self.list(fields.get("preconditions"), "preconditions").iter().enumerate();
        nodes
            .filter_map(|(at, node)| {
                self.precondition(node, &format!("preconditions[{at}]"), names, &mut taken)
            })
            .collect()
    }

    fn precondition(
        &mut self,
        node: &Node,
        path: &str,
        names: &mut Names,
        taken: &mut BTreeSet<String>,
    ) -> Option<Precondition> {
        let known = &["name", "description", "api_call", "capture", "expression", "conditions"];
        let fields = self.fields(node, path, known)?;
        let name = self.required(&fields, "name");
        if let Some(name) = &name {
            self.check_name(name, fields.place("name"), &fields.of("name"), taken);
        }
        let call = fields.get("api_call").and_then(|node| self.call(node, &fields.of("api_call"), names));
        if let (Some(name), Some(_)) = (&name, &call) {
            names.add(name);
        }
        let captures = self.captures(&fields, call.is_some(), names);
        let condition = match (fields.get("expression"), fields.get("conditions")) {
            (Some(node), None) => {
                self.expression(node, &fields.of("expression"), &names.declared).map(Condition::Expression)
            }
            (None, Some(node)) => {
                Some(Condition::All(self.comparisons(node, &fields.of("conditions"), names)))
            }
            (None, None) => {
                if fields.get("api_call").is_none() && captures.is_empty() {
                    self.note(fields.at, path, "needs `expression` or `conditions`");
                }
                None
            }
            (Some(_), Some(_)) => {
                self.note(fields.at, path, "needs `expression` or `conditions`, and not both");
                None
            }
        };
        Some(Precondition { name: name?, call, captures, condition })
    }

    fn captures(&mut self, fields: &Fields<'_>, has_call: bool, names: &mut Names) -> Vec<Capture> {
        let path = fields.of("capture");
        let mut captures = Vec::new();
        for (at, node) in self.list(fields.get("capture"), &path).iter().enumerate() {
            let path = format!("{path}[{at}]");
            let Some(fields) = self.fields(node, &path, &["name", "field", "expression", "description"])
            else {
                continue;
            };
            // Fields of an answer are not declared anywhere.
            let mut declared = names.declared.clone();
            if has_call {
                declared.open();
            }
            let name = self.required(&fields, "name");
            if let Some(name) = &name {
                self.check_name(name, fields.place("name"), &fields.of("name"), &mut BTreeSet::new());
            }
            let computed = self.capture_origin(&fields, has_call, &declared);
            if let Some(name) = name {
                names.add(&name);
                captures.extend(computed.map(|from| Capture { name, from }));
            }
        }
        captures
    }

    fn capture_origin(
        &mut self,
        fields: &Fields<'_>,
        has_call: bool,
        declared: &Declared,
    ) -> Option<Captured> {
        match (fields.get("field"), fields.get("expression")) {
            (Some(_), None) if has_call => {
                let mut open = declared.clone();
                open.open();
                self.path(fields, "field", &open).map(Captured::Field)
            }
            (Some(_), None) => self.path(fields, "field", declared).map(Captured::Field),
            (None, Some(node)) => {
                self.expression(node, &fields.of("expression"), declared).map(Captured::Expression)
            }
            _ => {
                self.note(fields.at, &fields.path, "needs `field` or `expression`, and not both");
                None
            }
        }
    }

    fn comparisons(&mut self, node: &Node, path: &str, names: &Names) -> Vec<Comparison> {
        let mut comparisons = Vec::new();
        for (at, node) in self.list(Some(node), path).iter().enumerate() {
            let Some(fields) = self.fields(node, &format!("{path}[{at}]"), &["field", "operator", "value"])
            else {
                continue;
            };
            let source = self.required(&fields, "field");
            let field = self.path(&fields, "field", &names.declared);
            self.required(&fields, "operator");
            let operator = self.word(&fields, "operator", OPERATORS);
            let operand = fields.get("value").map(Node::to_json);
            if operand.is_none() && operator.is_some_and(|operator| operator != Operator::Exists) {
                self.note(fields.at, &fields.of("value"), "is required");
            }
            if let (Some(source), Some(field), Some(operator)) = (source, field, operator) {
                comparisons.push(Comparison {
                    source,
                    field,
                    operator,
                    operand: operand.unwrap_or_default(),
                });
            }
        }
        comparisons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[test]
    fn contract_recorded_comparisons_have_the_recorded_results() {
        let Some(rows) = contract::recorded("hyperfleet-cel-oracle.jsonl") else { return };
        let mut count = 0;
        for row in rows.iter().filter(|row| row["table"] == "operator") {
            let (_, operator) = OPERATORS.iter().find(|(word, _)| row["operator"] == *word).unwrap();
            count += 1;
            let ours = operator.holds(row.get("field_value"), &row["operand"]);
            match row["expect"]["matched"].as_bool() {
                Some(expected) => assert_eq!(ours, Ok(expected), "{row}"),
                None => assert!(ours.is_err(), "{row}: {ours:?}"),
            }
        }
        assert!(count > 20, "{count} rows");
    }
}
