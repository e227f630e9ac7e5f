//! What devices should run, as people write it: read strictly, and checked before any agent gets it.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wardroom_api::device::{
    ApplicationSpec, DeviceSpec, InlineFile, ResourceMonitor, Schedule, Template, UpdatePolicy,
};
use wardroom_core::device::resource::Health;

use super::{document::Document, fleet::template};
use crate::platform::http::{error::Error, text};

/// What a device should run; `template` is the one that it was given.
pub(super) fn of(document: &Document, template: Option<&Template>) -> DeviceSpec {
    let decommissioning = document.decommissioning.as_ref().map(|asked| {
        let target = asked.target.clone();
        wardroom_api::device::Decommissioning { target }
    });
    DeviceSpec { decommissioning, ..template::spec(document, template).clone() }
}

/// Reads what a person sent: a field that is not known is a mistake, which must not go unnoticed.
pub(super) fn strict<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let read: Result<T, serde_json::Error> =
        serde_ignored::deserialize(tracked, |path| unknown.push(path.to_string()));
    match (read, unknown.first()) {
        (Err(error), _) => {
            let place = track.path().to_string();
            Err(Error::invalid(place.trim_matches(['.', '?']), error.to_string()))
        }
        (Ok(_), Some(unknown)) => Err(Error::invalid(unknown.clone(), "is not known here")),
        (Ok(read), None) => Ok(read),
    }
}

const MOST_FILES: usize = 1000;
const MOST_APPLICATIONS: usize = 200;

/// Checks a spec. `field` is where it is.
pub(super) fn check(field: &str, spec: &DeviceSpec) -> Result<(), Error> {
    let DeviceSpec { os, config, applications, resources, update_policy, decommissioning } = spec;
    if decommissioning.is_some() {
        let message = "is set by the server: PUT /api/v1/devices/{name}/decommission";
        return Err(Error::invalid(format!("{field}.decommissioning"), message));
    }
    if let Some(os) = os {
        image(&format!("{field}.os.image"), &os.image)?;
    }
    let names = config.iter().map(|source| &*source.name);
    once(&format!("{field}.config"), "name", names.filter(|name| !name.is_empty()))?;
    let mut files = Vec::new();
    for (number, source) in config.iter().enumerate() {
        text::check(&format!("{field}.config[{number}].name"), &source.name, 0..=253)?;
        for (at, file) in source.inline.iter().enumerate() {
            let place = format!("{field}.config[{number}].inline[{at}]");
            self::file(&place, file, true)?;
            files.push((format!("{place}.path"), &*file.path));
        }
    }
    apart(files)?;
    counted(&format!("{field}.applications"), applications.len(), MOST_APPLICATIONS)?;
    once(
        &format!("{field}.applications"),
        "name",
        applications.iter().map(|application| &*application.name),
    )?;
    for (number, application) in applications.iter().enumerate() {
        self::application(&format!("{field}.applications[{number}]"), application)?;
    }
    once(
        &format!("{field}.resources"),
        "monitorType",
        resources.iter().map(|monitor| &*monitor.monitor_type),
    )?;
    for (number, monitor) in resources.iter().enumerate() {
        self::monitor(&format!("{field}.resources[{number}]"), monitor)?;
    }
    update_policy.as_ref().map_or(Ok(()), |policy| self::policy(&format!("{field}.updatePolicy"), policy))
}

fn counted(field: &str, count: usize, most: usize) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    Err(Error::invalid(field, format!("has {count} entries, at most {most} are allowed")))
}

fn once<'a>(list: &str, field: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (number, name) in names.enumerate() {
        if !seen.insert(name) {
            let message = format!("{name:?} appears more than once");
            return Err(Error::invalid(format!("{list}[{number}].{field}"), message));
        }
    }
    Ok(())
}

fn image(field: &str, image: &str) -> Result<(), Error> {
    text::check(field, image, 1..=1000)?;
    if image.contains(char::is_whitespace) || image.starts_with('-') {
        return Err(Error::invalid(
            field,
            "must be the reference of an image, such as registry.example/edge:1",
        ));
    }
    Ok(())
}

