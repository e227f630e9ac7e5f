//! The decisions about one GPU node, by table: facts in, decision out.

use std::collections::BTreeSet;

use wardroom_core::{
    action::Value,
    gpu_node::{
        Event, State,
        action::Action,
        advice,
        drift::{Verdict, verdict},
        exits::can_happen,
        facts::{Drift, Facts, Health, NewestRun, Sight},
        maas::{Observed, Power, Status},
        proof,
    },
    run::{
        self,
        plan::{Kind, Stage},
    },
};

fn sight(status: Option<Status>) -> Sight {
    let observed = status.map_or(Observed::Absent, |status| Observed::Present { status, power: Power::On });
    Sight {
        observed,
        said: status.map_or_else(|| "absent".to_owned(), |status| format!("{status:?}")),
        own: true,
    }
}

fn run(kind: Kind, state: run::State) -> NewestRun {
    NewestRun { id: "r".to_owned(), kind, state, unproven: BTreeSet::new(), accepted: false }
}

/// A node of a site whose machine is deployed, and whose agent is well.
fn node(state: State) -> Facts {
    Facts {
        state,
        has_site: true,
        has_machine: true,
        has_agent: true,
        ever_enrolled: true,
        identity_kept: true,
        drift: None,
        run: Some(run(Kind::Onboarding, run::State::Completed)),
        sight: Some(sight(Some(Status::Deployed))),
        health: Health::Healthy,
        complaints: None,
        heard: true,
    }
}

fn drifted(quarantined: bool) -> Option<Drift> {
    Some(Drift { said: "Ready".to_owned(), quarantined })
}

fn begun(kind: Kind, state: run::State, unproven: &[Stage]) -> Option<NewestRun> {
    Some(NewestRun { unproven: unproven.iter().copied().collect(), ..run(kind, state) })
}

fn can(facts: &Facts, action: Action) -> bool {
    assert_eq!(proof::objection(facts, action).is_none(), proof::possible(facts).any(|can| can == action));
    proof::objection(facts, action).is_none()
}

#[test]
fn drift_is_judged_by_the_state_and_the_run() {
    let check = |facts: &Facts, seen: Option<Status>, expected| {
        assert_eq!(verdict(facts, &sight(seen)), expected, "{facts:?} {seen:?}");
    };
    let (fits, ready) = (Some(Status::Deployed), Some(Status::Ready));
    for state in [State::Active, State::Offline] {
        check(&node(state), fits, Verdict::Nothing);
        check(&node(state), ready, Verdict::Quarantine(State::Quarantined));
        check(&node(state), None, Verdict::Quarantine(State::Quarantined));
    }
    let retired = Facts { run: Some(run(Kind::Retire, run::State::Completed)), ..node(State::Retired) };
    check(&retired, Some(Status::Commissioning), Verdict::Ask);
    let told = Drift { said: "Commissioning".to_owned(), quarantined: false };
    let told = Facts { drift: Some(told), ..retired };
    check(&told, Some(Status::Commissioning), Verdict::Nothing);
    check(&told, fits, Verdict::Forget);
    check(&node(State::Deleted), None, Verdict::Nothing);
    let other = Sight { own: false, ..sight(None) };
    assert_eq!(verdict(&node(State::Active), &other), Verdict::Nothing);

    // An open run looks for itself, except one that waits to be repeated.
    for (state, expected) in [
        (run::State::Running, Verdict::Nothing),
        (run::State::FailedManualIntervention, Verdict::Nothing),
        (run::State::FailedRetryable, Verdict::Freeze),
    ] {
        let facts = Facts { run: Some(run(Kind::SoftReset, state)), ..node(State::Active) };
        check(&facts, None, expected);
        check(&facts, fits, Verdict::Nothing);
    }

    // Only a node that was quarantined for drift alone comes back, and only with both proofs.
    let aside = Facts { drift: drifted(true), ..node(State::Quarantined) };
    check(&aside, fits, Verdict::Recover(State::Active));
    check(&Facts { drift: drifted(false), ..aside.clone() }, fits, Verdict::Forget);
    check(&Facts { drift: None, ..aside.clone() }, fits, Verdict::Nothing);
    check(&Facts { health: Health::Unheard, ..aside.clone() }, fits, Verdict::Nothing);
    check(&Facts { health: Health::Unhealthy("disk".to_owned()), ..aside.clone() }, fits, Verdict::Nothing);
    check(&Facts { sight: Some(sight(ready)), ..aside }, fits, Verdict::Nothing);
}

#[test]
fn a_node_is_used_when_it_is_clean_and_well() {
    let aside = node(State::Quarantined);
    assert_eq!(proof::usable(&aside), Ok(()));
    let check = |facts: Facts, said: &str| {
        let missing = proof::healthy(&facts).unwrap_err();
        assert!(missing.contains(said), "{missing}");
        assert!(!can(&facts, Action::Recover), "{facts:?}");
    };
    check(Facts { health: Health::Unheard, ..aside.clone() }, "no heartbeat");
    check(
        Facts { health: Health::Silent("2026-01-01T00:00:00Z".parse().unwrap()), ..aside.clone() },
        "silent",
    );
    check(Facts { health: Health::Unhealthy("disk: failed".to_owned()), ..aside.clone() }, "disk: failed");
    check(Facts { sight: Some(sight(Some(Status::Ready))), ..aside.clone() }, "MAAS says Ready");

    let cancelled = run::State::Cancelled;
    for (kind, state, unproven, mode) in [
        (Kind::SoftReset, cancelled, &[Stage::CleanupStorage][..], Some(Kind::StorageCleanup)),
        (Kind::SoftReset, cancelled, &[Stage::CleanupStorage, Stage::ScrubGpu], Some(Kind::SoftReset)),
        (Kind::Reimage, run::State::Completed, &[Stage::ScrubGpu], None),
        (Kind::SoftReset, run::State::Completed, &[], None),
    ] {
        let facts = Facts { run: begun(kind, state, unproven), ..aside.clone() };
        assert_eq!(proof::unproven(&facts).map(proof::mode_that_proves), mode, "{kind} {state}");
        assert_eq!(can(&facts, Action::Recover), mode.is_none(), "{kind} {state}");
        let mut accepted = facts.clone();
        accepted.run.as_mut().unwrap().accepted = true;
        assert_eq!(proof::unproven(&accepted), None, "a person has accepted it");
    }
    let retired = Facts { run: Some(run(Kind::Retire, run::State::Completed)), ..node(State::Retired) };
    assert!(can(&retired, Action::Reactivate));
    for facts in
        [Facts { identity_kept: false, ..retired.clone() }, Facts { sight: Some(sight(None)), ..retired }]
    {
        assert!(!can(&facts, Action::Reactivate), "{facts:?}");
    }
}

