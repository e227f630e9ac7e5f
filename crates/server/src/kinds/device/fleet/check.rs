//! What people write of a fleet: checked field by field, and read into what `core` decides with.

use wardroom_api::device::{DisruptionBudget, FleetSpec, LabelSelector, Limit, RolloutPolicy};
use wardroom_core::device::fleet::{
    Batch, Budget, Limit as Most, Policy,
    selector::{Must, Requirement, Selector},
};

use super::super::spec;
use crate::platform::http::{error::Error, text};

const MOST_BATCHES: usize = 100;
const MOST_REQUIREMENTS: usize = 32;
const MOST_VALUES: usize = 100;

/// A spec as `core` reads it.
pub(super) struct Checked {
    pub(super) selector: Selector,
    pub(super) policy: Policy,
    /// How long a device may be silent, if the fleet says so.
    pub(super) silence_seconds: Option<u32>,
}

/// Reads a spec; the error names the field that is wrong.
pub(super) fn read(given: &FleetSpec) -> Result<Checked, Error> {
    let FleetSpec { selector, template, rollout_policy, disconnection_timeout, template_version: _ } = given;
    spec::check("spec.template.spec", &template.spec)?;
    text::check_labels(&template.metadata.labels).map_err(|error| inside("spec.template.metadata", error))?;
    let selector = self::selector("spec.selector", selector)?;
    let policy = rollout_policy.as_ref().map_or_else(|| Ok(Policy::default()), policy)?;
    let silence = disconnection_timeout.as_ref().map(|given| {
        let field = "spec.disconnectionTimeout";
        let silence = spec::duration(field, given)?.as_secs();
        let silence = u32::try_from(silence).ok().filter(|seconds| (1..=LONGEST_SILENCE).contains(seconds));
        silence.ok_or_else(|| Error::invalid(field, "must be from 1s to 168h"))
    });
    Ok(Checked { selector, policy, silence_seconds: silence.transpose()? })
}

/// The longest silence that liveness counts with: a week.
const LONGEST_SILENCE: u32 = 604_800;

/// Puts the fields of an error below another field.
fn inside(field: &str, mut error: Error) -> Error {
    if let Error::Invalid(errors) = &mut error {
        errors.iter_mut().for_each(|error| error.field = format!("{field}.{}", error.field));
    }
    error
}

fn selector(field: &str, given: &LabelSelector) -> Result<Selector, Error> {
    let LabelSelector { match_labels, match_expressions } = given;
    let count = match_labels.len() + match_expressions.len();
    if count > MOST_REQUIREMENTS {
        let message = format!("has {count} requirements, at most {MOST_REQUIREMENTS} are allowed");
        return Err(Error::invalid(field, message));
    }
    let mut all = Vec::new();
    for (key, value) in match_labels {
        text::check_label(key, value).map_err(|error| inside(&format!("{field}.matchLabels"), error))?;
        all.push(Requirement { key: key.clone(), must: Must::BeIn(vec![value.clone()]) });
    }
    for (number, expression) in match_expressions.iter().enumerate() {
        let place = format!("{field}.matchExpressions[{number}]");
        let (key, values) = (&expression.key, &expression.values);
        let check = |value: &str| text::check_label(key, value).map_err(|error| inside(&place, error));
        check("")?;
        values.iter().try_for_each(|value| check(value))?;
        let listed = matches!(&*expression.operator, "In" | "NotIn");
        if listed && !(1..=MOST_VALUES).contains(&values.len()) {
            return Err(Error::invalid(
                format!("{place}.values"),
                format!("must be 1 to {MOST_VALUES} values"),
            ));
        }
        if !listed && !values.is_empty() {
            let message = format!("must be absent with the operator {}", expression.operator);
            return Err(Error::invalid(format!("{place}.values"), message));
        }
        let must = match &*expression.operator {
            "In" => Must::BeIn(values.clone()),
            "NotIn" => Must::NotBeIn(values.clone()),
            "Exists" => Must::Exist,
            "DoesNotExist" => Must::NotExist,
            _ => {
                let message = "must be In, NotIn, Exists or DoesNotExist";
                return Err(Error::invalid(format!("{place}.operator"), message));
            }
        };
        all.push(Requirement { key: key.clone(), must });
    }
    Ok(Selector(all))
}

