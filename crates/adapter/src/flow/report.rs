//! The report: a pure function of the facts, in the patterns of the document.
//!
//! | Pattern | When | Applied | Available | Health |
//! |---|---|---|---|---|
//! | 1 | a precondition does not hold | False | False | True |
//! | 2 | resources were created | as configured | as configured | as configured |
//! | 3, 4, 5 | resources were there | as configured | as configured | as configured |
//! | 6 | the adapter failed | False | False | False |
//!
//! While a cluster is being deleted, `Finalized` is added: True only when no resource is left.

use serde_json::{Map, Value as Json, json};
use wardroom_core::cluster::{RawReport, validate};

use super::{AdapterError, Facts};
use crate::{
    config::{Build, Computed, ConditionRule, Config, Unbuilt},
    world::Trouble,
};

/// Longest payload; the server accepts 256 KiB.
const LONGEST: usize = 250 * 1024;

/// Longest message of a condition, in bytes; the server accepts 2048.
const MESSAGE: usize = 2000;

/// Returns the report; nothing when the configuration wants none.
pub(super) fn payload(config: &Config, facts: &mut Facts) -> Option<Json> {
    if facts.error.is_none() {
        match wants(config, facts)
            .and_then(|wanted| if wanted { built(config, facts).map(Some) } else { Ok(None) })
        {
            Ok(Some(payload)) => match checked(config, facts, payload) {
                Ok(payload) => return Some(payload),
                Err(error) => facts.fail(error),
            },
            Ok(None) => return None,
            Err(error) => facts.fail(error),
        }
        facts.describe_adapter(config);
    }
    let error = facts.error.clone()?;
    // The newer shape may say more about an error than we do, as long as it says that there is one.
    if let (Build::Tree(_), Ok(payload)) = (&config.post.build, built(config, facts))
        && status_of(&payload, "Health") == Some("False")
        && let Ok(payload) = checked(config, facts, payload)
    {
        return Some(payload);
    }
    checked(config, facts, broken(&error)).ok()
}

fn wants(config: &Config, facts: &Facts) -> Result<bool, AdapterError> {
    let Some(when) = &config.post.when else { return Ok(true) };
    when.test(&facts.scope).map_err(|failure| {
        AdapterError::new("post", &config.post.name, Trouble::lasting(format!("`when` fails: {failure}")))
    })
}

/// Builds the payload as the configuration says.
fn built(config: &Config, facts: &Facts) -> Result<Json, AdapterError> {
    let name = &config.post.name;
    let unbuilt = |unbuilt: Unbuilt| AdapterError::unbuilt("post", name, &unbuilt);
    let part = |tree: &Option<crate::config::Tree>, path: &str| match tree {
        Some(tree) => tree.build(path, &facts.shown(), &facts.scope).map(Some).map_err(unbuilt),
        None => Ok(None),
    };
    match &config.post.build {
        Build::Tree(tree) => {
            let mut payload = tree.build("build", &facts.shown(), &facts.scope).map_err(unbuilt)?;
            normalise(&mut payload);
            Ok(payload)
        }
        Build::Conditions { .. } if facts.skipped.is_some() => Ok(skipped(facts)),
        Build::Conditions { conditions, data, metadata } => {
            let conditions: Result<Vec<_>, _> =
                conditions.iter().map(|rule| condition(rule, facts)).collect();
            let mut payload = json!({"conditions": conditions.map_err(unbuilt)?});
            for (name, tree) in [("data", data), ("metadata", metadata)] {
                if let Some(built) = part(tree, name)? {
                    payload[name] = built;
                }
            }
            Ok(payload)
        }
    }
}

