//! The seven operator actions, over every state of a run.

use wardroom_core::{
    Named,
    run::{
        Event, State, TABLE,
        action::{
            Action, Already, Decision, Facts, Goal, Lease, Observation, Refusal, allowed, decide,
            recommended, ways,
        },
        failure::Class,
        plan::{self, Kind, Stage, When},
    },
    table::Event as _,
};

const LEASES: [Lease; 4] = [Lease::Queued, Lease::PutOff, Lease::Live, Lease::Stale];
const GOALS: [Goal; 3] = [Goal::Run, Goal::Cancel, Goal::Restart];
const OBSERVATIONS: [Observation; 4] =
    [Observation::Nothing, Observation::Outdated, Observation::InUse, Observation::Continues];

/// Every combination of facts that a run can be in.
fn every_run() -> Vec<Facts> {
    let mut runs = Vec::new();
    for &state in State::ALL {
        for lease in LEASES {
            for goal in GOALS {
                for observation in OBSERVATIONS {
                    for bits in 0..64 {
                        let bit = |index: i32| bits & (1 << index) != 0;
                        runs.push(Facts {
                            state,
                            lease,
                            goal,
                            observation,
                            has_effects: bit(0),
                            failed_in_undo: bit(1),
                            at_first_stage: bit(2),
                            abandon: bit(3),
                            adopted: bit(4),
                            silent: bit(5),
                        });
                    }
                }
            }
        }
    }
    runs.retain(is_possible);
    runs
}

/// What the engine guarantees: only what is being worked on has a lease, only what is being undone failed in
/// its undo, and what is being undone heads for that.
fn is_possible(run: &Facts) -> bool {
    let undoing = run.state == State::Compensating || run.failed_in_undo;
    (run.lease == Lease::Queued || matches!(run.state, State::Running | State::Compensating))
        && (!run.failed_in_undo || run.state == State::FailedManualIntervention)
        && (!undoing || run.goal != Goal::Run)
        && (run.state != State::Pending || run.goal == Goal::Run)
}

fn failed(state: State) -> Facts {
    Facts {
        state,
        lease: Lease::Queued,
        goal: Goal::Run,
        has_effects: true,
        failed_in_undo: false,
        at_first_stage: false,
        observation: Observation::Nothing,
        abandon: false,
        adopted: false,
        silent: false,
    }
}

/// What a run looks like after a decision was carried out.
fn carry_out(run: Facts, decision: Decision) -> Facts {
    match decision {
        Decision::Move(event, goal) => {
            let to = TABLE.find(run.state, event).expect("a decision moves along a row").to;
            Facts {
                state: to,
                goal,
                lease: Lease::Queued,
                failed_in_undo: event == Event::MarkManual && run.state == State::Compensating,
                adopted: event == Event::Adopt,
                at_first_stage: run.at_first_stage || event == Event::Rerun || to == State::Pending,
                has_effects: run.has_effects && to != State::Pending,
                ..run
            }
        }
        Decision::Head(goal) => Facts { goal, ..run },
        Decision::Requeue => Facts { lease: Lease::Queued, ..run },
        Decision::Nothing(_) => run,
    }
}

#[test]
fn every_action_is_idempotent() {
    for run in every_run() {
        for &action in Action::ALL {
            let Ok(decision) = decide(action, run) else { continue };
            let after = carry_out(run, decision);
            if after == run {
                assert!(
                    matches!(decision, Decision::Nothing(_)),
                    "{action} {run:?}: {decision:?} changes nothing"
                );
                continue;
            }
            let again = decide(action, after);
            assert!(
                matches!(again, Ok(Decision::Nothing(_))),
                "{action} twice on {run:?}: {decision:?}, then {again:?}"
            );
        }
    }
}

#[test]
fn a_live_worker_is_only_overtaken_by_a_freeze() {
    for run in every_run() {
        for &action in Action::ALL {
            if let Ok(Decision::Move(event, _)) = decide(action, run) {
                assert!(
                    run.lease != Lease::Live || event == Event::MarkManual,
                    "{action} overtakes a worker: {run:?}"
                );
            }
        }
    }
}

#[test]
fn a_finished_run_takes_no_action() {
    for run in every_run().into_iter().filter(|run| !run.state.is_open()) {
        for &action in Action::ALL {
            let decision = decide(action, run);
            let idle = matches!(decision, Ok(Decision::Nothing(Already::Cancelled | Already::Reconciled)));
            assert!(idle || decision == Err(Refusal::RunIsOver), "{action} {run:?}: {decision:?}");
        }
    }
}