fn policy(given: &RolloutPolicy) -> Result<Policy, Error> {
    let RolloutPolicy { batches, success_threshold, update_timeout, disruption_budget } = given;
    let field = "spec.rolloutPolicy";
    let standard = Policy::default();
    if batches.len() > MOST_BATCHES {
        let message = format!("has {} batches, at most {MOST_BATCHES} are allowed", batches.len());
        return Err(Error::invalid(format!("{field}.batches"), message));
    }
    let batches =
        batches.iter().enumerate().map(|(number, given)| batch(&format!("{field}.batches[{number}]"), given));
    let timeout =
        update_timeout.as_ref().map(|given| spec::duration(&format!("{field}.updateTimeout"), given));
    let budget = disruption_budget.as_ref().map(|given| budget(&format!("{field}.disruptionBudget"), given));
    Ok(Policy {
        batches: batches.collect::<Result<_, _>>()?,
        threshold: threshold(field, *success_threshold)?.unwrap_or(standard.threshold),
        timeout: timeout.transpose()?.unwrap_or(standard.timeout),
        budget: budget.transpose()?,
    })
}

fn threshold(field: &str, given: Option<u8>) -> Result<Option<u8>, Error> {
    if given.is_some_and(|percent| percent > 100) {
        return Err(Error::invalid(format!("{field}.successThreshold"), "must be from 0 to 100"));
    }
    Ok(given)
}

fn batch(field: &str, given: &wardroom_api::device::Batch) -> Result<Batch, Error> {
    let wardroom_api::device::Batch { selector, limit, success_threshold } = given;
    let place = format!("{field}.selector");
    let selector = selector.as_ref().map(|given| self::selector(&place, given)).transpose()?;
    if selector.as_ref().is_some_and(|selector| selector.0.is_empty()) {
        return Err(Error::invalid(place, "selects no device: leave it out to select all"));
    }
    let wrong = || {
        let message = "must be a number of devices from 1, or a percentage from 1% to 100%";
        Error::invalid(format!("{field}.limit"), message)
    };
    let limit = match limit {
        None => None,
        Some(Limit::Count(0)) => return Err(wrong()),
        Some(Limit::Count(count)) => Some(Most::Count(usize::try_from(*count).unwrap_or(usize::MAX))),
        Some(Limit::Percent(text)) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<u8>().ok());
            let percent = percent.filter(|percent| (1..=100).contains(percent)).ok_or_else(wrong)?;
            Some(Most::Percent(percent))
        }
    };
    Ok(Batch { selector, limit, threshold: threshold(field, *success_threshold)? })
}

