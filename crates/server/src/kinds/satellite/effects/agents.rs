//! Watches nodes that attest to SPIRE with a certificate. When it is replaced, they join as another agent,
//! which then must vouch for their satellite; no record of ours changes, so the worker looks for it.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use wardroom_core::satellite::State;
use wardroom_store::{List, Resource};
use wardroom_upstream::spire::{Agent, Selector, Spire};

use super::{
    EffectError, Upstream, Worker,
    upkeep::{Cause, ask_for},
};
use crate::{
    kinds::satellite::document::{Document, Flow, KIND, state},
    platform::{
        app::App,
        http::error::Error,
        work::schedule::{Failed, Job, Next, Task},
    },
};

/// SPIRE's name for this attestation.
pub(super) const METHOD: &str = "x509pop";

/// How often they are looked for.
const PERIOD: Duration = Duration::from_secs(300);

const PAGE: usize = 500;

/// The SPIRE selector of a node whose certificate has this name.
pub(super) fn named(name: &str) -> Selector {
    Selector { kind: METHOD.to_owned(), value: format!("subject:cn:{name}") }
}

/// Picks one of several agents that is neither banned nor expired: the known one, or else the latest, so that
/// two nodes of one name do not alternate with every renewal. Agents renew at half their lifetime; a known
/// agent that has not, while another has twice its remaining time, was replaced.
pub(super) fn best<'a>(
    agents: impl Iterator<Item = &'a Agent>,
    known: Option<&str>,
    now: Timestamp,
) -> Option<&'a Agent> {
    let is_there = |agent: &&Agent| !agent.is_banned && agent.expires_at > now.as_second();
    let there: Vec<_> = agents.filter(is_there).collect();
    let newest = there.iter().max_by_key(|agent| agent.expires_at)?;
    let rest = |agent: &Agent| agent.expires_at.saturating_sub(now.as_second());
    let known = there.iter().find(|agent| Some(&*agent.id.to_string()) == known);
    Some(known.filter(|known| rest(known).saturating_mul(2) >= rest(newest)).unwrap_or(newest))
}

/// Looks for satellites whose node has another agent, where there is a SPIRE.
pub(super) fn jobs(worker: &Arc<Worker>) -> Option<Job> {
    worker.upstreams.spire.as_ref()?;
    Some(Job::of("agents", PERIOD, Look(Arc::clone(worker))).at_once())
}

struct Look(Arc<Worker>);

impl Task for Look {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            let looked = match &self.0.upstreams.spire {
                Some(spire) => look_through(app, spire).await,
                None => return Ok(Next::Never),
            };
            looked.map(|()| Next::Period).map_err(|error| error.of(Upstream::Spire))
        })
    }
}

async fn look_through(app: &App, spire: &Spire) -> Result<(), EffectError> {
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
            let best = best(its, known.as_deref(), app.now());
            let is_other = best.is_some_and(|agent| Some(agent.id.to_string()) != known);
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

/// The recorded agent of a satellite whose agent is found by its certificate; none for others.
fn is_vouched_for(satellite: &Resource) -> Result<Option<Option<String>>, Error> {
    let document = Document::of(satellite)?;
    let is_looked_for = document.attestation_method.as_deref() == Some(METHOD)
        && document.parent_agent_id == document.agent_alias(&satellite.content.name);
    let is_in = state(satellite)? != State::Revoked;
    Ok((is_looked_for && is_in).then(|| document.spire.and_then(|known| known.agent_id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of agents vouches, by their names: each with when its certificate ends, and whether it is banned.
    fn check(agents: &[(&str, i64, bool)], known: Option<&str>, expected: Option<&str>) {
        let id = |name: &str| format!("spiffe://example.org/spire/agent/x509pop/{name}");
        let agent = |&(name, expires_at, is_banned): &(&str, i64, bool)| Agent {
            id: id(name).parse().unwrap(),
            attestation: METHOD.to_owned(),
            selectors: Vec::new(),
            expires_at,
            is_banned,
        };
        let agents: Vec<_> = agents.iter().map(agent).collect();
        let now = Timestamp::from_second(1000).unwrap();
        let best = best(agents.iter(), known.map(id).as_deref(), now);
        assert_eq!(best.map(|agent| agent.id.to_string()), expected.map(id));
    }

    #[test]
    fn an_agent_vouches_as_long_as_it_is_present() {
        check(&[("a", 2000, false), ("b", 3000, false)], None, Some("b"));
        check(&[("a", 2000, false), ("b", 3000, false)], Some("a"), Some("a"));
        check(&[("a", 2000, true), ("b", 3000, false)], Some("a"), Some("b"));
        check(&[("a", 1000, false), ("b", 3000, false)], Some("a"), Some("b"));
        check(&[("b", 3000, false)], Some("a"), Some("b"));
        check(&[("a", 1000, false), ("b", 3000, true)], Some("a"), None);
    }
}