#[test]
fn an_open_run_always_has_an_action_that_is_not_refused() {
    for run in every_run().into_iter().filter(|run| run.state.is_open() && !run.abandon) {
        let actions: Vec<_> = allowed(run).collect();
        assert!(actions.contains(&Action::Cancel), "{run:?} can always be cancelled");
        assert!(actions.contains(&Action::MarkManualInterventionRequired), "{run:?} can always be frozen");
        assert!(actions.contains(&Action::Resume), "{run:?} can always be resumed");
    }
}

/// Section 8: a queued task and a live lease are left alone, a lost one is queued again, and so is one that waits for
/// its next attempt.
#[test]
fn resume_and_retry_respect_the_lease() {
    for state in [State::Running, State::Compensating] {
        for action in [Action::RetryStage, Action::Resume] {
            for (lease, expected) in [
                (Lease::Queued, Decision::Nothing(Already::Queued)),
                (Lease::PutOff, Decision::Requeue),
                (Lease::Live, Decision::Nothing(Already::InProgress)),
                (Lease::Stale, Decision::Requeue),
            ] {
                let run = Facts { lease, goal: Goal::Restart, ..failed(state) };
                assert_eq!(decide(action, run), Ok(expected), "{action} {run:?}");
            }
        }
    }
}

#[track_caller]
fn check(action: Action, run: Facts, expected: Result<Decision, Refusal>) {
    assert_eq!(decide(action, run), expected, "{action} {run:?}");
}

#[test]
fn actions_on_failed_runs() {
    use Action::*;
    for state in [State::FailedRetryable, State::FailedManualIntervention] {
        let run = failed(state);
        let moves = |event, goal| Ok(Decision::Move(event, goal));
        check(RetryStage, run, moves(Event::RetryStage, Goal::Run));
        check(Resume, run, moves(Event::Resume, Goal::Run));
        check(Rerun, run, moves(Event::Rerun, Goal::Run));
        check(RestartClean, run, moves(Event::RestartAndUndo, Goal::Restart));
        check(RestartClean, Facts { has_effects: false, ..run }, moves(Event::RestartClean, Goal::Run));
        check(Cancel, run, moves(Event::CancelAndUndo, Goal::Cancel));
        check(Cancel, Facts { has_effects: false, ..run }, moves(Event::Cancel, Goal::Cancel));
        check(AdoptObservedState, run, Err(Refusal::NothingObserved));
        let observed = |observation| Facts { observation, ..run };
        check(AdoptObservedState, observed(Observation::Outdated), Err(Refusal::ObservationOutdated));
        check(AdoptObservedState, observed(Observation::InUse), Err(Refusal::MachineInUse));
        check(AdoptObservedState, observed(Observation::Continues), moves(Event::Adopt, Goal::Run));
    }
    let abandon = |state| Facts { abandon: true, ..failed(state) };
    check(Cancel, abandon(State::FailedRetryable), Err(Refusal::NotFrozen));
    check(Cancel, abandon(State::FailedManualIntervention), Ok(Decision::Move(Event::Abandon, Goal::Cancel)));
}

#[test]
fn a_run_that_failed_in_its_undo_can_be_undone_again_or_abandoned_but_not_continued() {
    for goal in [Goal::Cancel, Goal::Restart] {
        let run = Facts { failed_in_undo: true, goal, ..failed(State::FailedManualIntervention) };
        check(Action::RetryStage, run, Ok(Decision::Move(Event::RetryUndo, goal)));
        check(Action::Resume, run, Ok(Decision::Move(Event::RetryUndo, goal)));
        check(Action::Rerun, run, Err(Refusal::BeingUndone));
        let observed = Facts { observation: Observation::Continues, ..run };
        check(Action::AdoptObservedState, observed, Err(Refusal::BeingUndone));
        check(Action::RestartClean, run, Ok(Decision::Move(Event::RestartAndUndo, Goal::Restart)));
    }
}

/// A run whose cancel was recorded must not continue as if it had not been.
#[test]
fn a_recorded_goal_survives_a_failure() {
    for state in [State::FailedRetryable, State::FailedManualIntervention] {
        for goal in [Goal::Cancel, Goal::Restart] {
            let run = Facts { goal, observation: Observation::Continues, ..failed(state) };
            check(Action::Rerun, run, Err(Refusal::BeingUndone));
            check(Action::AdoptObservedState, run, Err(Refusal::BeingUndone));
            check(Action::RetryStage, run, Ok(Decision::Move(Event::RetryStage, goal)));
            check(Action::Resume, run, Ok(Decision::Move(Event::Resume, goal)));
        }
    }
}

/// What each action makes the run head for.
#[test]
fn every_action_has_its_goal() {
    for run in every_run() {
        for &action in Action::ALL {
            let Ok(Decision::Move(event, goal)) = decide(action, run) else { continue };
            let expected = match action {
                Action::RetryStage | Action::Resume | Action::MarkManualInterventionRequired => run.goal,
                Action::Rerun | Action::AdoptObservedState => Goal::Run,
                Action::RestartClean if event == Event::RestartClean => Goal::Run,
                Action::RestartClean => Goal::Restart,
                Action::Cancel => Goal::Cancel,
            };
            assert_eq!(goal, expected, "{action} {run:?}");
        }
    }
}

