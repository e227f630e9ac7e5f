//! Drift: what MAAS says of nodes that nobody works on, held against what their state expects.
//!
//! What does not fit is never adopted silently. An active or offline node is quarantined; for any other state there is
//! no such move, so the node's page and `why` ask a person.

use std::{collections::BTreeMap, time::Duration};

use wardroom_core::gpu_node::{
    Event, State,
    maas::{Work, fits},
    mapping,
};
use wardroom_store::{Change, Content, Error as StoreError, Held, List, Resource, TRANSITION};
use wardroom_upstream::maas::Class;

use super::{
    begin, cache,
    document::{self, Document, KIND},
    proof::{self, Seen},
    site::{self, Settings},
    stages::Workers,
    upstream::Session,
};
use crate::{app::by_system, error::Error};

/// Nodes that are looked at together.
const PAGE: usize = 500;

/// Looks at every site whose time has come, each by one server.
pub(crate) async fn sweep(workers: &Workers, holder: &str) -> Result<(), Error> {
    let mut list = List { kind: site::KIND.to_owned(), limit: PAGE, ..List::default() };
    loop {
        let page = workers.app.store.list(&list).await?;
        for found in &page.items {
            let name = &found.content.id;
            let settings: Settings = found.content.document.read()?;
            let length = Duration::from_millis(settings.sweep_millis.max(100));
            // The lease is not given back: it says when the site is to be looked at next.
            let lease = format!("gpu-node/sweep/{name}");
            let mine = workers.app.store.lease(&lease).await?;
            if mine.is_some_and(|lease| !lease.remaining.is_zero()) {
                continue;
            }
            if workers.app.store.acquire_lease(&lease, holder, length).await?.is_some()
                && let Err(error) = sweep_site(workers, name, &settings).await
            {
                tracing::warn!(site = name, %error, "a site could not be compared with its MAAS");
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
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
        compare(workers, name, &session, page.items).await?;
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
    nodes: Vec<Resource>,
) -> Result<(), Error> {
    let mut machines = BTreeMap::new();
    for node in nodes {
        let machine = Document::of(&node)?.machine.filter(|machine| machine.site == site);
        if let Some(machine) = machine {
            machines.insert(machine.system_id, node);
        }
    }
    let ids: Vec<_> = machines.keys().map(String::as_str).collect();
    let at = workers.app.now();
    let found = match session.machines(&ids).await {
        Ok(found) => found,
        Err(error) => {
            tracing::info!(site, %error, "the machines of a site were not seen this time");
            return Ok(());
        }
    };
    for (id, node) in &machines {
        let machine = found.iter().find(|machine| machine.system_id == *id);
        let seen = cache::seen(site, id, machine);
        proof::note(&workers.app, &node.content.id, &seen, at).await?;
        judge(workers, session, &node.content.id, seen).await?;
    }
    Ok(())
}

/// Quarantines a node whose machine somebody else moved.
async fn judge(workers: &Workers, session: &Session, id: &str, seen: Seen) -> Result<(), Error> {
    let app = &workers.app;
    let node = begin::read(app, id).await?;
    let state = document::state(&node)?;
    let run = begin::newest_run(app, &node).await?;
    let open = run.as_ref().is_some_and(|run| run.state.is_open());
    if open || node.content.deleted || fits(state, seen.observed(), Work::Nobody) {
        return Ok(());
    }
    let Some(to) = super::moved(state, Event::DriftFound) else { return Ok(()) };
    // One look at a list is not enough to set a node aside.
    let again = match session.turn().await.machine(&seen.system_id).await {
        Ok(machine) => cache::seen(&seen.site, &seen.system_id, Some(&machine)),
        Err(error) if error.class == Class::Gone => cache::seen(&seen.site, &seen.system_id, None),
        Err(_) => return Ok(()),
    };
    if fits(state, again.observed(), Work::Nobody) {
        return Ok(());
    }
    let current = run.as_ref().map(|run| (run.record.kind, run.state));
    if mapping::check(to, current).is_err() {
        return Ok(());
    }
    let holds = run.iter().map(|run| Held::at(&run.resource)).collect();
    quarantine(workers, node, to, &again, holds).await
}

async fn quarantine(
    workers: &Workers,
    node: Resource,
    to: State,
    seen: &Seen,
    holds: Vec<Held>,
) -> Result<(), Error> {
    let app = &workers.app;
    let mut entry =
        by_system(app, TRANSITION, serde_json::json!({"event": Event::DriftFound, "observed": seen}));
    let said = seen.status_name.clone().unwrap_or_else(|| "absent".to_owned());
    entry.comment = Some(format!("MAAS says that {} is {said}", seen.system_id));
    let after = Content { state: to.as_str().to_owned(), ..node.content.clone() };
    let change = Change { before: Some(node), after, entry, effects: Vec::new(), fence: None, holds };
    match app.store.commit(change).await {
        Ok(committed) => super::watch(app, &committed.resource),
        // Somebody was faster: it is judged again with the next sweep.
        Err(StoreError::Conflict) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
