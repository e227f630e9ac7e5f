//! The progress of installations: observations, so they are in no history and change no version.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_core::node::State;
use wardroom_store::{Document as Stored, Observation, Resource};

use super::document::{Document, KIND};
use crate::{
    kinds::node::installs,
    platform::{app::App, http::error::Error},
};

/// The source under which an installation is observed.
const SOURCE: &str = "install";

/// How often a write is retried when another report was faster.
const TRIES: usize = 20;

#[derive(Debug, Serialize, Deserialize)]
struct Installation {
    round: u64,
    percent: Option<u8>,
}

/// The last report of an installation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) percent: Option<u8>,
    pub(crate) at: Timestamp,
}

/// Returns the last report of a node's installation, if it is installing.
pub(crate) async fn of(app: &App, node: &Resource) -> Result<Option<Seen>, Error> {
    Ok(of_all(app, std::slice::from_ref(node)).await?.remove(&node.content.id))
}

/// The same for many nodes, by their ids.
pub(crate) async fn of_all(app: &App, nodes: &[Resource]) -> Result<BTreeMap<String, Seen>, Error> {
    let installing = |node: &&Resource| node.content.state == State::Installing.as_str();
    let nodes: BTreeMap<&str, &Resource> =
        nodes.iter().filter(installing).map(|node| (&*node.content.id, node)).collect();
    if nodes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<&str> = nodes.keys().copied().collect();
    let mut seen = BTreeMap::new();
    for observed in app.store.observed(KIND, SOURCE, &ids).await? {
        let Some(node) = nodes.get(&*observed.resource_id) else { continue };
        let installation: Installation = observed.document.read()?;
        if installation.round == Document::of(node)?.install_round {
            let Installation { percent, .. } = installation;
            seen.insert(observed.resource_id, Seen { percent, at: observed.received_at });
        }
    }
    Ok(seen)
}

/// Records a report of an installation and its progress. Repeated reports are recorded from time to time.
pub(crate) async fn note(app: &App, node: &Resource, percent: Option<u8>) -> Result<(), Error> {
    let (id, round) = (&node.content.id, Document::of(node)?.install_round);
    for _ in 0..TRIES {
        let now = app.now();
        let known = app.store.observed(KIND, SOURCE, &[id]).await?.pop();
        let version = known.as_ref().map_or(1, |known| known.version + 1);
        let mut seen = Installation { round, percent };
        if let Some(known) = known {
            let before: Installation = known.document.read()?;
            if before.round == round {
                seen.percent = percent.or(before.percent);
                let fresh = now.duration_since(known.received_at) < installs::noted_every(app);
                if fresh && seen.percent == before.percent {
                    return Ok(());
                }
            }
        }
        let observation = Observation {
            kind: KIND.to_owned(),
            resource_id: id.clone(),
            source: SOURCE.to_owned(),
            version,
            document: Stored::of(&seen)?,
            observed_at: now,
            received_at: now,
        };
        if app.store.observe(&observation).await? {
            return Ok(());
        }
    }
    Err(Error::Unavailable("too many reports of one node at once: retry"))
}
