//! The stored record of a run: the plan, the progress, and the hold.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_core::run::{
    State,
    action::Goal,
    failure::Class,
    plan::{Kind, Stage},
};
use wardroom_store::{Content, Document, Error, Resource, Result};

use crate::{
    RUN,
    act::Actor,
    stages::Data,
    step::{OriginOf, SubjectOf},
    subject::{Subject as _, SubjectRef},
};

/// The document of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "D: Data")]
pub struct Record<D: Data> {
    /// The decisions of people and the site.
    pub plan: Plan,
    /// How far it is.
    pub progress: Progress<OriginOf<D>>,
    /// Why the run stands still, and the engines that may work on it.
    pub hold: Hold,
    /// The data of the stages, saved after each of them.
    pub data: D,
}

/// The plan of a run, as people and the site decided it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The purpose of the run.
    pub kind: Kind,
    /// The resource it works on.
    pub subject: SubjectRef,
    /// The site whose limits it shares.
    pub site: Option<String>,
    /// Stages that are executed only because a person or the site asked for them.
    pub with: BTreeSet<Stage>,
    /// Stages that an operator skips, each with a reason.
    pub skip: BTreeMap<Stage, String>,
    /// Where the run is heading.
    pub goal: Goal,
    /// Whether an operator adopted the observed state.
    pub adopted: bool,
    /// The last request that the run follows: its start, or an operator's action since.
    pub requested_by: Actor,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress<O> {
    /// The stage it is at; during an undo, the stage at which the undo began.
    pub stage: Stage,
    /// When it entered the stage, or an operator last sent it on.
    pub since: Timestamp,
    /// Attempts of the stage, or of its undo, that were begun.
    pub attempt: u32,
    /// Failures by class since then.
    pub failures: BTreeMap<Class, u32>,
    /// The last failure.
    pub failure: Option<Failure>,
    /// Rounds of the detour that were begun.
    pub detours: u32,
    /// Stages whose effects have to be undone, in the order they were begun.
    pub undo_stack: Vec<Stage>,
    /// Whether it is being undone, or failed during the undo.
    pub undoing: bool,
    /// Whether a person sent it to the stage it is at, and nothing has failed there since.
    pub confirmed: bool,
    /// Where its subject was before the run took it out of use.
    pub origin: O,
    /// Erasures that this run, or one before it, began and that were not proven complete since, by stage.
    pub unproven: BTreeSet<Stage>,
    /// The part of `unproven` that earlier runs began.
    pub inherited: BTreeSet<Stage>,
}

/// Why a run stands still, and the engines that may work on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// The attempt under way, or the one whose worker was lost.
    pub execution: Option<Execution>,
    /// Fencing token: grows whenever an operator moves the run, so that a worker which began before writes nothing.
    pub generation: u64,
    /// The condition that it waits for.
    pub waiting: Option<Waiting>,
    /// Since when its upstream has been too busy, without any other answer.
    pub busy_since: Option<Timestamp>,
    /// Since when it has found no free slot at its site.
    pub no_slot_since: Option<Timestamp>,
    /// The person or server that froze it, and the reason, until it is sent on.
    pub frozen: Option<Frozen>,
    /// Whether its subject still has to be brought to quarantine.
    pub quarantine_pending: bool,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// At which stage.
    pub stage: Stage,
    /// Of which class.
    pub class: Class,
    /// The observation that shows it.
    pub evidence: String,
    /// When.
    pub at: Timestamp,
}

/// The condition that a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The condition, for people.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether it waits in a queue, which does not count against the stage's patience.
    pub queued: bool,
    /// Whether it waits because its upstream is too busy.
    pub busy: bool,
}

/// The person or server that froze a run, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The person; nothing when the server did.
    pub by: Option<String>,
    /// The reason given.
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
pub struct Execution {
    /// The lease holder.
    pub holder: String,
    /// The epoch of its lease.
    pub epoch: i64,
    /// When the attempt began.
    pub since: Timestamp,
}

/// A run to be accepted.
#[derive(Debug, Clone)]
pub struct Order<D: Data> {
    /// Its id, a UUIDv7.
    pub id: String,
    /// The purpose of the run.
    pub kind: Kind,
    /// The id of the resource it works on.
    pub subject: String,
    /// The site whose limits it shares.
    pub site: Option<String>,
    /// Stages to execute that are not always executed.
    pub with: BTreeSet<Stage>,
    /// Stages to skip, each with a reason.
    pub skip: BTreeMap<Stage, String>,
    /// Where its subject is, or was before it was taken out of use.
    pub origin: OriginOf<D>,
    /// Erasures that earlier runs began and that were not proven complete since, by stage.
    pub unproven: BTreeSet<Stage>,
    /// The person or server that starts it, and the reason.
    pub requested_by: Actor,
    /// The data that the stages start with.
    pub data: D,
}

impl<D: Data> Order<D> {
    /// Returns the accepted run: due at once, and the only open one of its subject. The caller commits it together with
    /// the subject's move.
    pub fn accepted(self, now: Timestamp) -> Result<Content> {
        let Self { id, kind, subject, site, with, skip, origin, unproven, requested_by, data } = self;
        let name = format!("{kind} of {subject}");
        let mut fields =
            BTreeMap::from([("subject".to_owned(), subject.clone()), ("kind".to_owned(), kind.to_string())]);
        fields.extend(site.clone().map(|site| ("site".to_owned(), site)));
        let subject = SubjectRef { kind: SubjectOf::<D>::KIND.to_owned(), id: subject };
        let keys = BTreeSet::from([subject.key()]);
        let goal = Goal::Run;
        let record = Record {
            plan: Plan { kind, subject, site, with, skip, goal, adopted: false, requested_by },
            progress: Progress {
                stage: kind.first(),
                since: now,
                attempt: 0,
                failures: BTreeMap::new(),
                failure: None,
                detours: 0,
                undo_stack: Vec::new(),
                undoing: false,
                confirmed: false,
                origin,
                inherited: unproven.clone(),
                unproven,
            },
            hold: Hold::default(),
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

impl SubjectRef {
    /// The key that only the open run of this subject holds.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.kind, self.id)
    }
}

/// A run as it was read.
#[derive(Debug, Clone)]
pub struct Run<D: Data> {
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
        let state = state.map_err(|error| Error::Bug(format!("the state of the run is unknown: {error}")))?;
        let record = resource.content.document.read()?;
        Ok(Self { resource, state, record })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.resource.content.id
    }

    /// The id of the resource it works on.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.record.plan.subject.id
    }

    /// Returns the content of the run after a change. A run that is over releases its subject and is not due again.
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
