//! Every table against its document: the arrows as drawn there, every pair of state and event, and the
//! shape that all tables share. The table of an update has a test of its own, `device_update.rs`.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::collections::{BTreeMap, BTreeSet};

use wardroom_core::{
    device, gpu_node,
    lifecycles::{self, Lifecycle},
    node, run, satellite,
    table::{Event, Owner, State, Table},
};

fn lifecycle(name: &str) -> Lifecycle {
    lifecycles::all().into_iter().find(|lifecycle| lifecycle.name == name).unwrap()
}

/// Reads `from -> to | to` lines, one per state; `any` is every other state that is not terminal.
fn arrows(drawn: &str, lifecycle: &Lifecycle) -> BTreeSet<(String, String)> {
    let mut arrows = BTreeSet::new();
    for line in drawn.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (from, to) = line.split_once(" -> ").unwrap();
        for to in to.split(" | ") {
            for state in lifecycle
                .states
                .iter()
                .filter(|state| state.name == from || (from == "any" && !state.terminal && state.name != to))
            {
                arrows.insert((state.name.to_owned(), to.to_owned()));
            }
        }
    }
    arrows
}

#[track_caller]
fn check_arrows(name: &str, drawn: &str) {
    let lifecycle = lifecycle(name);
    let ours: BTreeSet<_> =
        lifecycle.moves.iter().map(|row| (row.from.to_owned(), row.to.to_owned())).collect();
    assert_eq!(ours, arrows(drawn, &lifecycle), "the arrows of {name}");
}

#[test]
fn the_arrows_of_a_node_are_those_of_document_002() {
    check_arrows(
        "node",
        "discovered -> pending
         pending -> installing
         installing -> installed
         installing -> install_failed
         install_failed -> pending
         installed -> active
         active -> reprovision | deprovisioning | migrating
         reprovision -> pending
         deprovisioning -> retired
         migrating -> active
         any -> retired",
    );
}

/// The last four are decisions of ours: 012 and 016.
#[test]
fn the_arrows_of_a_gpu_node_are_those_of_document_001() {
    check_arrows(
        "gpu-node",
        "bootstrap_issued -> enrolling
         enrolling -> active
         enrolling -> quarantined
         active -> offline
         offline -> active
         active -> quarantined
         offline -> quarantined
         quarantined -> active
         quarantined -> draining
         active -> draining
         offline -> draining
         draining -> retired
         draining -> offline
         retired -> offline
         retired -> removing
         removing -> retired
         removing -> deleted
         draining -> quarantined
         retired -> quarantined
         bootstrap_issued -> deleted
         quarantined -> deleted",
    );
}

/// A move that document 001 does not have says why it exists, and no other one does.
#[test]
fn a_move_beside_the_document_carries_its_reason() {
    const BESIDE: &[(&str, &str)] = &[
        ("draining", "quarantined"),
        ("retired", "quarantined"),
        ("bootstrap_issued", "deleted"),
        ("quarantined", "deleted"),
    ];
    for row in lifecycle("gpu-node").moves {
        let beside = BESIDE.contains(&(row.from, row.to));
        assert_eq!(row.reason.is_some_and(|reason| reason.len() > 40), beside, "{} → {}", row.from, row.to);
    }
}

/// Section 3.3 of document 001: the owner of each transition, in its own words; `|` is its "or".
const OWNERS: &str = "
    bootstrap_issued -> enrolling   admin | workflow
    enrolling -> active             workflow
    enrolling -> quarantined        workflow | admin
    active -> offline               sweep | reconciler
    offline -> active               agent | reconciler
    active -> quarantined           reconciler | admin
    offline -> quarantined          reconciler | admin
    quarantined -> active           admin | reconciler
    active -> draining              admin
    offline -> draining             admin
    quarantined -> draining         admin
    draining -> retired             workflow
    draining -> offline             workflow | admin
    retired -> offline              admin | workflow
    retired -> removing             workflow
    removing -> retired             workflow | admin
    removing -> deleted             workflow
    draining -> quarantined         workflow
    retired -> quarantined          workflow
    bootstrap_issued -> deleted     admin
    quarantined -> deleted          admin";

