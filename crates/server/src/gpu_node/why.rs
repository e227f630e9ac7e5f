//! Why a GPU node is where it is: its own state, and the run that works on it.

use wardroom_core::{
    gpu_node::{
        Event, State, TABLE,
        maas::{Work, fits},
    },
    run::plan::Kind,
    table::{Call, Owner, Role, State as _},
    why::{Blocker, Exit, Next, Stay, Why, explain},
};

use wardroom_workflow::Run;

use super::{
    begin,
    data::Data,
    document::{self, Document, KIND},
    drift, lifecycle,
    proof::{self, Doubt},
    set_aside,
};
use crate::{app::App, error::Error, liveness::view};

/// Explains a node and its open run.
pub(crate) async fn why(app: &App, id: &str) -> Result<Vec<Why>, Error> {
    let node = super::find(app, id).await?;
    let state = document::state(&node)?;
    let run = begin::open_run(app, &node).await?;
    let latest = proof::latest(app, id).await?;
    let mut blockers = view::blockers(app, KIND, id).await?;
    if let Some((health, _)) = latest.health.as_ref().filter(|(health, _)| !health.is_healthy()) {
        let what = format!("its agent reports: {}", health.complaints()).into();
        blockers.push(Blocker { what, fix: None });
    }
    let work = if run.is_some() { Work::Run } else { Work::Nobody };
    if let Some(sight) = latest.maas.as_ref().filter(|sight| !fits(state, sight.seen.observed(), work)) {
        let said = sight.seen.status_name.as_deref().unwrap_or("absent");
        let mut what = format!("MAAS says that {} is {said}, which does not fit", sight.seen.system_id);
        if let Some(Doubt { missing, of }) = sight.seen.doubt {
            what += &format!(
                "; it misses {missing} of the {of} machines of site {} at once, which is taken for its own trouble: no node \
                 is quarantined for it while that lasts",
                sight.seen.site
            );
        }
        blockers.push(Blocker { what: what.into(), fix: None });
    }
    let document = Document::of(&node)?;
    if let Some(what) = drift::elsewhere(app, &document).await? {
        blockers.push(Blocker { what: what.into(), fix: None });
    }
    let mut stay = Stay::of(state, node.state_changed_at);
    let mut explained = Vec::new();
    if let Some(run) = &run {
        // While a run works on the node, the patience of its stage says more.
        stay.counted_from = run.record.counted_from(app.now());
        stay.patience = run.state.is_worked_on().then(|| run.record.patience());
        if !run.state.is_worked_on() {
            let (kind, stage) = (run.record.kind, run.record.current());
            let what = format!("its {kind} run stands still at {stage}; what the run says follows").into();
            blockers.insert(0, Blocker { what, fix: None });
        }
        explained.push(crate::why::of_run(app, run).await?);
    }
    let mut why = explain(TABLE, state, stay, app.now(), blockers);
    let came = begin::came(app, &node).await?;
    // A run that comes to its end has proven what whoever stops it before has not.
    let ends = run.as_ref().map_or(came, |run| run.record.came);
    let mut rows = TABLE.moves_from(state);
    why.exits.retain_mut(|exit| {
        let Some(row) = rows.next() else { return false };
        // Where it leads instead is said where it is asked for.
        let came = if row.on == Event::CleanupFinished { ends } else { came };
        let event = came.instead_of(row.on, state);
        exit.to = super::moved(state, event).unwrap_or(row.to).as_str();
        can_happen(row.on, run.as_ref(), &document)
    });
    let begins_anew = run.is_none() && state == State::Quarantined && document.site.is_some();
    if begins_anew {
        let when = "A person onboards the node anew, and recovers it when its agent speaks for it.".into();
        why.exits.push(Exit { to: state.as_str(), when, by: Owner::Admin, call: Some(ONBOARD) });
    }
    // What is recommended is what to do next, whoever asks.
    let newest = lifecycle::newest(app, &node).await?;
    let recommended = lifecycle::recommend(app, &node, newest.as_ref(), &latest).await?;
    let nothing = recommended.why == lifecycle::NOTHING;
    why.next = match crate::why::asked(recommended) {
        Some(next) => next,
        None if nothing && run.is_none() && why.blockers.is_empty() => Next::Nothing,
        None => possible(&why, state, run.as_ref()),
    };
    if let Some(because) = set_aside::told(app, &node).await? {
        why.meaning = format!("Blocked from scheduling; set aside {because}.").into();
    }
    if state == State::Active && document.unhealthy {
        why.meaning =
            "Its agent is heard, but its checks fail: no work is scheduled on it until they pass.".into();
    }
    explained.insert(0, why);
    Ok(explained)
}

