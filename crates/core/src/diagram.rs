//! Diagrams: a lifecycle as a picture, from its table and the places of its states.
//!
//! One function draws for all: the console with classes, which its style sheet colours; the command line and the
//! documentation with attributes, legible on light and on dark. Moves have numbers only where a state is current;
//! [`Diagram::numbered`] gives the list that belongs to the numbers, which is also the text for readers without the picture.

use std::sync::LazyLock;

use crate::lifecycles::{self, Lifecycle, MoveView};

mod geometry;
mod layout;
mod marks;
mod svg;

use layout::Layout;

/// A lifecycle with a place for everything.
#[derive(Debug)]
pub struct Diagram {
    /// What is drawn.
    pub lifecycle: Lifecycle,
    /// Without the moves that are common to most states.
    layout: Layout,
}

/// What a diagram shows beside states and moves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// The state whose moves are legal now, and numbered.
    pub current: Option<&'a str>,
    /// The events that can happen to this one member; all that its state has, if absent.
    pub events: Option<&'a [&'a str]>,
    /// How many members are in which state; a state that is not named has no count.
    pub counts: &'a [(&'a str, u64)],
}

/// A legal move, and the number on its curve.
#[derive(Debug, Clone, Copy)]
pub struct Numbered<'a> {
    /// The number, from 1: one for each state that can be reached.
    pub number: usize,
    /// The move.
    pub row: &'a MoveView,
}

/// The search for the curves takes some milliseconds, and the tables never change.
static ALL: LazyLock<Vec<Diagram>> =
    LazyLock::new(|| lifecycles::all().into_iter().map(Diagram::new).collect());

/// Returns the diagrams of every lifecycle that is a table.
#[must_use]
pub fn all() -> &'static [Diagram] {
    &ALL
}

/// Returns the diagram of one lifecycle.
#[must_use]
pub fn of(lifecycle: &str) -> Option<&'static Diagram> {
    ALL.iter().find(|diagram| diagram.lifecycle.name == lifecycle)
}

impl Diagram {
    fn new(lifecycle: Lifecycle) -> Self {
        let drawn = lifecycle.moves.iter().filter(|row| !is_common(&lifecycle, row));
        let layout = Layout::new(&lifecycle.states, drawn);
        Self { lifecycle, layout }
    }

    /// Returns the moves out of a state with the numbers of their curves: the preferred first, moves to the same
    /// state together, because they share a curve.
    #[must_use]
    pub fn numbered(&self, current: &str, events: Option<&[&str]>) -> Vec<Numbered<'_>> {
        let is_legal =
            |row: &&MoveView| row.from == current && events.is_none_or(|events| events.contains(&row.on));
        let moves: Vec<_> = self.lifecycle.moves.iter().filter(is_legal).collect();
        let mut targets: Vec<&'static str> = Vec::new();
        for row in &moves {
            if !targets.contains(&row.to) {
                targets.push(row.to);
            }
        }
        let along = |(number, target): (usize, &&'static str)| {
            let to = *target;
            let rows = moves.iter().filter(move |row| row.to == to);
            rows.map(move |row| Numbered { number, row }).collect::<Vec<_>>()
        };
        (1..).zip(&targets).flat_map(along).collect()
    }

    /// Returns the events that most states have, each with the state that it leads to.
    ///
    /// Their curves would hide all others, so that they are drawn from the current state only.
    #[must_use]
    pub fn common(&self) -> Vec<(&'static str, &'static str)> {
        let mut common = Vec::new();
        for row in self.lifecycle.moves.iter().filter(|row| is_common(&self.lifecycle, row)) {
            if !common.contains(&(row.on, row.to)) {
                common.push((row.on, row.to));
            }
        }
        common
    }

    /// Draws for a page that has a style sheet: classes, and neither colours nor styles.
    #[must_use]
    pub fn for_page(&self, shown: Shown<'_>) -> String {
        svg::page(self, shown)
    }

    /// Draws for a file that stands alone.
    #[must_use]
    pub fn for_file(&self) -> String {
        svg::file(self)
    }

    /// The layout, with the common moves among the legal ones.
    fn laid(&self, legal: &[Numbered<'_>]) -> Layout {
        self.layout.with(legal.iter().map(|numbered| numbered.row))
    }
}

/// Draws several below each other, each under its name, for a file that stands alone.
#[must_use]
pub fn for_one_file(diagrams: &[&Diagram]) -> String {
    svg::sheet(diagrams)
}

/// Returns whether at least four fifths of the states that something leaves have this event, and to the same state.
fn is_common(lifecycle: &Lifecycle, row: &MoveView) -> bool {
    let left = lifecycle.states.iter().filter(|state| !state.terminal).count();
    let having = lifecycle.moves.iter().filter(|other| (other.on, other.to) == (row.on, row.to)).count();
    having >= 4 && having * 5 >= left * 4
}

#[cfg(test)]
mod tests;
