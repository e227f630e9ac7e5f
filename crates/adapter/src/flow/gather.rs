//! The first steps: parameters, then preconditions with what they remember.

use serde_json::{Value as Json, json};

use super::{AdapterError, Facts, VERSION};
use crate::{
    config::{Call, Captured, Condition, Config, FieldPath, Param, Precondition, Source},
    expression::{Failure, Scope, Value},
    world::{Trouble, World},
};

/// Resolves the parameters, in their order.
pub(super) async fn params(
    config: &Config,
    facts: &mut Facts,
    world: &mut World,
) -> Result<(), AdapterError> {
    for param in &config.params {
        let value = resolve(param, facts, world)
            .await
            .map_err(|trouble| AdapterError::new("params", &param.name, trouble))?;
        let shown = if param.is_hidden { json!("(from the environment)") } else { value.clone() };
        facts.trace.params.insert(param.name.clone(), shown);
        if param.is_hidden { facts.hide(&param.name, value) } else { facts.set(&param.name, value) }
    }
    Ok(())
}

/// Returns the value of a parameter, or its default.
async fn resolve(param: &Param, facts: &mut Facts, world: &mut World) -> Result<Json, Trouble> {
    let found = match origin(&param.source, facts, world).await {
        Ok(found) => found,
        // Nothing that may be missing holds the others up.
        Err(_) if !param.is_required && matches!(param.source, Source::Call(_) | Source::File(_)) => None,
        Err(trouble) => return Err(trouble),
    };
    let Some(value) = found.filter(|value| !value.is_null()) else {
        return match &param.default {
            Some(default) => Ok(default.clone()),
            None if param.is_required => Err(Trouble::lasting("it is required and has no value")),
            None => Ok(Json::Null),
        };
    };
    match param.kind {
        Some(kind) => kind.convert(&value).map_err(Trouble::lasting),
        None => Ok(value),
    }
}

async fn origin(source: &Source, facts: &mut Facts, world: &mut World) -> Result<Option<Json>, Trouble> {
    match source {
        Source::Field(path) => Ok(field(path, facts)),
        Source::Environment(name) => Ok(world.environment(name).map(Json::from)),
        Source::Expression(expression) => {
            let found = expression.find(&facts.scope).map_err(|failure| mistake(&failure))?;
            Ok(found.map(|value| value.to_json()))
        }
        Source::Call(call) => read(call, facts, world).await.map(Some),
        Source::File(path) => world.file(path).await.map(|text| Some(Json::from(text.trim_end()))),
        Source::Dns(name) => {
            let name = name.render(&facts.values).map_err(Trouble::lasting)?;
            let addresses = world.lookup(&name).await?;
            facts
                .trace
                .api_requests
                .push(json!({"method": "DNS", "path": facts.conceal(&name), "found": addresses.len()}));
            Ok(Some(json!(addresses)))
        }
    }
}

