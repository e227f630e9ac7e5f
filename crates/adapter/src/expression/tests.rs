//! The dialect, the rules about what is missing, the budget, and the recorded results of the real engine.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Declared, Expression, Failure, Scope, Value};

mod contract;

fn scope(variables: &Json) -> Scope {
    let variables = variables.as_object().unwrap();
    Scope {
        variables: variables.iter().map(|(name, value)| (name.clone(), Value::from(value))).collect(),
        now: "2026-11-19T12:00:00Z".parse().unwrap(),
    }
}

fn open() -> Declared {
    let mut declared = Declared::default();
    declared.open();
    declared
}

fn evaluate(source: &str, variables: &Json) -> Result<Json, Failure> {
    let expression = Expression::new(source, &open()).unwrap_or_else(|faults| panic!("{source}: {faults:?}"));
    expression.evaluate(&scope(variables)).map(|value| value.to_json())
}

fn check(source: &str, variables: &Json, expected: &Json) {
    assert_eq!(evaluate(source, variables).as_ref(), Ok(expected), "{source} with {variables}");
}

#[test]
fn a_default_binds_loosest() {
    let variables = json!({"id": "7", "no": null, "t": "x ?? nil"});
    check("no ?? 'a' + id + 'b'", &variables, &json!("a7b"));
    check("id ?? 'a' + id", &variables, &json!("7"));
    check("no ?? no ?? 'c'", &variables, &json!("c"));
    check("no == nil ? 'gone' : no ?? 'd'", &variables, &json!("gone"));
    check("(no ?? 1) + 1", &variables, &json!(2));
    check("t == 'x ?? nil' // ?? 1", &variables, &json!(true));
    check("[no ?? 1, {'k': no ?? 2}.k]", &variables, &json!([1, 2]));
    check("id == '7' ? no ?? 'inner' : 'b'", &variables, &json!("inner"));
}

#[test]
fn null_and_missing_are_alike() {
    for conditions in
        [json!({"x": {}}), json!({"x": null}), json!({"x": {"a": null}}), json!({"x": {"a": []}})]
    {
        check("x.a[?(@.type=='T')].f ?? 'd'", &conditions, &json!("d"));
        check("x.a[?(@.type=='T')].f != nil", &conditions, &json!(false));
        check("x.a[?(@.type=='T')].f == null", &conditions, &json!(true));
        check("has(x.b)", &conditions, &json!(false));
        check("x.?b.?c.orValue(1)", &conditions, &json!(1));
    }
    check("x.?a.hasValue()", &json!({"x": {"a": null}}), &json!(false));
}

#[test]
fn a_filter_is_its_first_match_or_nothing() {
    let list = json!({"c": [{"status": "?"}, {"type": "T", "n": 1}, {"type": "T", "n": 2}, {"type": null}]});
    check("c[?(@.type=='T')].n", &list, &json!(1));
    check("c[?(@.type == 'T' && @.n > 1)].n", &list, &json!(2));
    check("c[?@.n == 2].type", &list, &json!("T"));
    check("c[?(@.type=='U')] == nil", &list, &json!(true));
    check("[[{'a': 1}]][?(@[?(@.a == 1)] != nil)][0].a", &list, &json!(1));
    assert!(matches!(evaluate("c[?(@.type=='U')].n", &list), Err(Failure::Missing(_))));
    assert!(matches!(evaluate("c[?(@.n)]", &list), Err(Failure::Mistake(_))));
    assert!(matches!(evaluate("x[?(@.n == 1)]", &json!({"x": "text"})), Err(Failure::Mistake(_))));
}

#[test]
fn a_missing_field_is_false_in_a_condition_and_a_mistake_is_not() {
    let test = |source: &str| {
        Expression::new(source, &open()).unwrap().test(&scope(&json!({"x": {"n": 3, "t": "a", "z": null}})))
    };
    for source in [
        "x.gone > 0",
        "x.gone == 'True'",
        "x.gone != 'True'",
        "!x.gone",
        "x.z > 0",
        "x.n == 3 && x.gone",
        "x.gone",
        "x.?gone",
    ] {
        assert_eq!(test(source), Ok(false), "{source}");
    }
    for source in ["x.n > 2", "x.gone || x.n == 3", "x.n == 3.0", "x.n + 1 == 4"] {
        assert_eq!(test(source), Ok(true), "{source}");
    }
    for source in ["x.t > 0", "x.n", "x.t + 1 == 2", "x.t.y == 1", "!x.t", "x.gone && x.t > 0", "x.?n == 3"] {
        assert!(matches!(test(source), Err(Failure::Mistake(_))), "{source}: {:?}", test(source));
    }
}

