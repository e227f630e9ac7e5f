//! The spec and the status of a fleet, from and to Flight Control's words.

use jiff::Timestamp;
use serde_json::{Value, json};
use wardroom_api::device::{Condition, DeviceSpec, Fleet, FleetSpec, FleetStatus, Limit, RolloutPolicy};
use wardroom_core::device::fleet::State;

use super::{Sent, spec, status};
use crate::platform::http::error::Error;

/// A fleet as clients of Flight Control read it.
pub(super) fn shown(fleet: &Fleet) -> Value {
    let version = fleet.spec.template_version.clone().unwrap_or_default();
    let created = fleet.metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    let given = fleet.status.clone().unwrap_or_default();
    json!({
        "apiVersion": super::API_VERSION, "kind": "Fleet",
        "metadata": super::metadata(&fleet.metadata, json!({"fleet-controller/templateVersion": version})),
        "spec": shown_spec(&fleet.spec),
        "status": shown_status(&given, created),
    })
}

fn shown_spec(given: &FleetSpec) -> Value {
    let mut template = json!({"spec": spec::shown(&given.template.spec)});
    if !given.template.metadata.labels.is_empty() {
        template["metadata"] = json!({"labels": given.template.metadata.labels});
    }
    let mut shown = json!({"selector": given.selector, "template": template});
    if let Some(policy) = &given.rollout_policy {
        shown["rolloutPolicy"] = shown_policy(policy);
    }
    shown
}

fn shown_policy(policy: &RolloutPolicy) -> Value {
    let mut shown = json!({});
    if let Some(percent) = policy.success_threshold {
        shown["successThreshold"] = format!("{percent}%").into();
    }
    if let Some(timeout) = &policy.update_timeout {
        shown["defaultUpdateTimeout"] = spec::duration(timeout).into();
    }
    if let Some(budget) = &policy.disruption_budget {
        shown["disruptionBudget"] = json!(budget);
        // There it is at least one; none is what we mean without it.
        if budget.min_available == Some(0)
            && let Some(fields) = shown["disruptionBudget"].as_object_mut()
        {
            fields.remove("minAvailable");
        }
    }
    if !policy.batches.is_empty() {
        let batches = policy.batches.iter().map(|batch| {
            let mut shown = json!({});
            if let Some(selector) = &batch.selector {
                shown["selector"] = json!(selector);
            }
            match &batch.limit {
                Some(Limit::Count(count)) => shown["limit"] = (*count).into(),
                Some(Limit::Percent(percent)) => shown["limit"] = percent.clone().into(),
                None => {}
            }
            if let Some(percent) = batch.success_threshold {
                shown["successThreshold"] = format!("{percent}%").into();
            }
            shown
        });
        let batches: Vec<_> = batches.collect();
        shown["deviceSelection"] = json!({"strategy": STRATEGY, "sequence": batches});
    }
    shown
}

/// The one strategy that there is.
const STRATEGY: &str = "BatchSequence";