/// One condition in the document's shape.
fn condition(rule: &ConditionRule, facts: &Facts) -> Result<Json, Unbuilt> {
    let wrong = |why: &str| Unbuilt { field: rule.status.path.clone(), why: why.to_owned() };
    let status = match rule.status.evaluate(&facts.scope)? {
        // What is missing is false.
        Json::Null | Json::Bool(false) => "False",
        Json::Bool(true) => "True",
        Json::String(text) => match text.as_str() {
            "True" => "True",
            "False" => "False",
            "Unknown" => "Unknown",
            _ => return Err(wrong("a status is true, false or unknown")),
        },
        Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            return Err(wrong("a status is true, false or unknown"));
        }
    };
    let (reason, message) = defaults(&rule.kind, status, !facts.created.is_empty());
    let text = |computed: &Option<Computed>, default: &str| match computed {
        None => Ok(default.to_owned()),
        Some(computed) => match computed.evaluate(&facts.scope)? {
            Json::Null => Ok(default.to_owned()),
            Json::String(text) if text.is_empty() => Ok(default.to_owned()),
            Json::String(text) => Ok(text),
            Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                Err(Unbuilt { field: computed.path.clone(), why: "a text is expected".to_owned() })
            }
        },
    };
    Ok(
        json!({"type": rule.kind, "status": status, "reason": text(&rule.reason, reason)?, "message": text(&rule.message, message)?}),
    )
}

/// The words of the document's patterns, for what the configuration leaves out.
fn defaults(kind: &str, status: &str, is_created: bool) -> (&'static str, &'static str) {
    match (kind, status, is_created) {
        ("Applied", "True", true) => ("ResourcesCreated", "All Kubernetes resources created successfully"),
        ("Applied", "True", false) => ("ResourcesExist", "Resources are applied"),
        ("Applied", _, _) => ("ResourcesNotApplied", "Resources are not applied"),
        ("Available", "True", _) => {
            ("PostconditionsMet", "Workload completed successfully, all postconditions satisfied")
        }
        ("Available", _, true) => ("WorkloadInProgress", "Resources created, workload executing"),
        ("Available", _, false) => {
            ("PostconditionsNotMet", "Workload still running, postconditions not satisfied")
        }
        ("Health", "True", true) => ("NoErrors", "Adapter is healthy"),
        ("Health", "True", false) => ("AllChecksPass", "All health checks passed"),
        ("Health", _, _) => ("ResourceFailure", "Resource failures detected"),
        (_, "True", _) => ("ConditionMet", "The condition holds"),
        _ => ("ConditionNotMet", "The condition does not hold"),
    }
}

/// Pattern 1: a precondition does not hold.
fn skipped(facts: &Facts) -> Json {
    let why = facts.skipped.clone().unwrap_or_default();
    json!({"conditions": [
        {"type": "Applied", "status": "False", "reason": "PreconditionsNotMet",
            "message": format!("Dependencies not satisfied: {why}")},
        {"type": "Available", "status": "False", "reason": "PreconditionsNotMet",
            "message": "Cannot proceed until dependencies are satisfied"},
        {"type": "Health", "status": "True", "reason": "NoErrors",
            "message": "Adapter is healthy, waiting for dependencies"},
    ]})
}

/// Pattern 6: the adapter failed.
fn broken(error: &AdapterError) -> Json {
    json!({"conditions": [
        {"type": "Applied", "status": "False", "reason": "AdapterError", "message": error.line()},
        {"type": "Available", "status": "False", "reason": "AdapterError",
            "message": "Adapter cannot perform its work due to internal error"},
        {"type": "Health", "status": "False", "reason": "AdapterError",
            "message": format!("Adapter encountered an error: {}", error.line())},
    ]})
}

/// Makes conditions of the newer shape what the server accepts: booleans are words, and nothing is left out.
fn normalise(payload: &mut Json) {
    let Some(Json::Array(conditions)) = payload.get_mut("conditions") else { return };
    for condition in conditions.iter_mut().filter_map(Json::as_object_mut) {
        let status = match condition.get("status") {
            Some(Json::Bool(true)) => Some("True"),
            Some(Json::Bool(false) | Json::Null) | None => Some("False"),
            Some(_) => None,
        };
        if let Some(status) = status {
            condition.insert("status".to_owned(), json!(status));
        }
        condition.retain(|_, value| !value.is_null());
    }
}

