//! The course of a run through its plan, its failures, and what it does to its node.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::collections::BTreeSet;

use wardroom_core::{
    Named,
    gpu_node::{
        self, State as Node,
        maas::{Observed, Power, STATUSES, Status},
        mapping,
        moves::{self, Origin},
    },
    run::{
        self, Cause, Event, TABLE,
        adopt::{System, goes_on_at},
        course::Next,
        failure::Class,
        plan::{Kind, Stage, When},
    },
};

/// Every stage of a plan that is passed when nothing fails, in order.
fn course(kind: Kind, asked: impl Fn(Stage) -> bool) -> Vec<Stage> {
    let mut stages = vec![kind.first()];
    while let Next::Stage(next) = kind.after(*stages.last().unwrap(), &asked) {
        stages.push(next);
    }
    stages
}

#[test]
fn a_run_passes_its_plan_in_order_and_takes_no_detour() {
    for &kind in Kind::ALL {
        let plan = kind.plan();
        let all = plan.iter().filter(|step| step.when != When::OnFailure).map(|step| step.stage);
        assert_eq!(course(kind, |_| true), all.collect::<Vec<_>>(), "{kind}");
        let always = plan.iter().filter(|step| step.when == When::Always).map(|step| step.stage);
        assert_eq!(course(kind, |_| false), always.collect::<Vec<_>>(), "{kind}");
    }
}

#[test]
fn the_detour_leads_back_to_where_it_began() {
    for kind in [Kind::Onboarding, Kind::Reimage] {
        let next = |stage| kind.after(stage, |_| false);
        assert_eq!(kind.detour(Stage::WaitForDeployed), Some(Stage::ClassifyDeployFailure));
        assert_eq!(next(Stage::ClassifyDeployFailure), Next::Stage(Stage::RecoverForDatasourceRetry));
        assert_eq!(next(Stage::RecoverForDatasourceRetry), Next::Stage(Stage::WaitForDeployed));
        assert_eq!(kind.detour(Stage::ClassifyDeployFailure), None, "a detour has no detour");
    }
    let with = |kind: &&Kind| kind.plan().iter().any(|step| kind.detour(step.stage).is_some());
    assert_eq!(Kind::ALL.iter().filter(with).count(), 2);
    assert_eq!(Kind::Retire.after(Stage::ScrubGpu, |_| true), Next::End, "not a stage of the plan");
}

/// Whatever a stage costs, it stops the run at some point, by a row of the table.
#[test]
fn every_budget_ends_in_a_row() {
    for &stage in Stage::ALL {
        for &class in Class::ALL {
            assert!(stage.budget(class) < 10, "{stage} {class}");
            assert!(TABLE.find(run::State::Running, stage.when_spent(class)).is_some(), "{stage} {class}");
        }
        assert_eq!(stage.budget(Class::Credentials), 1, "a wrong password is tried twice");
        assert_eq!(stage.when_spent(Class::Credentials), Event::NeedOperator);
        assert_eq!(stage.when_spent(Class::Datasource), Event::NeedOperator);
    }
}

#[test]
fn stages_of_the_agent_can_be_skipped_and_proofs_only_before_a_release() {
    use Stage::{CleanupStorage, DrainNode, RemoveGpuaasNodeRecord, ScrubGpu, ValidateCleanNode};
    for (kind, expected) in [
        (Kind::Onboarding, &[][..]),
        (Kind::Bootstrap, &[]),
        (Kind::SoftReset, &[DrainNode]),
        (Kind::StorageCleanup, &[DrainNode]),
        (Kind::Reimage, &[DrainNode, CleanupStorage, ScrubGpu, ValidateCleanNode]),
        (
            Kind::FullDecommission,
            &[DrainNode, CleanupStorage, ScrubGpu, ValidateCleanNode, RemoveGpuaasNodeRecord],
        ),
        (Kind::Retire, &[DrainNode]),
        (Kind::Remove, &[RemoveGpuaasNodeRecord]),
    ] {
        let skipped: BTreeSet<_> = Stage::ALL.iter().filter(|stage| kind.can_skip(**stage)).collect();
        assert_eq!(skipped, expected.iter().collect(), "{kind}");
    }
    for stage in [Stage::CleanupStorage, Stage::ScrubGpu, Stage::ReleaseMaasNode, Stage::PowerOffMaasNode] {
        assert!(stage.undo().is_none(), "{stage} goes one way");
    }
}

fn follow(node: Node, event: Option<gpu_node::Event>) -> Node {
    event.map_or(node, |event| {
        moves::target(node, event).unwrap_or_else(|| panic!("{event} does not leave {node}"))
    })
}

fn starts(kind: Kind) -> &'static [Node] {
    match kind {
        Kind::Bootstrap => &[Node::BootstrapIssued, Node::Enrolling],
        Kind::Onboarding => &[Node::Enrolling, Node::Quarantined],
        Kind::Remove => &[Node::Retired],
        Kind::Reimage => &[Node::Active, Node::Offline, Node::Quarantined, Node::Retired],
        Kind::SoftReset | Kind::StorageCleanup | Kind::FullDecommission | Kind::Retire => {
            &[Node::Active, Node::Offline, Node::Quarantined]
        }
    }
}

