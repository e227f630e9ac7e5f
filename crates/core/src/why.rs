//! Why a resource is where it is: what must hold to leave, who can act, since when, and what to do next.
//!
//! Everything comes from the tables: a new row explains itself. A kind adds only what its rows cannot know,
//! the [`Blocker`]s: facts of this one resource that keep it where it is. Derived statuses have no rows;
//! their ways out are [`Rule`]s beside the derivation.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    Named,
    action::{Action, Call},
    table::{Event, Owner, Row, State, Table},
};

mod brief;

pub use brief::{Brief, Step, brief, clause, length};

/// The explanation of one state or status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The subject: `state`, `run` for the open run of the resource, or the name of a derived status.
    pub about: &'static str,
    /// Where the resource is.
    pub state: &'static str,
    /// Its meaning.
    pub meaning: Cow<'static, str>,
    /// Since when; absent if unknown.
    pub since: Option<Timestamp>,
    /// When patience runs out, for work in progress.
    pub patience_ends: Option<Timestamp>,
    /// Whether it has run out.
    pub overdue: bool,
    /// The causes that keep this resource in its state, beyond those of the state itself.
    pub blockers: Vec<Blocker>,
    /// What is as it should be, as far as that rules out a cause.
    pub fine: Vec<Cow<'static, str>>,
    /// The ways out, the preferred one first.
    pub exits: Vec<Exit>,
    /// The next step.
    pub next: Next,
}

/// A fact that keeps a resource where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// The obstacle.
    pub what: Cow<'static, str>,
    /// The action that clears it, when a person can.
    pub fix: Option<Action>,
}

/// One way out of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exit {
    /// The event that takes it; none if no stored state moves.
    pub on: Option<&'static str>,
    /// Where it leads.
    pub to: &'static str,
    /// The condition.
    pub when: Cow<'static, str>,
    /// The person or program that makes it happen in the normal course.
    pub by: Owner,
    /// The call by which a person causes it.
    pub call: Option<Action>,
}

impl Exit {
    /// The exit that an event of a table takes.
    fn of<S: State, E: Event>(row: &Row<S, E>, id: &str) -> Self {
        Self {
            on: Some(row.on.as_str()),
            to: row.to.as_str(),
            when: Cow::Borrowed(row.on.meaning()),
            by: row.by,
            call: row.on.call().map(|call| call.of(id)),
        }
    }

    /// The event of the table that takes it, if one does.
    #[must_use]
    pub fn event<E: Event>(&self) -> Option<E> {
        E::ALL.iter().copied().find(|event| Some(event.as_str()) == self.on)
    }
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Next {
    /// Nothing to do.
    Nothing,
    /// Wait for another person or program to act.
    Wait {
        /// The person or program that acts.
        by: Owner,
        /// The awaited event.
        until: Cow<'static, str>,
    },
    /// Make this call.
    Call(Action),
    /// Fix the obstacle; no call clears it.
    Mend {
        /// The obstacle.
        what: Cow<'static, str>,
    },
}

/// One way out of a derived status, as data: derivations have no rows, so they list these.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The derived status it is about.
    pub about: &'static str,
    /// Where the resource is.
    pub status: &'static str,
    /// Where it leads.
    pub to: &'static str,
    /// The condition.
    pub when: &'static str,
    /// The person or program that makes it happen.
    pub by: Owner,
    /// The call by which a person causes it.
    pub call: Option<Call>,
}

