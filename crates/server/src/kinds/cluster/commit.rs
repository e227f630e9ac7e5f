//! One step of a cluster or node pool: what it shall be, and the conditions that follow from it, in one commit.
//!
//! What must stay true: conditions always equal `core`'s fold over the statuses that are stored with them. Every commit
//! takes its turn by the version of the conditions, also when they stay as they are; of two that read the same, one wins.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use wardroom_core::cluster::{AdapterStatus, Condition, Desired, Status, all_finalized, fold};
use wardroom_store::{Beside, Change, Content, Entry, Observation, Resource};

use super::{
    Sort,
    adapters::{silence, told},
    document::Document,
    facts::{CONDITIONS, Facts, Said},
    settings::Settings,
};
use crate::platform::{
    app::App,
    http::{error::Error, idempotency},
};

/// What a resource shall be, and what was said of it.
pub(super) struct Step<'a> {
    pub(super) facts: &'a Facts,
    pub(super) document: Document,
    pub(super) labels: BTreeMap<String, String>,
    /// What an adapter says now.
    pub(super) said: Option<Said>,
    /// Whether its conditions have to be folded again.
    pub(super) folds: bool,
    /// Whether it owns resources that will still be there.
    pub(super) has_children: bool,
}

/// What follows from a step.
pub(super) struct Settled {
    pub(super) change: Option<Change>,
    pub(super) beside: Beside,
    /// Whether the resource is removed: nothing is left to wait for.
    pub(super) is_gone: bool,
    pub(super) conditions: Vec<Condition>,
}

/// The statuses that a step moves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Moved {
    /// Of the adapter that reports.
    pub(super) adapter: Vec<Move>,
    /// Of the resource.
    pub(super) conditions: Vec<Move>,
}

/// A condition whose status moves; nothing where there was none, or is none any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Move {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) from: Option<Status>,
    pub(super) to: Option<Status>,
}

impl<'a> Step<'a> {
    /// The step that leaves a resource as people want it.
    pub(super) fn of(facts: &'a Facts) -> Self {
        let (document, labels) = (facts.document.clone(), facts.resource.content.labels.clone());
        Self { facts, document, labels, said: None, folds: true, has_children: false }
    }

    /// Folds, and says what has to be committed. `entry` makes the history row; without one, only what was observed is
    /// kept, unless the resource is removed.
    pub(super) fn settle(
        self,
        app: &App,
        entry: impl FnOnce(&Moved, bool) -> Option<Entry>,
    ) -> Result<Settled, Error> {
        let Self { facts, document, labels, said, folds, has_children } = self;
        let required = Settings::of(&app.config).required(facts.sort);
        let statuses = statuses(facts, said.as_ref());
        let conditions = match folds {
            true => fold(&desired(&document, required, has_children), &statuses, &facts.conditions),
            false => facts.conditions.clone(),
        };
        let is_deleting = document.deleted_time.is_some();
        let is_gone = is_deleting && !has_children && all_finalized(required, document.generation, &statuses);
        let moved = Moved {
            adapter: said.as_ref().map_or_else(Vec::new, |said| moves_of(facts, &said.status)),
            conditions: moves(&facts.conditions, &conditions),
        };
        let content = &facts.resource.content;
        let names = (content.id.as_str(), content.name.as_str());
        let after = document.content(facts.sort, names, labels, &conditions)?;
        let due_at = told::due_at(app, content.due_at, &facts.conditions, &conditions);
        let after = Content { deleted: is_gone, due_at, ..after };
        let change = entry(&moved, is_gone).map(|entry| change(&facts.resource, after, entry));
        let others = said.map(|said| said.observation(facts.sort, &content.id)).transpose()?;
        let turn = turn(facts.sort, &content.id, facts.turn + 1, &conditions, app.now())?;
        let beside = Beside { turn, others: others.into_iter().collect(), ends: is_gone };
        Ok(Settled { change, beside, is_gone, conditions })
    }
}

/// A change of a resource.
pub(super) fn change(before: &Resource, after: Content, entry: Entry) -> Change {
    Change { before: Some(before.clone()), after, entry, effects: Vec::new(), fence: None, holds: Vec::new() }
}

/// A resource as far as its conditions depend on what people want.
pub(super) fn desired<'a>(document: &Document, required: &'a [String], has_children: bool) -> Desired<'a> {
    Desired {
        generation: document.generation,
        updated_time: document.updated_time,
        required_adapters: required,
        deleted: document.deleted_time.is_some(),
        active_children: has_children,
    }
}

