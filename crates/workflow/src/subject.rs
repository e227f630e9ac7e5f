//! The subject of a run: the resource that the run works on, which has a lifecycle of its own.
//!
//! The engine knows its state, and which of its moves are committed together with those of the run. Everything else is
//! the kind's own.

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wardroom_core::run::{
    self, Cause,
    plan::{Kind, Stage},
};

/// The resource that a run works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectRef {
    /// Its kind in the store.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// One kind of subject: its states, and how a run moves it.
pub trait Subject: Debug + Clone + PartialEq + Send + Sync + 'static {
    /// Its kind in the store.
    const KIND: &'static str;
    /// The state that ends its life. A subject without a row counts as being in it.
    const REMOVED: Self::State;
    /// The origin of a subject that must not return to use, because it was left half done.
    const NOT_USABLE: Self::Origin;

    /// Where it is in its lifecycle.
    type State: Copy + Eq + Debug + Display + FromStr<Err: Display> + Send + Sync;
    /// The event that moves it.
    type Event: Copy + Eq + Debug + Display + Serialize + Send + Sync;
    /// Where it was before a run took it out of use, which decides where it returns to.
    type Origin: Copy + Eq + Debug + Serialize + DeserializeOwned + Send + Sync;

    /// The state that an event leads to.
    fn target(state: Self::State, event: Self::Event) -> Option<Self::State>;

    /// Whether it may be in this state while its run is in that one.
    fn fits(state: Self::State, kind: Kind, run: run::State) -> bool;

    /// Its origin, given the origin that is on record.
    fn origin(state: Self::State, known: Self::Origin) -> Self::Origin;

    /// The move that goes with entering a stage.
    fn on_entry(kind: Kind, stage: Stage, state: Self::State) -> Option<Self::Event>;

    /// The move that goes with the end of a stage that is not the last one.
    fn on_done(stage: Stage, state: Self::State) -> Option<Self::Event>;

    /// The move that goes with the end of the run.
    ///
    /// # Errors
    /// The state in which this kind of run cannot end.
    fn on_end(
        kind: Kind,
        end: run::State,
        state: Self::State,
        origin: Self::Origin,
    ) -> Result<Option<Self::Event>, Self::State>;

    /// The move that goes with a run that stops working in the state `to`.
    fn on_stop(
        kind: Kind,
        to: run::State,
        state: Self::State,
        origin: Self::Origin,
        cause: Cause,
    ) -> Option<Self::Event>;

    /// Whether the event carries out the request that started the run, not a finding of the run.
    fn is_requested(event: Self::Event) -> bool;

    /// The next move towards quarantine; nothing where the subject is out of use already.
    fn towards_quarantine(state: Self::State, origin: Self::Origin) -> Option<Self::Event>;
}
