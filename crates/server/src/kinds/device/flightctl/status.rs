//! The status of a device in Flight Control's words: nothing outside its enums, and every required field.

use jiff::Timestamp;
use serde_json::{Value, json};
use wardroom_api::device::{Condition, DeviceReport, DeviceSpec, DeviceStatus, StatusOf};
use wardroom_core::device::{resource::Health, summary};

/// The values of each status that Flight Control knows. Where it has more than we do, no device has them.
pub(super) const SUMMARY: &[&str] = &[
    "Online",
    "Degraded",
    "Error",
    "Rebooting",
    "PoweredOff",
    "Unknown",
    "AwaitingReconnect",
    "ConflictPaused",
];
pub(super) const UPDATED: &[&str] = &["UpToDate", "OutOfDate", "Updating", "Unknown"];
pub(super) const APPLICATIONS: &[&str] = &["Healthy", "Degraded", "Error", "Unknown", "NoApplications"];
pub(super) const LIFECYCLE: &[&str] = &["Unknown", "Enrolled", "Decommissioning", "Decommissioned"];

const APPLICATION: &[&str] =
    &["Preparing", "Starting", "Running", "Error", "Unknown", "Completed", "Stopped", "Stopping"];
const CONDITIONS: &[&str] = &["Updating", "SpecValid", "MultipleOwners", "DeviceDecommissioning"];

/// A word that Flight Control knows, or `Unknown`.
fn among(known: &[&str], word: &str) -> String {
    if known.contains(&word) { word.to_owned() } else { "Unknown".to_owned() }
}

/// A device that is not heard is `Unknown` there.
pub(super) fn summary_word(ours: &str) -> String {
    among(SUMMARY, if ours == summary::Status::Offline.as_str() { "Unknown" } else { ours })
}

fn health(ours: Option<&str>) -> &'static str {
    match ours.map(Health::from_report) {
        Some(Ok(Health::Healthy)) => "Healthy",
        Some(Ok(Health::Degraded)) => "Warning",
        Some(Ok(Health::Error)) => "Error",
        Some(Ok(Health::Critical)) => "Critical",
        Some(Ok(Health::Unknown) | Err(_)) | None => "Unknown",
    }
}

fn of(known: &[&str], ours: &StatusOf) -> Value {
    json!({"status": among(known, &ours.status), "info": ours.info})
}

/// The status of a device; `created` stands for times that nothing says.
pub(super) fn shown(status: &DeviceStatus, spec: &DeviceSpec, created: Timestamp) -> Value {
    let mut shown = reported(&status.reported, spec, created);
    shown["summary"] = json!({"status": summary_word(&status.summary.status), "info": status.summary.info});
    shown["updated"] = of(UPDATED, &status.updated);
    shown["applicationsSummary"] = of(APPLICATIONS, &status.application_summary);
    shown["lifecycle"] = of(LIFECYCLE, &status.lifecycle);
    shown
}

/// What an agent says, before the server knows more.
pub(super) fn reported(reported: &DeviceReport, spec: &DeviceSpec, created: Timestamp) -> Value {
    let unknown = json!({"status": "Unknown", "info": ""});
    let resources = &reported.resources;
    json!({
        "conditions": conditions(&reported.conditions, CONDITIONS, created),
        "systemInfo": system_info(reported),
        "applications": applications(reported, spec),
        "resources": {
            "cpu": health(resources.cpu.as_deref()),
            "memory": health(resources.memory.as_deref()),
            "disk": health(resources.disk.as_deref()),
        },
        "integrity": {"status": "Unsupported", "info": "The server does not check the integrity of devices."},
        "config": {"renderedVersion": reported.config.rendered_version},
        "os": {"image": reported.os.image, "imageDigest": reported.os.image_digest},
        "summary": unknown, "updated": unknown, "applicationsSummary": unknown, "lifecycle": unknown,
    })
}