/// The conditions as they are kept.
pub(super) fn turn(
    sort: &Sort,
    id: &str,
    version: i64,
    conditions: &[Condition],
    now: Timestamp,
) -> Result<Observation, Error> {
    Ok(Observation {
        kind: sort.kind.to_owned(),
        resource_id: id.to_owned(),
        source: CONDITIONS.to_owned(),
        version,
        document: wardroom_store::Document::of(&conditions)?,
        observed_at: now,
        received_at: now,
    })
}

/// Commits all of these or none, as part of the request that is being run; the resources in the order of their changes.
pub(super) async fn commit(app: &App, settled: Vec<Settled>) -> Result<Vec<Resource>, wardroom_store::Error> {
    let (mut changes, mut beside, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for one in settled {
        if one.is_gone {
            gone.push((one.beside.turn.kind.clone(), one.beside.turn.resource_id.clone()));
        }
        changes.extend(one.change);
        beside.push(one.beside);
    }
    let committed = commit_all(app, changes, beside).await?;
    for (kind, id) in gone {
        silence::forget(app, &kind, &id).await;
    }
    Ok(committed)
}

/// The same of changes that were put together otherwise.
pub(super) async fn commit_all(
    app: &App,
    changes: Vec<Change>,
    beside: Vec<Beside>,
) -> Result<Vec<Resource>, wardroom_store::Error> {
    let mark = if changes.is_empty() { None } else { idempotency::mark(app) };
    let committed = app.store.commit_beside(changes, beside, mark).await?;
    Ok(committed.into_iter().map(|committed| app.noted(committed)).collect())
}

/// The statuses of all adapters, with the new one of the adapter that speaks.
fn statuses(facts: &Facts, said: Option<&Said>) -> Vec<AdapterStatus> {
    let speaks = |status: &AdapterStatus| said.is_some_and(|said| said.status.adapter == status.adapter);
    let kept = facts.statuses.iter().map(|said| &said.status).filter(|status| !speaks(status));
    kept.chain(said.map(|said| &said.status)).cloned().collect()
}

fn moves_of(facts: &Facts, status: &AdapterStatus) -> Vec<Move> {
    let pairs = |status: &AdapterStatus| {
        status.conditions.iter().map(|one| (one.type_.clone(), one.status)).collect::<Vec<_>>()
    };
    let before = facts.said(&status.adapter).map_or_else(Vec::new, |said| pairs(&said.status));
    between(&before, &pairs(status))
}

fn moves(before: &[Condition], after: &[Condition]) -> Vec<Move> {
    let pairs = |conditions: &[Condition]| {
        conditions.iter().map(|one| (one.type_.to_string(), one.status)).collect::<Vec<_>>()
    };
    between(&pairs(before), &pairs(after))
}

/// What moved, the new and changed first, then what is gone.
fn between(before: &[(String, Status)], after: &[(String, Status)]) -> Vec<Move> {
    let find = |all: &[(String, Status)], type_: &str| {
        all.iter().find(|(other, _)| other == type_).map(|(_, status)| *status)
    };
    let now = after.iter().map(|(type_, to)| (type_, find(before, type_), Some(*to)));
    let gone = before.iter().filter(|(type_, _)| find(after, type_).is_none());
    let gone = gone.map(|(type_, from)| (type_, Some(*from), None));
    let moved = now.chain(gone).filter(|(_, from, to)| from != to);
    moved.map(|(type_, from, to)| Move { type_: type_.clone(), from, to }).collect()
}

#[cfg(test)]
mod tests {
    use wardroom_core::cluster::Status;

    use super::{Move, between};

    #[test]
    fn only_statuses_that_move_are_told() {
        let pair = |type_: &str, status| (type_.to_owned(), status);
        let before = [pair("A", Status::True), pair("B", Status::False), pair("C", Status::True)];
        let after = [pair("A", Status::True), pair("B", Status::True), pair("D", Status::False)];
        let moved = |type_: &str, from, to| Move { type_: type_.to_owned(), from, to };
        let expected = [
            moved("B", Some(Status::False), Some(Status::True)),
            moved("D", None, Some(Status::False)),
            moved("C", Some(Status::True), None),
        ];
        assert_eq!(between(&before, &after), expected);
        assert_eq!(between(&before, &before), []);
    }
}
