//! A report as it arrives: every field that is wrong is named, and what the adapter keeps there stays to the byte.

use axum::extract::{FromRequest, Request};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use wardroom_api::{FieldError, cluster::Exact};
use wardroom_core::cluster::{RawCondition, RawReport, Report, validate};

use crate::platform::{
    app::App,
    http::{
        body::{Ignored, Reported, reported},
        error::Error,
    },
};

/// What adapters may send.
const MOST_BYTES: usize = 256 << 10;

/// A valid report.
pub(crate) struct Incoming {
    pub(crate) report: Report,
    pub(crate) data: Option<Exact>,
    pub(crate) metadata: Option<Exact>,
    pub(crate) ignored: Ignored,
}

/// Every field as the text it came in, so that one of a wrong type does not hide the others.
#[derive(Deserialize)]
struct Fields {
    adapter: Option<Box<RawValue>>,
    observed_generation: Option<Box<RawValue>>,
    observed_time: Option<Box<RawValue>>,
    conditions: Option<Box<RawValue>>,
    data: Option<Box<RawValue>>,
    metadata: Option<Box<RawValue>>,
    created_time: Option<Box<RawValue>>,
    last_report_time: Option<Box<RawValue>>,
}

/// A condition likewise.
#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
    reason: Option<Box<RawValue>>,
    message: Option<Box<RawValue>>,
    last_transition_time: Option<Box<RawValue>>,
}

impl FromRequest<App> for Incoming {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Self, Error> {
        let Reported { value, ignored } = reported::<Fields>(request, MOST_BYTES).await?;
        read(value, ignored, app.now())
    }
}

fn read(fields: Fields, mut ignored: Ignored, now: jiff::Timestamp) -> Result<Incoming, Error> {
    let mut wrong = Vec::new();
    let managed = [("created_time", &fields.created_time), ("last_report_time", &fields.last_report_time)];
    for (field, given) in managed {
        if given.is_some() {
            ignored.is_ours(field);
        }
    }
    let conditions = conditions(fields.conditions, &mut ignored, &mut wrong);
    let raw = RawReport {
        adapter: take("adapter", fields.adapter, "a text", &mut wrong),
        observed_generation: take(
            "observed_generation",
            fields.observed_generation,
            "a whole number",
            &mut wrong,
        ),
        observed_time: take("observed_time", fields.observed_time, "a text, as RFC 3339", &mut wrong),
        conditions,
    };
    let data = object("data", fields.data, &mut wrong);
    let metadata = object("metadata", fields.metadata, &mut wrong);
    let report = validate(raw, now).map_err(|problems| {
        // A field of a wrong type is not missing as well.
        let is_new = |field: &str| !wrong.iter().any(|error| error.field == field);
        problems.into_iter().filter(|problem| is_new(&problem.field)).collect::<Vec<_>>()
    });
    match report {
        Ok(report) if wrong.is_empty() => Ok(Incoming { report, data, metadata, ignored }),
        Ok(_) => Err(Error::Invalid(wrong)),
        Err(problems) => {
            wrong.extend(problems.into_iter().map(|problem| error(problem.field, problem.message)));
            Err(Error::Invalid(wrong))
        }
    }
}

fn conditions(
    given: Option<Box<RawValue>>,
    ignored: &mut Ignored,
    wrong: &mut Vec<FieldError>,
) -> Option<Vec<RawCondition>> {
    let each: Vec<Box<RawValue>> = take("conditions", given, "a list of objects", wrong)?;
    let mut conditions = Vec::with_capacity(each.len());
    for (index, given) in each.into_iter().enumerate() {
        let at = |name: &str| format!("conditions[{index}].{name}");
        let condition = {
            let mut json = serde_json::Deserializer::from_str(given.get());
            serde_ignored::deserialize::<_, _, Condition>(&mut json, |path| {
                ignored.is_unknown(&at(&path.to_string()))
            })
        };
        let Ok(Condition { type_, status, reason, message, last_transition_time }) = condition else {
            wrong.push(error(format!("conditions[{index}]"), "must be an object, with each field once"));
            conditions.push(RawCondition::default());
            continue;
        };
        if last_transition_time.is_some() {
            ignored.is_ours(&at("last_transition_time"));
        }
        let mut text = |name: &str, given| take(&at(name), given, "a text", wrong);
        conditions.push(RawCondition {
            type_: text("type", type_),
            status: text("status", status),
            reason: text("reason", reason),
            message: text("message", message),
        });
    }
    Some(conditions)
}

fn take<T: DeserializeOwned>(
    field: &str,
    given: Option<Box<RawValue>>,
    expected: &str,
    wrong: &mut Vec<FieldError>,
) -> Option<T> {
    let read = serde_json::from_str(given?.get());
    read.map_err(|_| wrong.push(error(field, format!("must be {expected}")))).ok()
}

fn object(field: &str, given: Option<Box<RawValue>>, wrong: &mut Vec<FieldError>) -> Option<Exact> {
    let object = Exact::try_from(given?);
    object.map_err(|_| wrong.push(error(field, "must be an object"))).ok()
}

fn error(field: impl Into<String>, message: impl Into<String>) -> FieldError {
    FieldError { field: field.into(), message: message.into(), fix: None }
}

#[cfg(test)]
mod tests {
    use super::{Fields, read};
    use crate::platform::http::{body::Ignored, error::Error};

    fn wrong(text: &str) -> Vec<String> {
        let fields: Fields = serde_json::from_str(text).expect("an object");
        match read(fields, Ignored::default(), "2026-11-19T12:00:00Z".parse().expect("a time")) {
            Ok(_) => Vec::new(),
            Err(Error::Invalid(errors)) => errors.into_iter().map(|error| error.field).collect(),
            Err(other) => panic!("{other}"),
        }
    }

    const CONDITIONS: &str = r#""conditions":[{"type":"Available","status":"True"},
        {"type":"Applied","status":"True"},{"type":"Health","status":"True","last_transition_time":"x"}]"#;

    #[test]
    fn every_wrong_field_is_named_once() {
        let good = format!(
            r#"{{"adapter":"dns","observed_generation":1,"observed_time":"2026-11-19T12:00:00Z",{CONDITIONS},
                "created_time":5,"data":{{"a":[1.0]}}}}"#
        );
        assert_eq!(wrong(&good), Vec::<String>::new());
        let text = r#"{"adapter":7,"observed_generation":"1","observed_time":5,"conditions":5,"data":[],"metadata":1}"#;
        let mut fields = wrong(text);
        fields.sort();
        let expected = ["adapter", "conditions", "data", "metadata", "observed_generation", "observed_time"];
        assert_eq!(fields, expected);
        let text = format!(r#"{{"adapter":"dns",{}}}"#, CONDITIONS.replace("\"Applied\"", "3"));
        let mut fields = wrong(&text);
        fields.sort();
        // Without its type the mandatory condition is missing too.
        assert_eq!(fields, ["conditions", "conditions[1].type", "observed_generation", "observed_time"]);
        assert_eq!(wrong(r#"{"conditions":[5]}"#)[0], "conditions[0]");
    }
}
