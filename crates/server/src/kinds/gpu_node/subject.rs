//! A GPU node as the subject of its runs: the core's moves for the workflow engine.

use wardroom_core::{
    gpu_node::{
        Event, State, mapping,
        moves::{self, Origin},
    },
    run::{
        self, Cause,
        plan::{Kind, Stage},
    },
};
use wardroom_workflow::Subject;

use super::document::KIND;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GpuNode;

impl Subject for GpuNode {
    const KIND: &'static str = KIND;
    const REMOVED: State = State::Deleted;
    const NOT_USABLE: Origin = Origin::FromQuarantine;

    type State = State;
    type Event = Event;
    type Origin = Origin;

    fn target(state: State, event: Event) -> Option<State> {
        moves::target(state, event)
    }

    fn fits(state: State, kind: Kind, run: run::State) -> bool {
        mapping::check(state, Some((kind, run))).is_ok()
    }

    fn origin(state: State, known: Origin) -> Origin {
        Origin::of(state, known)
    }

    fn on_entry(kind: Kind, stage: Stage, state: State) -> Option<Event> {
        moves::on_entry(kind, stage, state)
    }

    fn on_done(stage: Stage, state: State) -> Option<Event> {
        moves::on_done(stage, state)
    }

    fn on_end(kind: Kind, end: run::State, state: State, origin: Origin) -> Result<Option<Event>, State> {
        moves::on_end(kind, end, state, origin)
    }

    fn on_stop(kind: Kind, to: run::State, state: State, origin: Origin, cause: Cause) -> Option<Event> {
        moves::on_stop(kind, to, state, origin, cause)
    }

    fn is_requested(event: Event) -> bool {
        moves::is_requested(event)
    }

    fn towards_quarantine(state: State, origin: Origin) -> Option<Event> {
        moves::towards_quarantine(state, origin)
    }
}
