//! The checks that turn a report as it arrives into one to rely on.
//!
//! | Field                           | Accepted                                                           |
//! |---------------------------------|--------------------------------------------------------------------|
//! | `adapter`                       | 1 to 100 bytes, no control characters                              |
//! | `observed_generation`           | 1 or more                                                          |
//! | `observed_time`                 | RFC 3339, at most 5 min ahead of the server and 30 min behind      |
//! | `conditions`                    | at most 64, `Available`, `Applied` and `Health` among them         |
//! | `conditions[].type`             | 1 to 100 bytes, no control characters, none twice                  |
//! | `conditions[].status`           | exactly `True`, `False` or `Unknown`                               |
//! | `conditions[].reason`           | optional, up to 1024 bytes, no control characters                  |
//! | `conditions[].message`          | optional, up to 2048 bytes, no control characters but line and tab |
//!
//! Every problem is listed at once, because an adapter's author fixes a payload by hand. Nothing is cut to
//! fit: half a message misleads.

use jiff::{SignedDuration, Timestamp};

use super::{MANDATORY, RawCondition, RawReport, Report, ReportedCondition, Status};
use crate::Invalid;

const AHEAD: SignedDuration = SignedDuration::from_mins(5);
const BEHIND: SignedDuration = SignedDuration::from_mins(30);
const CONDITIONS: usize = 64;
const NAME_BYTES: usize = 100;
const REASON_BYTES: usize = 1024;
const MESSAGE_BYTES: usize = 2048;

/// Checks a report against the table above.
///
/// # Errors
///
/// Every problem found, each with the field it is in.
pub fn validate(raw: RawReport, now: Timestamp) -> Result<Report, Vec<Invalid>> {
    let mut problems = Vec::new();
    let adapter = keep(name("adapter", raw.adapter), &mut problems);
    let observed_generation = keep(generation(raw.observed_generation), &mut problems);
    let observed_time = keep(time(raw.observed_time, now), &mut problems);
    let conditions = conditions(raw.conditions, &mut problems);

    match (adapter, observed_generation, observed_time) {
        (Some(adapter), Some(observed_generation), Some(observed_time)) if problems.is_empty() => {
            Ok(Report { adapter, observed_generation, observed_time, conditions })
        }
        _ => Err(problems),
    }
}

fn keep<T>(checked: Result<T, Invalid>, problems: &mut Vec<Invalid>) -> Option<T> {
    checked.map_err(|problem| problems.push(problem)).ok()
}

fn generation(given: Option<i64>) -> Result<i64, Invalid> {
    let problem = |message: String| Invalid::new("observed_generation", message);
    match given {
        None => Err(problem("missing; send the generation of the cluster that was acted on".into())),
        Some(generation) if generation < 1 => {
            Err(problem(format!("is {generation}; generations count from 1: send the cluster's own")))
        }
        Some(generation) => Ok(generation),
    }
}

fn time(given: Option<String>, now: Timestamp) -> Result<Timestamp, Invalid> {
    let problem = |message: String| Invalid::new("observed_time", message);
    let Some(given) = given else {
        return Err(problem("missing; send when the state was observed, as RFC 3339".into()));
    };
    let time: Timestamp = given.parse().map_err(|_| {
        problem(format!("{} is not an RFC 3339 time such as 2025-10-17T12:00:05Z", quote(&given)))
    })?;

    let ahead = time.duration_since(now);
    if ahead > AHEAD {
        Err(problem(format!(
            "is {ahead:#} ahead of the server, {AHEAD:#} is allowed; set the adapter's clock"
        )))
    } else if ahead < -BEHIND {
        let behind = ahead.abs();
        Err(problem(format!(
            "is {behind:#} behind the server, {BEHIND:#} is allowed; observe again and report that"
        )))
    } else {
        Ok(time)
    }
}

fn conditions(given: Option<Vec<RawCondition>>, problems: &mut Vec<Invalid>) -> Vec<ReportedCondition> {
    let mut problem = |message: String| problems.push(Invalid::new("conditions", message));
    let Some(given) = given else {
        problem(format!("missing; every report carries {}", MANDATORY.join(", ")));
        return Vec::new();
    };
    // Looking at each of too many would let the sender choose how long the answer gets.
    if given.len() > CONDITIONS {
        problem(format!("has {} entries, at most {CONDITIONS} are allowed; leave some out", given.len()));
        return Vec::new();
    }
    for mandatory in MANDATORY {
        if !given.iter().any(|condition| condition.type_.as_deref() == Some(mandatory)) {
            problem(format!("{mandatory} is missing; every report carries {}", MANDATORY.join(", ")));
        }
    }
    unique(&given, problems);
    given.into_iter().enumerate().filter_map(|(index, raw)| condition(index, raw, problems)).collect()
}

fn unique(conditions: &[RawCondition], problems: &mut Vec<Invalid>) {
    for (index, condition) in conditions.iter().enumerate() {
        let Some(type_) = &condition.type_ else { continue };
        let earlier = conditions[..index].iter().position(|other| other.type_.as_ref() == Some(type_));
        if let Some(earlier) = earlier {
            let message =
                format!("{} is already in conditions[{earlier}]; send each type once", quote(type_));
            problems.push(Invalid::new(format!("conditions[{index}].type"), message));
        }
    }
}

fn condition(index: usize, raw: RawCondition, problems: &mut Vec<Invalid>) -> Option<ReportedCondition> {
    let field = |name: &str| format!("conditions[{index}].{name}");
    let type_ = keep(name(&field("type"), raw.type_), problems);
    let status = keep(status(&field("status"), raw.status), problems);
    let reason = keep(text(&field("reason"), raw.reason, REASON_BYTES, line), problems);
    let message = keep(text(&field("message"), raw.message, MESSAGE_BYTES, prose), problems);
    Some(ReportedCondition { type_: type_?, status: status?, reason: reason?, message: message? })
}

fn status(field: &str, given: Option<String>) -> Result<Status, Invalid> {
    let given = given.ok_or_else(|| Invalid::new(field, "missing; send True, False or Unknown"))?;
    given.parse().map_err(|_| {
        Invalid::new(field, format!("is {}; send True, False or Unknown, spelled like that", quote(&given)))
    })
}

fn name(field: &str, given: Option<String>) -> Result<String, Invalid> {
    match text(field, given, NAME_BYTES, line)? {
        None => Err(Invalid::new(field, "missing; send a name")),
        Some(name) if name.trim().is_empty() => Err(Invalid::new(field, "is empty; send a name")),
        Some(name) => Ok(name),
    }
}

fn text(
    field: &str,
    given: Option<String>,
    limit: usize,
    allowed: fn(char) -> bool,
) -> Result<Option<String>, Invalid> {
    let Some(given) = given else { return Ok(None) };
    if given.len() > limit {
        Err(Invalid::new(
            field,
            format!("has {} bytes, at most {limit} are allowed; shorten it", given.len()),
        ))
    } else if let Some(character) = given.chars().find(|&character| !allowed(character)) {
        Err(Invalid::new(field, format!("contains the control character {character:?}; remove it")))
    } else {
        Ok(Some(given))
    }
}

fn line(character: char) -> bool {
    !character.is_control()
}

// Messages quote the output of tools, which has lines.
fn prose(character: char) -> bool {
    line(character) || matches!(character, '\n' | '\t')
}

fn quote(given: &str) -> String {
    format!("{:?}", given.chars().take(40).collect::<String>())
}
