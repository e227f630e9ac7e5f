//! The decision of a rollout, case by case.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    device::fleet::{
        self, Batch, Budget, Counts, Course, Decision, Limit, Member, Outcome, Policy, Progress, Standing,
        State, decide,
        selector::{Must, Requirement, Selector},
    },
    why::Next,
};

/// Name, labels, standing, and whether it is heard, is busy, has the spec.
type Device = (String, BTreeMap<String, String>, Standing, [bool; 3]);

/// A device as a word: `w` waits, `o` waits and is offline, `u` works, `x` is lost while it works, `l` is late, `k` is well,
/// `f` failed, `b` waits and is busy with another version, `s` waits and has the spec already. A digit before it is its batch,
/// a label of its group follows.
fn fleet(words: &str) -> Vec<Device> {
    let now = now();
    let device = |(at, word): (usize, &str)| {
        let (batch, rest) = match word.as_bytes()[0] {
            digit @ b'0'..=b'9' => (usize::from(digit - b'0'), &word[1..]),
            _ => (0, word),
        };
        let (kind, group) = rest.split_at(1);
        let given =
            |outcome, ago: i64| Standing::Given { batch, at: now - SignedDuration::from_mins(ago), outcome };
        let (standing, facts) = match kind {
            "w" => (Standing::Waiting, [true, false, false]),
            "o" => (Standing::Waiting, [false, false, false]),
            "b" => (Standing::Waiting, [true, true, false]),
            "s" => (Standing::Waiting, [true, false, true]),
            "u" => (given(Outcome::Working, 1), [true, true, false]),
            "x" => (given(Outcome::Working, 1), [false, true, false]),
            "l" => (given(Outcome::Working, 90), [true, true, false]),
            "k" => (given(Outcome::Updated, 1), [true, false, true]),
            "f" => (given(Outcome::Failed, 1), [true, false, true]),
            other => panic!("{other}"),
        };
        let labels = [("site".to_owned(), group.to_owned())].into();
        (format!("d{at:02}"), labels, standing, facts)
    };
    words.split_whitespace().enumerate().map(device).collect()
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn policy(batches: &[Limit], budget: Option<Budget>) -> Policy {
    let batches = batches.iter().map(|&limit| Batch { limit: Some(limit), ..Batch::default() });
    Policy { batches: batches.collect(), timeout: SignedDuration::from_hours(1), budget, ..Policy::default() }
}

fn decided(policy: &Policy, course: Course, words: &str) -> Decision {
    let devices = fleet(words);
    let members: Vec<_> = devices
        .iter()
        .map(|(name, labels, standing, [is_heard, is_busy, has_spec])| Member {
            name,
            labels,
            standing: *standing,
            is_heard: *is_heard,
            is_busy: *is_busy,
            has_spec: *has_spec,
            said: Some("no room"),
        })
        .collect();
    decide(policy, course, &members, now())
}

#[track_caller]
fn check(policy: &Policy, course: Course, words: &str, state: State, batch: usize, gives: &[usize]) {
    let decision = decided(policy, course, words);
    assert_eq!((decision.state, decision.batch, &*decision.gives), (state, batch, gives), "{words}");
}

fn at(batch: usize) -> Course {
    Course { batch, ..Course::default() }
}

#[test]
fn without_batches_all_are_given_it_at_once() {
    let all = policy(&[], None);
    check(&all, at(0), "", State::Inactive, 0, &[]);
    check(&all, at(0), "w w o", State::Active, 0, &[0, 1, 2]);
    check(&all, at(0), "k u w", State::Active, 0, &[2]);
    check(&all, at(0), "k k k", State::Inactive, 0, &[]);
    check(&all, at(0), "k s", State::Active, 0, &[1]);
}

#[test]
fn batches_come_one_after_the_other() {
    let staged = policy(&[Limit::Count(1), Limit::Percent(40)], None);
    check(&staged, at(0), "w w w w w", State::Active, 0, &[0]);
    check(&staged, at(0), "o w w w w", State::Active, 0, &[1]);
    check(&staged, at(0), "u w w w w", State::Active, 0, &[]);
    check(&staged, at(0), "k w w w w", State::Active, 1, &[1, 2]);
    check(&staged, at(1), "0k 1k w w w", State::Active, 1, &[2]);
    check(&staged, at(1), "0k 1k 1u w w", State::Active, 1, &[]);
    check(&staged, at(1), "0k 1k 1k w o", State::Active, 2, &[3, 4]);
    check(&staged, at(2), "0k 1k 1k 2k 2k", State::Inactive, 2, &[]);
    // No device of a batch is heard: the next one begins.
    check(&staged, at(0), "o o", State::Active, 2, &[0, 1]);
    // A device that joins when all is done gets the template.
    check(&staged, at(2), "0k 2k w", State::Active, 2, &[2]);
}

#[test]
fn a_batch_takes_the_devices_that_it_selects() {
    let berlin = Requirement { key: "site".to_owned(), must: Must::BeIn(vec!["berlin".to_owned()]) };
    let first =
        Batch { selector: Some(Selector(vec![berlin])), limit: Some(Limit::Percent(50)), threshold: None };
    let staged = Policy { batches: vec![first], ..Policy::default() };
    check(&staged, at(0), "wbonn wberlin wbonn wberlin", State::Active, 0, &[1]);
    check(&staged, at(0), "wbonn kberlin wbonn wberlin", State::Active, 1, &[0, 2, 3]);
}

#[test]
fn a_batch_with_too_many_failures_stops_the_rollout() {
    let staged = policy(&[Limit::Count(4)], None);
    check(&staged, at(0), "f k u u w", State::Suspended, 0, &[]);
    check(&staged, at(0), "l k k k w", State::Suspended, 0, &[]);
    let half = Policy { threshold: 50, ..staged.clone() };
    check(&half, at(0), "f f k u w", State::Active, 0, &[]);
    check(&half, at(0), "f f k k w", State::Active, 1, &[4]);
    check(&half, at(0), "f f f u w", State::Suspended, 0, &[]);
    let own = Batch { limit: Some(Limit::Count(4)), threshold: Some(25), selector: None };
    let own = Policy { batches: vec![own], ..half };
    check(&own, at(0), "f f f k w", State::Active, 1, &[4]);
    // It stops before the whole batch is given it.
    let one = Some(Budget { max_unavailable: Some(1), ..Budget::default() });
    check(&policy(&[], one), at(0), "f w w w", State::Suspended, 0, &[]);
    // A person accepts what failed; another failure stops it again.
    let accepted = Course { accepted: 1, ..Course::default() };
    check(&staged, accepted, "f k k k w", State::Active, 1, &[4]);
    check(&staged, accepted, "f f k k w", State::Suspended, 0, &[]);
}

#[test]
fn a_pause_holds_everything_and_a_rollback_knows_no_batches() {
    let staged = policy(&[Limit::Count(1)], None);
    let paused = Course { is_paused: true, ..Course::default() };
    check(&staged, paused, "w w", State::Paused, 0, &[]);
    check(&staged, paused, "k w", State::Paused, 0, &[]);
    let back = Course { is_rollback: true, ..Course::default() };
    check(&staged, back, "w w s", State::Active, 1, &[0, 1, 2]);
    check(&staged, back, "1f 1f w", State::Active, 1, &[2]);
    check(&staged, back, "1f 1k 1k", State::Inactive, 1, &[]);
}

#[test]
fn the_budget_holds_devices_back_group_by_group() {
    let by_site = |min, max| {
        Some(Budget { group_by: vec!["site".to_owned()], min_available: min, max_unavailable: max })
    };
    let one = policy(&[], by_site(None, Some(1)));
    check(&one, at(0), "wa wa wb wb", State::Active, 0, &[0, 2]);
    check(&one, at(0), "ua wa wb wb", State::Active, 0, &[2]);
    check(&one, at(0), "ua wa kb wb", State::Active, 0, &[3]);
    // A device of the group that works on an older version takes its place; giving it the new one takes no other.
    check(&one, at(0), "wa ba", State::Active, 0, &[1]);
    check(&one, at(0), "sa wa", State::Active, 0, &[0, 1]);
    // Lost in its update, and then overdue: 90 minutes.
    check(&one, at(0), "xa wa", State::Active, 0, &[]);
    let some = policy(&[], by_site(Some(2), None));
    check(&some, at(0), "wa wa wa oa", State::Active, 0, &[0]);
    check(&some, at(0), "wa wa oa", State::Waiting, 0, &[]);
    check(&some, at(0), "ka ka oa", State::Waiting, 0, &[]);
    let decision = decided(&some, at(0), "wa wb wb wb");
    assert_eq!(decision.gives, [1]);
    let held: Vec<_> =
        decision.held.iter().map(|held| (&*held.group, held.waiting, held.is_impossible)).collect();
    assert_eq!(held, [("site=a", 1, true), ("site=b", 2, false)]);
}

#[test]
fn the_next_look_is_when_a_device_takes_too_long() {
    let all = policy(&[], None);
    assert_eq!(decided(&all, at(0), "k u").next, Some(now() + SignedDuration::from_mins(59)));
    assert_eq!(decided(&all, at(0), "k l w w w w w w w w w").next, None);
}

#[test]
fn counts_and_words_say_how_far_it_is() {
    let staged = policy(&[Limit::Count(4)], None);
    let decision = decided(&staged, at(0), "f k u u w o");
    let counts = Counts { devices: 6, updated: 1, updating: 2, failed: 1, waiting: 2 };
    assert_eq!(decision.counts, counts);
    let progress = Progress::of(&decision, 3, 2, None);
    assert_eq!(
        progress.info(decision.state),
        "Batch 1 of 2: 1 of 6 devices run template version 3; 2 updating, 1 failed, 2 waiting."
    );
    let why = fleet::why("web", decision.state, &progress, None, now());
    assert!(why.blockers.iter().any(|blocker| blocker.what == "device d00 failed: no room"), "{why:?}");
    let Next::Call(next) = &why.next else { panic!("{why:?}") };
    assert_eq!((next.action, &*next.path), ("rollback", "/api/v1/fleets/web/actions/rollback"));

    let late = Progress::of(&decided(&staged, at(0), "l k k k w"), 3, 2, None);
    assert_eq!(late.obstacles(), ["device d00 failed: did not finish within 1h"]);
    let none = Some(Budget { min_available: Some(3), ..Budget::default() });
    let decision = decided(&policy(&[], none), at(0), "w w");
    let progress = Progress::of(&decision, 1, 1, None);
    let why = fleet::why("web", decision.state, &progress, None, now());
    assert!(matches!(why.next, Next::Mend { .. }), "{why:?}");
    let done = Progress::of(&decided(&staged, at(1), "0k 1k"), 3, 2, None);
    assert_eq!(done.info(State::Inactive), "2 of 2 devices run template version 3.");
}
