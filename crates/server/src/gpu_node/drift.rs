//! Drift: what MAAS says of nodes that nobody works on, held against what their state expects.
//!
//! What does not fit is never adopted silently, and what follows depends on where the node is:
//!
//! | node                                    | what follows                                                              |
//! |-----------------------------------------|---------------------------------------------------------------------------|
//! | active, offline                         | it is quarantined                                                         |
//! | quarantined, retired                    | no such move: it is written down, and a person is asked                   |
//! | any, with a run that failed for now     | the run is frozen until a person has looked                               |
//! | any, with a run under way               | the run's own stages look                                                 |
//!
//! A node that was quarantined for drift and for nothing else comes back by itself when MAAS says again what it should
//! and a healthy heartbeat has come since; one that a person set aside, or whose cleanup failed, never does.

use std::{collections::BTreeMap, time::Duration};

use wardroom_core::{
    gpu_node::{
        Event, State,
        maas::{Work, fits},
        mapping,
    },
    run::{self, action::Action as RunAction},
};
use wardroom_store::{Change, Error as StoreError, Held, List, Resource, TRANSITION};
use wardroom_upstream::maas::Class;
use wardroom_workflow::{Actor, Adoption, Ask, Problem, Run};

use super::{
    begin, cache,
    data::Data,
    document::{self, Document, Drift, KIND},
    listing::Listing,
    proof::{self, Seen},
    site::{self, Settings},
    stages::Workers,
    upstream::{Looker, Session},
};
use crate::{
    app::{App, by_system},
    error::Error,
};

/// Nodes that are looked at together.
const PAGE: usize = 500;