fn status_of<'p>(payload: &'p Json, kind: &str) -> Option<&'p str> {
    let conditions = payload["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// Adds what the framework knows, and checks the report as the server does.
fn checked(config: &Config, facts: &Facts, payload: Json) -> Result<Json, AdapterError> {
    let fail = |why: String| AdapterError::new("post", &config.post.name, Trouble::lasting(why));
    let Json::Object(mut payload) = payload else { return Err(fail("the payload is no object".to_owned())) };
    for name in ["data", "metadata"] {
        match payload.get(name) {
            None | Some(Json::Object(_)) => {}
            Some(Json::Null) => _ = payload.remove(name),
            Some(_) => return Err(fail(format!("`{name}` of the payload is no object"))),
        }
    }
    finalize(&mut payload, facts);
    if let Some(Json::Array(conditions)) = payload.get_mut("conditions") {
        conditions.iter_mut().for_each(|condition| fit(condition, facts));
    }
    let now = facts.scope.now;
    payload.insert("adapter".to_owned(), json!(config.name));
    payload.insert("observed_generation".to_owned(), json!(facts.generation));
    payload.insert("observed_time".to_owned(), json!(now.to_string()));
    let payload = Json::Object(payload);
    if payload.to_string().len() > LONGEST {
        return Err(fail(format!("the payload is longer than {LONGEST} bytes")));
    }
    let raw: RawReport = serde_json::from_value(payload.clone())
        .map_err(|error| fail(format!("the payload is no report: {error}")))?;
    validate(raw, now).map_err(|problems| {
        let problems: Vec<_> =
            problems.iter().map(|problem| format!("{} {}", problem.field, problem.message)).collect();
        fail(format!("the payload is no report: {}", problems.join("; ")))
    })?;
    Ok(payload)
}

/// Sets `Finalized`: what a configuration says about it counts only when nothing is left.
fn finalize(payload: &mut Map<String, Json>, facts: &Facts) {
    let Some(Json::Array(conditions)) = payload.get_mut("conditions") else { return };
    let own = conditions.iter().position(|condition| condition["type"] == "Finalized");
    let is_gone = facts.is_deleting && facts.remaining.is_empty() && facts.error.is_none();
    if is_gone && own.is_some() {
        return;
    }
    let condition = if is_gone {
        json!({"type": "Finalized", "status": "True", "reason": "ResourcesGone", "message": "All resources are gone"})
    } else if facts.is_deleting {
        let message = match &facts.error {
            Some(_) => "The adapter failed before it could tell that all resources are gone".to_owned(),
            None => format!("Still there: {}", facts.remaining.join(", ")),
        };
        json!({"type": "Finalized", "status": "False", "reason": "ResourcesRemain", "message": message})
    } else if own.is_some() {
        json!({"type": "Finalized", "status": "False", "reason": "NotDeleting", "message": "The cluster is not being deleted"})
    } else {
        return;
    };
    match own {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Cuts a message that other systems made too long, and conceals values of the environment in it.
fn fit(condition: &mut Json, facts: &Facts) {
    let Some(message) = condition["message"].as_str() else { return };
    let line: String =
        message.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect();
    let mut text = facts.conceal(&line);
    if text.len() > MESSAGE {
        let end = (0..=MESSAGE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    condition["message"] = json!(text);
}

/// Returns the messages of the configuration's log actions.
pub(super) fn messages(config: &Config, facts: &Facts) -> Vec<String> {
    let holds = |action: &&crate::config::Action| {
        action.when.as_ref().is_none_or(|when| when.test(&facts.scope).unwrap_or(false))
    };
    let actions = config.post.actions.iter().filter(holds);
    actions.filter_map(|action| action.message.render(&facts.shown()).ok()).collect()
}
