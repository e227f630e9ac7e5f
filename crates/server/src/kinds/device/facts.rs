//! The facts of a stored device, as `core` derives its statuses from them.

use wardroom_api::device::DeviceReport;
use wardroom_core::{
    Named as _,
    device::{
        Facts, Fleet, Report,
        applications::{Application, Reported},
        condition::{Condition, Conditions, Status, Type},
        resource::{Health, Resources},
    },
};

use super::document::Document;

/// Calls a function with the facts of a device, without those about silence.
pub(super) fn with<T>(document: &Document, of: impl FnOnce(&Facts<'_>) -> T) -> T {
    let applications: Vec<_> = document.reported.iter().flat_map(applications).collect();
    let report = document.reported.as_ref().map(|reported| report(reported, &applications));
    let rendered = version(document.rendered_version);
    let wanted = document.fleet.as_ref().and_then(|fleet| version(fleet.wants));
    let at = document.given().and_then(|given| version(given.version));
    of(&Facts {
        report,
        rendered_version: rendered.as_deref(),
        template_version: at.as_deref(),
        owner: document.fleet.as_ref().map(|fleet| &*fleet.fleet),
        fleet: document.fleet.as_ref().map(|_| Fleet { template_version: wanted.as_deref() }),
        enrolled: true,
        decommission_requested: document.decommissioning.is_some(),
        reached: document.reached(),
        ..Facts::default()
    })
}

/// A version on the wire; nothing before the first.
pub(super) fn version(number: u64) -> Option<String> {
    (number > 0).then(|| number.to_string())
}

fn applications(reported: &DeviceReport) -> impl Iterator<Item = Application<'_>> {
    reported.applications.iter().map(|application| Application {
        name: &application.name,
        state: Reported::from(&*application.status),
    })
}

fn report<'a>(reported: &'a DeviceReport, applications: &'a [Application<'a>]) -> Report<'a> {
    let mut conditions = Conditions::default();
    for given in &reported.conditions {
        let Some(of) = Type::ALL.iter().find(|of| of.as_str() == given.r#type) else { continue };
        let status = given.status.parse().unwrap_or(Status::Unknown);
        conditions.set(*of, Condition { status, reason: &given.reason, message: &given.message });
    }
    // A word that is not known says nothing about the health.
    let health = |given: &Option<String>| {
        given.as_deref().map(|given| Health::from_report(given).unwrap_or(Health::Unknown))
    };
    let resources = &reported.resources;
    Report {
        resources: Resources {
            cpu: health(&resources.cpu),
            memory: health(&resources.memory),
            disk: health(&resources.disk),
        },
        conditions,
        // Before the first version there is none to run.
        rendered_version: Some(&*reported.config.rendered_version).filter(|version| *version != "0"),
        applications,
    }
}
