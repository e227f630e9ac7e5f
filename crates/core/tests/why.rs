//! The explanation of a state, built from the tables.

use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    Named, cluster,
    device::{
        self,
        condition::{self, Condition, Conditions},
    },
    gpu_node, lifecycles, node, run, satellite,
    table::{Event, Owner, State, Table},
    why::{Next, Stay, Why, explain},
};

fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
}

/// The request that an explanation asks for next.
fn call(why: &Why) -> String {
    let Next::Call(action) = &why.next else { panic!("{}: {:?}", why.state, why.next) };
    let body = serde_json::to_value(action).expect("an action is JSON")["body"].clone();
    let body = if body.is_null() { String::new() } else { format!(" {body}") };
    format!("{} {}{body}", action.method, action.path)
}

fn explained<S: State, E: Event>(table: Table<S, E>) {
    for &state in S::ALL {
        for minutes in [0, 59, 60, 61, 1_000_000] {
            let why = explain(table, "x1", state, Stay::of(state, at(0)), at(minutes), vec![]);
            assert_eq!(why.exits.len(), table.moves_from(state).count());
            let patience = state.patience().map(|patience| patience.as_mins());
            assert_eq!(
                why.overdue,
                patience.is_some_and(|patience| patience < minutes),
                "{}",
                state.as_str()
            );
            if S::TERMINAL.contains(&state) {
                assert_eq!(why.next, Next::Nothing, "{}", state.as_str());
            } else if !S::SERVICE.contains(&state) || why.overdue {
                assert_ne!(why.next, Next::Nothing, "{} says what to do", state.as_str());
            }
            if why.overdue {
                assert!(!matches!(why.next, Next::Wait { .. }), "{}: waiting has not helped", state.as_str());
            }
            if let Next::Call(call) = &why.next {
                let ends_a_life = table.moves_from(state).any(|row| {
                    row.on.call().map(|call| call.of("x1")).as_ref() == Some(call)
                        && S::TERMINAL.contains(&row.to)
                });
                // The one state that its document makes one-way towards the end, when waiting has not helped.
                let one_way = state.as_str() == "deprovisioning" && why.overdue;
                assert_eq!(ends_a_life, one_way, "advice for {}", state.as_str());
            }
        }
    }
}

#[test]
fn every_state_of_every_table_is_explained() {
    explained(device::update::TABLE);
    explained(node::TABLE);
    explained(gpu_node::TABLE);
    explained(run::TABLE);
    explained(satellite::TABLE);
    assert!(lifecycles::all().len() >= 4);
}

