//! Nodes that prove themselves to SPIRE with a certificate. When that is replaced, they join as another agent, which then
//! has to hand out the identity of their satellite; nothing in our records changes with it, so it is looked for.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::sync::watch;
use wardroom_core::satellite::State;
use wardroom_store::{List, Resource};
use wardroom_upstream::spire::{Agent, Selector, Spire};

use super::{
    Trouble, Worker,
    upkeep::{Cause, ask_for},
};
use crate::{
    app::App,
    error::Error,
    satellite::document::{Document, Flow, KIND, state},
};

/// How SPIRE calls such nodes.
pub(super) const METHOD: &str = "x509pop";

/// How often they are looked for.
const PERIOD: Duration = Duration::from_secs(300);

/// Satellites that are read at once.
const PAGE: usize = 500;

/// What SPIRE knows of a node whose certificate has this name.
pub(super) fn named(name: &str) -> Selector {
    Selector { kind: METHOD.to_owned(), value: format!("subject:cn:{name}") }
}

/// The one of several agents that is neither banned nor gone, and was heard last.
pub(super) fn best<'a>(agents: impl Iterator<Item = &'a Agent>, now: Timestamp) -> Option<&'a Agent> {
    let is_there = |agent: &&Agent| !agent.is_banned && agent.expires_at > now.as_second();
    agents.filter(is_there).max_by_key(|agent| agent.expires_at)
}

/// Looks for satellites whose node has another agent, until `stop` says so.
pub(super) async fn follow(worker: Arc<Worker>, mut stop: watch::Receiver<bool>) {
    let Some(spire) = &worker.upstreams.spire else { return };
    loop {
        if let Err(error) = look_through(&worker.app, spire).await {
            tracing::warn!(%error, "agents of satellites could not be looked through; it is tried again");
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

async fn look_through(app: &App, spire: &Spire) -> Result<(), Trouble> {
    let fields = [("flow".to_owned(), Flow::Spiffe.as_str().to_owned())].into();
    let mut list = List { kind: KIND.to_owned(), fields, limit: PAGE, ..List::default() };
    let mut agents = None;
    loop {
        let page = app.store.list(&list).await.map_err(Error::from)?;
        for satellite in page.items {
            let Some(known) = is_vouched_for(&satellite)? else { continue };
            if agents.is_none() {
                agents = Some(spire.agents_by(METHOD, &[]).await?);
            }
            let selector = named(&satellite.content.name);
            let its = agents.iter().flatten().filter(|agent| agent.selectors.contains(&selector));
            let is_other = best(its, app.now()).is_some_and(|agent| Some(agent.id.to_string()) != known);
            if is_other {
                ask_for(app, satellite, Cause::OtherAgent).await?;
            }
        }
        list.after = page.next;
        if list.after.is_none() {
            return Ok(());
        }
    }
}

/// The agent on record of a satellite for which one is looked for by its certificate; nothing for all others.
fn is_vouched_for(satellite: &Resource) -> Result<Option<Option<String>>, Error> {
    let document = Document::of(satellite)?;
    let is_looked_for = document.attestation_method.as_deref() == Some(METHOD)
        && document.parent_agent_id == document.agent_alias(&satellite.content.name);
    let is_in = state(satellite)? != State::Revoked;
    Ok((is_looked_for && is_in).then(|| document.spire.and_then(|known| known.agent_id)))
}