#[test]
fn a_cancel_wins_over_a_restart_and_not_the_other_way_round() {
    let live = |goal| Facts { lease: Lease::Live, goal, ..failed(State::Running) };
    check(Action::Cancel, live(Goal::Run), Ok(Decision::Head(Goal::Cancel)));
    check(Action::Cancel, live(Goal::Restart), Ok(Decision::Head(Goal::Cancel)));
    check(Action::Cancel, live(Goal::Cancel), Ok(Decision::Nothing(Already::Undoing)));
    check(Action::RestartClean, live(Goal::Run), Ok(Decision::Head(Goal::Restart)));
    check(Action::RestartClean, live(Goal::Cancel), Err(Refusal::BeingCancelled));
}

fn stages(plan: &[plan::Step]) -> Vec<&'static str> {
    plan.iter().map(|step| step.stage.as_str()).collect()
}

#[test]
fn onboarding_has_the_documents_sixteen_stages_in_order() {
    assert_eq!(
        stages(plan::ONBOARDING),
        [
            "load_site_config",
            "resolve_power_credentials",
            "create_or_find_in_maas",
            "commission_node",
            "wait_for_ready",
            "configure_storage",
            "apply_roce_phase2",
            "ensure_pxe_interface_auto",
            "render_cloud_init",
            "deploy_via_maas",
            "wait_for_deployed",
            "classify_deploy_failure",
            "recover_for_datasource_retry",
            "ensure_hardware_sync_configured",
            "wait_for_hardware_sync_healthy",
            "wait_for_agent_enrollment",
        ]
    );
}

#[test]
fn a_full_decommission_has_all_thirteen_stages_and_every_mode_only_known_ones() {
    let catalogue = [
        "disable_node",
        "force_release_allocations",
        "drain_node",
        "cleanup_storage",
        "scrub_gpu",
        "validate_clean_node",
        "load_site_config",
        "release_maas_node",
        "power_off_maas_node",
        "retire_gpuaas_node",
        "remove_gpuaas_node_record",
        "cleanup_secrets",
        "remove_maas_record",
    ];
    let mut full = stages(plan::FULL_DECOMMISSION);
    full.sort_unstable();
    let mut expected = catalogue.to_vec();
    expected.sort_unstable();
    assert_eq!(full, expected);
    for kind in [Kind::SoftReset, Kind::StorageCleanup, Kind::FullDecommission, Kind::Retire, Kind::Remove] {
        for stage in stages(kind.plan()) {
            assert!(catalogue.contains(&stage), "{kind}: {stage}");
        }
    }
}

/// Which stages each mode has: `Y` always, `o` optional, `-` never.
#[test]
fn the_modes_have_the_stages_they_need() {
    let table = "
        load_site_config          - - Y Y
        disable_node              Y Y Y Y
        force_release_allocations o o o o
        drain_node                Y Y Y Y
        cleanup_storage           Y Y o Y
        scrub_gpu                 Y - Y Y
        validate_clean_node       Y Y Y Y
        release_maas_node         - - Y Y
        power_off_maas_node       - - - Y
        retire_gpuaas_node        - - Y Y
        remove_gpuaas_node_record - - - Y
        cleanup_secrets           - - - Y
        remove_maas_record        - - - o";
    let modes = [Kind::SoftReset, Kind::StorageCleanup, Kind::Reimage, Kind::FullDecommission];
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let stage: Stage = words.next().unwrap().parse().unwrap();
        for (kind, expected) in modes.iter().zip(words) {
            let step = kind.plan().iter().find(|step| step.stage == stage);
            let got = step.map_or("-", |step| if step.when == When::Always { "Y" } else { "o" });
            assert_eq!(got, expected, "{stage} in {kind}");
        }
    }
}

#[test]
fn plans_are_in_an_order_that_can_work() {
    let before = |kind: Kind, first: Stage, second: Stage| {
        let place = |stage| kind.plan().iter().position(|step| step.stage == stage).unwrap();
        assert!(place(first) < place(second), "{kind}: {first} comes before {second}");
    };
    // The uninstall and every cleanup need a live host.
    before(Kind::FullDecommission, Stage::RemoveGpuaasNodeRecord, Stage::ReleaseMaasNode);
    before(Kind::FullDecommission, Stage::ValidateCleanNode, Stage::ReleaseMaasNode);
    before(Kind::FullDecommission, Stage::ReleaseMaasNode, Stage::PowerOffMaasNode);
    before(Kind::FullDecommission, Stage::PowerOffMaasNode, Stage::RemoveMaasRecord);
    before(Kind::FullDecommission, Stage::RetireGpuaasNode, Stage::RemoveGpuaasNodeRecord);
    before(Kind::Reimage, Stage::ReleaseMaasNode, Stage::DeployViaMaas);
    for &kind in Kind::ALL {
        let mut stages = stages(kind.plan());
        stages.sort_unstable();
        stages.dedup();
        assert_eq!(stages.len(), kind.plan().len(), "{kind} has each stage once");
        if !kind.is_onboarding() && kind != Kind::Remove {
            before(kind, Stage::DisableNode, Stage::DrainNode);
        }
    }
}