#[test]
fn an_install_is_waited_for_until_its_patience_ends() {
    let why = explain(
        node::TABLE,
        "x1",
        node::State::Installing,
        Stay::of(node::State::Installing, at(0)),
        at(60),
        vec![],
    );
    assert!(!why.overdue);
    assert_eq!(why.patience_ends, Some(at(60)));
    assert!(matches!(why.next, Next::Wait { by: Owner::NodeReport, .. }), "{:?}", why.next);

    let why = explain(
        node::TABLE,
        "x1",
        node::State::Installing,
        Stay::of(node::State::Installing, at(0)),
        at(61),
        vec![],
    );
    assert!(why.overdue);
    assert_eq!(call(&why), r#"PATCH /api/v1/nodes/x1/state {"state":"install_failed"}"#);
}

#[test]
fn blockers_come_first() {
    let blockers = node::blockers("x1", node::State::Pending, false, 0, None);
    let why = explain(
        node::TABLE,
        "x1",
        node::State::Pending,
        Stay::of(node::State::Pending, at(0)),
        at(1),
        blockers,
    );
    assert_eq!(call(&why), "PATCH /api/v1/nodes/x1");

    let blockers = node::blockers("x1", node::State::Installing, true, 1, Some("disk not found"));
    let why = explain(
        node::TABLE,
        "x1",
        node::State::Installing,
        Stay::of(node::State::Installing, at(0)),
        at(1),
        blockers,
    );
    let Next::Mend { what } = &why.next else { panic!("{:?}", why.next) };
    assert_eq!(what, "attempt 1 of 3 failed: disk not found");

    let blockers = node::blockers("x1", node::State::InstallFailed, true, 3, None);
    let why = explain(
        node::TABLE,
        "x1",
        node::State::InstallFailed,
        Stay::of(node::State::InstallFailed, at(0)),
        at(1),
        blockers,
    );
    assert_eq!(call(&why), r#"PATCH /api/v1/nodes/x1/state {"force":true,"state":"pending"}"#);

    assert!(node::blockers("x1", node::State::Active, false, 0, None).is_empty());
}

#[test]
fn a_machine_that_boots_and_never_reports_needs_a_person() {
    let handed = |scripts| node::Handed { scripts, last: at(1), most: 5 };
    assert_eq!(node::unreported(node::State::Pending, handed(4)), None);
    for scripts in [5, 18] {
        let blocker = node::unreported(node::State::Pending, handed(scripts)).unwrap();
        assert!(
            blocker.what.starts_with(&format!("{scripts} install scripts were handed out")),
            "{}",
            blocker.what
        );
        assert_eq!(blocker.fix, None, "no call of ours mends a machine");
    }
    for other in node::State::ALL.iter().filter(|state| **state != node::State::Pending) {
        assert_eq!(node::unreported(*other, handed(18)), None, "{other:?}: its reports say more");
    }
    let said = node::Handed { scripts: 1, last: at(1), most: 5 }.to_string();
    assert!(
        said.starts_with("1 install script was handed out since its approval; it last booted "),
        "{said}"
    );
}

#[test]
fn stuck_work_is_resumed_and_a_persons_move_is_named() {
    let why = explain(
        gpu_node::TABLE,
        "x1",
        gpu_node::State::Draining,
        Stay::of(gpu_node::State::Draining, at(0)),
        at(800),
        vec![],
    );
    assert_eq!(call(&why), "POST /api/v1/gpu-nodes/x1/actions/resume");
    let why = explain(
        gpu_node::TABLE,
        "x1",
        gpu_node::State::Quarantined,
        Stay::of(gpu_node::State::Quarantined, at(0)),
        at(0),
        vec![],
    );
    assert_eq!(call(&why), "POST /api/v1/gpu-nodes/x1/actions/recover");
    let why = explain(
        run::TABLE,
        "x1",
        run::State::FailedRetryable,
        Stay::of(run::State::FailedRetryable, at(0)),
        at(0),
        vec![],
    );
    assert_eq!(call(&why), "POST /api/v1/runs/x1/actions/retry_stage");
    let why = explain(
        satellite::TABLE,
        "x1",
        satellite::State::Pending,
        Stay::of(satellite::State::Pending, at(0)),
        at(25 * 60),
        vec![],
    );
    assert_eq!(call(&why), r#"POST /api/satellites/x1/reenable {"mode":"reissue"}"#);
}

#[test]
fn times_at_the_edge_of_the_calendar_do_not_overflow() {
    let why = explain(
        node::TABLE,
        "x1",
        node::State::Installing,
        Stay::of(node::State::Installing, Timestamp::MAX),
        Timestamp::MAX,
        vec![],
    );
    assert_eq!(why.patience_ends, Some(Timestamp::MAX));
    let why = explain(
        node::TABLE,
        "x1",
        node::State::Installing,
        Stay::of(node::State::Installing, Timestamp::MIN),
        Timestamp::MAX,
        vec![],
    );
    assert!(why.overdue);
}

#[test]
fn an_explanation_is_served_as_json() {
    let why = explain(
        satellite::TABLE,
        "x1",
        satellite::State::Revoked,
        Stay::of(satellite::State::Revoked, at(0)),
        at(1),
        vec![],
    );
    let json = serde_json::to_value(&why).unwrap();
    assert_eq!(json["next"]["do"], "call");
    assert_eq!(json["next"]["role"], "operator");
    assert_eq!(json["exits"][0]["by"], "admin");
    assert_eq!(json["since"], "1970-01-01T00:00:00Z");
}

/// Every status of a derivation is either good, final, or has a way out.
#[test]
fn every_derived_status_is_explained() {
    let good = ["Online", "UpToDate", "Healthy", "Enrolled", "Decommissioned", "True"];
    fn statuses<S: Named>(about: &'static str) -> Vec<(&'static str, &'static str)> {
        S::ALL.iter().map(|status| (about, status.as_str())).collect()
    }
    let all = [
        statuses::<device::summary::Status>("summary"),
        statuses::<device::updated::Status>("updated"),
        statuses::<device::applications::Status>("applicationSummary"),
        statuses::<device::lifecycle::Status>("lifecycle"),
        statuses::<cluster::Status>("Reconciled"),
    ]
    .concat();
    let rules: Vec<_> = device::RULES.iter().chain(cluster::RULES).collect();
    for (about, status) in &all {
        let ways = rules.iter().filter(|rule| (rule.about, rule.status) == (*about, *status)).count();
        assert_eq!(ways == 0, good.contains(status), "{about} {status}");
    }
    for rule in rules {
        assert!(all.contains(&(rule.about, rule.status)) && all.contains(&(rule.about, rule.to)), "{rule:?}");
    }
}

#[test]
fn a_device_is_explained_on_every_axis() {
    let updating = Condition { status: condition::Status::False, reason: "Error", message: "disk full" };
    let report = device::Report {
        conditions: Conditions { updating: Some(updating), ..Default::default() },
        rendered_version: Some("3"),
        ..Default::default()
    };
    let facts = device::Facts {
        last_seen: Some(at(0)),
        report: Some(report),
        rendered_version: Some("4"),
        enrolled: true,
        ..Default::default()
    };
    let [summary, updated, applications, lifecycle] = device::why("x1", &facts, at(60));
    assert_eq!((summary.state, summary.since), ("Offline", Some(at(5))));
    assert!(matches!(summary.next, Next::Wait { by: Owner::Agent, .. }));
    assert_eq!((updated.state, call(&updated).as_str()), ("OutOfDate", "PUT /api/v1/devices/x1"));
    assert!(updated.blockers[0].what.contains("disk full"));
    assert_eq!((applications.state, lifecycle.state), ("Unknown", "Enrolled"));
    assert_eq!(lifecycle.next, Next::Nothing);
}

#[test]
fn a_cluster_says_which_adapters_it_waits_for() {
    let required = ["dns".to_owned()];
    let desired = cluster::Desired {
        generation: 2,
        updated_time: at(0),
        required_adapters: &required,
        deleted: false,
        active_children: false,
    };
    let conditions = cluster::fold(&desired, &[], &[]);
    let why = cluster::why("x1", &conditions).unwrap();
    assert_eq!((why.about, why.state, why.since), ("Reconciled", "False", Some(at(0))));
    assert!(why.blockers[0].what.contains("dns"), "{:?}", why.blockers);
    assert!(matches!(why.next, Next::Wait { by: Owner::Adapter, .. }));
    assert!(cluster::why("x1", &[]).is_none());
}

#[test]
fn a_stay_is_counted_from_the_last_sign_of_progress() {
    let state = node::State::Installing;
    let stay = Stay { counted_from: at(50), ..Stay::of(state, at(0)) };
    let why = explain(node::TABLE, "x1", state, stay, at(100), vec![]);
    assert!(!why.overdue, "an install that reported a while ago is not overdue because it is long");
    assert_eq!((why.since, why.patience_ends), (Some(at(0)), Some(at(110))));

    let stage = run::plan::Stage::ScrubGpu;
    let stay = Stay { since: at(0), counted_from: at(0), patience: Some(stage.patience()) };
    assert!(
        explain(run::TABLE, "x1", run::State::Running, stay, at(31), vec![]).overdue,
        "a stage has its own patience"
    );
}

#[test]
fn work_in_progress_is_left_alone_while_its_patience_lasts() {
    let stay = |state| Stay::of(state, at(0));
    let why = explain(
        node::TABLE,
        "x1",
        node::State::Deprovisioning,
        stay(node::State::Deprovisioning),
        at(1),
        vec![],
    );
    assert!(matches!(why.next, Next::Wait { by: Owner::Admin, .. }), "{:?}", why.next);
    let why = explain(
        node::TABLE,
        "x1",
        node::State::Deprovisioning,
        stay(node::State::Deprovisioning),
        at(25 * 60),
        vec![],
    );
    let Next::Call(finish) = &why.next else { panic!("{:?}", why.next) };
    assert!(finish.precondition.clone().unwrap().contains("erasure is complete"));
}

#[test]
fn a_run_says_what_failed() {
    let stage = run::plan::Stage::ConfigureStorage;
    let told = |state, next| run::blockers(state, stage, 3, Some("no boot disk"), next);
    let why =
        |state, next| explain(run::TABLE, "x1", state, Stay::of(state, at(0)), at(1), told(state, next));
    let Next::Mend { what } = why(run::State::Running, None).next else { panic!() };
    assert_eq!(what, "configure_storage failed 3 times: no boot disk");
    let rerun = why(run::State::FailedManualIntervention, Some(run::action::Action::Rerun.call().of("x1")));
    assert_eq!(call(&rerun), "POST /api/v1/runs/x1/actions/rerun");
    assert!(told(run::State::Cancelled, None).is_empty());
    for (failures, said) in [(0, "failed before"), (1, "failed once"), (2, "failed 2 times")] {
        let told = run::blockers(run::State::Running, stage, failures, Some("no boot disk"), None);
        assert!(told[0].what.contains(said), "{}", told[0].what);
    }
}

/// The one that has to act on a device that is out of date depends on the blocker.
#[test]
fn a_device_that_is_out_of_date_names_the_one_that_acts() {
    let report = device::Report { rendered_version: Some("3"), ..Default::default() };
    let facts = device::Facts {
        last_seen: Some(at(0)),
        report: Some(report),
        rendered_version: Some("4"),
        ..Default::default()
    };
    let next = |facts: device::Facts<'_>| device::why("x1", &facts, at(1))[1].next.clone();
    assert!(matches!(next(facts), Next::Wait { by: Owner::Agent, .. }), "the agent applies it");
    let missing_fleet = device::Facts { owner: Some("Fleet/x"), ..facts };
    assert!(matches!(next(missing_fleet), Next::Mend { .. }), "a person creates the fleet");
    let failed_rollout = device::Facts { last_rollout_error: Some("bad template"), ..facts };
    assert!(matches!(next(failed_rollout), Next::Mend { .. }), "a person mends the template");
    let fleet = Some(device::Fleet { template_version: Some("v2") });
    let behind = device::Facts { owner: Some("Fleet/x"), fleet, template_version: Some("v1"), ..facts };
    assert!(matches!(next(behind), Next::Wait { by: Owner::Agent, .. }));
}

#[test]
fn a_deaf_server_makes_no_device_offline() {
    let facts = device::Facts { last_seen: Some(at(0)), ..Default::default() };
    assert!(facts.is_disconnected(at(6)));
    let excused = device::Facts { excused: SignedDuration::from_mins(60), ..facts };
    assert!(!excused.is_disconnected(at(6)));
    assert!(!excused.is_disconnected(at(65)));
    assert!(excused.is_disconnected(at(66)));
}
