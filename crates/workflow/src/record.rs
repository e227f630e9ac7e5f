//! What is kept of a run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use wardroom_core::{
    Named as _,
    gpu_node::moves::Came,
    run::{
        State,
        action::Goal,
        failure::Class,
        plan::{Kind, Stage},
    },
};
use wardroom_store::{Content, Document, Error, Resource, Result};

use crate::{RUN, stages::Data};

/// The document of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record<D> {
    /// What the run is for.
    pub kind: Kind,
    /// The node it works on.
    pub node: String,
    /// The site whose limits it shares.
    pub site: Option<String>,
    /// The stage it is at; while it is undone, where it was when that began.
    pub stage: Stage,
    /// When it came to the stage, or an operator last sent it on.
    pub since: Timestamp,
    /// Attempts of the stage, or of the undo, that were begun.
    pub attempt: u32,
    /// Failures by class since it came to the stage, or an operator last sent it on.
    pub failures: BTreeMap<Class, u32>,
    /// Rounds of the detour that were begun.
    pub repairs: u32,
    /// Where it is heading.
    pub goal: Goal,
    /// Whether an operator adopted what was observed.
    pub adopted: bool,
    /// Stages that are executed because somebody, or the site, asked for them.
    pub with: BTreeSet<Stage>,
    /// Stages that an operator has skipped, each with a reason.
    pub skip: BTreeMap<Stage, String>,
    /// Stages that left, or may have left, something that can be undone; in the order they were begun.
    pub touched: Vec<Stage>,
    /// Whether it is being undone, or failed while it was.
    pub undoing: bool,
    /// Why it failed last.
    pub failure: Option<Failure>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// Since when whoever its stage asks has been too busy, without anything else having come of it.
    #[serde(default)]
    pub busy_since: Option<Timestamp>,
    /// Since when nobody asks them, because the run has no place at its site.
    #[serde(default)]
    pub unasked_since: Option<Timestamp>,
    /// Who executes an attempt, or was when it got lost.
    pub at_work: Option<AtWork>,
    /// Grows whenever an operator moves the run: a worker that began before that has nothing to say any more.
    pub turn: u64,
    /// Whether a person sent it to the stage it is at, and nothing has failed there since.
    #[serde(default)]
    pub sent_on: bool,
    /// Who froze it, and why, until it is sent on.
    #[serde(default)]
    pub frozen: Option<Frozen>,
    /// Whether its node still has to be brought to quarantine.
    pub set_aside: bool,
    /// Where its node came from when it was drained.
    #[serde(default = "in_use")]
    pub came: Came,
    /// What it, or a run before it, began to erase on its node, by stage, and none has proven clean since.
    // Left out when there is nothing: older servers read it as whether there is anything.
    #[serde(default, deserialize_with = "stages_or_all", skip_serializing_if = "BTreeSet::is_empty")]
    pub unproven: BTreeSet<Stage>,
    /// What of that runs before it had begun.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inherited: BTreeSet<Stage>,
    /// What the stages know, saved after each of them.
    pub data: D,
}

/// For runs of before it was kept.
const fn in_use() -> Came {
    Came::FromUse
}

/// Runs of before it was kept by stage say whether anything was begun: it may have been all of it.
fn stages_or_all<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<BTreeSet<Stage>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Kept {
        Whether(bool),
        Stages(BTreeSet<Stage>),
    }
    Ok(match Kept::deserialize(from)? {
        Kept::Whether(false) => BTreeSet::new(),
        Kept::Whether(true) => Stage::ALL.iter().copied().filter(|stage| stage.erases()).collect(),
        Kept::Stages(stages) => stages,
    })
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// At which stage.
    pub stage: Stage,
    /// Of which class.
    pub class: Class,
    /// What was seen.
    pub evidence: String,
    /// When.
    pub at: Timestamp,
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// For what.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether it only waits for its turn, which costs the stage no patience.
    #[serde(default)]
    pub queued: bool,
    /// Whether it does because whoever was asked is too busy.
    #[serde(default)]
    pub busy: bool,
}

/// That a run was frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// By whom; nobody when the server itself did.
    pub by: Option<String>,
    /// What they said.
    pub reason: Option<String>,
}

impl std::fmt::Display for Frozen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it was frozen by {}", self.by.as_deref().unwrap_or("the server"))?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// An attempt that was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtWork {
    /// By whom.
    pub holder: String,
    /// Under which epoch of the lease.
    pub epoch: i64,
    /// When.
    pub since: Timestamp,
}

