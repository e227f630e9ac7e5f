//! What operators do to stored runs.

use wardroom_core::run::{
    State,
    action::{Action, Refusal},
    plan::{Kind, Stage},
};
use wardroom_workflow::{Adoption, Did, Problem, RUN};

use crate::{
    database::Database,
    rig::{Node, Rig},
    world::{Doing, Fault},
};

/// How often two operators press at the same moment.
const TIMES: usize = 1000;

async fn failed(rig: &Rig) -> String {
    let id = rig.start(Kind::Retire).await;
    rig.world.plan(&id, Stage::DrainNode, Doing::Perform, Fault::NeedOperator, 1);
    assert_eq!(rig.settle(&id).await, State::FailedManualIntervention);
    id
}

/// Freezes the run again, so that it can be pressed once more.
async fn freeze(rig: &Rig, id: &str) {
    rig.act(id, Action::MarkManualInterventionRequired).await.unwrap();
}

pub(crate) async fn two_operators_have_one_effect(database: Database) {
    let rig = Rig::new(database).await;
    let mut id = failed(&rig).await;
    for round in 0..TIMES {
        let action = [Action::RetryStage, Action::Resume, Action::Cancel][round % 3];
        let before = rig.history(RUN, &id).await.len();
        let (one, two) = tokio::join!(rig.act(&id, action), rig.act(&id, action));
        let did = [one.unwrap().did, two.unwrap().did];
        let moved = did.iter().filter(|did| matches!(did, Did::Moved(_))).count();
        let already = did.iter().filter(|did| matches!(did, Did::Already(_))).count();
        assert_eq!((moved, already), (1, 1), "{action}: {did:?}");
        assert_eq!(rig.history(RUN, &id).await.len(), before + 1, "{action}: one effect, one row");
        if action == Action::Cancel {
            if round % 60 == 2 {
                assert_eq!(rig.settle(&id).await, State::Cancelled);
            }
            id = failed(&rig).await;
        } else {
            freeze(&rig, &id).await;
        }
    }
}

pub(crate) async fn refusals_say_what_is_allowed(database: Database) {
    let rig = Rig::new(database).await;
    let id = rig.start(Kind::Retire).await;
    let refused = rig.act(&id, Action::RetryStage).await.unwrap_err();
    let Problem::Refused { refusal, state, allowed } = refused else { panic!("{refused:?}") };
    assert_eq!((refusal, state), (Refusal::NothingFailed, State::Pending));
    assert!(allowed.contains(&Action::Cancel) && !allowed.contains(&Action::Rerun), "{allowed:?}");
    assert_eq!(rig.settle(&id).await, State::Completed);
    let over = rig.act(&id, Action::Cancel).await.unwrap_err();
    assert!(matches!(over, Problem::Refused { refusal: Refusal::RunIsOver, .. }), "{over:?}");
    assert!(matches!(rig.act("missing", Action::Cancel).await, Err(Problem::NotFound)));
}

pub(crate) async fn adopting_goes_on(database: Database) {
    let rig = Rig::new(database).await;
    let stuck = async || {
        let id = rig.start(Kind::Onboarding).await;
        rig.world.plan(&id, Stage::DeployViaMaas, Doing::Perform, Fault::NeedOperator, 1);
        assert_eq!(rig.settle(&id).await, State::FailedManualIntervention);
        id
    };
    let id = stuck().await;
    let adopt = |id: String, adoption| {
        let rig = &rig;
        async move { rig.ask(&id, Action::AdoptObservedState, adoption, false).await }
    };
    assert!(adopt(id.clone(), Adoption::Nothing).await.is_err());
    assert!(adopt(id.clone(), Adoption::Outdated).await.is_err());
    adopt(id.clone(), Adoption::Continue(Stage::WaitForDeployed)).await.unwrap();
    assert_eq!(rig.settle(&id).await, State::Reconciled);
    assert_eq!(rig.node(&id).await, Node::Active);
    assert!(!rig.world.effects(&id).contains_key(&Stage::DeployViaMaas), "another user deployed it");

    let id = rig.start(Kind::FullDecommission).await;
    rig.world.plan(&id, Stage::ReleaseMaasNode, Doing::Perform, Fault::NeedOperator, 1);
    assert_eq!(rig.settle(&id).await, State::FailedManualIntervention);
    adopt(id.clone(), Adoption::Continue(Stage::CleanupSecrets)).await.unwrap();
    assert_eq!(rig.settle(&id).await, State::Reconciled);
    assert_eq!(rig.node(&id).await, Node::Deleted);
}
