//! What MAAS should say of a node, and which runs fit which states.

use jiff::SignedDuration;
use wardroom_core::{
    Named,
    gpu_node::{
        Event, State, TABLE,
        maas::{Observed, Power, Status, Work, fits},
        mapping::{self, Misfit, Source},
    },
    run::{
        self,
        plan::{Kind, Stage},
    },
    table::{Event as _, Owner, State as _},
};

const POWERS: [Power; 4] = [Power::On, Power::Off, Power::Unknown, Power::Error];

#[test]
fn a_status_is_its_integer_also_when_it_is_unknown() {
    for code in -3..40 {
        let status = Status::from_code(code);
        assert_eq!(status.code(), code);
        assert_eq!(matches!(status, Status::Unknown(_)), !(0..23).contains(&code), "{code}");
    }
    assert_eq!(Status::from_code(i64::MAX).code(), i64::MAX);
    let failed: Vec<_> = (0..40).filter(|&code| Status::from_code(code).is_failed()).collect();
    assert_eq!(failed, [2, 11, 13, 15, 18, 20, 22]);
    let named = [
        (0, Status::New),
        (1, Status::Commissioning),
        (4, Status::Ready),
        (6, Status::Deployed),
        (8, Status::Broken),
        (9, Status::Deploying),
        (10, Status::Allocated),
        (14, Status::DiskErasing),
    ];
    for (code, status) in named {
        assert_eq!(Status::from_code(code), status);
    }
}

/// Section 6.2, with `Deployed` in `removing` and `New` in `quarantined` as decided; `off` is any status with the
/// power off.
const EXPECTED: &str = "
    bootstrap_issued any
    enrolling        New Commissioning Ready Allocated Deploying Deployed
    active           Deployed
    offline          Deployed
    quarantined      Ready failed Broken Deployed absent New
    draining         Deployed Ready
    retired          Deployed Ready off
    removing         Deployed Ready off absent
    deleted          any";

#[test]
fn the_expected_maas_states_are_the_documents() {
    let mut rows = 0;
    for line in EXPECTED.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let state: State = words.next().unwrap().parse().unwrap();
        let words: Vec<_> = words.collect();
        rows += 1;
        for code in 0..25 {
            let status = Status::from_code(code);
            for power in POWERS {
                let expected = words.iter().any(|&word| match word {
                    "any" => true,
                    "failed" => status.is_failed(),
                    "off" => power == Power::Off,
                    "absent" => false,
                    name => format!("{status:?}") == name,
                });
                let observed = Observed::Present { status, power };
                assert_eq!(fits(state, observed, Work::Nobody), expected, "{state} {observed:?}");
            }
        }
        let absent = words.contains(&"absent") || words.contains(&"any");
        assert_eq!(fits(state, Observed::Absent, Work::Nobody), absent, "{state} absent");
    }
    assert_eq!(rows, State::ALL.len());
}

/// What a run causes or fails in is not drift while the run is open, and is drift without: the column of our own.
const WHILE_OPEN: &str = "
    enrolling   Testing Releasing DiskErasing Broken failed
    quarantined New Commissioning Testing Allocated Deploying Releasing DiskErasing
    draining    New Broken failed absent
    retired     New Commissioning Testing Allocated Deploying Releasing DiskErasing Broken failed
    removing    New Releasing DiskErasing Broken failed";

#[test]
fn a_change_caused_by_a_run_is_not_drift() {
    for &state in State::ALL {
        let line = WHILE_OPEN.lines().map(str::trim).find(|line| line.starts_with(&format!("{state} ")));
        let words: Vec<_> = line.map(|line| line.split_whitespace().skip(1).collect()).unwrap_or_default();
        for code in 0..25 {
            let status = Status::from_code(code);
            let observed = Observed::Present { status, power: Power::On };
            let listed = words.iter().any(|&word| match word {
                "failed" => status.is_failed(),
                name => format!("{status:?}") == name,
            });
            let expected = listed || fits(state, observed, Work::Nobody);
            assert_eq!(fits(state, observed, Work::Run), expected, "{state} {observed:?}");
        }
        let absent = words.contains(&"absent") || fits(state, Observed::Absent, Work::Nobody);
        assert_eq!(fits(state, Observed::Absent, Work::Run), absent, "{state} absent");
    }
    assert!(
        !fits(State::Retired, Observed::Absent, Work::Run),
        "a machine that vanishes in the middle of a reimage is looked at by a person"
    );
}

