//! What MAAS should say of a node, and which runs fit which states.

use wardroom_core::{
    Named,
    gpu_node::{
        State,
        maas::{Observed, Power, STATUSES, Status, Work, fits},
        mapping::{self, Misfit, Source},
    },
    run::{self, plan::Kind},
    table::State as _,
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

/// Section 6.2, with `Deployed` in `removing` as decided; `off` is any status with the power off.
const EXPECTED: &str = "
    bootstrap_issued any
    enrolling        New Commissioning Ready Allocated Deploying Deployed
    active           Deployed
    offline          Deployed
    quarantined      Ready failed Broken Deployed absent
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

/// A status that a run passes through on its way is not drift while the run is at work, and is drift without.
#[test]
fn what_a_run_causes_is_not_drift() {
    let present = |status| Observed::Present { status, power: Power::On };
    for state in [State::Enrolling, State::Retired] {
        for status in [Status::Releasing, Status::DiskErasing, Status::Testing, Status::FailedDeployment] {
            assert!(fits(state, present(status), Work::Run), "{state} {status:?}");
            assert!(!fits(state, present(status), Work::Nobody), "{state} {status:?}");
        }
    }
    for status in STATUSES {
        let deployed = status == Status::Deployed;
        assert_eq!(
            fits(State::Active, present(status), Work::Run),
            deployed,
            "a run on an active node does not touch MAAS: {status:?}"
        );
    }
    for work in [Work::Nobody, Work::Run] {
        assert!(
            !fits(State::Enrolling, present(Status::Unknown(99)), work),
            "an unknown status is looked at by a person"
        );
    }
}

/// Every combination that sections 4.3 and 5.3 name.
const DOCUMENT: &str = "
    onboarding   enrolling                                  pending running failed_retryable failed_manual_intervention
    onboarding   quarantined                                failed_manual_intervention
    onboarding   active                                     completed reconciled
    decommission active offline quarantined draining retired removing | running
    decommission retired                                    failed_retryable failed_manual_intervention
    decommission quarantined                                failed_manual_intervention
    decommission deleted                                    completed";

/// What DESIGN.md adds, and what our moves make possible besides.
const EXTENSIONS: &str = "
    onboarding   bootstrap_issued | pending running failed_retryable failed_manual_intervention compensating cancelled
    onboarding   quarantined      | pending running failed_retryable compensating cancelled completed reconciled
    onboarding   enrolling        | compensating
    onboarding   offline          | completed reconciled
    decommission active offline   | pending failed_retryable failed_manual_intervention compensating cancelled completed reconciled
    decommission quarantined      | pending failed_retryable compensating cancelled completed reconciled
    decommission draining         | pending failed_retryable failed_manual_intervention compensating
    decommission retired          | pending compensating cancelled completed reconciled
    decommission removing         | compensating
    decommission deleted          | reconciled";

fn listed(table: &str, kind: Kind, node: State, run: run::State) -> bool {
    let family = if kind.is_onboarding() { "onboarding" } else { "decommission" };
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|words| {
        let is_run = |word: &&&str| word.parse::<run::State>().is_ok();
        words.first() == Some(&family)
            && words[1..].iter().take_while(|word| !is_run(word)).any(|word| *word == node.as_str())
            && words[1..].iter().filter(is_run).any(|word| *word == run.as_str())
    })
}

#[test]
fn every_combination_of_node_and_run() {
    for &node in State::ALL {
        for &kind in Kind::ALL {
            for &run in run::State::ALL {
                let document = listed(DOCUMENT, kind, node, run);
                let expected = document || listed(EXTENSIONS, kind, node, run);
                match mapping::check(node, Some((kind, run))) {
                    Ok(fit) => {
                        assert!(expected, "{node} with {kind} {run} fits unexpectedly");
                        let from_document = fit.unwrap().source == Source::Document;
                        assert_eq!(from_document, document, "{node} with {kind} {run}");
                    }
                    Err(misfit) => assert!(!expected, "{node} with {kind} {run}: {misfit}"),
                }
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
                assert!(
                    !node.needs_owner() || mapping::check(node, Some((kind, run))).is_err(),
                    "{node} {kind} {run}"
                );
            }
        }
        assert!(!node.needs_owner() || node.remedy().is_some(), "{node} can be resumed");
    }
}

#[test]
fn states_of_work_have_patience_and_states_of_rest_have_none() {
    for &state in State::ALL {
        assert!(!state.needs_owner() || state.patience().is_some(), "{state}");
    }
    assert!(State::Active.patience().is_none());
}