/// The quarantine by an operator and the rollback by one are actions of the API that the document's text
/// (\"investigation\", \"operator rollback\") asks for.
#[test]
fn the_owners_of_a_gpu_node_are_those_of_document_001() {
    for row in lifecycle("gpu-node").moves {
        let arrow = format!("{} -> {} ", row.from, row.to);
        let line = OWNERS.lines().map(str::trim).find(|line| line.starts_with(&arrow)).unwrap();
        let owners: Vec<_> = line[arrow.len()..].split('|').map(str::trim).collect();
        assert!(owners.contains(&row.by.as_str()), "{arrow}by {}, not {owners:?}", row.by);
    }
}

#[test]
fn the_arrows_of_a_satellite_are_those_of_document_004() {
    check_arrows(
        "satellite",
        "pending -> online
         pending -> revoked
         online -> stale
         online -> revoked
         stale -> online
         stale -> revoked
         revoked -> pending",
    );
}

/// Document 001 names the states of a run and the actions; the arrows are a decision of ours.
#[test]
fn the_arrows_of_a_run_are_those_decided() {
    check_arrows(
        "run",
        "pending -> running | compensating | cancelled | failed_manual_intervention
         running -> completed | reconciled | failed_retryable | failed_manual_intervention | compensating | cancelled | pending
         failed_retryable -> running | compensating | cancelled | pending | failed_manual_intervention
         failed_manual_intervention -> running | compensating | cancelled | pending
         compensating -> cancelled | pending | failed_manual_intervention",
    );
}

/// Reads `state: event>next (owner), …` lines and checks every pair of state and event.
#[track_caller]
fn check_pairs<S: State, E: Event>(table: Table<S, E>, expected: &str) {
    let mut rows = BTreeMap::new();
    for line in expected.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (from, moves) = line.split_once(": ").unwrap();
        for step in moves.split(", ") {
            let (event, rest) = step.split_once('>').unwrap();
            let (to, by) = rest.strip_suffix(')').unwrap().split_once(" (").unwrap();
            assert!(rows.insert((from, event), (to, by)).is_none(), "{from} {event} is listed once");
        }
    }
    assert_eq!(rows.len(), table.0.len(), "as many rows as expected");
    for &state in S::ALL {
        for &event in E::ALL {
            let found = table.find(state, event).map(|row| (row.to.as_str(), row.by.as_str()));
            let expected = rows.get(&(state.as_str(), event.as_str())).copied();
            assert_eq!(found, expected, "{} on {}", state.as_str(), event.as_str());
        }
    }
}

#[test]
fn every_pair_of_a_node() {
    check_pairs(
        node::TABLE,
        "discovered: approve>pending (admin), retire>retired (admin)
         pending: install_started>installing (node_report), retire>retired (admin)
         installing: install_completed>installed (node_report), install_given_up>install_failed (node_report), install_timed_out>install_failed (sweep), retire>retired (admin)
         install_failed: reset>pending (admin), retire>retired (admin)
         installed: verify>active (admin), auto_promote>active (system), retire>retired (admin)
         active: reinstall>reprovision (admin), deprovision>deprovisioning (admin), migrate>migrating (admin), retire>retired (admin)
         reprovision: requeue>pending (admin), retire>retired (admin)
         deprovisioning: finish_erasure>retired (admin), retire>retired (admin)
         migrating: finish_migration>active (admin), retire>retired (admin)",
    );
}

#[test]
fn every_pair_of_a_gpu_node() {
    check_pairs(
        gpu_node::TABLE,
        "bootstrap_issued: enrollment_started>enrolling (workflow), start_onboarding>enrolling (admin), delete>deleted (admin)
         enrolling: onboarded>active (workflow), onboarding_blocked>quarantined (workflow), quarantine>quarantined (admin)
         active: heartbeats_missed>offline (sweep), drift_found>quarantined (reconciler), quarantine>quarantined (admin), drain>draining (admin)
         offline: heartbeat>active (agent), drift_found>quarantined (reconciler), quarantine>quarantined (admin), drain>draining (admin)
         quarantined: recover>active (admin), proven_healthy>active (reconciler), drain>draining (admin), delete>deleted (admin)
         draining: drained>retired (workflow), cleanup_finished>offline (workflow), drain_failed>offline (workflow), stop_drain>offline (admin), set_aside_again>quarantined (workflow)
         retired: reactivate>offline (admin), reenrolled>offline (workflow), set_aside_again>quarantined (workflow), remove>removing (workflow)
         removing: uninstalled>deleted (workflow), uninstall_failed>retired (workflow), rollback_remove>retired (admin)",
    );
}

