//! Quarantined nodes: who set one aside and why, whether it was left half erased, and what gets it back into use.

use wardroom_api::gpu_node::Recommendation;
use wardroom_core::{
    gpu_node::{
        Event, State,
        action::Action,
        maas::{self, Status, Work},
    },
    run::{
        self,
        action::Action as RunAction,
        adopt,
        plan::{Kind, Stage},
    },
};
use wardroom_store::{HistoryRow, Resource, Rows};
use wardroom_workflow::{RUN, Run};

use super::{
    begin,
    data::Data,
    document::{Document, KIND},
    proof::{self, Sight},
    silence,
};
use crate::{app::App, error::Error};

/// The newest run of a node, if what it or one before it began to erase was never proven clean: nothing once a person has
/// said that the node is used all the same, or once its system was deployed anew.
pub(crate) async fn unproven(app: &App, node: &Resource) -> Result<Option<Run<Data>>, Error> {
    let accepted = Document::of(node)?.accepted;
    let run = begin::newest_run(app, node).await?;
    Ok(run.filter(|run| {
        !run.record.unproven.is_empty() && !is_anew(run) && accepted.as_deref() != Some(run.id())
    }))
}

/// Whether a run has brought a node in with another system.
fn is_anew(run: &Run<Data>) -> bool {
    let deploys = run.record.kind.plan().iter().any(|step| step.stage == Stage::DeployViaMaas);
    deploys && matches!(run.state, run::State::Completed | run::State::Reconciled)
}

/// Whether a quarantined node may be used as it is: proven healthy, and nothing left half erased.
pub(crate) async fn proven(app: &App, node: &Resource) -> Result<(), Error> {
    match unproven(app, node).await? {
        Some(run) => Err(refused(&run)),
        None => proof::healthy_again(app, node).await,
    }
}

