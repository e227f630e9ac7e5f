//! No dead ends: from every non-terminal state there is a way back to service through the API, also when
//! the host is dead.
//!
//! For each state the list names the first call, its role and precondition; then the events that people
//! cause without any help of the host, and at last what follows by itself once the host was repaired or
//! replaced. Ways through a terminal state do not count: the end of a life is not a recovery.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::collections::BTreeSet;

use wardroom_core::{
    lifecycles::{self, Lifecycle, MoveView, StateView},
    table::Owner,
};

struct Way {
    lifecycle: &'static str,
    state: &'static str,
    call: &'static str,
    role: &'static str,
    precondition: Option<&'static str>,
    people: &'static [&'static str],
    then: &'static [&'static str],
}

const fn way(
    lifecycle: &'static str,
    state: &'static str,
    (call, role, precondition): (&'static str, &'static str, Option<&'static str>),
    people: &'static [&'static str],
    then: &'static [&'static str],
) -> Way {
    Way { lifecycle, state, call, role, precondition, people, then }
}

macro_rules! to {
    ($state:literal) => {
        (concat!(r#"PATCH /api/v1/nodes/{id}/state {"state":""#, $state, r#""}"#), "operator", None)
    };
}

const QUARANTINE: (&str, &str, Option<&str>) =
    ("POST /api/v1/gpu-nodes/{id}/actions/quarantine", "operator", None);
const RETIRE: (&str, &str, Option<&str>) = (
    "POST /api/v1/gpu-nodes/{id}/actions/retire",
    "operator",
    Some("no other run works on the node; a dead host's drain is skipped with a comment"),
);
const RECOVER: (&str, &str, Option<&str>) = (
    "POST /api/v1/gpu-nodes/{id}/actions/recover",
    "operator",
    Some(
        "no open run, a healthy heartbeat since the quarantine that is not old, no drift in MAAS, and no cleanup that was begun and not proven",
    ),
);
const REVOKE: (&str, &str, Option<&str>) = ("POST /api/satellites/{name}/revoke", "operator", None);
const MARK: (&str, &str, Option<&str>) =
    ("POST /api/v1/runs/{id}/actions/mark_manual_intervention_required", "operator", None);

#[rustfmt::skip]
const WAYS: &[Way] = &[
    // An operator may take any edge of a node; a dead one waits in the install queue until it boots again.
    way("node", "discovered",     to!("pending"),        &["approve"], &["install_started", "install_completed", "auto_promote"]),
    way("node", "pending",        to!("installing"),     &["install_started", "install_completed", "verify"], &[]),
    way("node", "installing",     to!("install_failed"), &["install_timed_out", "reset"], &["install_started", "install_completed", "auto_promote"]),
    way("node", "install_failed", (r#"PATCH /api/v1/nodes/{id}/state {"state":"pending","force":true}"#, "operator",
                                   Some("assign another workflow first when this one cannot work")),
                                                         &["reset"], &["install_started", "install_completed", "auto_promote"]),
    way("node", "installed",      to!("active"),         &["verify"], &[]),
    way("node", "active",         to!("reprovision"),    &["reinstall", "requeue"], &["install_started", "install_completed", "auto_promote"]),
    way("node", "reprovision",    to!("pending"),        &["requeue"], &["install_started", "install_completed", "auto_promote"]),
    way("node", "migrating",      to!("active"),         &["finish_migration"], &[]),

    way("gpu-node", "bootstrap_issued", ("POST /api/v1/gpu-nodes/{id}/onboardings", "operator", Some("a site that manages the machine; an open bootstrap run is cancelled first")),
                                              &["start_onboarding"], &["onboarded"]),
    way("gpu-node", "enrolling",   QUARANTINE, &["quarantine", "recover"], &[]),
    way("gpu-node", "active",      QUARANTINE, &["quarantine"], &["proven_healthy"]),
    way("gpu-node", "offline",     RETIRE,     &["drain", "stop_drain"], &["heartbeat"]),
    // What was set aside is used again when a person says so, once the repaired host has been heard.
    way("gpu-node", "quarantined", RECOVER,    &["recover"], &[]),
    way("gpu-node", "draining",    ("POST /api/v1/gpu-nodes/{id}/actions/stop_drain", "operator", None),
                                              &["stop_drain"], &["heartbeat"]),
    way("gpu-node", "retired",     ("POST /api/v1/gpu-nodes/{id}/actions/reactivate", "operator", Some("no open run, the identity was kept (no uninstall, release or revocation), and no drift in MAAS")),
                                              &["reactivate"], &["heartbeat"]),
    way("gpu-node", "removing",    ("POST /api/v1/gpu-nodes/{id}/actions/rollback_remove", "operator", None),
                                              &["rollback_remove", "reactivate"], &["heartbeat"]),

    // A lost satellite is replaced: the old credential is void, the new host registers with a new token.
    way("satellite", "pending", REVOKE, &["revoke", "reenable"], &["registered"]),
    way("satellite", "online",  REVOKE, &["revoke", "reenable"], &["registered"]),
    way("satellite", "stale",   REVOKE, &["revoke", "reenable"], &["registered"]),
    way("satellite", "revoked", ("POST /api/satellites/{name}/reenable", "operator",
                                 Some("mode `refresh` when the old credential may be trusted once more, `reissue` (a new token) when it leaked or the host is lost, `keep` for clients that cannot refresh")),
                                        &["reenable"], &["registered"]),

    // The host of a run is its worker; a run is in service when it makes progress again.
    way("run", "pending",          MARK, &["mark_manual", "resume"], &[]),
    way("run", "running",          MARK, &["mark_manual", "resume"], &[]),
    way("run", "compensating",     MARK, &["mark_manual", "restart_and_undo"], &["start_again", "claim"]),
    way("run", "failed_retryable", ("POST /api/v1/runs/{id}/actions/retry_stage", "operator", None), &["retry_stage"], &[]),
    way("run", "failed_manual_intervention", ("POST /api/v1/runs/{id}/actions/resume", "operator", None), &["resume"], &[]),
];

/// States that their document makes one-way towards the end of life: these need a way to finish instead.
const ONE_WAY: &[(&str, &str, &str)] =
    &[("node", "deprovisioning", r#"PATCH /api/v1/nodes/{id}/state {"state":"retired"}"#)];

/// An update is carried out by the agent alone; its own test is below.
const ON_THE_DEVICE: &str = "device-update";

#[test]
fn every_state_has_a_way_back_to_service() {
    for lifecycle in lifecycles::all().iter().filter(|lifecycle| lifecycle.name != ON_THE_DEVICE) {
        let listed: BTreeSet<_> = WAYS
            .iter()
            .map(|way| (way.lifecycle, way.state))
            .chain(ONE_WAY.iter().map(|&(lifecycle, state, _)| (lifecycle, state)))
            .collect();
        for state in lifecycle.states.iter().filter(|state| !state.terminal && !only_ends(lifecycle, state)) {
            assert!(
                listed.contains(&(lifecycle.name, state.name)),
                "{} has no row for {}: add one to WAYS with the events that lead from there to service, or give the table \
                 a move that does",
                lifecycle.name,
                state.name
            );
        }
        for way in WAYS.iter().filter(|way| way.lifecycle == lifecycle.name) {
            check(lifecycle, way);
        }
    }
}

/// A state of service that is left only for good: there is nothing to come back from.
fn only_ends(lifecycle: &Lifecycle, state: &StateView) -> bool {
    let mut moves = lifecycle.moves.iter().filter(|row| row.from == state.name);
    state.service && moves.all(|row| is(lifecycle, row.to, |view| view.terminal))
}

#[track_caller]
fn check(lifecycle: &Lifecycle, way: &Way) {
    let mut state = way.state;
    for event in way.people {
        let row = take(lifecycle, state, event);
        assert!(row.call.is_some(), "{}: no call can cause {event} from {state}", way.state);
        state = row.to;
    }
    for event in way.then {
        let row = take(lifecycle, state, event);
        assert_ne!(row.by, Owner::Admin, "{}: {event} needs a person, so a call is missing", way.state);
        state = row.to;
    }
    assert!(is(lifecycle, state, |view| view.service), "{} ends in {state}, which is not service", way.state);

    let first = take(lifecycle, way.state, way.people[0]).call.unwrap();
    assert_eq!(
        (first.to_string().as_str(), first.role.as_str(), first.precondition),
        (way.call, way.role, way.precondition),
        "{}: the first call",
        way.state
    );
}

#[track_caller]
fn take<'a>(lifecycle: &'a Lifecycle, from: &str, event: &str) -> &'a MoveView {
    let row = lifecycle.moves.iter().find(|row| row.from == from && row.on == event);
    let row = row.unwrap_or_else(|| panic!("{}: {from} has no {event}", lifecycle.name));
    assert!(!is(lifecycle, row.to, |view| view.terminal), "{event} from {from} ends the life");
    row
}

fn is(lifecycle: &Lifecycle, state: &str, what: fn(&StateView) -> bool) -> bool {
    lifecycle.states.iter().any(|view| view.name == state && what(view))
}

#[test]
fn a_one_way_state_can_be_finished_by_a_person() {
    for (name, from, request) in ONE_WAY {
        let all = lifecycles::all();
        let lifecycle = all.iter().find(|lifecycle| lifecycle.name == *name).unwrap();
        let finish = lifecycle.moves.iter().find(|row| {
            row.from == *from
                && is(lifecycle, row.to, |view| view.terminal)
                && row.call.is_some_and(|call| call.to_string() == *request)
        });
        assert!(finish.is_some(), "{name}: {from} can be finished");
    }
}

/// The API changes nothing inside an update; it can only give the device another spec, with which the next
/// update begins. So every update must be able to end by itself, and well. With a dead host none ends: the
/// device is derived as Offline, and comes back by booting or by enrolling its replacement.
#[test]
fn every_update_can_end_well_by_itself_and_a_new_spec_can_be_given() {
    let all = lifecycles::all();
    let update = all.iter().find(|lifecycle| lifecycle.name == ON_THE_DEVICE).unwrap();
    for state in update.states.iter().filter(|state| !state.terminal) {
        let mut reached = BTreeSet::from([state.name]);
        for _ in &update.states {
            reached.extend(
                update
                    .moves
                    .iter()
                    .filter(|row| row.by == Owner::Agent && reached.contains(row.from))
                    .map(|row| row.to)
                    .collect::<Vec<_>>(),
            );
        }
        // What is rolled back ends in Error, and the next spec starts afresh.
        let end = if state.name == "RollingBack" { "Error" } else { "Updated" };
        assert!(reached.contains(end), "{} reaches {end}", state.name);
        let remedy = state.remedy.unwrap();
        assert_eq!(
            (remedy.to_string().as_str(), remedy.role.as_str()),
            ("PUT /api/v1/devices/{name}", "operator")
        );
    }
}