/// Files must not hide each other: neither twice, nor one in the place of a folder of another.
fn apart(mut files: Vec<(String, &str)>) -> Result<(), Error> {
    counted("spec.config", files.len(), MOST_FILES)?;
    files.sort_by(|left, right| left.1.split('/').cmp(right.1.split('/')));
    for pair in files.windows(2) {
        let [(_, first), (place, second)] = pair else { continue };
        if first == second {
            return Err(Error::invalid(place.clone(), format!("{second:?} appears more than once")));
        }
        if second.strip_prefix(first).is_some_and(|rest| rest.starts_with('/')) {
            return Err(Error::invalid(
                place.clone(),
                format!("{first:?} is a file too, and cannot be a folder"),
            ));
        }
    }
    Ok(())
}

fn file(field: &str, file: &InlineFile, absolute: bool) -> Result<(), Error> {
    let InlineFile { path, content, content_encoding, mode, user, group } = file;
    let place = format!("{field}.path");
    text::check(&place, path, 1..=4000)?;
    let relative = if absolute { path.strip_prefix('/') } else { Some(&**path) };
    let decent = |part: &str| !part.is_empty() && part != "." && part != ".." && part.len() <= 255;
    if !relative.is_some_and(|path| path.split('/').all(decent)) {
        let kind = if absolute { "an absolute path" } else { "a path relative to the application" };
        return Err(Error::invalid(place, format!("must be {kind} without \".\", \"..\" and empty parts")));
    }
    match content_encoding.as_deref() {
        None | Some("plain") => {}
        Some("base64") if BASE64_STANDARD.decode(content).is_ok() => {}
        Some("base64") => return Err(Error::invalid(format!("{field}.content"), "is not base64")),
        Some(_) => {
            return Err(Error::invalid(format!("{field}.contentEncoding"), "must be plain or base64"));
        }
    }
    if mode.is_some_and(|mode| mode > 0o7777) {
        return Err(Error::invalid(format!("{field}.mode"), "must be at most 4095, which is 0o7777"));
    }
    for (name, owner) in [("user", user), ("group", group)] {
        let decent = |owner: &str| {
            (1..=32).contains(&owner.len())
                && owner.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
                && !owner.starts_with('-')
        };
        if owner.as_deref().is_some_and(|owner| !decent(owner)) {
            return Err(Error::invalid(
                format!("{field}.{name}"),
                "must be a name or a number of the device",
            ));
        }
    }
    Ok(())
}

fn application(field: &str, application: &ApplicationSpec) -> Result<(), Error> {
    let ApplicationSpec { name, app_type, image, inline, env_vars, ports } = application;
    text::check_name(&format!("{field}.name"), name)?;
    match &**app_type {
        "container" => {
            let image = image.as_deref().unwrap_or_default();
            self::image(&format!("{field}.image"), image)?;
        }
        "compose" if inline.is_empty() => {
            return Err(Error::invalid(format!("{field}.inline"), "must have the compose file"));
        }
        "compose" => {}
        _ => return Err(Error::invalid(format!("{field}.appType"), "must be container or compose")),
    }
    let mut files = Vec::new();
    for (number, file) in inline.iter().enumerate() {
        let place = format!("{field}.inline[{number}]");
        self::file(&place, file, false)?;
        files.push((format!("{place}.path"), &*file.path));
    }
    apart(files)?;
    variables(&format!("{field}.envVars"), env_vars)?;
    for (number, port) in ports.iter().enumerate() {
        let decent = |part: &str| part.parse::<u16>().is_ok_and(|port| port > 0);
        if !port.split_once(':').is_some_and(|(host, inside)| decent(host) && decent(inside)) {
            return Err(Error::invalid(
                format!("{field}.ports[{number}]"),
                "must be two ports, such as 8080:80",
            ));
        }
    }
    Ok(())
}

fn variables(field: &str, variables: &BTreeMap<String, String>) -> Result<(), Error> {
    counted(field, variables.len(), 500)?;
    for (name, value) in variables {
        let decent = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let starts = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if !starts || name.len() > 255 || !name.bytes().all(decent) {
            return Err(Error::invalid(format!("{field}.{name}"), "is not the name of a variable"));
        }
        if value.contains('\0') {
            return Err(Error::invalid(format!("{field}.{name}"), "contains NUL"));
        }
    }
    Ok(())
}