/// Nobody has proven the node clean.
pub(crate) fn refused(run: &Run<Data>) -> Error {
    let (node, mode) = (&run.record.node, proves(run));
    Error::Conflict {
        code: "not_proven",
        detail: format!(
            "{}: have a {mode} prove that it is clean, or say that the node is used all the same, and why",
            half_erased(run)
        ),
        allowed: vec![
            format!(r#"POST /api/v1/gpu-nodes/{node}/decommissions {{"mode":"{mode}"}}"#),
            format!(r#"POST /api/v1/gpu-nodes/{node}/actions/recover {{"unproven":true}}"#),
        ],
    }
}

/// The mode that erases all that was begun to be, and proves it.
fn proves(run: &Run<Data>) -> Kind {
    let erases = |stage: &Stage| Kind::StorageCleanup.plan().iter().any(|step| step.stage == *stage);
    if run.record.unproven.iter().all(erases) { Kind::StorageCleanup } else { Kind::SoftReset }
}

fn half_erased(run: &Run<Data>) -> String {
    let (kind, id) = (run.record.kind, run.id());
    if run.record.kind.plan().iter().any(|step| step.stage.erases()) {
        format!("the {kind} run {id} began to erase what is on the node, and it was never proven clean")
    } else {
        "what is on the node was begun to be erased, and it was never proven clean".to_owned()
    }
}

/// What gets a quarantined node that no run works on back into use, or out of it.
pub(crate) async fn way_out(
    app: &App,
    node: &Resource,
    sight: Option<&Sight>,
) -> Result<Recommendation, Error> {
    let id = &node.content.id;
    let document = Document::of(node)?;
    let does = |action: &str, call: String, why: String| Recommendation {
        action: Some(action.to_owned()),
        request: Some(format!("POST /api/v1/gpu-nodes/{id}/{call}")),
        why,
    };
    let machine = document.machine.as_ref();
    let sight =
        sight.filter(|sight| machine.is_some_and(|machine| machine.system_id == sight.seen.system_id));
    let observed = sight.map(|sight| sight.seen.observed());
    let as_active = observed.is_none_or(|observed| maas::fits(State::Active, observed, Work::Nobody));
    let said = sight.map(|sight| sight.seen.status_name.as_deref().unwrap_or("absent"));
    if document.agent.is_none() || !as_active {
        let nobody = match said.filter(|_| !as_active) {
            Some(said) => format!("MAAS says that its machine is {said}, and an active node is deployed"),
            None => "no agent speaks for the node".to_owned(),
        };
        let deployed = sight.is_some_and(|sight| sight.seen.status == Some(Status::Deployed));
        return Ok(match document.site {
            None => does("retire", format!("actions/retire {}", skips(Kind::Retire, None)), nobody),
            Some(_) if deployed => {
                let call = format!("decommissions {}", skips(Kind::Reimage, Some(Kind::Reimage)));
                does("decommission", call, format!("{nobody}, and its machine is deployed"))
            }
            Some(_) if observed.is_some_and(|observed| !adopt::is_in_use(observed)) => {
                does("onboard", "onboardings".to_owned(), format!("{nobody}: it is onboarded anew"))
            }
            Some(_) => {
                let why = format!("{nobody}: it is onboarded anew, once its machine is free in MAAS");
                does("onboard", "onboardings".to_owned(), why)
            }
        });
    }
    if let Some(run) = unproven(app, node).await? {
        if !silence::is_heard(app, node).await? {
            let why = format!("{}; its agent, which could, is not heard", half_erased(&run));
            return Ok(if document.can_be_reimaged() {
                let call = format!("decommissions {}", skips(Kind::Reimage, Some(Kind::Reimage)));
                does("decommission", call, why)
            } else {
                does("retire", format!("actions/retire {}", skips(Kind::Retire, None)), why)
            });
        }
        let mode = proves(&run);
        return Ok(does("decommission", format!(r#"decommissions {{"mode":"{mode}"}}"#), half_erased(&run)));
    }
    let why = match proof::healthy_again(app, node).await {
        Ok(()) => "its agent reports that it is healthy; whoever looked into why it was set aside says so"
            .to_owned(),
        Err(Error::Conflict { detail, .. }) => format!(
            "once its agent reports that it is healthy: {detail}; if the host is dead, retire the node and skip the drain"
        ),
        Err(error) => return Err(error),
    };
    Ok(does("recover", "actions/recover".to_owned(), why))
}

/// The body that skips all that a run of this kind would ask of a host for which nobody speaks.
pub(crate) fn skips(kind: Kind, mode: Option<Kind>) -> serde_json::Value {
    let first = kind.plan().iter().map(|step| step.stage).find(|stage| kind.can_skip(*stage));
    let skips = first.into_iter().flat_map(|first| kind.skippable_from(first));
    let skip: Vec<_> = skips.map(|stage| serde_json::json!({"stage": stage, "reason": "REASON"})).collect();
    match mode {
        Some(mode) => serde_json::json!({"mode": mode, "skip": skip}),
        None => serde_json::json!({"skip": skip}),
    }
}

/// How far back the history is read for who set a node aside.
const ROWS: usize = 200;

/// Who set a quarantined node aside, and why. One that was set aside again because it was before is told of as then.
pub(crate) async fn told(app: &App, node: &Resource) -> Result<Option<String>, Error> {
    const QUARANTINED: &str = State::Quarantined.as_str();
    if node.content.state != QUARANTINED {
        return Ok(None);
    }
    let (rows, _) = app.store.history(KIND, &node.content.id, Rows::All, ROWS, 0).await?;
    for row in &rows {
        let entered = row.to_state == QUARANTINED && row.from_state.as_deref() != Some(QUARANTINED);
        let taken_over = row.entry.metadata["action"] == Action::Quarantine.as_str();
        if !entered && !taken_over {
            continue;
        }
        let Some(run) = row.entry.metadata["run"].as_str() else { return Ok(Some(by_hand(row))) };
        let Some(run) = app.store.get(RUN, run).await? else { return Ok(Some(by_hand(row))) };
        let run = Run::<Data>::read(run)?;
        let again = row.entry.metadata["event"] == Event::SetAsideAgain.as_str();
        if !again || !run.record.unproven.is_empty() {
            return by_run(app, row, &run).await.map(Some);
        }
    }
    Ok(None)
}

/// Set aside by a person, or by the server itself.
fn by_hand(row: &HistoryRow) -> String {
    let by = row.entry.user_id.as_deref().unwrap_or("the server");
    let why = row.entry.comment.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    format!("by {by}{why}")
}

/// Set aside by a run that failed or was stopped.
async fn by_run(app: &App, row: &HistoryRow, run: &Run<Data>) -> Result<String, Error> {
    let (kind, id, stage) = (run.record.kind, run.id(), run.record.stage);
    let (rows, _) = app.store.history(RUN, id, Rows::All, ROWS, 0).await?;
    let earlier = rows.iter().filter(|told| told.entry.at <= row.entry.at);
    let cancels = |told: &&HistoryRow| told.entry.metadata["action"] == RunAction::Cancel.as_str();
    let begun = !run.record.unproven.is_empty();
    let what = if begun { ", which had begun to erase what is on the node" } else { "" };
    if let Some(cancel) = earlier.clone().find(cancels) {
        return Ok(format!("{}, who cancelled the {kind} run {id} at {stage}{what}", by_hand(cancel)));
    }
    let failed = earlier.clone().find_map(|told| {
        let told = &told.entry.metadata;
        let (stage, evidence) = (told["stage"].as_str()?, told["evidence"].as_str()?);
        (told["outcome"] == "failed").then(|| format!(" at {stage}: {evidence}"))
    });
    let failed = failed.unwrap_or_else(|| format!(" at {stage}"));
    Ok(format!("by the {kind} run {id}{what}, which failed{failed}"))
}
