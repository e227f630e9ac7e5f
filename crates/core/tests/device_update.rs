//! The update of a device: every pair of state and event, the document's arrows, and the hooks.

use std::collections::BTreeSet;

use wardroom_core::{
    Named,
    device::{
        hook::{self, Failure, HOOKS, Hook},
        update::{
            Event::{self, *},
            State::{self, *},
            TABLE,
        },
    },
    table::{Event as _, Owner, State as _},
};

/// The arrows of the document's diagram, hooks folded into the arrow they sit on.
const DRAWN: [(&str, &str); 13] = [
    ("Preparing", "ReadyToUpdate"),
    ("Preparing", "Error"),
    ("ReadyToUpdate", "ApplyingUpdate"),
    ("ApplyingUpdate", "Rebooting"),
    ("ApplyingUpdate", "ActivatingConfig"),
    ("ApplyingUpdate", "RollingBack"),
    ("Rebooting", "ActivatingConfig"),
    ("Rebooting", "RollingBack"),
    ("ActivatingConfig", "Updated"),
    ("ActivatingConfig", "RollingBack"),
    ("RollingBack", "Error"),
    ("Preparing", "Canceled"),
    ("ReadyToUpdate", "Canceled"),
];

/// What the document marks as not yet supported.
const NOT_YET_SUPPORTED: [&str; 1] = ["Canceled"];

/// Decision 001: a failed `beforeUpdating` hook aborts.
const DECIDED: [(&str, &str); 1] = [("ReadyToUpdate", "Error")];

#[test]
fn the_arrows_are_those_of_the_document_and_one_decision() {
    let supported = |(_, to): &(&str, &str)| !NOT_YET_SUPPORTED.contains(to);
    let drawn: BTreeSet<_> = DRAWN.into_iter().filter(supported).chain(DECIDED).collect();
    let ours: BTreeSet<_> = TABLE.0.iter().map(|row| (row.from.as_str(), row.to.as_str())).collect();

    assert_eq!(ours, drawn);
    assert_eq!(TABLE.0.len(), drawn.len(), "one row per arrow");
    assert!(TABLE.0.iter().all(|row| row.by == Owner::Agent));
}

#[test]
fn every_pair_of_state_and_event() {
    let moves = [
        (Preparing, Prepared, ReadyToUpdate),
        (Preparing, PreparationFailed, Error),
        (ReadyToUpdate, Started, ApplyingUpdate),
        (ReadyToUpdate, Aborted, Error),
        (ApplyingUpdate, RebootNeeded, Rebooting),
        (ApplyingUpdate, NoRebootNeeded, ActivatingConfig),
        (ApplyingUpdate, ApplyFailed, RollingBack),
        (Rebooting, Booted, ActivatingConfig),
        (Rebooting, BootFailed, RollingBack),
        (ActivatingConfig, Activated, Updated),
        (ActivatingConfig, ActivationFailed, RollingBack),
        (RollingBack, RolledBack, Error),
    ];
    for &state in State::ALL {
        for &event in Event::ALL {
            let to = moves.iter().find(|&&(from, on, _)| (from, on) == (state, event)).map(|&(_, _, to)| to);
            assert_eq!(TABLE.find(state, event).map(|row| row.to), to, "{state} on {event}");
        }
    }
}

#[test]
fn every_state_is_reached_and_only_the_ends_are_never_left() {
    let mut reached = BTreeSet::from([Preparing]);
    for _ in State::ALL {
        let next: Vec<_> =
            reached.iter().flat_map(|&from| TABLE.moves_from(from)).map(|row| row.to).collect();
        reached.extend(next);
    }
    assert_eq!(State::INITIAL, [Preparing]);
    assert_eq!(reached, State::ALL.iter().copied().collect());

    for &state in State::ALL {
        assert_eq!(state.is_terminal(), TABLE.moves_from(state).next().is_none(), "{state}");
        assert_eq!(state.is_terminal(), [Updated, Error].contains(&state), "{state}");
        assert_eq!(state.is_terminal(), state.patience().is_none(), "{state}");
        assert_eq!(state.is_reported(), state != ActivatingConfig, "{state}");
    }
}

#[test]
fn an_update_ends_where_its_events_lead() {
    let check = |events: &[Event], end| {
        let step = |from, &on| TABLE.find(from, on).map(|row| row.to);
        assert_eq!(events.iter().try_fold(Preparing, step), end, "{events:?}");
    };
    check(&[Prepared, Started, NoRebootNeeded, Activated], Some(Updated));
    check(&[Prepared, Started, RebootNeeded, Booted, Activated], Some(Updated));
    check(&[PreparationFailed], Some(Error));
    check(&[Prepared, Aborted], Some(Error));
    check(&[Prepared, Started, ApplyFailed, RolledBack], Some(Error));
    check(&[Prepared, Started, RebootNeeded, BootFailed, RolledBack], Some(Error));
    check(&[Prepared, Started, NoRebootNeeded, ActivationFailed, RolledBack], Some(Error));
    check(&[Prepared, Started, Activated], None);
    check(&[Prepared, Started, NoRebootNeeded, Activated, Prepared], None);
}

#[test]
fn each_hook_is_called_at_one_move_and_its_failure_is_a_move_too() {
    // The hook, the arrow it sits on, and where the update is when it fails.
    let documented = [
        (Hook::BeforeUpdating, (ReadyToUpdate, ApplyingUpdate), Error),
        (Hook::BeforeRebooting, (ApplyingUpdate, Rebooting), RollingBack),
        (Hook::AfterRebooting, (Rebooting, ActivatingConfig), ActivatingConfig),
        (Hook::AfterUpdating, (ActivatingConfig, Updated), RollingBack),
    ];
    let ours = HOOKS.map(|called| {
        let lead = |on| TABLE.find(called.from, on).map(|row| row.to).unwrap();
        let failed = match called.failure {
            Failure::Instead(event) => lead(event),
            Failure::Continue => lead(called.on),
        };
        (called.hook, (called.from, lead(called.on)), failed)
    });
    assert_eq!(ours, documented);
    assert_eq!(HOOKS.map(|called| called.hook).as_slice(), Hook::ALL);
}

#[test]
fn a_hook_is_found_at_its_move_and_at_no_other() {
    let called: Vec<_> = TABLE.0.iter().filter_map(|row| hook::at(row.from, row.on)).collect();
    assert_eq!(called, HOOKS);
    assert_eq!(hook::at(ReadyToUpdate, Started).map(|called| called.hook), Some(Hook::BeforeUpdating));
    assert_eq!(hook::at(Preparing, Started), None);
}

#[test]
fn no_api_call_moves_an_update() {
    assert!(Event::ALL.iter().all(|event| event.call().is_none()));
}
