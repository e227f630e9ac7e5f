//! The seam between the engine and the stages that it executes.

use std::{fmt::Debug, future::Future};

use jiff::{SignedDuration, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use wardroom_core::run::{
    failure::Class,
    plan::{Kind, Stage},
};

use wardroom_store::Held;

use crate::{breaker::Breaker, limits::Limits, record::Failure, subject::Subject, worker::Saver};

/// The data of a run's stages: one typed value, saved after each stage.
pub trait Data: Debug + PartialEq + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The resource that its runs work on.
    type Subject: Subject;

    /// Returns the data for a run that starts again from nothing: its inputs, without its findings.
    #[must_use]
    fn restarted(&self) -> Self;

    /// Returns the proof that a completed stage worked, for people who ask for it.
    #[must_use]
    fn evidence(&self, _stage: Stage) -> Option<String> {
        None
    }

    /// Why policy leaves a stage out, if it does.
    #[must_use]
    fn left_out(&self, _kind: Kind, _stage: Stage) -> Option<String> {
        None
    }

    /// The budget that is configured for a stage.
    #[must_use]
    fn budget(&self, _stage: Stage) -> Budget {
        Budget::default()
    }
}

/// The configured budget of a stage; the built-in one holds for each field that is not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// Retries after failures that may pass by themselves, or after calls without an answer.
    pub retries: Option<u32>,
    /// How long it may wait.
    pub patience: Option<SignedDuration>,
}

/// Executes stages. A stage observes, decides, saves its intent, calls, and observes again; it may be
/// executed again at any time, also after its reply was lost.
pub trait Stages: Send + Sync + 'static {
    /// The data of its stages.
    type Data: Data;

    /// Says how often the upstream of a site may be called (see [`Limits::pace`]), before the first of its runs takes a
    /// place there.
    fn meet(&self, _site: &str) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Executes the stage of the attempt.
    fn perform(
        &self,
        attempt: Attempt<'_, Self::Data>,
    ) -> impl Future<Output = Result<Outcome<Self::Data>, Lost>> + Send;

    /// Undoes the work of the attempt's stage in this run, as far as it was done.
    fn undo(
        &self,
        attempt: Attempt<'_, Self::Data>,
    ) -> impl Future<Output = Result<Outcome<Self::Data>, Lost>> + Send;
}

/// One execution of a stage.
pub struct Attempt<'a, D> {
    /// The run.
    pub run: &'a str,
    /// The purpose of the run.
    pub kind: Kind,
    /// The id of the resource that the run works on.
    pub subject: &'a str,
    /// The site.
    pub site: Option<&'a str>,
    /// The stage to execute, or undo.
    pub stage: Stage,
    /// 1 for the first attempt.
    pub number: u32,
    /// When the run came to the stage.
    pub since: Timestamp,
    /// The time now.
    pub now: Timestamp,
    /// Whether a person sent the run to the stage, and nothing has failed there since.
    pub confirmed: bool,
    /// Grows whenever an operator moves the run.
    pub generation: u64,
    /// Why the run failed last, if that was at the stage.
    pub failure: Option<Failure>,
    /// The data of the stages.
    pub data: D,
    /// Limits that all outgoing calls share.
    pub limits: &'a Limits,
    /// Counts of refused passwords.
    pub breaker: &'a Breaker,
    pub(crate) saver: Saver<'a, D>,
}

impl<D: Data> Attempt<'_, D> {
    /// Makes the data durable before a call that cannot be undone.
    ///
    /// # Errors
    /// [`Lost`] when another worker has the run, or it cannot be written: the stage must not go on.
    pub async fn save(&mut self) -> Result<(), Lost> {
        self.saver.save(&self.data).await
    }

    /// Returns the run as a precondition for another commit, which must fail once this worker has lost the run: a call may
    /// have taken long, and a person may have frozen the run meanwhile.
    ///
    /// # Errors
    /// [`Lost`] when another worker has the run: the stage must write nothing.
    pub async fn hold(&self) -> Result<Held, Lost> {
        self.saver.hold().await
    }
}

/// This worker has lost the run, or cannot record its work: the worker that claims the run next observes and
/// decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another worker has the run")]
pub struct Lost;

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<D> {
    /// The stage is done; with the new data.
    Done(D),
    /// Nothing is wrong; look again at that time.
    Wait {
        /// The condition that is waited for.
        reason: String,
        /// When to look again.
        until: Timestamp,
    },
    /// Nothing is wrong, but it is not its turn yet. However long that takes, the stage's patience is not spent.
    Queue {
        /// The condition that is waited for.
        reason: String,
        /// When to look again.
        until: Timestamp,
    },
    /// Nothing was done, because the upstream is too busy. That costs the stage no patience, but is bounded by its own.
    Busy {
        /// The upstream, and its answer.
        reason: String,
        /// When to ask again.
        until: Timestamp,
    },
    /// It did not work this time.
    Retry {
        /// Why.
        class: Class,
        /// The observation that shows it.
        evidence: String,
        /// The pause that the upstream asked for, if it did.
        after: Option<SignedDuration>,
    },
    /// It broke in the way that the detour after the stage repairs.
    Broken {
        /// The new data.
        data: D,
        /// The observation that shows it.
        evidence: String,
    },
    /// Only a person can decide how to go on.
    NeedsOperator {
        /// The decision that a person has to make.
        reason: String,
    },
    /// The subject must not be used before a person has looked: it goes to quarantine.
    Unsafe {
        /// The mistake in it.
        reason: String,
    },
}