/// Every combination that sections 4.3 and 5.3 name, for at least one kind of run that can be meant.
const DOCUMENT: &str = "
    onboarding   enrolling    pending running failed_retryable failed_manual_intervention
    onboarding   quarantined  failed_manual_intervention
    onboarding   active       completed reconciled
    decommission active       running
    decommission offline      running
    decommission quarantined  running failed_manual_intervention
    decommission draining     running
    decommission retired      running failed_retryable failed_manual_intervention
    decommission removing     running
    decommission deleted      completed";

#[test]
fn the_documents_combinations_fit_and_are_marked_as_its() {
    let mut named = 0;
    for &node in State::ALL {
        for &run in run::State::ALL {
            for family in ["onboarding", "decommission"] {
                let documented = DOCUMENT.lines().any(|line| {
                    let words: Vec<_> = line.split_whitespace().collect();
                    words.first() == Some(&family)
                        && words[1] == node.as_str()
                        && words[2..].contains(&run.as_str())
                });
                named += usize::from(documented);
                let kinds = Kind::ALL.iter().filter(|kind| kind.is_onboarding() == (family == "onboarding"));
                let sources: Vec<_> = kinds
                    .filter_map(|&kind| mapping::check(node, Some((kind, run))).ok().flatten())
                    .map(|fit| fit.source)
                    .collect();
                assert_eq!(sources.contains(&Source::Document), documented, "{family}: {node} with {run}");
            }
        }
    }
    assert_eq!(named, 17);
}

fn fit(node: State, kind: Kind, run: run::State) -> bool {
    mapping::check(node, Some((kind, run))).is_ok()
}

/// The failures that matter most would hide behind a table that does not look at the kind.
#[test]
fn a_run_ends_where_its_kind_ends() {
    for run in [run::State::Completed, run::State::Reconciled] {
        for &node in State::ALL {
            for &kind in Kind::ALL {
                let expected: &[State] = match kind {
                    Kind::FullDecommission | Kind::Remove => &[State::Deleted],
                    Kind::Retire => &[State::Retired, State::Active, State::Offline, State::Quarantined],
                    Kind::Onboarding
                    | Kind::Bootstrap
                    | Kind::SoftReset
                    | Kind::StorageCleanup
                    | Kind::Reimage => &[State::Active, State::Offline, State::Quarantined],
                };
                assert_eq!(fit(node, kind, run), expected.contains(&node), "{node} after {kind} {run}");
            }
        }
    }
    for &kind in Kind::ALL {
        let ends = matches!(kind, Kind::FullDecommission | Kind::Remove);
        assert_eq!(fit(State::Removing, kind, run::State::Running), ends, "{kind}");
    }
}