/// What is recommended, in one word and with the mode and the skipped stages.
fn advised(facts: &Facts) -> String {
    let Some(action) = advice::idle("n", facts).action else { return "wait".to_owned() };
    assert!(action.path.contains("/n/") || action.id == "n", "{action:?}");
    let skips = if action.body.contains_key("skip") { " skip" } else { "" };
    match action.body.get("mode") {
        Some(Value::Text(mode)) => format!("{} {mode}{skips}", action.action),
        _ => format!("{}{skips}", action.action),
    }
}

#[test]
fn a_node_without_a_run_is_advised_by_its_facts() {
    let check = |facts: Facts, expected: &str| assert_eq!(advised(&facts), expected, "{facts:?}");
    let aside = node(State::Quarantined);
    check(node(State::Active), "wait");
    check(node(State::Offline), "wait");
    check(aside.clone(), "recover");
    check(Facts { health: Health::Unheard, ..aside.clone() }, "recover");

    let without = Facts { has_agent: false, ..aside.clone() };
    check(without.clone(), "decommission reimage skip");
    check(Facts { has_site: false, ..without.clone() }, "retire skip");
    check(Facts { sight: Some(sight(Some(Status::Ready))), ..without.clone() }, "onboard");
    check(Facts { sight: None, ..without }, "onboard");

    let begun = begun(Kind::SoftReset, run::State::Cancelled, &[Stage::ScrubGpu]);
    let begun = Facts { run: begun, ..aside };
    check(begun.clone(), "decommission soft_reset");
    check(Facts { heard: false, ..begun.clone() }, "decommission reimage skip");
    check(Facts { heard: false, has_site: false, ..begun }, "retire skip");

    let retired = node(State::Retired);
    check(retired.clone(), "wait");
    check(Facts { sight: Some(sight(Some(Status::Commissioning))), ..retired.clone() }, "remove");
    check(Facts { identity_kept: false, ..retired.clone() }, "decommission reimage skip");
    check(Facts { identity_kept: false, has_machine: false, ..retired }, "remove");
    for state in [State::BootstrapIssued, State::Enrolling, State::Draining, State::Removing] {
        check(Facts { run: None, ..node(state) }, "resume");
    }
    let unhealthy = Facts { complaints: Some("disk: failed".to_owned()), ..node(State::Active) };
    let unhealthy = advice::idle("n", &unhealthy);
    assert!(unhealthy.action.is_none() && unhealthy.why.contains("disk: failed"), "{unhealthy:?}");
    let lost = advice::misfit("n", &Facts { run: None, ..node(State::Draining) }).unwrap();
    assert_eq!(lost.action.unwrap().action, "resume");
    assert_eq!(advice::misfit("n", &node(State::Active)), None);
}

#[test]
fn the_ways_out_go_by_the_run() {
    let with = |state, kind| Facts { run: Some(run(kind, run::State::Running)), ..node(state) };
    let check =
        |facts: &Facts, event, expected| assert_eq!(can_happen(event, facts), expected, "{event}: {facts:?}");
    let retiring = with(State::Draining, Kind::Retire);
    check(&retiring, Event::Drained, true);
    check(&retiring, Event::CleanupFinished, false);
    check(&retiring, Event::StopDrain, true);
    check(&retiring, Event::DrainFailed, false);
    let cleaning = with(State::Draining, Kind::StorageCleanup);
    check(&cleaning, Event::Drained, false);
    check(&cleaning, Event::CleanupFinished, true);
    check(&with(State::Retired, Kind::Reimage), Event::Reenrolled, true);
    check(&with(State::Retired, Kind::Remove), Event::Reactivate, false);
    check(&node(State::Retired), Event::Reactivate, true);
    check(&Facts { drift: drifted(true), ..node(State::Quarantined) }, Event::ProvenHealthy, true);
    check(&node(State::Quarantined), Event::ProvenHealthy, false);
    check(&Facts { has_agent: false, ..node(State::Quarantined) }, Event::Recover, false);

    let mistyped = Facts {
        has_machine: false,
        has_agent: false,
        ever_enrolled: false,
        identity_kept: false,
        run: Some(run(Kind::Bootstrap, run::State::Running)),
        ..node(State::BootstrapIssued)
    };
    check(&mistyped, Event::Delete, true);
    check(
        &Facts { run: Some(run(Kind::Onboarding, run::State::Running)), ..mistyped.clone() },
        Event::Delete,
        false,
    );
    check(&Facts { ever_enrolled: true, ..mistyped.clone() }, Event::Delete, false);
    check(&Facts { has_machine: true, ..mistyped }, Event::Delete, false);
}
