//! The drift sweep: compares the nodes of a site with its MAAS, and carries out the core's verdict.
//!
//! If many machines of a site are missing at once, the MAAS most likely lost them, for example because it was
//! restored empty: no node is judged by that until MAAS has them again, or only some are missing.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use wardroom_core::{
    gpu_node::{
        Event, State,
        drift::{Verdict, verdict},
    },
    run::action::Action as RunAction,
};
use wardroom_store::{Change, Error as StoreError, Held, List, Resource, TRANSITION};
use wardroom_upstream::maas::{Class, Machine};
use wardroom_workflow::{Actor, Adoption, Ask, Problem, Run};

use super::{
    begin, cache,
    data::Data,
    document::{self, Document, Drift, KIND},
    facts,
    listing::Listing,
    proof::{self, Doubt, Seen},
    site::{self, Settings},
    stages::Workers,
    upstream::{Reader, Session},
};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

/// How many nodes are read at once.
const PAGE: usize = 500;

/// Reads all sites and applies their current limits.
pub(crate) async fn sites(workers: &Workers) -> Result<Vec<(String, Settings)>, Error> {
    let mut all = Vec::new();
    let mut list = List { kind: site::KIND.to_owned(), limit: PAGE, ..List::default() };
    loop {
        let page = workers.app.store.list(&list).await?;
        for found in page.items {
            match found.content.document.read::<Settings>() {
                Ok(settings) => all.push((found.content.id, settings)),
                // An unreadable site must not hide the others.
                Err(error) => {
                    tracing::error!(site = found.content.id, %error, "site unreadable; its nodes are not compared with MAAS")
                }
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    workers.clients.know(all.iter().map(|(name, settings)| (name.as_str(), settings)), &workers.limits);
    Ok(all)
}

/// Returns the due sites, each for one server.
pub(crate) async fn due(workers: &Workers, holder: &str) -> Result<Vec<(String, Settings)>, Error> {
    let mut due = Vec::new();
    for (name, settings) in sites(workers).await? {
        let length = Duration::from_millis(settings.sweep_millis.max(100));
        // The lease is not released: its expiry is the time of the next sweep.
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

/// Sweeps every due site, one after the other.
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
            tracing::warn!(site = name, error, "site not compared with its MAAS; the next sweep tries again");
            return Ok(());
        }
    };
    let fields = BTreeMap::from([("site".to_owned(), name.to_owned())]);
    let mut list = List { kind: KIND.to_owned(), fields, limit: PAGE, ..List::default() };
    let mut found = Found::default();
    loop {
        let page = workers.app.store.list(&list).await?;
        compare(workers, name, &session, settings, page.items, &mut found).await?;
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    judge_missing(workers, &session, settings, found).await
}

/// MAAS's answer about machines without a run.
#[derive(Default)]
struct Found {
    present: usize,
    /// Expected machines that are missing, each with its node and the time of the request.
    missing: Vec<(String, Seen, Timestamp)>,
    /// Machines that are absent and need not be there; if MAAS is doubted, that proves nothing either.
    absent: Vec<(String, Seen, Timestamp)>,
}

/// How many machines, and which part of them, must be missing before MAAS is doubted.
const MANY: usize = 3;

impl Found {
    fn doubt(&self) -> Option<Doubt> {
        let missing = self.missing.len();
        let of = self.present + missing;
        (missing >= MANY && missing * 2 >= of).then_some(Doubt { missing, of })
    }
}

/// Judges the nodes of missing machines, once their number is known.
async fn judge_missing(
    workers: &Workers,
    session: &Session,
    settings: &Settings,
    found: Found,
) -> Result<(), Error> {
    let (app, doubt) = (&workers.app, found.doubt());
    if let (Some(Doubt { missing, of }), Some((node, seen, _))) = (doubt, found.missing.first()) {
        let known = proof::latest(app, node).await?.maas;
        if known.is_none_or(|sight| sight.seen.doubt.is_none()) {
            tracing::error!(
                site = seen.site,
                missing,
                of,
                "many machines are missing from MAAS at once; the server takes it for a fault of MAAS and quarantines no node"
            );
        }
    }
    for (node, seen, at) in found.missing.into_iter().chain(found.absent) {
        let seen = Seen { doubt, ..seen };
        let noted = proof::note_swept(app, &node, &seen, at).await;
        let judged = match doubt {
            Some(_) => noted,
            None => noted.and(judge(workers, session, &settings.tag, &node, seen).await),
        };
        if let Err(error) = judged {
            tracing::warn!(node, %error, "node not compared with its machine; the next sweep tries again");
        }
    }
    Ok(())
}

/// Whether MAAS should have a missing machine.
async fn is_missed(app: &App, id: &str, seen: &Seen) -> Result<bool, Error> {
    let node = begin::read(app, id).await?;
    let run = begin::newest_run(app, &node).await?;
    Ok(!seen.present && judged(app, &node, run.as_ref(), seen).await?.misses())
}

async fn compare(
    workers: &Workers,
    site: &str,
    session: &Session,
    settings: &Settings,
    nodes: Vec<Resource>,
    all: &mut Found,
) -> Result<(), Error> {
    let maas = document::address(&settings.url);
    let mut machines = BTreeMap::new();
    for node in nodes {
        // An unreadable node was logged and must not hide the others.
        let Ok(document) = Document::of(&node) else { continue };
        if let Some(machine) = document.machine.clone().filter(|machine| machine.site == site) {
            let elsewhere = machine.maas != maas;
            machines.insert(machine.system_id, (node, document, elsewhere));
        }
    }
    let ids: Vec<_> = machines.keys().map(String::as_str).collect();
    let mut listing = Listing::new(session, &ids, Reader::Sweep);
    loop {
        let at = workers.app.now();
        let Some((asked, found)) = listing.next().await else { break };
        let asked = machines.iter().filter(|(id, _)| asked.contains(&id.as_str()));
        for (id, (node, document, elsewhere)) in asked {
            let machine = found.iter().find(|machine| machine.system_id == *id);
            if *elsewhere {
                if !machine.is_some_and(|machine| is_of(document, machine, &settings.tag)) {
                    // The site has another MAAS now, which says nothing about the machine.
                    let node = &node.content.id;
                    tracing::warn!(
                        site,
                        node,
                        machine = id,
                        "the machine is in another MAAS than the site's"
                    );
                    continue;
                }
                let moved = follow(&workers.app, node, document, &maas).await;
                if !moved.unwrap_or_else(|error| {
                    tracing::warn!(site, machine = id, %error, "new MAAS address of a machine not stored; the next sweep tries again");
                    false
                }) {
                    continue;
                }
            }
            let seen = cache::seen(site, id, machine);
            let node = &node.content.id;
            all.present += usize::from(seen.present);
            // A failure to read is logged below.
            if is_missed(&workers.app, node, &seen).await.unwrap_or(false) {
                all.missing.push((node.clone(), seen, at));
                continue;
            }
            if !seen.present {
                all.absent.push((node.clone(), seen, at));
                continue;
            }
            let noted = proof::note_swept(&workers.app, node, &seen, at).await;
            if let Err(error) = noted.and(judge(workers, session, &settings.tag, node, seen).await) {
                tracing::warn!(site, node, %error, "node not compared with its machine; the next sweep tries again");
            }
        }
    }
    if let Some(error) = listing.error() {
        tracing::info!(site, %error, "some machines of a site were not listed; retrying");
    }
    Ok(())
}

/// Whether a machine with the id of a node's machine is that one: it has the site's tag and a MAC of the
/// node.
fn is_of(node: &Document, machine: &Machine, tag: &str) -> bool {
    machine.has_tag(tag) && has_mac(node, machine)
}

pub(crate) fn has_mac(node: &Document, machine: &Machine) -> bool {
    let mut macs = machine.interfaces.iter().map(|interface| &interface.mac_address);
    macs.any(|mac| node.macs.iter().any(|known| known.eq_ignore_ascii_case(mac)))
}

/// Stores the new address of the MAAS that has the node's machine, so that from now on a missing machine
/// counts. Returns false if another writer was faster, or if another node has the machine.
async fn follow(app: &App, node: &Resource, document: &Document, maas: &str) -> Result<bool, Error> {
    let mut document = document.clone();
    let Some(machine) = &mut document.machine else { return Ok(false) };
    let was = std::mem::replace(&mut machine.maas, maas.to_owned());
    let mut entry = by_system(app, "changed", serde_json::json!({"machine": machine, "was": was}));
    entry.comment = Some(format!("MAAS has {} at another address now: {maas}", machine.system_id));
    let after = document.into_content_of(node, document::state(node)?)?;
    let (before, effects, holds) = (Some(node.clone()), Vec::new(), Vec::new());
    match app.store.commit(Change { before, after, entry, effects, fence: None, holds }).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict) => Ok(false),
        Err(StoreError::KeyTaken { key, holder }) => {
            tracing::warn!(
                node = node.content.id,
                key,
                holder,
                "another node has the machine at the site's new MAAS address; this node is not changed"
            );
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Explains that a node's machine is known from another address than that of its site's MAAS.
pub(crate) async fn elsewhere(app: &App, node: &Document) -> Result<Option<String>, Error> {
    let Some(document::Machine { system_id, site, maas: known, .. }) = &node.machine else { return Ok(None) };
    let Some((settings, _)) = site::load(app, site).await? else { return Ok(None) };
    let now = document::address(&settings.url);
    Ok((now != *known).then(|| {
        format!(
            "{system_id} is a machine of the MAAS at {known}, and site {site} is at {now}: what that says does not count \
             until it has {system_id} with the tag {} and a MAC of the node",
            settings.tag
        )
    }))
}

/// Compares the observation of one node with its state, and acts on the difference.
pub(super) async fn judge(
    workers: &Workers,
    session: &Session,
    tag: &str,
    id: &str,
    seen: Seen,
) -> Result<(), Error> {
    let app = &workers.app;
    let node = begin::read(app, id).await?;
    let run = begin::newest_run(app, &node).await?;
    if judged(app, &node, run.as_ref(), &seen).await? == Verdict::Nothing {
        return Ok(());
    }
    // A list alone is not enough evidence: ask for the machine itself.
    let (again, tagged) = match session.turn().await.machine(&seen.system_id).await {
        Ok(machine) => (cache::seen(&seen.site, &seen.system_id, Some(&machine)), machine.has_tag(tag)),
        Err(error) if error.class == Class::Gone => (cache::seen(&seen.site, &seen.system_id, None), false),
        Err(_) => return Ok(()),
    };
    let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
    let document = Document::of(&node)?;
    let drift = |quarantined| Some(Drift { said: again.said(), quarantined });
    match judged(app, &node, run.as_ref(), &again).await? {
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
        // A machine that others used and returned is not ours again without the tag.
        Verdict::Recover(_) if !tagged => Ok(()),
        Verdict::Recover(to) => {
            let after = Document { drift: None, ..document };
            write(app, node, to, after, Some(Event::ProvenHealthy), &again, holds).await
        }
        Verdict::Freeze => match &run {
            Some(run) => stop(app, run, &again).await,
            None => Ok(()),
        },
    }
}

/// Gathers the facts about a node and judges the observation. The proof of its health is read only if it
/// matters.
async fn judged(app: &App, node: &Resource, run: Option<&Run<Data>>, seen: &Seen) -> Result<Verdict, Error> {
    let document = Document::of(node)?;
    let recovers = document.drift.as_ref().is_some_and(|drift| drift.quarantined);
    let latest =
        if recovers { proof::latest(app, &node.content.id).await? } else { proof::Latest::default() };
    let facts = facts::without_heartbeats(app, node, run, &latest)?;
    Ok(verdict(&facts, &facts::sight(&document, seen)))
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
    entry.comment = Some(format!("MAAS says that {} is {}", seen.system_id, seen.said()));
    let after = document.into_content_of(&node, to)?;
    let heard = proof::heard(app, &node.content.id).await?;
    let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds };
    match app.store.commit(change).await {
        Ok(committed) => super::watch_from(app, &committed.resource, heard),
        // Another writer was faster: the next sweep judges it again.
        Err(StoreError::Conflict) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Freezes a run whose machine was moved outside of Wardroom while it waited for its next attempt.
pub(crate) async fn stop(app: &App, run: &Run<Data>, seen: &Seen) -> Result<(), Error> {
    let reason =
        format!("MAAS says that {} is {}, which this run did not cause", seen.system_id, seen.said());
    let actor = Actor { user: None, comment: Some(reason), request_id: None };
    let action = RunAction::MarkManualInterventionRequired;
    let ask =
        Ask { action, abandon: false, adoption: Adoption::Nothing, at: Some(run.resource.version), actor };
    match wardroom_workflow::act::<Data>(&app.store, run.id(), &ask, app.now()).await {
        // Another actor handled or continued it: the next sweep checks again.
        Ok(_) | Err(Problem::Refused { .. } | Problem::NotFound | Problem::Busy) => Ok(()),
        Err(problem) => Err(super::action::problem(run.id(), problem)),
    }
}
