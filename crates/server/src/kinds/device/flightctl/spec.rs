//! The spec of a device, from and to Flight Control's words.
//!
//! What must stay true: a spec that a client read and sends back unchanged changes nothing, although some words of ours
//! have no counterpart there.

use jiff::SignedDuration;
use serde_json::{Value, json};
use wardroom_api::device::DeviceSpec;
use wardroom_core::device::resource::Health;

/// A spec as clients of Flight Control read it.
pub(super) fn shown(spec: &DeviceSpec) -> Value {
    let mut shown = serde_json::to_value(spec).unwrap_or_default();
    for application in each(&mut shown, "applications") {
        // Its schema has one of these, and its clients insist on all of them.
        let nothing = json!({"catalog": "", "item": "", "version": ""});
        fill(application, "image", json!(""));
        fill(application, "catalogItemRef", nothing);
        if application["appType"] == "compose" {
            fill(application, "inline", json!([]));
        }
    }
    for monitor in each(&mut shown, "resources") {
        let interval = monitor["samplingInterval"].as_str().map(duration);
        monitor["samplingInterval"] = interval.unwrap_or_else(|| "60s".to_owned()).into();
        if monitor["monitorType"] == "Disk" {
            fill(monitor, "path", json!("/"));
        }
        for rule in each(monitor, "alertRules") {
            let severity = rule["severity"].as_str().unwrap_or_default();
            rule["severity"] = severity_word(severity).into();
            rule["duration"] = duration(rule["duration"].as_str().unwrap_or_default()).into();
            fill(rule, "description", json!(""));
        }
    }
    for schedule in ["downloadSchedule", "updateSchedule"] {
        let place = shown.get_mut("updatePolicy").and_then(|policy| policy.get_mut(schedule));
        if let Some(schedule) = place {
            let grace = schedule["startGraceDuration"].as_str().unwrap_or_default();
            schedule["startGraceDuration"] = duration(grace).into();
        }
    }
    shown
}

/// There are three severities, and of each at most one rule counts: ours are told apart as far as that goes.
fn severity_word(ours: &str) -> &'static str {
    if matches!(Health::from_report(ours), Ok(Health::Degraded)) { "Warning" } else { "Critical" }
}

/// The elements of a list in an object, if they are objects.
pub(super) fn each<'a>(object: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = object.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|element| element.is_object())
}

fn fill(object: &mut Value, field: &str, value: Value) {
    if object.get(field).is_none_or(Value::is_null) {
        object[field] = value;
    }
}

/// A length of time with one unit.
pub(super) fn duration(ours: &str) -> String {
    let seconds = ours.parse::<SignedDuration>().map_or(0, |length| length.as_secs());
    match seconds {
        seconds if seconds % 3600 == 0 && seconds > 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 && seconds > 0 => format!("{}m", seconds / 60),
        // There is no shorter one.
        seconds => format!("{}s", seconds.max(1)),
    }
}

/// What a client sent, in our words; `before` is the spec that it may have read.
pub(super) fn ours(given: Value, before: &DeviceSpec) -> Value {
    let mut wanted = translated(given);
    let read = translated(shown(before));
    let before = serde_json::to_value(before).unwrap_or_default();
    if let Some(wanted) = wanted.as_object_mut() {
        for (part, value) in wanted {
            if read.get(part) == Some(value) {
                *value = before[part].clone();
            }
        }
    }
    wanted
}

fn translated(mut given: Value) -> Value {
    for application in each(&mut given, "applications") {
        remove_if(application, "catalogItemRef", is_blank);
        remove_if(application, "image", is_blank);
        remove_if(application, "inline", |value| value.as_array().is_some_and(Vec::is_empty));
    }
    for monitor in each(&mut given, "resources") {
        for rule in each(monitor, "alertRules") {
            if rule["severity"] == "Warning" {
                rule["severity"] = Health::Degraded.as_str().into();
            }
            remove_if(rule, "description", is_blank);
        }
    }
    for schedule in ["downloadSchedule", "updateSchedule"] {
        let place = given.get_mut("updatePolicy").and_then(|policy| policy.get_mut(schedule));
        if let Some(schedule) = place {
            // The zone of the device is what we mean without one.
            remove_if(schedule, "timeZone", |zone| zone == "Local");
        }
    }
    for part in ["config", "applications", "resources"] {
        remove_if(&mut given, part, |value| value.as_array().is_some_and(Vec::is_empty));
    }
    given
}

fn remove_if(object: &mut Value, field: &str, is_nothing: impl Fn(&Value) -> bool) {
    if let Some(fields) = object.as_object_mut()
        && fields.get(field).is_some_and(|value| value.is_null() || is_nothing(value))
    {
        fields.remove(field);
    }
}

/// An empty text, or an object of nothing else.
fn is_blank(value: &Value) -> bool {
    let is_empty = |value: &Value| value.as_str().is_some_and(str::is_empty);
    is_empty(value) || value.as_object().is_some_and(|fields| fields.values().all(is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_that_comes_back_unchanged_changes_nothing() {
        let ours = json!({
            "os": {"image": "registry.example/edge:1"},
            "config": [{"name": "motd", "inline": [{"path": "/etc/motd", "content": "hello", "mode": 420}]}],
            "applications": [
                {"name": "web", "appType": "container", "image": "web:1", "ports": ["8080:80"]},
                {"name": "stack", "appType": "compose", "inline": [{"path": "compose.yaml", "content": "{}"}]},
            ],
            "resources": [
                {"monitorType": "CPU", "samplingInterval": "1m 30s", "alertRules": [
                    {"severity": "Error", "percentage": 80, "duration": "1h"},
                    {"severity": "Degraded", "percentage": 70, "duration": "90m"},
                ]},
                {"monitorType": "Disk", "alertRules": []},
            ],
            "updatePolicy": {"updateSchedule": {"at": "0 2 * * *", "startGraceDuration": "1h 30m"}},
        });
        let spec: DeviceSpec = serde_json::from_value(ours.clone()).unwrap();
        let mut read = shown(&spec);
        assert_eq!(super::ours(read.clone(), &spec), ours);
        assert_eq!(read["resources"][0]["samplingInterval"], "90s");
        assert_eq!(read["resources"][0]["alertRules"][1]["severity"], "Warning");
        assert_eq!(read["resources"][1]["path"], "/");
        assert_eq!(read["updatePolicy"]["updateSchedule"]["startGraceDuration"], "90m");
        read["os"]["image"] = json!("registry.example/edge:2");
        let changed = super::ours(read, &spec);
        assert_eq!(changed["os"]["image"], "registry.example/edge:2");
        assert_eq!(changed["resources"], ours["resources"], "only what was changed changes");
    }

    #[test]
    fn nonsense_is_left_for_the_check_to_refuse() {
        for nonsense in
            [json!("x"), json!([1]), json!({"resources": 1, "applications": [2], "updatePolicy": "x"})]
        {
            assert_eq!(ours(nonsense.clone(), &DeviceSpec::default()), nonsense);
        }
    }
}
