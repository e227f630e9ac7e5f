//! Gathers the facts about a node, which the core decides on.

use wardroom_core::gpu_node::facts::{Drift, Facts, Health, NewestRun, Sight};
use wardroom_store::Resource;
use wardroom_workflow::Run;

use super::{
    begin,
    data::Data,
    document::{self, Document},
    proof::{self, Latest, Seen},
    silence,
};
use crate::platform::{app::App, http::error::Error};

pub(crate) async fn gather(app: &App, node: &Resource) -> Result<Facts, Error> {
    let run = begin::newest_run(app, node).await?;
    let latest = proof::latest(app, &node.content.id).await?;
    of(app, node, run.as_ref(), &latest).await
}

/// Combines the facts about a node, and whether its agent sends heartbeats.
pub(crate) async fn of(
    app: &App,
    node: &Resource,
    run: Option<&Run<Data>>,
    latest: &Latest,
) -> Result<Facts, Error> {
    let heard = silence::hears_agent(app, node, &Document::of(node)?, latest).await?;
    Ok(Facts { heard, ..without_heartbeats(app, node, run, latest)? })
}

/// The same for decisions that do not depend on heartbeats.
pub(crate) fn without_heartbeats(
    app: &App,
    node: &Resource,
    run: Option<&Run<Data>>,
    latest: &Latest,
) -> Result<Facts, Error> {
    let document = Document::of(node)?;
    Ok(Facts {
        state: document::state(node)?,
        has_site: document.site.is_some(),
        has_machine: document.machine.is_some(),
        has_agent: document.agent.is_some(),
        ever_enrolled: document.epoch > 0,
        identity_kept: document.identity_kept,
        drift: document
            .drift
            .as_ref()
            .map(|drift| Drift { said: drift.said.clone(), quarantined: drift.quarantined }),
        run: run.map(|run| NewestRun {
            id: run.id().to_owned(),
            kind: run.record.plan.kind,
            state: run.state,
            unproven: run.record.progress.unproven.clone(),
            accepted: document.accepted.as_deref() == Some(run.id()),
        }),
        sight: latest.maas.as_ref().map(|known| sight(&document, &known.seen)),
        health: health(app, node, &document, latest),
        complaints: document
            .unhealthy
            .then(|| latest.health.as_ref().map(|(health, _)| health.complaints()).unwrap_or_default()),
        heard: false,
    })
}

/// Converts an observation of a machine for the core.
pub(crate) fn sight(document: &Document, seen: &Seen) -> Sight {
    let machine = document.machine.as_ref();
    let own = machine.is_some_and(|own| (&own.system_id, &own.site) == (&seen.system_id, &seen.site));
    Sight { observed: seen.observed(), said: seen.said(), own }
}

fn health(app: &App, node: &Resource, document: &Document, latest: &Latest) -> Health {
    let epoch = document.agent.as_ref().map(|agent| agent.epoch);
    let since = node.state_changed_at;
    let heard = latest.health.as_ref().filter(|(health, at)| *at >= since && Some(health.epoch) == epoch);
    match heard {
        None => Health::Unheard,
        Some((health, at)) if !proof::is_fresh(app, Some(health), *at, app.now()) => Health::Silent(*at),
        Some((health, _)) if !health.is_healthy() => Health::Unhealthy(health.complaints()),
        Some(_) => Health::Healthy,
    }
}