/// What is recommended is never refused, has something to do, and is there whenever a run stands still.
#[test]
fn a_recommended_action_helps() {
    for run in every_run() {
        let run = Facts { abandon: false, ..run };
        let classes = Class::ALL.iter().map(|&class| Some(class)).chain([None]);
        for (class, kind) in classes.flat_map(|class| Kind::ALL.iter().map(move |&kind| (class, kind))) {
            let stage = kind.plan()[kind.plan().len() / 2].stage;
            match recommended(run, kind, class.map(|class| (stage, class))) {
                Some(action) => {
                    assert!(
                        !matches!(decide(action, run), Err(_) | Ok(Decision::Nothing(_))),
                        "{action}: {run:?}"
                    );
                }
                None => assert!(
                    !matches!(run.state, State::FailedRetryable | State::FailedManualIntervention)
                        || (class == Some(Class::NoAgent) && kind.can_skip(stage))
                        || (class == Some(Class::Overdue) && run.silent && kind.gets_past(stage)),
                    "{run:?}"
                ),
            }
        }
    }
}

/// A useless system is deployed anew; a machine in use by others is not this run's to undo.
#[test]
fn the_recommended_action_depends_on_the_owner_of_the_machine() {
    let failed = |observation| Facts { observation, ..failed(State::FailedManualIntervention) };
    let check = |observation, kind, class, action| {
        assert_eq!(
            recommended(failed(observation), kind, Some((Stage::DrainNode, class))),
            Some(action),
            "{observation:?} {kind} {class}"
        );
    };
    check(Observation::InUse, Kind::Onboarding, Class::Disagreement, Action::Rerun);
    check(Observation::InUse, Kind::Reimage, Class::Disagreement, Action::Cancel);
    check(Observation::Nothing, Kind::Onboarding, Class::Disagreement, Action::RestartClean);
    let run = failed(Observation::Nothing);
    let no_agent = |kind, stage| recommended(run, kind, Some((stage, Class::NoAgent)));
    assert_eq!(no_agent(Kind::Retire, Stage::DrainNode), None, "the node is asked to skip it");
    assert_eq!(no_agent(Kind::FullDecommission, Stage::ScrubGpu), None, "so it is for stages that erase");
    assert_eq!(no_agent(Kind::SoftReset, Stage::ScrubGpu), Some(Action::Cancel), "the node is used as it is");
    let late = |kind, stage, silent| {
        let run = Facts { silent, ..self::failed(State::FailedRetryable) };
        recommended(run, kind, Some((stage, Class::Overdue)))
    };
    let again = Some(Action::RetryStage);
    assert_eq!(late(Kind::Retire, Stage::DrainNode, true), None, "a silent host is not waited for again");
    assert_eq!(late(Kind::Retire, Stage::DrainNode, false), again);
    assert_eq!(late(Kind::Reimage, Stage::DrainNode, true), again, "it would stop at what erases");
    assert_eq!(late(Kind::FullDecommission, Stage::RemoveGpuaasNodeRecord, true), None);
    for observation in OBSERVATIONS {
        check(observation, Kind::Onboarding, Class::Redeploy, Action::RestartClean);
        check(observation, Kind::Reimage, Class::Redeploy, Action::Cancel);
    }
}

/// Every way out has its row and is there once, and none is hidden that an action takes.
#[test]
fn the_ways_out_are_rows_and_no_call_is_there_twice() {
    for run in every_run() {
        let run = Facts { abandon: false, ..run };
        let ways = ways(run);
        let mut calls = Vec::new();
        for &event in &ways {
            let row = TABLE.find(run.state, event);
            assert!(row.is_some(), "{event}: {run:?}");
            if let Some(call) = row.and_then(|row| row.on.call()) {
                let call = call.to_string();
                assert!(!calls.contains(&call), "{call} twice: {run:?}");
                calls.push(call);
            }
        }
        for &action in Action::ALL {
            if let Ok(Decision::Move(event, _)) = decide(action, run) {
                assert!(ways.contains(&event), "{action}: {run:?}");
            }
        }
    }
}