/// What a new run is to do.
#[derive(Debug, Clone)]
pub struct Order<D> {
    /// Its id, a UUIDv7.
    pub id: String,
    /// What it is for.
    pub kind: Kind,
    /// The node it works on.
    pub node: String,
    /// The site whose limits it shares.
    pub site: Option<String>,
    /// Stages to execute that are not always executed.
    pub with: BTreeSet<Stage>,
    /// Stages to skip, each with a reason.
    pub skip: BTreeMap<Stage, String>,
    /// Where its node comes from, or came from when it was drained.
    pub came: Came,
    /// What earlier runs began to erase on the node, by stage, and nobody has proven clean since.
    pub unproven: BTreeSet<Stage>,
    /// What the stages start with.
    pub data: D,
}

impl<D: Data> Order<D> {
    /// The run as it is accepted: due at once, and the only open one of its node. Who starts a run commits this
    /// together with what it does to the node.
    pub fn accepted(self, now: Timestamp) -> Result<Content> {
        let Self { id, kind, node, site, with, skip, came, unproven, data } = self;
        let name = format!("{kind} of {node}");
        let mut fields =
            BTreeMap::from([("node".to_owned(), node.clone()), ("kind".to_owned(), kind.to_string())]);
        fields.extend(site.clone().map(|site| ("site".to_owned(), site)));
        let keys = BTreeSet::from([key(&node)]);
        let record = Record {
            kind,
            node,
            site,
            stage: kind.first(),
            since: now,
            attempt: 0,
            failures: BTreeMap::new(),
            repairs: 0,
            goal: Goal::Run,
            adopted: false,
            with,
            skip,
            touched: Vec::new(),
            undoing: false,
            failure: None,
            waiting: None,
            busy_since: None,
            unasked_since: None,
            at_work: None,
            turn: 0,
            sent_on: false,
            frozen: None,
            set_aside: false,
            came,
            inherited: unproven.clone(),
            unproven,
            data,
        };
        Ok(Content {
            kind: RUN.to_owned(),
            id,
            name,
            state: State::Pending.to_string(),
            document: Document::of(&record)?,
            labels: BTreeMap::new(),
            fields,
            keys,
            deleted: false,
            due_at: Some(now),
        })
    }
}

/// What only one open run may have.
fn key(node: &str) -> String {
    format!("node/{node}")
}

/// A run as it was read.
#[derive(Debug, Clone)]
pub struct Run<D> {
    /// The resource it was read from.
    pub resource: Resource,
    /// Its state.
    pub state: State,
    /// Its document.
    pub record: Record<D>,
}

impl<D: Data> Run<D> {
    /// Reads a run.
    pub fn read(resource: Resource) -> Result<Self> {
        let state = resource.content.state.parse();
        let state = state.map_err(|error| Error::Bug(format!("the state of a run: {error}")))?;
        let record = resource.content.document.read()?;
        Ok(Self { resource, state, record })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.resource.content.id
    }

    /// What it becomes. A run that is over gives its node free and is due no more.
    pub(crate) fn content(
        &self,
        state: State,
        record: &Record<D>,
        due: Option<Timestamp>,
    ) -> Result<Content> {
        let mut content = self.resource.content.clone();
        content.state = state.to_string();
        content.document = Document::of(record)?;
        content.due_at = due.filter(|_| state.is_open());
        if !state.is_open() {
            content.keys.clear();
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Kept {
        #[serde(default, deserialize_with = "stages_or_all", skip_serializing_if = "BTreeSet::is_empty")]
        unproven: BTreeSet<Stage>,
    }

    /// Servers of before say whether anything was begun to be erased, and read nothing as nothing.
    #[test]
    fn what_older_servers_wrote_is_read_and_nothing_is_written_as_nothing() {
        let read = |text: &str| serde_json::from_str::<Kept>(text).unwrap().unproven;
        let all = BTreeSet::from([Stage::CleanupStorage, Stage::ScrubGpu]);
        assert_eq!((read("{}"), read(r#"{"unproven":false}"#)), (BTreeSet::new(), BTreeSet::new()));
        assert_eq!(read(r#"{"unproven":true}"#), all);
        assert_eq!(read(r#"{"unproven":["scrub_gpu"]}"#), BTreeSet::from([Stage::ScrubGpu]));
        let written = |unproven| serde_json::to_string(&Kept { unproven }).unwrap();
        assert_eq!(written(BTreeSet::new()), "{}");
        assert_eq!(read(&written(all.clone())), all);
    }
}
