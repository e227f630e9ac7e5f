//! What the agent says of its device. Pure but for the facts of the system, which are read once.

use std::{collections::BTreeMap, fs};

use wardroom_api::device::{Condition, ConfigStatus, DeviceReport, OsStatus, ResourcesStatus};
use wardroom_core::device::{condition::Type, lifecycle, update::State};

use super::{os::Booted, record::Record};

/// The longest message of a condition.
const MESSAGE: usize = 1000;

/// What a report is made of, beside the record.
pub(crate) struct Facts {
    pub(crate) system: BTreeMap<String, String>,
    pub(crate) resources: ResourcesStatus,
    pub(crate) booted: Booted,
    /// What the update waits for.
    pub(crate) waiting: Option<String>,
    /// How far the agent is with decommissioning its device.
    pub(crate) decommissioning: Option<lifecycle::Reason>,
}

/// Returns the report of a device.
pub(crate) fn report(record: &Record, facts: &Facts) -> DeviceReport {
    let mut conditions = vec![updating(record, facts.waiting.as_deref())];
    if let Some(reboot) = &record.reboot {
        let message = format!("a reboot that an operator requested, number {}", reboot.number);
        conditions.push(condition(Type::Rebooting, "True", "Requested", &message));
    } else if let Some(problem) = &record.reboot_problem {
        conditions.push(condition(Type::Rebooting, "False", "Failed", problem));
    }
    if let Some(reason) = facts.decommissioning {
        conditions.push(condition(Type::DeviceDecommissioning, "True", reason.as_str(), ""));
    }
    let version = record.current.as_ref().map(|current| current.version.clone()).unwrap_or_default();
    DeviceReport {
        conditions,
        system_info: facts.system.clone(),
        applications: Vec::new(),
        resources: facts.resources.clone(),
        config: ConfigStatus { rendered_version: version },
        os: OsStatus { image: facts.booted.image.clone(), image_digest: facts.booted.digest.clone() },
    }
}

/// The condition of the update in progress, or of the one before.
fn updating(record: &Record, waiting: Option<&str>) -> Condition {
    if let Some(update) = &record.update {
        let version = &update.to.version;
        let cause = update.progress.cause.as_deref();
        let message = match (cause, waiting) {
            (Some(cause), Some(waiting)) => format!("version {version}: {cause}; {waiting}"),
            (Some(text), None) | (None, Some(text)) => format!("version {version}: {text}"),
            (None, None) => format!("version {version}"),
        };
        let state = shown(update.progress.state, update.os.is_some());
        return condition(Type::Updating, "True", state.as_str(), &message);
    }
    match &record.outcome {
        Some(outcome) => {
            let message = match outcome.message.as_str() {
                "" => format!("version {}", outcome.version),
                text => format!("version {}: {text}", outcome.version),
            };
            condition(Type::Updating, "False", outcome.state.as_str(), &message)
        }
        None => condition(Type::Updating, "False", "", "no update yet"),
    }
}

/// Returns the state to report: one that is not reported looks like the one before it.
const fn shown(state: State, new_os: bool) -> State {
    match state {
        State::ActivatingConfig | State::Updated if new_os => State::Rebooting,
        State::ActivatingConfig | State::Updated => State::ApplyingUpdate,
        State::Error => State::RollingBack,
        State::Preparing
        | State::ReadyToUpdate
        | State::ApplyingUpdate
        | State::Rebooting
        | State::RollingBack => state,
    }
}

fn condition(of: Type, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        r#type: of.to_string(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.chars().take(MESSAGE).collect(),
        last_transition_time: None,
    }
}

/// Returns facts about the system that do not change while it is up.
pub(crate) fn system(boot_id: &str) -> BTreeMap<String, String> {
    let line = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let release = line("/etc/os-release");
    let named = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let facts = [
        ("architecture", std::env::consts::ARCH.to_owned()),
        (
            "operatingSystem",
            named.map_or_else(|| "linux".to_owned(), |name| name.trim_matches('"').to_owned()),
        ),
        ("kernel", line("/proc/sys/kernel/osrelease")),
        ("hostname", line("/proc/sys/kernel/hostname")),
        ("agentVersion", env!("CARGO_PKG_VERSION").to_owned()),
        ("bootID", boot_id.to_owned()),
    ];
    facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use wardroom_api::device::DeviceSpec;

    use super::*;
    use crate::device::{
        machine::Progress,
        record::{OsChange, Outcome, Update, Version},
    };

    fn facts(waiting: Option<&str>) -> Facts {
        Facts {
            system: BTreeMap::new(),
            resources: ResourcesStatus::default(),
            booted: Booted::default(),
            waiting: waiting.map(str::to_owned),
            decommissioning: None,
        }
    }

    fn at(state: State, new_os: bool) -> Record {
        let update = Update {
            to: Version { version: "2".to_owned(), spec: DeviceSpec::default() },
            progress: Progress { state, ..Progress::default() },
            changes: Vec::new(),
            os: new_os.then(|| OsChange { from: String::new(), to: String::new() }),
            began_in: String::new(),
            reboot_from: None,
            back_from: None,
        };
        Record { update: Some(update), ..Record::default() }
    }

    #[test]
    fn the_state_of_an_update_is_its_reason_and_a_transient_one_is_not_reported() {
        for (state, new_os, reason) in [
            (State::Preparing, false, "Preparing"),
            (State::Rebooting, true, "Rebooting"),
            (State::ActivatingConfig, true, "Rebooting"),
            (State::ActivatingConfig, false, "ApplyingUpdate"),
            (State::RollingBack, false, "RollingBack"),
        ] {
            let said = report(&at(state, new_os), &facts(Some("waits")));
            let Condition { status, reason: found, message, .. } = said.conditions[0].clone();
            assert_eq!(
                (status.as_str(), found.as_str(), message.as_str()),
                ("True", reason, "version 2: waits")
            );
        }
    }

    #[test]
    fn a_failed_update_names_its_cause_until_the_next_one() {
        let outcome = Outcome { version: "2".to_owned(), state: State::Error, message: "no room".to_owned() };
        let said = report(&Record { outcome: Some(outcome), ..Record::default() }, &facts(None));
        let condition = &said.conditions[0];
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "Error"));
        assert_eq!(condition.message, "version 2: no room");
    }
}