/// Along every plan, the node is where the mapping allows it after every commit, it ends where the kind ends, and
/// wherever the run stops on the way, the node has a place too and the run can go on from there.
#[test]
fn the_node_follows_every_plan() {
    for &kind in Kind::ALL {
        for &start in starts(kind) {
            let check = |node, state, told: &dyn std::fmt::Display| {
                let fit = mapping::check(node, Some((kind, state)));
                assert!(fit.is_ok(), "{kind} from {start}, {told}: {:?}", fit.err());
            };
            let origin = Origin::of(start, Origin::FromUse);
            let mut node = start;
            check(node, run::State::Pending, &"accepted");
            let stages = course(kind, |_| true);
            for (index, &stage) in stages.iter().enumerate() {
                node = follow(node, moves::on_entry(kind, stage, node));
                check(node, run::State::Running, &stage);
                for row in run::TABLE.moves_from(run::State::Running) {
                    if matches!(row.to, run::State::Completed | run::State::Reconciled) {
                        continue;
                    }
                    for &cause in Cause::ALL {
                        let stopped = follow(node, moves::on_stop(kind, row.to, node, origin, cause));
                        check(stopped, row.to, &format_args!("{stage} {} {cause}", row.on));
                        unused(start, stopped);
                        let resumed = follow(stopped, moves::on_entry(kind, stage, stopped));
                        check(resumed, run::State::Running, &format_args!("{stage} after {}", row.on));
                    }
                }
                if index + 1 < stages.len() {
                    node = follow(node, moves::on_done(stage, node));
                    check(node, run::State::Running, &stage);
                }
            }
            let mut steps = 0;
            while mapping::check(node, Some((kind, run::State::Completed))).is_err() {
                node = follow(node, moves::on_end(kind, run::State::Completed, node, origin).unwrap());
                steps += 1;
                assert!(steps <= 2, "{kind} from {start} ends");
            }
            unused(start, node);
        }
    }
}

/// A quarantine outlives whatever its node was drained for.
#[track_caller]
fn unused(start: Node, node: Node) {
    let used = matches!(node, Node::Active | Node::Offline);
    assert!(start != Node::Quarantined || !used, "a quarantined node became {node} without a recovery");
}

/// A node that must not be used gets to a state in which nothing is scheduled on it, whatever its run is.
#[test]
fn an_unsafe_node_is_set_aside() {
    for (&start, &origin) in
        Node::ALL.iter().flat_map(|node| Origin::ALL.iter().map(move |origin| (node, origin)))
    {
        let mut node = start;
        while let Some(event) = moves::towards_quarantine(node, origin) {
            node = follow(node, Some(event));
            assert!(origin == Origin::FromUse || start != Node::Draining || node != Node::Offline);
        }
        assert!(
            !matches!(node, Node::Active | Node::Offline | Node::Enrolling | Node::Draining),
            "{start} ends {node}"
        );
    }
}

#[test]
fn a_run_cannot_finish_from_a_state_set_by_others() {
    let end = |kind, node| moves::on_end(kind, run::State::Completed, node, Origin::FromUse);
    assert_eq!(end(Kind::FullDecommission, Node::Retired), Err(Node::Retired));
    assert_eq!(end(Kind::Onboarding, Node::Quarantined), Ok(None), "set aside meanwhile");
    assert_eq!(end(Kind::SoftReset, Node::Retired), Err(Node::Retired));
}

/// Adopting goes forwards within the plan, and never skips what MAAS cannot know.
#[test]
fn adopting_only_goes_forwards() {
    let present = |status| Observed::Present { status, power: Power::On };
    let observations = STATUSES.iter().map(|&status| present(status)).chain([Observed::Absent]);
    for observed in observations {
        for &kind in Kind::ALL {
            for step in kind.plan() {
                let Some(point) = goes_on_at(kind, step.stage, observed, System::OfTheRun) else { continue };
                assert!(kind.is_past(point, step.stage), "{kind} {} to {point}", step.stage);
                let skipped = kind
                    .plan()
                    .iter()
                    .map(|step| step.stage)
                    .filter(|&stage| kind.is_past(stage, step.stage) && !kind.is_past(stage, point));
                for skipped in skipped {
                    let known = !matches!(
                        skipped,
                        Stage::DrainNode | Stage::CleanupStorage | Stage::ScrubGpu | Stage::ValidateCleanNode
                    );
                    assert!(known && skipped != Stage::WaitForAgentEnrollment, "{kind} skips {skipped}");
                }
            }
        }
    }
    let at = Stage::DeployViaMaas;
    let adopted = |kind, at, observed| goes_on_at(kind, at, observed, System::OfTheRun);
    let onboarded = |observed| adopted(Kind::Onboarding, at, observed);
    assert_eq!(onboarded(present(Status::Deployed)), Some(Stage::EnsureHardwareSyncConfigured));
    assert_eq!(onboarded(present(Status::Ready)), None, "that is behind it");
    assert_eq!(onboarded(Observed::Absent), None, "a person looks at that");
    assert_eq!(adopted(Kind::Reimage, Stage::DrainNode, present(Status::Deployed)), None);
    for status in [Status::Deployed, Status::Ready] {
        let adopted = adopted(Kind::Reimage, Stage::ReleaseMaasNode, present(status));
        assert_eq!(adopted, None, "the machine may not have been released yet");
    }
}

/// A system that the run did not deploy cannot enrol for it.
#[test]
fn a_foreign_system_is_not_adopted() {
    for status in [Status::Allocated, Status::Deploying, Status::Deployed] {
        let observed = Observed::Present { status, power: Power::On };
        for &kind in Kind::ALL {
            for step in kind.plan() {
                let point = goes_on_at(kind, step.stage, observed, System::OfOthers);
                assert_eq!(point, None, "{kind} at {} from {status:?}", step.stage);
            }
        }
    }
}