fn shown_status(given: &FleetStatus, created: Timestamp) -> Value {
    let condition = |r#type: &str, holds: bool, reason: &str, message: &str| Condition {
        r#type: r#type.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: None,
    };
    let overlap = given.conditions.iter().find(|condition| condition.r#type == "OverlappingSelectors");
    let valid = match overlap {
        Some(overlap) => condition("Valid", false, &overlap.r#type, &overlap.message),
        None => condition("Valid", true, "Valid", ""),
    };
    let rollout = &given.rollout;
    let is_paused = rollout.state == State::Paused.as_str();
    let reason = if is_paused { State::Suspended.as_str() } else { &rollout.state };
    let is_active = rollout.state == State::Active.as_str();
    let progress = condition("RolloutInProgress", is_active, reason, &rollout.info);
    json!({
        "rollout": {"currentBatch": rollout.current_batch},
        "conditions": status::conditions(&[valid, progress], &["Valid", "RolloutInProgress"], created),
    })
}

/// What a client sent, in our words; `before` is the fleet that it may have read.
pub(super) fn ours(given: Value, before: &FleetSpec) -> Result<Value, Error> {
    let mut sent = Sent::read(given, "Fleet")?;
    let read = translated(shown_spec(before), &DeviceSpec::default())?;
    let mut wanted = translated(sent.spec.take(), &before.template.spec)?;
    let ours = serde_json::to_value(before).unwrap_or_default();
    if let Some(wanted) = wanted.as_object_mut() {
        if wanted.get("rolloutPolicy").is_some_and(|policy| read.get("rolloutPolicy") == Some(policy)) {
            wanted.insert("rolloutPolicy".to_owned(), ours["rolloutPolicy"].clone());
        }
        // There is no word for it there.
        if let Some(silence) = &before.disconnection_timeout {
            wanted.insert("disconnectionTimeout".to_owned(), silence.clone().into());
        }
    }
    sent.spec = wanted;
    Ok(sent.object())
}

fn translated(mut given: Value, before: &DeviceSpec) -> Result<Value, Error> {
    if let Some(template) = given.get_mut("template").and_then(Value::as_object_mut) {
        if let Some(wanted) = template.get_mut("spec") {
            *wanted = spec::ours(wanted.take(), before);
        }
        if template.get("metadata").is_some_and(Value::is_null) {
            template.remove("metadata");
        }
    }
    let Some(policy) = given.get_mut("rolloutPolicy") else { return Ok(given) };
    let Some(fields) = policy.as_object_mut() else { return Ok(given) };
    if let Some(timeout) = fields.remove("defaultUpdateTimeout") {
        fields.insert("updateTimeout".to_owned(), timeout);
    }
    percentage(policy, "spec.rolloutPolicy")?;
    let selection = policy.as_object_mut().and_then(|fields| fields.remove("deviceSelection"));
    let Some(mut selection) = selection.filter(|selection| !selection.is_null()) else { return Ok(given) };
    let place = "spec.rolloutPolicy.deviceSelection";
    if selection.get("strategy").and_then(Value::as_str) != Some(STRATEGY) {
        return Err(Error::invalid(format!("{place}.strategy"), format!("must be {STRATEGY}")));
    }
    for (number, batch) in spec::each(&mut selection, "sequence").enumerate() {
        percentage(batch, &format!("{place}.sequence[{number}]"))?;
    }
    let batches = selection["sequence"].take();
    policy["batches"] = if batches.is_null() { json!([]) } else { batches };
    Ok(given)
}

/// Turns `90%` into 90.
fn percentage(object: &mut Value, place: &str) -> Result<(), Error> {
    let Some(given) = object.get_mut("successThreshold") else { return Ok(()) };
    let number = given.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u8>().ok());
    let Some(number) = number.filter(|number| *number <= 100) else {
        return Err(Error::invalid(
            format!("{place}.successThreshold"),
            "must be a percentage from 0% to 100%, such as 90%",
        ));
    };
    *given = number.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Value {
        json!({
            "selector": {"matchLabels": {"fleet": "web"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"os": {"image": "edge:1"}}},
            "rolloutPolicy": {
                "batches": [{"limit": 2, "successThreshold": 50}, {"limit": "10%", "selector": {"matchLabels": {"a": "b"}}}],
                "successThreshold": 90, "updateTimeout": "1h 30m",
                "disruptionBudget": {"groupBy": ["site"], "maxUnavailable": 2, "minAvailable": 0},
            },
            "disconnectionTimeout": "10m",
        })
    }

    #[test]
    fn a_fleet_that_comes_back_unchanged_changes_nothing() {
        let spec: FleetSpec = serde_json::from_value(fleet()).unwrap();
        let read = shown(&Fleet { spec: spec.clone(), ..Fleet::default() });
        let policy = &read["spec"]["rolloutPolicy"];
        assert_eq!(policy["successThreshold"], "90%");
        assert_eq!(policy["defaultUpdateTimeout"], "90m");
        assert_eq!(policy["deviceSelection"]["sequence"][0], json!({"limit": 2, "successThreshold": "50%"}));
        assert!(policy["disruptionBudget"].get("minAvailable").is_none());
        assert_eq!(ours(read.clone(), &spec).unwrap()["spec"], fleet());
        let mut changed = read;
        changed["spec"]["rolloutPolicy"]["successThreshold"] = json!("80%");
        let ours = ours(changed, &spec).unwrap();
        assert_eq!(ours["spec"]["rolloutPolicy"]["successThreshold"], 80);
        assert_eq!(ours["spec"]["rolloutPolicy"]["updateTimeout"], "90m");
        assert_eq!(ours["spec"]["disconnectionTimeout"], "10m");
    }

    #[test]
    fn a_wrong_policy_is_refused_by_its_field() {
        let refused = |policy: Value| {
            let fleet = json!({"spec": {"template": {"spec": {}}, "rolloutPolicy": policy}});
            match ours(fleet, &FleetSpec::default()) {
                Err(Error::Invalid(errors)) => errors[0].field.clone(),
                other => panic!("{other:?}"),
            }
        };
        let place = "spec.rolloutPolicy";
        for wrong in [json!("lots"), json!(90), json!("101%"), json!(null)] {
            assert_eq!(refused(json!({"successThreshold": wrong})), format!("{place}.successThreshold"));
        }
        let selection = json!({"strategy": "Canary", "sequence": []});
        assert_eq!(
            refused(json!({"deviceSelection": selection})),
            format!("{place}.deviceSelection.strategy")
        );
        for wrong in [json!({"kind": "Device"}), json!({"apiVersion": "v2"}), json!(1)] {
            assert!(ours(wrong, &FleetSpec::default()).is_err());
        }
    }

    #[test]
    fn a_rollout_is_in_progress_while_it_is_active() {
        for (state, status, reason) in [
            ("Active", "True", "Active"),
            ("Waiting", "False", "Waiting"),
            ("Inactive", "False", "Inactive"),
            ("Suspended", "False", "Suspended"),
            ("Paused", "False", "Suspended"),
        ] {
            let mut given = FleetStatus::default();
            given.rollout.state = state.to_owned();
            let shown = shown_status(&given, Timestamp::UNIX_EPOCH);
            let condition = &shown["conditions"][1];
            assert_eq!((&condition["status"], &condition["reason"]), (&json!(status), &json!(reason)));
        }
    }

    #[test]
    fn no_fuzzed_fleet_changes_on_its_way_there_and_back() {
        use super::super::super::fuzz;
        let (mut random, sample) = (fuzz::Random(24), fleet());
        for _ in 0..fuzz::rounds() {
            let given = fuzz::mutated(&sample, &mut random);
            let foreign = json!({"spec": given});
            fuzz::judged(ours(foreign, &FleetSpec::default()), &given);
            let Ok(mut spec) = serde_json::from_value::<FleetSpec>(given.clone()) else { continue };
            spec.template_version = None;
            let read = shown(&Fleet { spec: spec.clone(), ..Fleet::default() });
            // Percentages above 100 are none that a fleet could have.
            let Some(back) = fuzz::judged(ours(read, &spec), &given) else { continue };
            assert_eq!(back["spec"], serde_json::to_value(&spec).unwrap(), "{given}");
        }
    }
}
