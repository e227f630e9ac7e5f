//! Why a device is as it is: one explanation for each of its four statuses.

use jiff::Timestamp;

use super::{Facts, derive, updated};
use crate::{
    action::Call,
    table::{Owner, Role},
    why::{Rule, Why, explain_derived},
};

const NEW_SPEC: Option<Call> =
    Some(super::update::NEW_SPEC.when("for a device of a fleet, change the fleet's template instead"));
const APPROVE: Option<Call> = Some(
    Call::new("enrollmentrequest", "approve", "PUT", "/api/v1/enrollmentrequests/{name}/approval")
        .by(Role::Installer)
        .when("an enrolment request of the device"),
);
const REMOVE: Option<Call> = Some(
    Call::new("device", "delete", "DELETE", "/api/v1/devices/{name}")
        .when("the device is being decommissioned and will not be heard again"),
);

/// The ways out of every status that is not a good one.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    rule("summary", "Offline",   "Online",   "Its agent is heard again.",                      Owner::Agent, None),
    rule("summary", "Rebooting", "Online",   "It has booted and its agent says so.",           Owner::Agent, None),
    rule("summary", "Error",     "Online",   "The resources that fail are healthy again.",     Owner::Admin, None),
    rule("summary", "Degraded",  "Online",   "The resources that are degraded recover.",       Owner::Admin, None),
    rule("updated", "Unknown",   "UpToDate", "Its agent reports what it runs.",                Owner::Agent, None),
    rule("updated", "Updating",  "UpToDate", "Its agent finishes the update.",                 Owner::Agent, None),
    rule("updated", "OutOfDate", "Updating", "Its agent is given the new version and starts.", Owner::Agent, None),
    rule("applicationSummary", "Unknown",  "Healthy", "Its agent reports on the applications.", Owner::Agent, None),
    rule("applicationSummary", "Degraded", "Healthy", "The applications are up.",               Owner::Agent, None),
    rule("applicationSummary", "Error",    "Healthy", "The applications that fail are mended.", Owner::Admin, None),
    rule("lifecycle", "Unknown",         "Enrolled",       "Its enrolment is approved.",                  Owner::Admin, APPROVE),
    rule("lifecycle", "Decommissioning", "Decommissioned", "Its agent ends the decommissioning, or fails.", Owner::Agent, None),
    rule("lifecycle", "Decommissioning", "Decommissioned", "An admin removes a device that will not come back.", Owner::Admin, REMOVE),
];

/// An update that its agent gave up is not repeated: only a new version leads on.
const GIVEN_UP: &[Rule] =
    &[rule("updated", "OutOfDate", "Updating", "A new version is rendered for it.", Owner::Admin, NEW_SPEC)];

/// What keeps the rollout from reaching it has to be mended by a person; its agent has nothing to do.
const ROLLOUT: &[Rule] = &[rule(
    "updated",
    "OutOfDate",
    "Updating",
    "What keeps the rollout from it is mended.",
    Owner::Admin,
    None,
)];

const fn rule(
    about: &'static str,
    status: &'static str,
    to: &'static str,
    when: &'static str,
    by: Owner,
    call: Option<Call>,
) -> Rule {
    Rule { about, status, to, when, by, call }
}

/// Explains the four statuses of a device: summary, updated, application summary, lifecycle.
#[must_use]
pub fn why(name: &str, facts: &Facts<'_>, now: Timestamp) -> [Why; 4] {
    let statuses = derive(facts, now);
    let update_rules = match statuses.updated.status {
        updated::Status::OutOfDate if facts.update_error().is_some() => GIVEN_UP,
        updated::Status::OutOfDate if facts.is_out_of_reach() => ROLLOUT,
        updated::Status::OutOfDate
        | updated::Status::UpToDate
        | updated::Status::Updating
        | updated::Status::Unknown => RULES,
    };
    let mut summary =
        explain_derived(RULES, ("summary", name), statuses.summary.status, statuses.summary.info);
    if facts.is_disconnected(now) {
        summary.since = facts
            .last_seen
            .and_then(|seen| seen.saturating_add(facts.timeout.saturating_add(facts.excused)).ok());
    }
    [
        summary,
        explain_derived(update_rules, ("updated", name), statuses.updated.status, statuses.updated.info),
        explain_derived(
            RULES,
            ("applicationSummary", name),
            statuses.application_summary.status,
            statuses.application_summary.info,
        ),
        explain_derived(RULES, ("lifecycle", name), statuses.lifecycle.status, statuses.lifecycle.info),
    ]
}
