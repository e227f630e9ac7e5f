//! Install reports and the transitions people ask for.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use proptest::prelude::*;
use wardroom_core::{
    Named,
    node::{
        MAX_INSTALL_ATTEMPTS, State, TABLE,
        report::{Facts, Ignored, InstallStatus, Outcome, judge, judge_silence},
        transition::{self, Refusal, Request},
    },
    table::Event,
};

/// A node as far as reports move it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    state: State,
    attempts: u32,
    counted: Vec<String>,
}

impl Node {
    fn new(state: State) -> Self {
        Self { state, attempts: 0, counted: Vec::new() }
    }

    fn report(&mut self, status: InstallStatus, attempt: Option<&str>) -> Outcome {
        let facts = Facts { state: self.state, attempts: self.attempts, counted_attempts: &self.counted };
        let outcome = judge(facts, status, attempt);
        self.apply(outcome);
        if let (Some(attempt), Outcome::Attempt { .. } | Outcome::Move { .. }) = (attempt, outcome) {
            self.counted.push(attempt.to_owned());
        }
        outcome
    }

    fn apply(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Move { event, attempts } => {
                self.state = TABLE.find(self.state, event).expect("a report moves along a row").to;
                self.attempts = attempts;
            }
            Outcome::Attempt { attempts } => self.attempts = attempts,
            Outcome::Progress | Outcome::Ignored(_) => {}
        }
    }
}

#[track_caller]
fn check(from: &str, reports: &[&str], to: &str, attempts: u32) {
    let mut node = Node::new(from.parse().unwrap());
    for report in reports {
        let (status, attempt) = report.split_once('#').map_or((*report, None), |(s, a)| (s, Some(a)));
        node.report(status.parse().unwrap(), attempt);
    }
    assert_eq!((node.state.as_str(), node.attempts), (to, attempts), "{from} after {reports:?}");
}

#[test]
fn an_install_succeeds_fails_and_gives_up() {
    check("pending", &["started", "progress", "complete"], "installed", 0);
    check("pending", &["started", "failed"], "installing", 1);
    check("pending", &["started", "failed", "failed"], "installing", 2);
    check("pending", &["started", "failed", "failed", "complete"], "installed", 0);
    check("pending", &["started", "failed", "failed", "failed"], "install_failed", 3);
    check("installing", &["failed", "failed", "failed", "failed"], "install_failed", 3);
}

#[test]
fn a_reboot_loop_cannot_reset_the_counter() {
    check("pending", &["started", "failed", "started", "failed", "started", "failed"], "install_failed", 3);
}

#[test]
fn an_attempt_that_names_itself_counts_once() {
    check("installing", &["failed#a", "failed#a", "failed#a"], "installing", 1);
    check("installing", &["failed#a", "failed#b", "failed#b"], "installing", 2);
    check("installing", &["failed#a", "failed#b", "failed#c"], "install_failed", 3);
    check("installing", &["failed", "failed#a", "failed"], "install_failed", 3);
}

#[test]
fn every_report_in_every_state() {
    for &state in State::ALL {
        for &status in InstallStatus::ALL {
            let mut node = Node::new(state);
            let outcome = node.report(status, None);
            let acts = match (status.as_str(), state.as_str()) {
                ("started", "pending") => Some(("installing", 0)),
                ("progress", "installing") => Some(("installing", 0)),
                ("complete", "installing") => Some(("installed", 0)),
                ("failed", "installing") => Some(("installing", 1)),
                _ => None,
            };
            let ignored = matches!(outcome, Outcome::Ignored(_));
            assert_eq!(ignored, acts.is_none(), "{status} in {state}");
            let expected = acts.unwrap_or((state.as_str(), 0));
            assert_eq!((node.state.as_str(), node.attempts), expected, "{status} in {state}");
        }
    }
    let installing = Facts { state: State::Installing, attempts: 0, counted_attempts: &[] };
    assert_eq!(judge(installing, InstallStatus::Started, None), Outcome::Ignored(Ignored::AlreadyInstalling));
}