fn budget(field: &str, given: &DisruptionBudget) -> Result<Budget, Error> {
    let DisruptionBudget { group_by, min_available, max_unavailable } = given;
    if group_by.len() > 10 {
        return Err(Error::invalid(format!("{field}.groupBy"), "has more than 10 labels"));
    }
    for (number, label) in group_by.iter().enumerate() {
        let place = format!("{field}.groupBy[{number}]");
        text::check_label(label, "").map_err(|error| inside(&place, error))?;
    }
    if min_available.is_none() && max_unavailable.is_none() {
        return Err(Error::invalid(field, "needs minAvailable or maxUnavailable"));
    }
    if *max_unavailable == Some(0) {
        let message = "must be at least 1: pause the rollout to hold all devices back";
        return Err(Error::invalid(format!("{field}.maxUnavailable"), message));
    }
    let count = |given: &Option<u32>| given.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    Ok(Budget {
        group_by: group_by.clone(),
        min_available: count(min_available),
        max_unavailable: count(max_unavailable),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(spec: Value) -> String {
        let read = super::spec::strict::<FleetSpec>(spec.clone()).and_then(|spec| read(&spec).map(drop));
        match read {
            Err(Error::Invalid(errors)) => errors[0].field.clone(),
            other => panic!("{spec}: {other:?}"),
        }
    }

    #[test]
    fn a_wrong_fleet_is_refused_by_its_field() {
        let expression = |expression: Value| json!({"selector": {"matchExpressions": [expression]}});
        let place = "spec.selector.matchExpressions[0]";
        let policy = |policy: Value| json!({"rolloutPolicy": policy});
        let batch = |batch: Value| policy(json!({"batches": [batch]}));
        let cases = [
            (
                json!({"selector": {"matchLabels": {"a b": "x"}}}),
                "spec.selector.matchLabels.labels".to_owned(),
            ),
            (
                json!({"selector": {"matchLabels": {"a": "x y"}}}),
                "spec.selector.matchLabels.labels.a".to_owned(),
            ),
            (expression(json!({"key": "a", "operator": "Is"})), format!("{place}.operator")),
            (expression(json!({"key": "a", "operator": "In"})), format!("{place}.values")),
            (
                expression(json!({"key": "a", "operator": "Exists", "values": ["x"]})),
                format!("{place}.values"),
            ),
            (policy(json!({"successThreshold": 101})), "spec.rolloutPolicy.successThreshold".to_owned()),
            (policy(json!({"updateTimeout": "soon"})), "spec.rolloutPolicy.updateTimeout".to_owned()),
            (batch(json!({"limit": 0})), "spec.rolloutPolicy.batches[0].limit".to_owned()),
            (batch(json!({"limit": "0%"})), "spec.rolloutPolicy.batches[0].limit".to_owned()),
            (batch(json!({"limit": "ten"})), "spec.rolloutPolicy.batches[0].limit".to_owned()),
            (batch(json!({"selector": {}})), "spec.rolloutPolicy.batches[0].selector".to_owned()),
            (policy(json!({"disruptionBudget": {}})), "spec.rolloutPolicy.disruptionBudget".to_owned()),
            (
                policy(json!({"disruptionBudget": {"maxUnavailable": 0}})),
                "spec.rolloutPolicy.disruptionBudget.maxUnavailable".to_owned(),
            ),
            (
                json!({"template": {"spec": {"os": {"image": "a b"}}}}),
                "spec.template.spec.os.image".to_owned(),
            ),
            (json!({"disconnectionTimeout": "1000h"}), "spec.disconnectionTimeout".to_owned()),
            (json!({"colour": "red"}), "colour".to_owned()),
        ];
        for (spec, field) in cases {
            assert_eq!(refused(spec.clone()), field, "{spec}");
        }
    }

    #[test]
    fn no_fuzzed_fleet_is_the_fault_of_the_server() {
        use super::super::super::fuzz;
        let sample = json!({
            "selector": {
                "matchLabels": {"fleet": "web"},
                "matchExpressions": [{"key": "site", "operator": "In", "values": ["a", "b"]}],
            },
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"os": {"image": "edge:1"}}},
            "rolloutPolicy": {
                "batches": [{"limit": 2, "successThreshold": 50}, {"limit": "10%", "selector": {"matchLabels": {"a": "b"}}}],
                "successThreshold": 90, "updateTimeout": "30m",
                "disruptionBudget": {"groupBy": ["site"], "maxUnavailable": 2, "minAvailable": 1},
            },
            "disconnectionTimeout": "10m",
        });
        let (mut random, mut taken) = (fuzz::Random(22), 0);
        for _ in 0..fuzz::rounds() {
            let given = fuzz::mutated(&sample, &mut random);
            let Some(spec) = fuzz::judged(spec::strict::<FleetSpec>(given.clone()), &given) else { continue };
            taken += usize::from(fuzz::judged(read(&spec), &given).is_some());
        }
        assert!(taken > fuzz::rounds() / 50, "{taken} were taken");
    }
}
