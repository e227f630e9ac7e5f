//! What an agent reports of its device: the statuses follow from it in the same commit.

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde_json::json;
use wardroom_api::device::{DeviceReport, DeviceStatusReport};

use super::{
    call,
    document::{Document, KIND},
    proof,
};
use crate::platform::{
    app::{App, Decided},
    http::{
        body::{self, Reported},
        error::Error,
        path::Path,
        problems::Problems,
        text,
    },
    identity::auth::Caller,
};

/// The largest report: 500 applications with their messages have room.
const MOST_BYTES: usize = 256 << 10;

const MOST_CONDITIONS: usize = 50;
const MOST_APPLICATIONS: usize = 500;
const MOST_FACTS: usize = 200;

/// The longest word, and the longest text for people, that is kept.
const WORD: usize = 255;
const TEXT: usize = 4000;

/// Takes the report of an agent about its device, which replaces the one before.
#[utoipa::path(
    put, path = "/api/v1/devices/{name}/status", operation_id = "report_device_status",
    request_body = DeviceStatusReport, params(("name" = String, Path)), security(()),
    responses((status = 204, description = "The report is stored."), Problems)
)]
pub(crate) async fn report(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Error> {
    let identity = proof::itself(&caller, &name)?;
    let Reported { value: said, ignored } = body::reported::<DeviceStatusReport>(request, MOST_BYTES).await?;
    let mut reported = said.status;
    check("status", &reported)?;
    clean(&mut reported);
    call::heard(&app, &caller, identity).await?;
    let changed = app.change(KIND, &name, |device| {
        let document = Document::of(device)?;
        if document.was_heard && document.reported.as_ref() == Some(&reported) {
            return Ok(Decided::Nothing(()));
        }
        let version = &reported.config.rendered_version;
        let entry = call::by_device(&app, &caller, "report", json!({"renderedVersion": version}));
        let document = document.heard_of(reported.clone());
        call::commit(&app, document, device, entry)
    });
    changed.await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    ignored.warn(&mut response);
    Ok(response)
}

/// Refuses a report that contradicts itself, or says more than any agent has to say.
pub(super) fn check(field: &str, reported: &DeviceReport) -> Result<(), Error> {
    let DeviceReport { conditions, system_info, applications, .. } = reported;
    let counted = |name: &str, count: usize, most: usize| match count <= most {
        true => Ok(()),
        false => Err(Error::invalid(
            format!("{field}.{name}"),
            format!("has {count} entries, at most {most} are kept"),
        )),
    };
    Error::all([
        counted("conditions", conditions.len(), MOST_CONDITIONS),
        counted("applications", applications.len(), MOST_APPLICATIONS),
        counted("systemInfo", system_info.len(), MOST_FACTS),
    ])?;
    once(&format!("{field}.conditions"), "type", conditions.iter().map(|condition| &*condition.r#type))?;
    once(
        &format!("{field}.applications"),
        "name",
        applications.iter().map(|application| &*application.name),
    )?;
    for (number, condition) in conditions.iter().enumerate() {
        if !matches!(&*condition.status, "True" | "False" | "Unknown") {
            let place = format!("{field}.conditions[{number}].status");
            return Err(Error::invalid(place, "must be True, False or Unknown"));
        }
    }
    let texts = serde_json::to_string(reported).map_err(|_| Error::Internal)?;
    if texts.contains("\\u0000") {
        return Err(Error::invalid(field, "contains NUL"));
    }
    Ok(())
}

fn once<'a>(list: &str, field: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = std::collections::HashSet::new();
    for (number, name) in names.enumerate() {
        if name.is_empty() {
            return Err(Error::invalid(format!("{list}[{number}].{field}"), "is empty"));
        }
        if !seen.insert(name) {
            return Err(Error::invalid(format!("{list}[{number}].{field}"), "appears more than once"));
        }
    }
    Ok(())
}

/// Cuts what is too long: an agent cannot correct it.
fn clean(reported: &mut DeviceReport) {
    for condition in &mut reported.conditions {
        text::scrub(&mut condition.r#type, WORD);
        text::scrub(&mut condition.reason, WORD);
        text::scrub_prose(&mut condition.message, TEXT);
    }
    for application in &mut reported.applications {
        [&mut application.name, &mut application.status, &mut application.ready]
            .into_iter()
            .for_each(|word| text::scrub(word, WORD));
        text::scrub_prose(&mut application.message, TEXT);
    }
    let resources = &mut reported.resources;
    [&mut resources.cpu, &mut resources.memory, &mut resources.disk]
        .into_iter()
        .flatten()
        .for_each(|word| text::scrub(word, WORD));
    text::scrub(&mut reported.config.rendered_version, WORD);
    text::scrub(&mut reported.os.image, 1000);
    text::scrub(&mut reported.os.image_digest, WORD);
    let facts = std::mem::take(&mut reported.system_info).into_iter();
    reported.system_info = facts
        .map(|(mut name, mut value)| {
            text::scrub(&mut name, WORD);
            text::scrub_prose(&mut value, TEXT);
            (name, value)
        })
        .collect();
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{super::fuzz, *};

    #[test]
    fn no_fuzzed_report_is_the_fault_of_the_server() {
        let sample = json!({
            "conditions": [
                {"type": "Updating", "status": "True", "reason": "Preparing", "message": "version 2",
                 "lastTransitionTime": "2026-11-19T10:00:00Z"},
                {"type": "DeviceDecommissioning", "status": "True", "reason": "Completed"},
                {"type": "Rebooting", "status": "True"},
            ],
            "systemInfo": {"architecture": "x86_64", "bootID": "b"},
            "applications": [{"name": "web", "status": "Running", "ready": "1/1", "restarts": 3, "message": ""}],
            "resources": {"cpu": "Healthy", "memory": "Degraded", "disk": "Critical"},
            "config": {"renderedVersion": "2"},
            "os": {"image": "edge:1", "imageDigest": "sha256:0"},
        });
        let (mut random, mut taken) = (fuzz::Random(18), 0);
        for _ in 0..fuzz::rounds() {
            let given = fuzz::mutated(&sample, &mut random);
            let Ok(mut reported) = serde_json::from_value::<DeviceReport>(given.clone()) else { continue };
            if fuzz::judged(check("status", &reported), &given).is_none() {
                continue;
            }
            clean(&mut reported);
            let document = Document::default().heard_of(reported);
            let stored = document.content("d", Default::default(), Timestamp::UNIX_EPOCH);
            fuzz::judged(stored, &given).expect("what was taken can be stored");
            taken += 1;
        }
        assert!(taken > fuzz::rounds() / 50, "{taken} were taken");
    }
}