/// Returns a value below a variable of templates. A query over all variables does not see those of the environment.
fn field(path: &FieldPath, facts: &Facts) -> Option<Json> {
    let values = &facts.values.by_name;
    match path {
        FieldPath::Steps(steps) => {
            let (root, rest) = steps.split_first()?;
            FieldPath::Steps(rest.to_vec()).within(values.get(root)?)
        }
        FieldPath::Query(_) => {
            let visible = values.iter().filter(|(name, _)| !facts.hidden.contains_key(*name));
            path.within(&Json::Object(visible.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
    }
}

fn mistake(failure: &Failure) -> Trouble {
    Trouble::lasting(format!("the expression fails: {failure}"))
}

/// Reads an answer of the API.
async fn read(call: &Call, facts: &mut Facts, world: &mut World) -> Result<Json, Trouble> {
    let url = call.url.render(&facts.values).map_err(Trouble::lasting)?;
    let path = path_of(&url, world.base())?;
    let answer = world.read(&path).await;
    let outcome = match &answer {
        Ok(_) => "answered".to_owned(),
        Err(trouble) => trouble.message.clone(),
    };
    let (path, outcome) = (facts.conceal(&path), facts.conceal(&outcome));
    facts.trace.api_requests.push(json!({"method": "GET", "path": path, "outcome": outcome}));
    answer
}

/// Returns the path of a call below the server's own address: nothing is sent elsewhere, since the token goes along.
pub(super) fn path_of(url: &str, base: &str) -> Result<String, Trouble> {
    let url = url.trim();
    let path = url.strip_prefix(base.trim_end_matches('/')).unwrap_or(url);
    if path.is_empty() || path.contains("://") || path.starts_with("//") || path.contains(['\\', '#']) {
        return Err(Trouble::lasting(format!(
            "a path of the server is expected, such as /clusters/…, below {base}"
        )));
    }
    if path.split(['/', '?']).any(|part| part == "..") {
        return Err(Trouble::lasting("a path may not contain `..`"));
    }
    let path = path.trim_matches('/');
    Ok(if path.starts_with("api/") {
        format!("/{path}")
    } else {
        format!("/api/hyperfleet/{VERSION}/{path}")
    })
}

/// Checks the preconditions, in their order, up to the first that does not hold.
pub(super) async fn preconditions(
    config: &Config,
    facts: &mut Facts,
    world: &mut World,
) -> Result<(), AdapterError> {
    for precondition in &config.preconditions {
        let fail = |trouble| AdapterError::new("preconditions", &precondition.name, trouble);
        let captured = capture(precondition, facts, world).await.map_err(fail)?;
        // A cluster that is being deleted waits for nothing: what was made has to go.
        let unmet = if facts.is_deleting { None } else { unmet(precondition, &facts.scope).map_err(fail)? };
        let is_met = unmet.is_none();
        facts
            .trace
            .preconditions
            .push(json!({"name": precondition.name, "met": is_met, "captured": captured}));
        if let Some(why) = unmet {
            facts.skipped = Some(format!("{}: {why}", precondition.name));
            return Ok(());
        }
    }
    Ok(())
}

/// Makes the call of a precondition and remembers values of its answer.
async fn capture(precondition: &Precondition, facts: &mut Facts, world: &mut World) -> Result<Json, Trouble> {
    let answer = match &precondition.call {
        Some(call) => {
            let answer = read(call, facts, world).await?;
            facts.set(&precondition.name, answer.clone());
            Some(answer)
        }
        None => None,
    };
    let mut captured = json!({});
    for capture in &precondition.captures {
        let mut scope = facts.scope.clone();
        if let Some(Json::Object(fields)) = &answer {
            scope.variables.extend(fields.iter().map(|(name, value)| (name.clone(), Value::from(value))));
        }
        let value = match (&capture.from, &answer) {
            (Captured::Field(path), Some(answer)) => path.within(answer),
            (Captured::Field(path), None) => path.find(&scope),
            (Captured::Expression(expression), _) => {
                let found = expression.find(&scope).map_err(|failure| mistake(&failure))?;
                found.map(|value| value.to_json())
            }
        };
        let value = value.unwrap_or_default();
        captured[&capture.name] = value.clone();
        facts.set(&capture.name, value);
    }
    Ok(captured)
}

/// Returns the reason why a precondition does not hold.
fn unmet(precondition: &Precondition, scope: &Scope) -> Result<Option<String>, Trouble> {
    match &precondition.condition {
        None => Ok(None),
        Some(Condition::Expression(expression)) => {
            let is_met = expression.test(scope).map_err(|failure| mistake(&failure))?;
            Ok((!is_met).then(|| "its expression is false".to_owned()))
        }
        Some(Condition::All(comparisons)) => {
            for comparison in comparisons {
                let found = comparison.field.find(scope);
                let holds = comparison.operator.holds(found.as_ref(), &comparison.operand);
                let holds = holds.map_err(|why| Trouble::lasting(format!("{}: {why}", comparison.source)))?;
                if !holds {
                    return Ok(Some(format!("{} does not hold", comparison.source)));
                }
            }
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[test]
    fn calls_stay_below_the_address_of_the_server() {
        let base = "http://127.0.0.1:8440";
        let path = |url: &str| path_of(url, base).map_err(|trouble| trouble.message);
        assert_eq!(path("/clusters/c-1").as_deref(), Ok("/api/hyperfleet/v1/clusters/c-1"));
        assert_eq!(path("http://127.0.0.1:8440/api/v1/x").as_deref(), Ok("/api/v1/x"));
        for url in [
            "http://example.com/clusters",
            "//example.com/x",
            "/clusters/../../tokens",
            "",
            "@example.com/x/../..",
        ] {
            assert!(path(url).is_err(), "{url}: {:?}", path(url));
        }
    }

    #[test]
    fn contract_recorded_paths_of_calls_are_the_recorded_ones() {
        let Some(rows) = contract::recorded("hyperfleet-cel-oracle.jsonl") else { return };
        let rows = rows.iter().filter(|row| {
            row["table"] == "url" && row["url"] != "" && row["version"] != "v2" && row["base_url"] != ""
        });
        let mut count = 0;
        for row in rows {
            let ours = path_of(row["url"].as_str().unwrap(), row["base_url"].as_str().unwrap());
            count += 1;
            match row["expect"]["value"].as_str() {
                // An address elsewhere is refused, not asked.
                Some(expected) if expected.contains("://") => assert!(ours.is_err(), "{row}"),
                Some(expected) => assert_eq!(ours.as_deref(), Ok(expected), "{row}"),
                None => assert!(ours.is_err(), "{row}"),
            }
        }
        assert!(count > 5, "{count} rows");
    }
}
