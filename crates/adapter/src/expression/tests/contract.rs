//! Expressions that the real engine evaluated, replayed.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::super::{Declared, Expression, Failure, Scope, Value};
use crate::contract::recorded;

/// Expressions of the recording whose results differ here, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("", "an empty expression is no condition"),
    ("a ?? b", "the dialect of the document is understood"),
    ("s == \"x\" ?? \"y\"", "the dialect of the document is understood"),
    ("env == 'production'", "no test of ours reads an environment"),
    ("has(m[\"a\"])", "told when it is evaluated"),
    ("i.?x", "a mistake of type is told, not hidden"),
    ("conditionStatus(m, \"A\")", "no list of conditions is an unknown condition"),
    ("conditionStatus(n, \"A\")", "null and missing are alike"),
    ("conditionStatus(ml.filter(c, c.type == \"B\"), \"B\")", "an artefact of Go values"),
    (
        "statusFeedbackValue({\"values\": [{\"name\": \"a\", \"fieldValue\": {\"string\": \"lit\"}}]}, \"a\")",
        "an artefact of Go values",
    ),
    ("toJson({\"k\": m})", "an artefact of Go values"),
    ("toJson(\"<&>\")", "JSON needs no such escapes"),
    ("toJson(fd)", "a double stays a double"),
    ("string(1e21)", "written in full"),
    ("d / 0.0", "JSON has no infinity"),
    ("1u - 2u", "there are no unsigned integers"),
    ("b\"abc\"", "there are no bytes"),
    ("bytes(\"abc\")", "there are no bytes"),
    ("type(1)", "there are no types as values"),
    ("type(1) == int", "there are no types as values"),
    ("[?m.?a, ?m.?x]", "there are no optional elements"),
    ("l.map(x, x > 1, x * 10)", "filter, then map"),
    ("lists.range(0)", "no loop without an input"),
    ("l[1.0]", "an index is an integer"),
    ("s.charAt(11)", "outside of the text"),
    ("s.indexOf(\"o\", 5)", "not there"),
    ("s.replace(\"o\", \"0\", 1)", "not there"),
    ("s.reverse()", "not there"),
    ("u.reverse()", "not there"),
    ("strings.quote(\"a\\\"b\")", "not there"),
    ("timestamp(ts).getHours(\"America/New_York\")", "times are in UTC"),
    // Refused when the configuration is read, not when it is evaluated.
    ("\"A\".toLower()", "found earlier"),
    ("[1,2,3].transformList(i, v, v)", "found earlier"),
    ("m.b.bar()", "found earlier"),
    ("s.foo()", "found earlier"),
    ("math.greatest(1, 2)", "found earlier"),
];

#[test]
fn contract_recorded_expressions_have_the_recorded_results() {
    let Some(rows) = recorded("hyperfleet-cel-oracle.jsonl") else { return };
    let mut declared = Declared::default();
    declared.open();
    let (mut count, mut wrong) = (0, BTreeMap::new());
    for row in rows.iter().filter(|row| row["table"] == "cel") {
        let source = row["expr"].as_str().unwrap();
        count += 1;
        let expected = &row["expect"];
        let ours = ours(source, row, &declared);
        let theirs = match expected.get("error").and_then(Json::as_str) {
            Some(kind) => format!("error {kind}"),
            None => expected["value"].to_string(),
        };
        if DIFFERENT.iter().any(|(known, _)| source.trim() == *known) {
            continue;
        }
        if !same(&ours, &theirs) {
            wrong.insert(format!("{source} | {}", row["vars"]), format!("{ours} instead of {theirs}"));
        }
    }
    assert!(count > 500, "{count} rows");
    for (key, value) in &wrong {
        println!("{} => {value}", key.chars().take(300).collect::<String>());
    }
    assert!(wrong.is_empty(), "{} of {count} differ", wrong.len());
}

fn ours(source: &str, row: &Json, declared: &Declared) -> String {
    let expression = match Expression::new(source, declared) {
        Ok(expression) => expression,
        Err(faults) => return format!("error parse {}", faults[0].why),
    };
    let now = row["now"].as_str().unwrap_or("2026-11-19T12:00:00Z").parse().unwrap();
    let empty = json!({});
    let variables = row["vars"].as_object().unwrap_or(empty.as_object().unwrap());
    let variables = variables.iter().map(|(name, value)| (name.clone(), Value::from(value))).collect();
    match expression.evaluate(&Scope { variables, now }) {
        Ok(value) => value.to_json().to_string(),
        Err(Failure::Missing(why)) => format!("error eval missing {why}"),
        Err(other) => format!("error eval {other}"),
    }
}

fn same(ours: &str, theirs: &str) -> bool {
    if theirs.starts_with("error") {
        return ours.starts_with(theirs);
    }
    let (Ok(ours), Ok(theirs)) = (serde_json::from_str::<Json>(ours), serde_json::from_str::<Json>(theirs))
    else {
        return false;
    };
    Value::from(&ours).equals(&Value::from(&theirs))
}