/// Explains a derived status from the rules of its derivation; one without a rule is a good one, or final.
#[must_use]
pub fn explain_derived<S: Named>(
    rules: &[Rule],
    (about, id): (&'static str, &str),
    status: S,
    info: Cow<'static, str>,
) -> Why {
    let mut exits =
        rules.iter().filter(|rule| rule.about == about && rule.status == status.as_str()).peekable();
    let next = match exits.peek() {
        None => Next::Nothing,
        Some(Rule { call: Some(call), .. }) => Next::Call(call.of(id)),
        // A person has to act, and no call of ours can do it.
        Some(Rule { by: Owner::Admin, .. }) => Next::Mend { what: info.clone() },
        Some(rule) => Next::Wait { by: rule.by, until: Cow::Borrowed(rule.when) },
    };
    let blockers = exits.peek().map(|_| Blocker { what: info, fix: None }).into_iter().collect();
    Why {
        about,
        state: status.as_str(),
        meaning: Cow::Borrowed(status.meaning()),
        since: None,
        patience_ends: None,
        overdue: false,
        blockers,
        fine: Vec::new(),
        exits: exits
            .map(|rule| Exit {
                on: None,
                to: rule.to,
                when: Cow::Borrowed(rule.when),
                by: rule.by,
                call: rule.call.map(|call| call.of(id)),
            })
            .collect(),
        next,
    }
}

/// How long a resource has been in its state, and how long it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// Since when.
    pub since: Timestamp,
    /// When its patience began to run: the last sign of progress, where there is one.
    pub counted_from: Timestamp,
    /// How long it may take from there; nothing for states to rest in.
    pub patience: Option<SignedDuration>,
}

impl Stay {
    /// A stay for which the state's own patience holds.
    pub fn of<S: State>(state: S, since: Timestamp) -> Self {
        Self { since, counted_from: since, patience: state.patience() }
    }
}

/// Explains the state that a resource is in; `id` is how its actions name it.
pub fn explain<S: State, E: Event>(
    table: Table<S, E>,
    id: &str,
    state: S,
    stay: Stay,
    now: Timestamp,
    blockers: Vec<Blocker>,
) -> Why {
    let Stay { since, counted_from, patience } = stay;
    let patience_ends = patience.map(|patience| saturating_add(counted_from, patience));
    let overdue = patience_ends.is_some_and(|end| end < now);
    let next = next(table, id, state, &blockers, overdue);
    let exits = table.moves_from(state).map(|row| Exit::of(row, id));
    Why {
        about: "state",
        state: state.as_str(),
        meaning: Cow::Borrowed(state.meaning()),
        since: Some(since),
        patience_ends,
        overdue,
        exits: exits.collect(),
        blockers,
        fine: Vec::new(),
        next,
    }
}

/// Returns the first that applies: the first blocker, then a way out of an overdue state, then the preferred
/// move of the state. Work in progress is left alone while its patience lasts.
fn next<S: State, E: Event>(
    table: Table<S, E>,
    id: &str,
    state: S,
    blockers: &[Blocker],
    overdue: bool,
) -> Next {
    if S::TERMINAL.contains(&state) {
        return Next::Nothing;
    }
    if let Some(blocker) = blockers.iter().find(|blocker| blocker.fix.is_some()).or(blockers.first()) {
        return blocker.fix.clone().map_or_else(|| Next::Mend { what: blocker.what.clone() }, Next::Call);
    }
    if S::SERVICE.contains(&state) && !overdue {
        return Next::Nothing;
    }
    let preferred = table.moves_from(state).next();
    let preferred_call = preferred.and_then(|row| row.on.call());
    if overdue && let Some(call) = state.remedy().or_else(|| way_out(table, state)).or(preferred_call) {
        return Next::Call(call.of(id));
    }
    match preferred {
        Some(row) if row.by == Owner::Admin && state.patience().is_none() => {
            preferred_call.map_or(Next::Nothing, |call| Next::Call(call.of(id)))
        }
        Some(row) => Next::Wait { by: row.by, until: Cow::Borrowed(row.on.meaning()) },
        None => Next::Nothing,
    }
}

/// A person's way out of a state in which waiting has not helped; never one that ends the resource's life.
fn way_out<S: State, E: Event>(table: Table<S, E>, state: S) -> Option<Call> {
    let by = |owner| {
        table
            .moves_from(state)
            .filter(move |row| row.by == owner && !S::TERMINAL.contains(&row.to))
            .find_map(|row| row.on.call())
    };
    by(Owner::Admin).or_else(|| by(Owner::Sweep))
}

fn saturating_add(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
