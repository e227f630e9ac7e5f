//! Every combination of what a device may report, against the formulas of the document written down once more.

use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    Named,
    device::{
        Facts, Fleet, Report,
        applications::{self, Application},
        condition::{Condition, Conditions, Status},
        resource::{Health, Resources},
        summary, updated,
    },
};

const NOW: Timestamp = Timestamp::constant(1_767_226_200, 0);

/// Never, now, at the very end of the timeout, and after it.
fn ages() -> [Option<Timestamp>; 4] {
    let ago = |seconds| Some(NOW - SignedDuration::from_secs(seconds));
    [None, ago(0), ago(300), ago(301)]
}

fn condition(status: Status, reason: &'static str) -> Option<Condition<'static>> {
    Some(Condition { status, reason, message: "" })
}

/// The one formula that holds; nothing where none does.
fn only<S: Copy + std::fmt::Debug>(formulas: &[(S, bool)], facts: &Facts<'_>) -> Option<S> {
    let holding: Vec<S> = formulas.iter().filter(|(_, holds)| *holds).map(|(status, _)| *status).collect();
    assert!(holding.len() <= 1, "{holding:?} hold at once for {facts:?}");
    holding.first().copied()
}

/// The helper definition, with the time written as a number of seconds.
fn disconnected(facts: &Facts<'_>) -> bool {
    facts.last_seen.is_none_or(|seen| seen.as_second() + 300 < NOW.as_second())
}

/// What the resources of a device can be.
fn resources() -> Vec<[Option<Health>; 3]> {
    let healths: Vec<Option<Health>> = Health::ALL.iter().copied().map(Some).chain([None]).collect();
    let mut all = Vec::new();
    for &cpu in &healths {
        for &memory in &healths {
            all.extend(healths.iter().map(|&disk| [cpu, memory, disk]));
        }
    }
    all
}

/// What a device can say about rebooting, and whether it then is.
fn reboots() -> [(Conditions<'static>, bool); 5] {
    [
        (None, None, false),
        (condition(Status::True, ""), None, true),
        (condition(Status::False, ""), condition(Status::True, "Rebooting"), true),
        (condition(Status::Unknown, ""), condition(Status::Unknown, "Rebooting"), false),
        (None, condition(Status::True, "ApplyingUpdate"), false),
    ]
    .map(|(rebooting, updating, is)| (Conditions { rebooting, updating, ..Conditions::default() }, is))
}

#[test]
fn every_summary_is_the_one_the_document_defines() {
    let mut undefined = 0;
    for r in resources() {
        for (conditions, is_rebooting) in reboots() {
            for last_seen in ages() {
                let resources = Resources { cpu: r[0], memory: r[1], disk: r[2] };
                let report = Report { resources, conditions, ..Report::default() };
                let facts = Facts { last_seen, report: Some(report), ..Facts::default() };
                let defined = documented_summary(&facts, r, is_rebooting);
                undefined += usize::from(defined.is_none());

                // What is not known does not make a device unhealthy.
                let expected = defined.unwrap_or(summary::Status::Online);
                assert_eq!(summary::derive(&facts, NOW).status, expected, "{facts:?}");
            }
        }
    }
    // Healthy, Unknown or missing three times but not all Healthy; seen in two ways; not rebooting in three.
    assert_eq!(undefined, (27 - 1) * 2 * 3);
}

fn documented_summary(facts: &Facts<'_>, r: [Option<Health>; 3], rebooting: bool) -> Option<summary::Status> {
    use summary::Status::*;
    let in_error = |r: &Option<Health>| matches!(r, Some(Health::Error | Health::Critical));
    let here = !disconnected(facts) && !rebooting;
    let formulas = [
        (Online, here && r.iter().all(|r| *r == Some(Health::Healthy))),
        (Degraded, here && !r.iter().any(in_error) && r.contains(&Some(Health::Degraded))),
        (Error, here && r.iter().any(in_error)),
        (Rebooting, !disconnected(facts) && rebooting),
        (Offline, disconnected(facts)),
    ];
    only(&formulas, facts)
}

/// What the versions, the owner and the fleet of a device can be.
fn versions() -> Vec<Facts<'static>> {
    let texts = [None, Some("1"), Some("2")];
    let fleets = [None, Some(None), Some(Some("1")), Some(Some("2"))];
    let mut all = Vec::new();
    for running in texts {
        for rendered_version in texts {
            for template_version in texts {
                for fleet in fleets {
                    for owner in [None, Some("edge")] {
                        let report = Report { rendered_version: running, ..Report::default() };
                        let fleet = fleet.map(|template_version| Fleet { template_version });
                        let given =
                            Facts { rendered_version, template_version, fleet, owner, ..Facts::default() };
                        all.push(Facts { report: Some(report), ..given });
                    }
                }
            }
        }
    }
    all
}

#[test]
fn every_updated_status_is_the_one_the_document_defines() {
    use updated::Status::*;
    let conditions = [
        None,
        condition(Status::True, "Preparing"),
        condition(Status::False, "Updated"),
        condition(Status::False, "Error"),
        condition(Status::Unknown, ""),
    ];

    for facts in versions() {
        for last_seen in ages() {
            for updating in conditions {
                let report = facts.report.unwrap_or_default();
                let conditions = Conditions { updating, ..Conditions::default() };
                let facts = Facts { last_seen, report: Some(Report { conditions, ..report }), ..facts };

                let is_updating = updating.is_some_and(|updating| updating.status == Status::True);
                let to_device_spec = report.rendered_version == facts.rendered_version;
                let template = facts.fleet.and_then(|fleet| fleet.template_version);
                let managed = facts.owner.is_some();
                let to_fleet_spec = to_device_spec && facts.template_version == template;
                // The document's `Updating` is also true for a lost device; its `Unknown` is the narrower one.
                let lost = disconnected(&facts) && is_updating;
                let formulas = [
                    (UpToDate, !is_updating && to_device_spec && (!managed || to_fleet_spec)),
                    (Updating, is_updating && !lost),
                    (OutOfDate, !is_updating && (!to_device_spec || (managed && !to_fleet_spec))),
                    (Unknown, lost),
                ];
                let defined = only(&formulas, &facts);

                let never = last_seen.is_none();
                let missing = managed && (template.is_none() || facts.template_version.is_none());
                let expected = match defined {
                    _ if never => Some(Unknown),
                    Some(UpToDate) if missing => Some(OutOfDate),
                    defined => defined,
                };
                assert_eq!(Some(updated::derive(&facts, NOW).status), expected, "{facts:?}");
            }
        }
    }
}

#[test]
fn every_application_summary_is_the_one_the_document_defines() {
    use applications::Status::*;
    let states = ["Preparing", "Starting", "Running", "Error", "Completed", "Stopped"];
    let mut combinations: Vec<Vec<&str>> = vec![vec![]];
    for length in 0..3 {
        let longest: Vec<_> = combinations.iter().filter(|known| known.len() == length).cloned().collect();
        let longer = |known: &Vec<&'static str>, state| known.iter().copied().chain([state]).collect();
        combinations.extend(longest.iter().flat_map(|known| states.map(|state| longer(known, state))));
    }
    assert_eq!(combinations.len(), 1 + 6 + 36 + 216);

    for apps in &combinations {
        for last_seen in ages() {
            let listed: Vec<_> =
                apps.iter().map(|&state| Application { name: "a", state: state.into() }).collect();
            let report = Report { applications: &listed, ..Report::default() };
            let facts = Facts { last_seen, report: Some(report), ..Facts::default() };
            let connected = !disconnected(&facts);
            let failed = apps.contains(&"Error");
            let coming = apps.contains(&"Preparing") || apps.contains(&"Starting");
            let formulas = [
                (Healthy, connected && apps.iter().all(|app| ["Running", "Completed"].contains(app))),
                (Degraded, connected && !failed && coming),
                (Error, connected && failed),
                (Unknown, !connected),
            ];
            // A state outside the document's five counts as degraded.
            let expected = only(&formulas, &facts).unwrap_or(Degraded);
            assert_eq!(applications::derive(&facts, NOW).status, expected, "{facts:?}");
        }
    }
}