/// What to do next, if what the table prefers cannot be done now.
fn possible(why: &Why, state: State, run: Option<&Run<Data>>) -> Next {
    let any = |is: &dyn Fn(&Exit) -> bool| why.exits.iter().any(is);
    let can = match &why.next {
        Next::Call(preferred) => {
            let mends = why.blockers.iter().any(|blocker| blocker.fix.as_ref() == Some(preferred));
            mends || why.overdue || any(&|exit| exit.call.as_ref() == Some(preferred))
        }
        // What nobody works towards is not waited for.
        Next::Wait { by, until } => run.is_some() || any(&|exit| exit.by == *by && exit.when == *until),
        Next::Nothing | Next::Mend { .. } | Next::Ask { .. } => true,
    };
    match run {
        _ if can => why.next.clone(),
        Some(_) => Next::Wait { by: Owner::Workflow, until: "the run that works on the node ends".into() },
        None => {
            let call = why.exits.iter().find_map(|exit| exit.call);
            let remedy = matches!(why.next, Next::Wait { .. }).then(|| state.remedy()).flatten();
            remedy.or(call).map_or(Next::Nothing, Next::Call)
        }
    }
}

/// How a node is brought in anew.
const ONBOARD: Call = Call {
    request: "POST /api/v1/gpu-nodes/{id}/onboardings",
    role: Role::Operator,
    precondition: Some("once its machine is free in MAAS"),
};

/// Whether a move can come next, given the run that works on the node: of those that lead to the same place, only the
/// one that a person can ask for.
fn can_happen(event: Event, run: Option<&Run<Data>>, node: &Document) -> bool {
    use Kind::{FullDecommission, Reimage, Remove, Retire, SoftReset, StorageCleanup};
    let is = |kinds: &[Kind]| run.is_some_and(|run| kinds.contains(&run.record.kind));
    match event {
        Event::Onboarded | Event::EnrollmentStarted => run.is_some_and(|run| run.record.kind.is_onboarding()),
        Event::Drained => is(&[Retire, Reimage, FullDecommission]),
        Event::CleanupFinished => is(&[SoftReset, StorageCleanup]),
        Event::Uninstalled => is(&[FullDecommission, Remove]),
        Event::Reenrolled => is(&[Reimage]) || (run.is_none() && node.can_be_reimaged()),
        Event::Remove => is(&[FullDecommission, Remove]) || run.is_none(),
        // What a run does when it stops, a person has it do.
        Event::OnboardingBlocked | Event::DrainFailed | Event::UninstallFailed | Event::SetAsideAgain => {
            false
        }
        Event::Recover => run.is_none() && node.agent.is_some(),
        Event::Drain => run.is_none(),
        Event::Reactivate => run.is_none() && node.identity_kept,
        Event::ProvenHealthy => run.is_none() && node.drift.as_ref().is_some_and(|drift| drift.quarantined),
        Event::StartOnboarding
        | Event::Quarantine
        | Event::HeartbeatsMissed
        | Event::Heartbeat
        | Event::DriftFound
        | Event::StopDrain
        | Event::RollbackRemove => true,
    }
}