#[test]
fn silence_counts_as_a_failed_attempt_of_the_system() {
    for &state in State::ALL {
        for attempts in 0..5 {
            let outcome = judge_silence(Facts { state, attempts, counted_attempts: &[] });
            if state != State::Installing {
                assert_eq!(outcome, Outcome::Ignored(Ignored::NotInstalling), "{state}");
            } else if attempts + 1 < MAX_INSTALL_ATTEMPTS {
                assert_eq!(outcome, Outcome::Attempt { attempts: attempts + 1 });
            } else {
                let Outcome::Move { event, attempts: after } = outcome else { panic!("{outcome:?}") };
                assert_eq!(TABLE.find(state, event).unwrap().to, State::InstallFailed);
                assert_eq!((event.as_str(), after), ("install_timed_out", attempts + 1));
            }
        }
    }
}

#[test]
fn every_transition_with_and_without_force() {
    for &from in State::ALL {
        for &to in State::ALL {
            for force in [false, true] {
                for attempts in [0, 2, 3, 4] {
                    let result = transition::judge(from, attempts, Request { to, force });
                    let legal = TABLE.0.iter().any(|row| row.from == from && row.to == to);
                    let limited = from == State::InstallFailed && to == State::Pending && attempts >= 3;
                    match result {
                        Ok(granted) => {
                            assert!(legal && (force || !limited), "{from} → {to} force={force} {attempts}");
                            assert_eq!((granted.row.from, granted.row.to), (from, to));
                            let afresh = ["pending", "installing", "installed"].contains(&to.as_str());
                            assert_eq!(granted.clears_counters, force || afresh, "{from} → {to}");
                        }
                        Err(Refusal::AlreadyThere(state)) => assert!(from == to && state == from),
                        Err(Refusal::RetryLimit { attempts: given }) => {
                            assert!(limited && !force && given == attempts);
                        }
                        Err(Refusal::NoSuchMove { allowed, .. }) => {
                            assert!(!legal && from != to, "{from} → {to}");
                            assert_eq!(allowed, transition::targets(from));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn force_opens_no_door_out_of_retired() {
    for &to in State::ALL {
        assert!(transition::judge(State::Retired, 0, Request { to, force: true }).is_err(), "retired → {to}");
    }
}

#[test]
fn a_refusal_says_what_is_allowed() {
    let refusal =
        transition::judge(State::Active, 0, Request { to: State::Pending, force: true }).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "a node that is active cannot become pending, only reprovision, deprovisioning, migrating, retired"
    );
    let refusal =
        transition::judge(State::Retired, 0, Request { to: State::Active, force: true }).unwrap_err();
    assert_eq!(refusal.to_string(), "a node that is retired cannot become active: nothing leaves retired");
    let refusal =
        transition::judge(State::InstallFailed, 3, Request { to: State::Pending, force: false }).unwrap_err();
    assert!(refusal.to_string().contains("retry with force"));
}

#[test]
fn every_move_but_the_promotion_by_setting_is_open_to_operators() {
    for row in TABLE.0 {
        assert_eq!(row.on.call().is_none(), row.on.as_str() == "auto_promote", "{}", row.on);
    }
}

proptest! {
    /// Whatever arrives in whatever order: attempts stay below the limit while installing, and a node that
    /// gave up had exactly as many failures as it may.
    #[test]
    fn reports_never_pass_the_limit(reports in prop::collection::vec((0..4usize, prop::option::of(0..3u8)), 0..40)) {
        let mut node = Node::new(State::Pending);
        for (status, attempt) in reports {
            let attempt = attempt.map(|number| number.to_string());
            node.report(InstallStatus::ALL[status], attempt.as_deref());
            match node.state {
                State::Installing => prop_assert!(node.attempts < MAX_INSTALL_ATTEMPTS),
                State::InstallFailed => prop_assert_eq!(node.attempts, MAX_INSTALL_ATTEMPTS),
                State::Pending | State::Installed => prop_assert_eq!(node.attempts, 0),
                State::Discovered
                | State::Active
                | State::Reprovision
                | State::Deprovisioning
                | State::Migrating
                | State::Retired => prop_assert!(false, "reports led to {}", node.state),
            }
        }
    }

    /// A report that is sent again right away, as a client does after a lost reply, changes nothing more.
    #[test]
    fn a_repeated_report_changes_nothing(before in prop::collection::vec(0..4usize, 0..10), last in 0..4usize) {
        let mut node = Node::new(State::Pending);
        for (index, status) in before.into_iter().enumerate() {
            node.report(InstallStatus::ALL[status], Some(&index.to_string()));
        }
        node.report(InstallStatus::ALL[last], Some("last"));
        let once = node.clone();
        node.report(InstallStatus::ALL[last], Some("last"));
        prop_assert_eq!((node.state, node.attempts), (once.state, once.attempts));
    }
}
