//! Explains the state of a GPU node and of its open run.

use std::borrow::Cow;

use wardroom_core::{
    gpu_node::{
        Event, ONBOARD, State, TABLE, advice,
        exits::can_happen,
        maas::{Work, fits},
    },
    table::{Owner, State as _},
    why::{Blocker, Exit, Next, Stay, Why, explain},
};

use super::{
    action, begin,
    document::{self, Document, KIND},
    drift, facts, lifecycle,
    proof::{self, Doubt},
    set_aside,
};
use crate::platform::{app::App, http::error::Error, liveness::view};

pub(crate) async fn why(app: &App, id: &str) -> Result<Vec<Why>, Error> {
    let node = super::find(app, id).await?;
    let state = document::state(&node)?;
    let newest = lifecycle::newest(app, &node).await?;
    let run = newest.as_ref().map(|(run, _)| run).filter(|run| run.state.is_open());
    let latest = proof::latest(app, id).await?;
    let document = Document::of(&node)?;
    let work = if run.is_some() { Work::Run } else { Work::Nobody };
    let mut blockers = blockers(app, id, state, work, &latest).await?;
    if let Some(what) = drift::elsewhere(app, &document).await? {
        blockers.push(Blocker { what: what.into(), fix: None });
    }
    let mut stay = Stay::of(state, node.state_changed_at);
    let mut explained = Vec::new();
    if let Some(run) = run {
        // While a run works on the node, the patience of its stage applies.
        stay.counted_from = run.record.counted_from(app.now());
        stay.patience = run.state.is_worked_on().then(|| run.record.patience());
        if !run.state.is_worked_on() {
            let (kind, stage) = (run.record.plan.kind, run.record.current());
            let what = format!("its {kind} run stopped at {stage}").into();
            blockers.insert(0, Blocker { what, fix: None });
        }
        explained.push(super::run::why::of_run(app, run).await?);
    }
    let mut why = Why {
        fine: fine(app, id, state, work, &latest),
        ..explain(TABLE, id, state, stay, app.now(), blockers)
    };
    let known = facts::of(app, &node, newest.as_ref().map(|(run, _)| run), &latest).await?;
    let origin = begin::origin(app, &node).await?;
    // A completed run has proven the node clean; a stopped run has not.
    let ends = run.map_or(origin, |run| run.record.progress.origin);
    why.exits.retain_mut(|exit| {
        let Some(event) = exit.event() else { return false };
        // The other target is explained with the action.
        let origin = if event == Event::CleanupFinished { ends } else { origin };
        exit.to = super::moved(state, origin.instead_of(event, state)).map_or(exit.to, State::as_str);
        can_happen(event, &known)
    });
    let begins_anew = run.is_none() && state == State::Quarantined && document.site.is_some();
    if begins_anew {
        let when = "A person onboards the node again, and recovers it once its agent has enrolled.".into();
        let call = Some(ONBOARD.when("once its machine is free in MAAS").of(id));
        why.exits.push(Exit { on: None, to: state.as_str(), when, by: Owner::Admin, call });
    }
    // The node's next step is the recommended one, or else that of its run.
    let recommended = lifecycle::recommend(app.now(), id, &known, newest.as_ref(), &latest);
    let nothing = recommended.why == advice::NOTHING;
    let of_run = explained.first().map(|run: &Why| run.next.clone());
    why.next = match (super::run::why::asked(recommended), of_run) {
        (Some(next), _) | (None, Some(next)) => next,
        (None, None) if nothing && why.blockers.is_empty() => Next::Nothing,
        (None, None) => possible(&why, id, state),
    };
    for exit in &mut why.exits {
        if let Some(offered) = exit.call.take() {
            exit.call = Some(action::judged(&known, offered));
        }
    }
    if let Next::Call(offered) = why.next {
        why.next = Next::Call(action::judged(&known, offered));
    }
    if let Some(because) = set_aside::cause(app, &node).await? {
        why.meaning = format!("Blocked from scheduling; set aside {because}.").into();
    }
    if state == State::Active && document.unhealthy {
        why.meaning =
            "Its agent sends heartbeats, but its checks fail: no work is scheduled on it until they pass."
                .into();
    }
    explained.insert(0, why);
    Ok(explained)
}

/// Lists the problems that the agent and MAAS report.
async fn blockers(
    app: &App,
    id: &str,
    state: State,
    work: Work,
    latest: &proof::Latest,
) -> Result<Vec<Blocker>, Error> {
    let mut blockers = view::blockers(app, KIND, id).await?;
    if let Some((health, _)) = latest.health.as_ref().filter(|(health, _)| !health.is_healthy()) {
        let what = format!("its agent reports: {}", health.complaints()).into();
        blockers.push(Blocker { what, fix: None });
    }
    if let Some(sight) = latest.maas.as_ref().filter(|sight| !fits(state, sight.seen.observed(), work)) {
        let said = sight.seen.status_name.as_deref().unwrap_or("absent");
        let mut what = format!("MAAS says that {} is {said}, which does not fit", sight.seen.system_id);
        if let Some(Doubt { missing, of }) = sight.seen.doubt {
            what += &format!(
                "; {missing} of the {of} machines of site {} are missing from it at once, which the \
                 server takes for a fault of MAAS: no node is quarantined meanwhile",
                sight.seen.site
            );
        }
        blockers.push(Blocker { what: what.into(), fix: None });
    }
    Ok(blockers)
}

/// Lists what its agent and MAAS say for a node.
fn fine(app: &App, id: &str, state: State, work: Work, latest: &proof::Latest) -> Vec<Cow<'static, str>> {
    let mut fine: Vec<_> = view::heard(app, KIND, id).into_iter().collect();
    if latest.health.as_ref().is_some_and(|(health, _)| health.is_healthy()) && state == State::Active {
        fine.push("its agent reports that it is healthy".into());
    }
    if let Some(sight) = latest.maas.as_ref().filter(|sight| fits(state, sight.seen.observed(), work)) {
        let said = sight.seen.status_name.as_deref().unwrap_or("absent");
        fine.push(format!("MAAS says that {} is {said}, which fits", sight.seen.system_id).into());
    }
    fine
}

/// Returns the next step of a node without a run, if the one that the table prefers is impossible now.
fn possible(why: &Why, id: &str, state: State) -> Next {
    let any = |is: &dyn Fn(&Exit) -> bool| why.exits.iter().any(is);
    let can = match &why.next {
        Next::Call(preferred) => {
            let mends = why.blockers.iter().any(|blocker| blocker.fix.as_ref() == Some(preferred));
            mends || why.overdue || any(&|exit| exit.call.as_ref() == Some(preferred))
        }
        // Without a run, only exits that can still happen count.
        Next::Wait { by, until } => any(&|exit| exit.by == *by && exit.when == *until),
        Next::Nothing | Next::Mend { .. } => true,
    };
    if can {
        return why.next.clone();
    }
    let call = why.exits.iter().find_map(|exit| exit.call.clone());
    let remedy = matches!(why.next, Next::Wait { .. }).then(|| state.remedy()).flatten();
    remedy.map(|call| call.of(id)).or(call).map_or(Next::Nothing, Next::Call)
}
