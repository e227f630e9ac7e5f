//! Random schedules: faults, servers that crash in the middle of anything, operators that request any action.

use std::time::Duration;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use wardroom_core::{
    Named,
    run::{State, action::Action, failure::Class, plan::Kind},
};
use wardroom_workflow::Adoption;

use crate::{
    database::Database,
    rig::{Rig, course},
    world::{Doing, Fault},
};

/// What happens next.
#[derive(Debug, Clone)]
enum Happens {
    /// A server works until it is done, or dies.
    Live,
    /// A server dies after that time.
    Cut(Duration),
    /// An operator presses something.
    Press(Action),
    /// Something will go wrong, so often.
    Wrong(prop::sample::Index, Doing, Fault, u32),
}

fn happens() -> impl Strategy<Value = Happens> {
    let faults = prop::sample::select(vec![
        Fault::DieAtOnce,
        Fault::DieIntending,
        Fault::DieAfterwards,
        Fault::LoseReply,
        Fault::Wait,
        Fault::Break,
        Fault::NeedOperator,
        Fault::Unsafe,
        Fault::Panic,
        Fault::Fail(Class::Retryable),
        Fault::Fail(Class::Datasource),
        Fault::Fail(Class::Credentials),
    ]);
    let doing = prop::sample::select(vec![Doing::Perform, Doing::Undo]);
    prop_oneof![
        4 => Just(Happens::Live),
        4 => (0..20_000_u64).prop_map(|after| Happens::Cut(Duration::from_micros(after))),
        2 => prop::sample::select(Action::ALL.to_vec()).prop_map(Happens::Press),
        3 => (any::<prop::sample::Index>(), doing, faults, 1..4_u32)
            .prop_map(|(index, doing, fault, times)| Happens::Wrong(index, doing, fault, times)),
    ]
}

/// How many schedules.
const SCHEDULES: usize = 120;

pub(crate) async fn random_schedules_end_where_they_should(database: Database) {
    let rig = Rig::new(database).await;
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &[7; 32]),
    );
    let strategy = (prop::sample::select(Kind::ALL.to_vec()), prop::collection::vec(happens(), 0..14));
    for _ in rig.cases(vec![(); SCHEDULES]) {
        let (kind, schedule) = strategy.new_tree(&mut runner).unwrap().current();
        let id = rig.start(kind).await;
        for happens in &schedule {
            happen(&rig, &id, kind, happens).await;
        }
        // Whatever happened, the run can be brought to an end from here: there are no dead ends.
        rig.world.heal(&id);
        rig.expire().await;
        let mut state = rig.settle(&id).await;
        for _ in 0..3 {
            if state.is_open() {
                rig.act(&id, Action::RetryStage).await.unwrap();
                state = rig.settle(&id).await;
            }
        }
        assert!(!state.is_open(), "{kind} {schedule:?} ends {state}");
        if state == State::Cancelled {
            assert_eq!(rig.world.reversible(&id), [], "{kind} {schedule:?}");
        }
        rig.check(&id).await;
    }
}

async fn happen(rig: &Rig, id: &str, kind: Kind, happens: &Happens) {
    match happens {
        Happens::Live => drop(rig.live().await),
        Happens::Cut(after) => {
            let engine = rig.engine();
            // Dropped wherever it is: in a stage, in a commit, between two.
            let _ = tokio::time::timeout(*after, engine.tick()).await;
            rig.expire().await;
        }
        Happens::Press(action) => {
            // Refusals are fine: what matters is what is committed.
            drop(rig.ask(id, *action, Adoption::Nothing, false).await);
        }
        Happens::Wrong(index, doing, fault, times) => {
            rig.world.plan(id, *index.get(&course(kind)), *doing, *fault, *times);
        }
    }
}