#[test]
fn every_pair_of_a_satellite() {
    check_pairs(
        satellite::TABLE,
        "pending: registered>online (agent), refreshed>online (agent), revoke>revoked (admin)
         online: heartbeats_missed>stale (sweep), revoke>revoked (admin)
         stale: heartbeat>online (agent), revoke>revoked (admin)
         revoked: reenable>pending (admin)",
    );
}

#[test]
fn every_pair_of_a_run() {
    check_pairs(
        run::TABLE,
        "pending: claim>running (workflow), cancel>cancelled (admin), cancel_and_undo>compensating (admin), restart_and_undo>compensating (admin), mark_manual>failed_manual_intervention (admin)
         running: finish>completed (workflow), finish_adopted>reconciled (workflow), spend_budget>failed_retryable (workflow), need_operator>failed_manual_intervention (workflow), stop_for_undo>compensating (workflow), cancel>cancelled (admin), cancel_and_undo>compensating (admin), restart_clean>pending (admin), restart_and_undo>compensating (admin), mark_manual>failed_manual_intervention (admin)
         failed_retryable: retry_stage>running (admin), resume>running (admin), rerun>running (admin), adopt>running (admin), cancel>cancelled (admin), cancel_and_undo>compensating (admin), restart_clean>pending (admin), restart_and_undo>compensating (admin), mark_manual>failed_manual_intervention (admin)
         failed_manual_intervention: resume>running (admin), retry_stage>running (admin), retry_undo>compensating (admin), rerun>running (admin), adopt>running (admin), cancel>cancelled (admin), cancel_and_undo>compensating (admin), abandon>cancelled (admin), restart_clean>pending (admin), restart_and_undo>compensating (admin)
         compensating: finish_undo>cancelled (workflow), start_again>pending (workflow), fail_undo>failed_manual_intervention (workflow), mark_manual>failed_manual_intervention (admin)",
    );
}

#[test]
fn every_state_is_reachable_and_nothing_leaves_a_terminal_one() {
    for lifecycle in lifecycles::all() {
        let mut reached: BTreeSet<_> =
            lifecycle.states.iter().filter(|state| state.initial).map(|state| state.name).collect();
        assert!(!reached.is_empty(), "{} starts somewhere", lifecycle.name);
        for _ in &lifecycle.states {
            for row in &lifecycle.moves {
                if reached.contains(row.from) {
                    reached.insert(row.to);
                }
            }
        }
        for state in &lifecycle.states {
            assert!(reached.contains(state.name), "{}: {} is reachable", lifecycle.name, state.name);
            let leaves = lifecycle.moves.iter().any(|row| row.from == state.name);
            assert_eq!(
                leaves, !state.terminal,
                "{}: only terminal states have no exit: {}",
                lifecycle.name, state.name
            );
        }
    }
}

#[test]
fn a_move_owned_by_a_person_has_a_call_and_every_event_is_used_and_explained() {
    for lifecycle in lifecycles::all() {
        for row in &lifecycle.moves {
            assert!(
                row.by != Owner::Admin || row.call.is_some(),
                "{}: {} has no call",
                lifecycle.name,
                row.on
            );
            assert!(row.when.ends_with('.'), "{}: {} is explained in a sentence", lifecycle.name, row.on);
            assert_ne!(row.from, row.to, "{}: {} moves", lifecycle.name, row.on);
        }
    }
    check_used(device::update::TABLE);
    check_used(node::TABLE);
    check_used(gpu_node::TABLE);
    check_used(run::TABLE);
    check_used(satellite::TABLE);
}

fn check_used<S: State, E: Event>(table: Table<S, E>) {
    for &event in E::ALL {
        assert!(table.0.iter().any(|row| row.on == event), "{} moves nothing", event.as_str());
    }
}