fn monitor(field: &str, monitor: &ResourceMonitor) -> Result<(), Error> {
    let ResourceMonitor { monitor_type, sampling_interval, path, alert_rules } = monitor;
    if !matches!(&**monitor_type, "CPU" | "Memory" | "Disk") {
        return Err(Error::invalid(format!("{field}.monitorType"), "must be CPU, Memory or Disk"));
    }
    if let Some(interval) = sampling_interval {
        duration(&format!("{field}.samplingInterval"), interval)?;
    }
    if path.as_ref().is_some_and(|path| !path.starts_with('/') || path.contains('\0')) {
        return Err(Error::invalid(format!("{field}.path"), "must be an absolute path"));
    }
    let mut seen = Vec::new();
    for (number, rule) in alert_rules.iter().enumerate() {
        let place = format!("{field}.alertRules[{number}]");
        let severity = Health::from_report(&rule.severity).ok();
        let severity =
            severity.filter(|health| matches!(health, Health::Degraded | Health::Error | Health::Critical));
        let Some(severity) = severity else {
            let message = "must be Degraded (or Warning), Error or Critical";
            return Err(Error::invalid(format!("{place}.severity"), message));
        };
        if seen.contains(&severity) {
            return Err(Error::invalid(format!("{place}.severity"), "appears more than once"));
        }
        seen.push(severity);
        if !(1..=100).contains(&rule.percentage) {
            return Err(Error::invalid(format!("{place}.percentage"), "must be from 1 to 100"));
        }
        duration(&format!("{place}.duration"), &rule.duration)?;
        text::check_some(&format!("{place}.description"), rule.description.as_deref(), 1000)?;
    }
    Ok(())
}

fn policy(field: &str, policy: &UpdatePolicy) -> Result<(), Error> {
    let schedules =
        [("downloadSchedule", &policy.download_schedule), ("updateSchedule", &policy.update_schedule)];
    for (name, schedule) in schedules {
        let Some(Schedule { at, time_zone, start_grace_duration }) = schedule else { continue };
        let decent = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || b"*,-/".contains(&byte));
        if at.split(' ').count() != 5 || !at.split(' ').all(|part| !part.is_empty() && decent(part)) {
            let message = "must be the five fields of cron, such as 0 2 * * *";
            return Err(Error::invalid(format!("{field}.{name}.at"), message));
        }
        if let Some(zone) = time_zone {
            text::check(&format!("{field}.{name}.timeZone"), zone, 1..=100)?;
        }
        duration(&format!("{field}.{name}.startGraceDuration"), start_grace_duration)?;
    }
    Ok(())
}