/// What a move that the workflow does not make does to the node's current run, in the same commit.
enum Beside {
    /// Nothing: the combination afterwards must fit.
    Nothing,
    /// A new run of one of these kinds starts.
    Starts(&'static [Kind]),
    /// The run is cancelled, with or without something to undo.
    Cancels,
    /// It is refused while such a run is open, as its precondition says.
    NeedsClosed(fn(Kind) -> bool),
}

fn beside(event: Event) -> Beside {
    match event {
        Event::Quarantine | Event::DriftFound | Event::HeartbeatsMissed | Event::Heartbeat => Beside::Nothing,
        Event::Recover | Event::ProvenHealthy => Beside::NeedsClosed(Kind::is_onboarding),
        Event::Reactivate => Beside::NeedsClosed(|_| true),
        Event::StartOnboarding => Beside::Starts(&[Kind::Onboarding]),
        Event::Drain => Beside::Starts(&[
            Kind::SoftReset,
            Kind::StorageCleanup,
            Kind::Reimage,
            Kind::FullDecommission,
            Kind::Retire,
        ]),
        Event::StopDrain | Event::RollbackRemove | Event::Delete => Beside::Cancels,
        Event::EnrollmentStarted
        | Event::Onboarded
        | Event::OnboardingBlocked
        | Event::Drained
        | Event::CleanupFinished
        | Event::DrainFailed
        | Event::SetAsideAgain
        | Event::Reenrolled
        | Event::Remove
        | Event::Uninstalled
        | Event::UninstallFailed => panic!("{event} is the workflow's"),
    }
}

/// From every sound combination, every move that people, beats and the reconciler make leads to a sound one.
#[test]
fn moves_beside_the_workflow_keep_node_and_run_together() {
    let mut checked = 0;
    for row in TABLE.0.iter().filter(|row| row.by != Owner::Workflow) {
        for &kind in Kind::ALL {
            for &run in run::State::ALL {
                if !fit(row.from, kind, run) {
                    continue;
                }
                checked += 1;
                let told = format!("{} {} with {kind} {run}", row.from, row.on);
                match beside(row.on) {
                    Beside::Nothing => assert!(fit(row.to, kind, run), "{told}"),
                    Beside::NeedsClosed(which) if which(kind) && run.is_open() => {
                        assert!(
                            row.on.call().is_none_or(|call| call.precondition.unwrap().contains("no open")),
                            "{told}"
                        );
                    }
                    Beside::NeedsClosed(_) => assert!(fit(row.to, kind, run), "{told}"),
                    Beside::Starts(kinds) => {
                        // A node is drained by the first stage of its run, so the run is at work by then.
                        let fresh = |kind| {
                            fit(row.to, kind, run::State::Pending) || fit(row.to, kind, run::State::Running)
                        };
                        assert!(kinds.iter().all(|&kind| fresh(kind)), "{told}");
                    }
                    Beside::Cancels => {
                        // A deletion waits until the run is over.
                        let undone = (row.on != Event::Delete).then_some(run::State::Compensating);
                        for after in undone.into_iter().chain([run::State::Cancelled]) {
                            assert!(fit(row.to, kind, after), "{told}, then {after}");
                        }
                    }
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// Every move of a run, while its node stays where it is or makes the move that the workflow makes with it, leads
/// from a sound combination to a sound one.
#[test]
fn moves_of_a_run_find_a_place_for_the_node() {
    for row in run::TABLE.0 {
        for &kind in Kind::ALL {
            for &node in State::ALL {
                if !fit(node, kind, row.from) {
                    continue;
                }
                let stays = fit(node, kind, row.to);
                let moves = TABLE.moves_from(node).any(|step| fit(step.to, kind, row.to));
                // A run that ends well has brought its node there by the stages before.
                let ends_well = matches!(row.to, run::State::Completed | run::State::Reconciled);
                assert!(
                    stays || moves || ends_well,
                    "{kind}: {} {} leaves {node} without a place",
                    row.from,
                    row.on
                );
            }
        }
    }
}

#[test]
fn work_in_progress_always_has_an_owner() {
    for &node in State::ALL {
        let owned = mapping::check(node, None);
        assert_eq!(owned.err(), node.needs_owner().then_some(Misfit::NoOwner(node)), "{node}");
        for &kind in Kind::ALL {
            for run in [run::State::Completed, run::State::Cancelled, run::State::Reconciled] {
                assert!(!node.needs_owner() || !fit(node, kind, run), "{node} {kind} {run}");
            }
        }
        assert!(!node.needs_owner() || node.remedy().is_some(), "{node} can be resumed");
    }
}

/// A state is not overdue while the stages that a run spends in it may still be at work.
#[test]
fn patience_is_longer_than_the_stages() {
    let sum = |kind: Kind, stages: std::ops::RangeInclusive<Stage>| -> SignedDuration {
        let place = |stage| kind.plan().iter().position(|step| step.stage == stage).unwrap();
        kind.plan()[place(*stages.start())..=place(*stages.end())]
            .iter()
            .map(|step| step.stage.patience())
            .sum()
    };
    for (state, spent) in [
        (State::Enrolling, Kind::Onboarding.patience()),
        (State::Draining, sum(Kind::SoftReset, Stage::DisableNode..=Stage::ValidateCleanNode)),
        (State::Draining, sum(Kind::FullDecommission, Stage::DisableNode..=Stage::ValidateCleanNode)),
        (State::Removing, sum(Kind::FullDecommission, Stage::RemoveGpuaasNodeRecord..=Stage::CleanupSecrets)),
    ] {
        assert!(state.patience().unwrap() >= spent, "{state}: {spent:#}");
    }
    for &kind in Kind::ALL {
        assert!(run::State::Running.patience().unwrap() >= kind.patience(), "{kind}: {:#}", kind.patience());
    }
    assert!(State::Active.patience().is_none());
}