/// All sites, as they are now; what they allow is kept to from now on.
pub(crate) async fn sites(workers: &Workers) -> Result<Vec<(String, Settings)>, Error> {
    let mut all = Vec::new();
    let mut list = List { kind: site::KIND.to_owned(), limit: PAGE, ..List::default() };
    loop {
        let page = workers.app.store.list(&list).await?;
        for found in page.items {
            let settings: Settings = found.content.document.read()?;
            all.push((found.content.id, settings));
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    workers.clients.know(all.iter().map(|(name, settings)| (name.as_str(), settings)), &workers.limits);
    Ok(all)
}

/// The sites whose time has come, each for one server.
pub(crate) async fn due(workers: &Workers, holder: &str) -> Result<Vec<(String, Settings)>, Error> {
    let mut due = Vec::new();
    for (name, settings) in sites(workers).await? {
        let length = Duration::from_millis(settings.sweep_millis.max(100));
        // The lease is not given back: it says when the site is to be looked at next.
        let lease = format!("gpu-node/sweep/{name}");
        let mine = workers.app.store.lease(&lease).await?;
        if mine.is_some_and(|lease| !lease.remaining.is_zero()) {
            continue;
        }
        if workers.app.store.acquire_lease(&lease, holder, length).await?.is_some() {
            due.push((name, settings));
        }
    }
    Ok(due)
}

/// Looks at every site whose time has come, one after the other.
#[cfg(test)]
pub(crate) async fn sweep(workers: &Workers, holder: &str) -> Result<(), Error> {
    for (name, settings) in due(workers, holder).await? {
        sweep_site(workers, &name, &settings).await?;
    }
    Ok(())
}

/// Compares the nodes of one site with its MAAS.
pub(crate) async fn sweep_site(workers: &Workers, name: &str, settings: &Settings) -> Result<(), Error> {
    let session = match workers.clients.session(name, settings, &workers.limits) {
        Ok(session) => session,
        Err(error) => {
            tracing::warn!(site = name, error, "a site cannot be compared with its MAAS");
            return Ok(());
        }
    };
    let fields = BTreeMap::from([("site".to_owned(), name.to_owned())]);
    let mut list = List { kind: KIND.to_owned(), fields, limit: PAGE, ..List::default() };
    loop {
        let page = workers.app.store.list(&list).await?;
        compare(workers, name, &session, settings, page.items).await?;
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
}

async fn compare(
    workers: &Workers,
    site: &str,
    session: &Session,
    settings: &Settings,
    nodes: Vec<Resource>,
) -> Result<(), Error> {
    let maas = document::address(&settings.url);
    let mut machines = BTreeMap::new();
    for node in nodes {
        // One that cannot be read, which was logged, must not hide the others.
        let Ok(document) = Document::of(&node) else { continue };
        if let Some(machine) = document.machine.filter(|machine| machine.site == site) {
            let elsewhere = machine.maas.is_some_and(|known| known != maas);
            machines.insert(machine.system_id, (node, elsewhere));
        }
    }
    let ids: Vec<_> = machines.keys().map(String::as_str).collect();
    let mut listing = Listing::new(session, &ids, Looker::Sweep);
    loop {
        let at = workers.app.now();
        let Some((asked, found)) = listing.next().await else { break };
        for (id, (node, elsewhere)) in machines.iter().filter(|(id, _)| asked.contains(&id.as_str())) {
            let machine = found.iter().find(|machine| machine.system_id == *id);
            if *elsewhere && machine.is_none() {
                // The site has another MAAS now, by mistake or not: what that does not know says nothing of the machine.
                let node = &node.content.id;
                tracing::warn!(
                    site,
                    node,
                    machine = id,
                    "the site's MAAS is not the one that has the machine"
                );
                continue;
            }
            let seen = cache::seen(site, id, machine);
            let node = &node.content.id;
            let noted = proof::note(&workers.app, node, &seen, at).await;
            if let Err(error) = noted.and(judge(workers, session, &settings.tag, node, seen).await) {
                tracing::warn!(site, node, %error, "a node could not be compared with its machine");
            }
        }
    }
    if let Some(error) = listing.error() {
        tracing::info!(site, %error, "not all machines of a site were seen this time");
    }
    Ok(())
}

/// What comes of what was seen of a node.
enum Verdict {
    /// It is as it should be, or somebody is at it.
    Nothing,
    /// Nobody of ours caused it, and the node must not be used: it moves to where nobody does.
    Quarantine(State),
    /// As above, and the state has no such move: it is written down, once, and a person is asked.
    Ask,
    /// As above, while a run waits for somebody to repeat it: a person has to look before anybody does.
    Stop(Box<Run<Data>>),
    /// What was written down is over.
    Forget,
    /// The node was quarantined for this alone, and is proven healthy.
    Recover(State),
}

/// Holds what was seen of one node against its state, and does what follows.
async fn judge(workers: &Workers, session: &Session, tag: &str, id: &str, seen: Seen) -> Result<(), Error> {
    let app = &workers.app;
    let node = begin::read(app, id).await?;
    let run = begin::newest_run(app, &node).await?;
    if matches!(verdict(app, &node, run.as_ref(), &seen).await?, Verdict::Nothing) {
        return Ok(());
    }
    // One look at a list is not enough to decide anything.
    let (again, tagged) = match session.turn().await.machine(&seen.system_id).await {
        Ok(machine) => (cache::seen(&seen.site, &seen.system_id, Some(&machine)), machine.has_tag(tag)),
        Err(error) if error.class == Class::Gone => (cache::seen(&seen.site, &seen.system_id, None), false),
        Err(_) => return Ok(()),
    };
    let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
    let document = Document::of(&node)?;
    let drift = |quarantined| Some(Drift { said: said(&again), quarantined });
    match verdict(app, &node, run.as_ref(), &again).await? {
        Verdict::Nothing => Ok(()),
        Verdict::Quarantine(to) => {
            let after = Document { drift: drift(true), ..document };
            write(app, node, to, after, Some(Event::DriftFound), &again, holds).await
        }
        Verdict::Ask => {
            let state = document::state(&node)?;
            let after = Document { drift: drift(false), ..document };
            write(app, node, state, after, None, &again, holds).await
        }
        Verdict::Forget => {
            let state = document::state(&node)?;
            write(app, node, state, Document { drift: None, ..document }, None, &again, holds).await
        }
        // A machine that somebody took over and gave back is not ours by that.
        Verdict::Recover(_) if !tagged => Ok(()),
        Verdict::Recover(to) => {
            let after = Document { drift: None, ..document };
            write(app, node, to, after, Some(Event::ProvenHealthy), &again, holds).await
        }
        Verdict::Stop(run) => stop(app, &run, &again).await,
    }
}

async fn verdict(app: &App, node: &Resource, run: Option<&Run<Data>>, seen: &Seen) -> Result<Verdict, Error> {
    let (state, document) = (document::state(node)?, Document::of(node)?);
    if node.content.deleted {
        return Ok(Verdict::Nothing);
    }
    if let Some(run) = run.filter(|run| run.state.is_open()) {
        // A stage that is executed looks for itself; a run that failed for good has asked already.
        let waits = run.state == run::State::FailedRetryable && Document::of(node)?.machine.is_some();
        let fits = fits(state, seen.observed(), Work::Run);
        return Ok(if waits && !fits { Verdict::Stop(Box::new(run.clone())) } else { Verdict::Nothing });
    }
    let current = run.map(|run| (run.record.kind, run.state));
    let to = |event| super::moved(state, event).filter(|&to| mapping::check(to, current).is_ok());
    if !fits(state, seen.observed(), Work::Nobody) {
        let known = document.drift.is_some_and(|drift| drift.said == said(seen));
        return Ok(match to(Event::DriftFound) {
            Some(to) => Verdict::Quarantine(to),
            None if known => Verdict::Nothing,
            None => Verdict::Ask,
        });
    }
    let Some(drift) = document.drift else { return Ok(Verdict::Nothing) };
    if !drift.quarantined || state != State::Quarantined {
        return Ok(Verdict::Forget);
    }
    let proven =
        fits(State::Active, seen.observed(), Work::Nobody) && proof::healthy_again(app, node).await.is_ok();
    Ok(to(Event::ProvenHealthy).filter(|_| proven).map_or(Verdict::Nothing, Verdict::Recover))
}

/// What MAAS says, in its word.
fn said(seen: &Seen) -> String {
    seen.status_name.clone().unwrap_or_else(|| "absent".to_owned())
}

async fn write(
    app: &App,
    node: Resource,
    to: State,
    document: Document,
    event: Option<Event>,
    seen: &Seen,
    holds: Vec<Held>,
) -> Result<(), Error> {
    let metadata = serde_json::json!({"event": event, "observed": seen, "drift": document.drift});
    let mut entry = by_system(app, if event.is_some() { TRANSITION } else { "changed" }, metadata);
    entry.comment = Some(format!("MAAS says that {} is {}", seen.system_id, said(seen)));
    let after = document.into_content_of(&node, to)?;
    let heard = proof::heard(app, &node.content.id).await?;
    let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds };
    match app.store.commit(change).await {
        Ok(committed) => super::watch_from(app, &committed.resource, heard),
        // Somebody was faster: it is judged again with the next sweep.
        Err(StoreError::Conflict) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Freezes a run whose machine somebody else moved while it waited to be repeated.
pub(crate) async fn stop(app: &App, run: &Run<Data>, seen: &Seen) -> Result<(), Error> {
    let reason = format!("MAAS says that {} is {}, which this run did not cause", seen.system_id, said(seen));
    let actor = Actor { user: None, reason: Some(reason), request: None };
    let action = RunAction::MarkManualInterventionRequired;
    let ask =
        Ask { action, abandon: false, adoption: Adoption::Nothing, at: Some(run.resource.version), actor };
    match wardroom_workflow::act::<Data>(&app.store, run.id(), &ask, app.now()).await {
        // Somebody else saw to it, or has just sent it on: the next sweep looks at what came of that.
        Ok(_) | Err(Problem::Refused { .. } | Problem::NotFound | Problem::Busy) => Ok(()),
        Err(problem) => Err(super::action::problem(run.id(), problem)),
    }
}