/// A length of time such as `90s`, `10m` or `1h 30m`: more than none, and at most a year.
pub(super) fn duration(field: &str, given: &str) -> Result<SignedDuration, Error> {
    let parsed = given.parse::<SignedDuration>().ok().filter(|_| given.len() <= 50);
    let longest = SignedDuration::from_hours(24 * 366);
    parsed.filter(|length| *length > SignedDuration::ZERO && *length <= longest).ok_or_else(|| {
        Error::invalid(field, "must be a length of time, such as 90s, 10m or 2h, at most a year")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(spec: Value) -> String {
        let checked = strict::<DeviceSpec>(spec.clone()).and_then(|spec| check("spec", &spec));
        match checked {
            Err(Error::Invalid(errors)) => errors[0].field.clone(),
            other => panic!("{spec}: {other:?}"),
        }
    }

    #[test]
    fn a_spec_that_no_agent_could_apply_is_refused_by_its_field() {
        let files = |paths: &[&str]| {
            let files: Vec<_> = paths.iter().map(|path| json!({"path": path, "content": "x"})).collect();
            json!({"config": [{"name": "a", "inline": files}]})
        };
        let path = "spec.config[0].inline[0].path";
        for wrong in ["etc/x", "/etc/../x", "/etc/./x", "/", "", "/etc//x", "/etc/x/", "/a\0b", "/../x"] {
            assert_eq!(refused(files(&[wrong])), path, "{wrong:?}");
        }
        let second = "spec.config[0].inline[1].path";
        assert_eq!(refused(files(&["/a/b", "/a/b"])), second, "twice");
        assert_eq!(refused(files(&["/a", "/a/b"])), second, "a file as a folder");
        let of = |field: &str, value: Value| {
            let mut file = json!({"path": "/x", "content": "x"});
            file[field] = value;
            json!({"config": [{"inline": [file]}]})
        };
        assert_eq!(refused(of("mode", json!(0o10000))), "spec.config[0].inline[0].mode");
        assert_eq!(refused(of("user", json!("a b"))), "spec.config[0].inline[0].user");
        assert_eq!(refused(of("contentEncoding", json!("gzip"))), "spec.config[0].inline[0].contentEncoding");
        assert_eq!(refused(json!({"colour": "red"})), "colour");
        assert_eq!(refused(json!({"os": {"image": "a b"}})), "spec.os.image");
        assert_eq!(refused(json!({"decommissioning": {"target": "Unenroll"}})), "spec.decommissioning");
        let app = |app: Value| json!({"applications": [app]});
        assert_eq!(refused(app(json!({"name": "a", "appType": "helm"}))), "spec.applications[0].appType");
        assert_eq!(refused(app(json!({"name": "a", "appType": "container"}))), "spec.applications[0].image");
        let rule = |rule: Value| json!({"resources": [{"monitorType": "Disk", "alertRules": [rule]}]});
        let place = "spec.resources[0].alertRules[0]";
        let broken = json!({"severity": "Info", "percentage": 80, "duration": "1m"});
        assert_eq!(refused(rule(broken)), format!("{place}.severity"));
        let broken = json!({"severity": "Error", "percentage": 0, "duration": "1m"});
        assert_eq!(refused(rule(broken)), format!("{place}.percentage"));
        let broken = json!({"severity": "Error", "percentage": 80, "duration": "-1m"});
        assert_eq!(refused(rule(broken)), format!("{place}.duration"));
        let schedule =
            |at: &str| json!({"updatePolicy": {"updateSchedule": {"at": at, "startGraceDuration": "1h"}}});
        assert_eq!(refused(schedule("every day")), "spec.updatePolicy.updateSchedule.at");
    }

    #[test]
    fn a_whole_spec_is_taken() {
        let spec = json!({
            "os": {"image": "registry.example/edge@sha256:0"},
            "config": [{"name": "motd", "inline": [
                {"path": "/etc/motd", "content": "hello", "mode": 420, "user": "root", "group": "0"},
                {"path": "/etc/motd.d/a", "content": "aGVsbG8=", "contentEncoding": "base64"},
            ]}],
            "applications": [
                {"name": "web", "appType": "container", "image": "web:1", "ports": ["8080:80"], "envVars": {"A_1": "x"}},
                {"name": "stack", "appType": "compose", "inline": [{"path": "compose.yaml", "content": "{}"}]},
            ],
            "resources": [{"monitorType": "CPU", "samplingInterval": "10s", "alertRules": [
                {"severity": "Warning", "percentage": 80, "duration": "1h"},
                {"severity": "Critical", "percentage": 95, "duration": "30m"},
            ]}],
            "updatePolicy": {"updateSchedule": {"at": "0 2 * * 1-5", "timeZone": "Europe/Berlin", "startGraceDuration": "2h"}},
        });
        check("spec", &strict(spec).unwrap()).unwrap();
    }

    #[test]
    fn no_fuzzed_spec_is_the_fault_of_the_server_or_leaves_its_place() {
        use super::super::fuzz;
        let sample = json!({
            "os": {"image": "registry.example/edge:1"},
            "config": [{"name": "motd", "inline": [
                {"path": "/etc/motd", "content": "hello", "mode": 420, "user": "root"},
                {"path": "/etc/motd.d/a", "content": "aGVsbG8=", "contentEncoding": "base64"},
            ]}],
            "applications": [
                {"name": "web", "appType": "container", "image": "web:1", "ports": ["8080:80"], "envVars": {"A": "x"}},
                {"name": "stack", "appType": "compose", "inline": [{"path": "compose.yaml", "content": "{}"}]},
            ],
            "resources": [{"monitorType": "Disk", "samplingInterval": "10s", "path": "/var", "alertRules": [
                {"severity": "Warning", "percentage": 80, "duration": "1h"},
            ]}],
            "updatePolicy": {"updateSchedule": {"at": "0 2 * * *", "startGraceDuration": "2h"}},
        });
        let (mut random, mut taken) = (fuzz::Random(21), 0);
        for _ in 0..fuzz::rounds() {
            let given = fuzz::mutated(&sample, &mut random);
            let Some(spec) = fuzz::judged(strict::<DeviceSpec>(given.clone()), &given) else { continue };
            if fuzz::judged(check("spec", &spec), &given).is_none() {
                continue;
            }
            taken += 1;
            let files = spec.config.iter().flat_map(|source| &source.inline);
            let paths: Vec<_> = files.map(|file| &*file.path).collect();
            let decent = |path: &&str| {
                path.starts_with('/') && !path.split('/').any(|part| matches!(part, "." | ".."))
            };
            assert!(paths.iter().all(decent), "{paths:?}");
            assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len(), "{paths:?}");
        }
        assert!(taken > fuzz::rounds() / 50, "{taken} were taken");
    }
}