/// The conditions whose types are known there.
pub(super) fn conditions(given: &[Condition], known: &[&str], created: Timestamp) -> Vec<Value> {
    let given = given.iter().filter(|condition| known.contains(&&*condition.r#type));
    let shown = |condition: &Condition| {
        json!({
            "type": condition.r#type, "status": among(&["True", "False"], &condition.status),
            "reason": condition.reason, "message": condition.message,
            "lastTransitionTime": condition.last_transition_time.unwrap_or(created),
        })
    };
    given.map(shown).collect()
}

fn system_info(reported: &DeviceReport) -> Value {
    let mut facts = reported.system_info.clone();
    // There it is a table, which no agent of ours reports.
    facts.remove("customInfo");
    for needed in ["architecture", "bootID", "operatingSystem", "agentVersion"] {
        facts.entry(needed.to_owned()).or_default();
    }
    json!(facts)
}

fn applications(reported: &DeviceReport, spec: &DeviceSpec) -> Vec<Value> {
    let shown = |application: &wardroom_api::device::ApplicationStatus| {
        let in_spec = spec.applications.iter().find(|wanted| wanted.name == application.name);
        let is_compose = in_spec.is_some_and(|wanted| wanted.app_type == "compose");
        json!({
            "name": application.name, "ready": application.ready, "restarts": application.restarts,
            "status": among(APPLICATION, &application.status), "embedded": false,
            "appType": if is_compose { "compose" } else { "container" },
        })
    };
    reported.applications.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use wardroom_core::{
        Named,
        device::{applications, lifecycle, updated},
    };

    use super::{super::super::fuzz, *};

    #[test]
    fn every_status_of_ours_is_one_of_theirs() {
        fn words<T: Named>() -> impl Iterator<Item = &'static str> {
            T::ALL.iter().map(|name| name.as_str())
        }
        for word in words::<summary::Status>() {
            let shown = summary_word(word);
            assert_eq!(shown, if word == "Offline" { "Unknown" } else { word });
        }
        assert!(words::<updated::Status>().all(|word| UPDATED.contains(&word)));
        assert!(words::<applications::Status>().all(|word| APPLICATIONS.contains(&word)));
        assert!(words::<lifecycle::Status>().all(|word| LIFECYCLE.contains(&word)));
        let words = ["Healthy", "Degraded", "Warning", "Error", "Critical", "Unknown", "hot"];
        let shown = words.map(|word| health(Some(word)));
        assert_eq!(shown, ["Healthy", "Warning", "Warning", "Error", "Critical", "Unknown", "Unknown"]);
        assert_eq!(health(None), "Unknown");
    }

    /// A client refuses a whole list for one foreign value.
    #[test]
    fn no_fuzzed_report_gets_past_their_enums() {
        let sample = json!({
            "conditions": [{"type": "Updating", "status": "True", "reason": "Preparing"}],
            "systemInfo": {"architecture": "x86_64", "customInfo": "b"},
            "applications": [{"name": "web", "status": "Running", "ready": "1/1", "restarts": 3}],
            "resources": {"cpu": "Healthy", "memory": "Degraded", "disk": "Critical"},
        });
        let mut random = fuzz::Random(19);
        for _ in 0..fuzz::rounds() {
            let given = fuzz::mutated(&sample, &mut random);
            let Ok(report) = serde_json::from_value::<DeviceReport>(given) else { continue };
            let shown = reported(&report, &DeviceSpec::default(), Timestamp::UNIX_EPOCH);
            let all = |list: &str, field: &str, known: &[&str]| {
                let all = shown[list].as_array().unwrap().iter();
                all.map(|one| one[field].as_str().unwrap()).all(|word| known.contains(&word))
            };
            assert!(all("applications", "status", APPLICATION), "{shown}");
            assert!(all("conditions", "type", CONDITIONS), "{shown}");
            assert!(all("conditions", "status", &["True", "False", "Unknown"]), "{shown}");
            assert!(shown["systemInfo"].as_object().unwrap().values().all(Value::is_string), "{shown}");
        }
    }

    #[test]
    fn what_they_do_not_know_is_left_out_or_unknown() {
        let report: DeviceReport = serde_json::from_value(json!({
            "conditions": [
                {"type": "Rebooting", "status": "True"},
                {"type": "Updating", "status": "True", "reason": "Preparing"},
            ],
            "systemInfo": {"customInfo": "x", "kernel": "6.1", "bootID": "b"},
            "applications": [{"name": "web", "status": "Paused"}],
        }))
        .unwrap();
        let shown = reported(&report, &DeviceSpec::default(), Timestamp::UNIX_EPOCH);
        let condition = json!([{
            "type": "Updating", "status": "True", "reason": "Preparing", "message": "",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }]);
        assert_eq!(shown["conditions"], condition);
        let facts = json!({
            "architecture": "", "bootID": "b", "operatingSystem": "", "agentVersion": "", "kernel": "6.1",
        });
        assert_eq!(shown["systemInfo"], facts);
        assert_eq!(shown["applications"][0]["status"], "Unknown");
        assert_eq!(shown["applications"][0]["appType"], "container");
    }
}