/// The expressions of the document, for a deployment that is ready, fresh, half filled, or not there.
#[test]
fn the_document_is_read_as_it_is_meant() {
    let available = r#"resources.clusterNamespace.status.phase == "Active" &&
        resources.clusterController.status.conditions[?(@.type=='Available')].status == "True""#;
    let ready = "resources.clusterController.status.readyReplicas > 0 &&
        resources.clusterController.status.replicas == resources.clusterController.status.readyReplicas";
    let healthy = r#"(resources.clusterController.status.conditions[?(@.type=='ReplicaFailure')].status ?? "False") != "True" &&
        (resources.clusterController.status.unavailableReplicas ?? 0) < 1"#;
    let cases = [
        (
            json!({"clusterNamespace": {"status": {"phase": "Active"}}, "clusterController": {"status": {"replicas": 2, "readyReplicas": 2,
            "conditions": [{"type": "Progressing"}, {"type": "Available", "status": "True"}]}}}),
            [true, true, true],
        ),
        (
            json!({"clusterNamespace": {"status": {"phase": "Active"}}, "clusterController": {"status": {"replicas": 2, "unavailableReplicas": 2}}}),
            [false, false, false],
        ),
        (
            json!({"clusterNamespace": {}, "clusterController": {"status": {"replicas": 2, "readyReplicas": null, "conditions": null}}}),
            [false, false, true],
        ),
        (
            json!({"clusterController": {"status": {"conditions": [{"type": "ReplicaFailure", "status": "True"}]}}}),
            [false, false, false],
        ),
        (json!({}), [false, false, true]),
    ];
    for (resources, expected) in cases {
        let scope = scope(&json!({"resources": resources}));
        for (source, expected) in [available, ready, healthy].into_iter().zip(expected) {
            assert_eq!(
                Expression::new(source, &open()).unwrap().test(&scope),
                Ok(expected),
                "{source} with {resources}"
            );
        }
    }
}

#[test]
fn faults_name_their_place() {
    let mut declared = Declared::default();
    declared.add("region");
    declared.add_with("resources", ["controller".to_owned()].into());
    let faults = |source: &str| -> Vec<(usize, String)> {
        let faults =
            Expression::new(source, &declared).err().unwrap_or_else(|| panic!("{source} is accepted"));
        faults.into_iter().map(|fault| (fault.at, fault.why)).collect()
    };
    for (source, at, why) in [
        ("regoin == 'x'", 0, "`regoin` is not declared; declared are `region`, `resources`"),
        ("region == resources.controler.x", 20, "`resources` has no `controler`"),
        ("resources.?b", 11, "`resources` has no `b`"),
        ("region.frob(1)", 7, "no value has the function `frob`"),
        ("frob(region)", 0, "there is no function `frob`"),
        ("__or(region, 1)", 0, "there is no function"),
        ("region.contains()", 7, "takes 1 arguments, and has 0"),
        ("region.filter(x)", 7, "needs a variable and an expression"),
        ("region.map(x, y)", 14, "`y` is not declared"),
        ("env.HOME", 0, "`env` is not declared"),
        ("@.x == 1", 0, "only in a filter"),
        ("region ??", 9, "an operand is missing"),
        ("(region", 7, "`)` is expected at the end"),
        ("region)", 6, "`)` is not expected"),
        ("region ==\n  == 'x'", 12, ""),
        ("region ?? ('a' +* 'b')", 16, ""),
        ("", 0, "an operand is missing"),
    ] {
        let found = faults(source);
        assert!(found[0].0 == at && found[0].1.contains(why), "{source}: {found:?}");
    }
    assert_eq!(faults("a + b").len(), 2, "every name is reported");
    assert!(Expression::new("resources.controller.x.map(r, r + region)", &declared).is_ok());
}

/// `cel` has no budget; ours ends what would take for ever, and nothing that can be written overflows the stack.
#[test]
fn no_expression_takes_long() {
    let many: Vec<_> = (0..400).collect();
    let variables = json!({"l": many, "s": "x".repeat(1000)});
    let doubling = format!("[s]{}", ".map(x, x + x)".repeat(50));
    let nesting = format!("[1]{}", ".map(x, [x, x, x])".repeat(40));
    for source in [
        "l.map(a, l.map(b, l.map(c, a + b + c)))",
        "l.exists(a, l.exists(b, l.exists(c, a + b + c < 0)))",
        "l.all(a, l.all(b, l.all(c, a.x || b.x || true)))",
        "l.filter(a, l[?(l[?(@ < 0)] == nil && @ < 0)] == nil)",
        "l.map(a, l).map(a, a + a + a + a).map(a, a + a).flatten().distinct()",
        "s.replace('', s).replace('', s)",
        &doubling,
        &nesting,
    ] {
        let begun = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let result = evaluate(source, &variables);
        let taken = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() - begun;
        assert_eq!(result, Err(Failure::Budget), "{source}");
        assert!(taken < Duration::from_secs(2), "{source} took {taken:?}");
    }
}

#[test]
fn what_is_nested_too_deep_is_refused_and_the_rest_fits_the_stack() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    let loops = |depth: usize| format!("{}true{}", "l.all(x, ".repeat(depth), ")".repeat(depth));
    let ternaries = |depth: usize| format!("{}1{}", "t ? ".repeat(depth), " : 1".repeat(depth));
    for deep in [nested(25), loops(4), ternaries(25), "a ?? ".repeat(30) + "1", "1 +".repeat(600)] {
        assert!(Expression::new(&deep, &open()).is_err(), "{deep}");
    }
    let variables = json!({"a": 1, "l": [1], "t": true});
    for fitting in [
        nested(23),
        loops(3),
        ternaries(23),
        format!("{}1", "a + ".repeat(290)),
        format!("a{} ?? 1", ".b".repeat(290)),
        format!("{}t", "!".repeat(590)),
        format!("{}t", "t && ".repeat(290)),
        format!("{}t", "t ? t : ".repeat(140)),
        format!("[{}]", "[[[1]]],".repeat(80)),
    ] {
        // Accepted or refused in words: the stack holds in either case.
        if let Ok(expression) = Expression::new(&fitting, &open()) {
            let _ = expression.evaluate(&scope(&variables));
        }
    }
}
