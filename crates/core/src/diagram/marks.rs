//! Marks: the numbers of the legal moves, each on its curve where it covers nothing else.

use super::{
    Numbered,
    geometry::{Point, Rect},
    layout::{Edge, Layout},
};

/// The radius of a mark.
pub(super) const RADIUS: f64 = 8.5;
/// How much of a curve stays to be seen between the middle of a mark and the tip of its arrow.
const TIP: f64 = RADIUS + 9.0;

/// The number of the moves along one curve.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) number: usize,
    pub(super) rect: Rect,
}

/// Finds a place for the number of every curve that has a legal move.
pub(super) fn marks(layout: &Layout, legal: &[Numbered<'_>]) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for edge in &layout.edges {
        if let Some(first) = number_of(layout, edge, legal) {
            let rect = place(layout, &marks, edge);
            marks.push(Mark { number: first.number, rect });
        }
    }
    marks
}

/// The first of the legal moves along a curve.
pub(super) fn number_of<'a>(
    layout: &Layout,
    edge: &Edge,
    legal: &'a [Numbered<'a>],
) -> Option<&'a Numbered<'a>> {
    let ends = (layout.boxes[edge.from].state, layout.boxes[edge.to].state);
    legal.iter().find(|numbered| (numbered.row.from, numbered.row.to) == ends)
}

/// The place along a curve that covers least, near its middle.
fn place(layout: &Layout, marks: &[Mark], edge: &Edge) -> Rect {
    let half = Point::new(RADIUS, RADIUS);
    let points = edge.curve.points();
    let middle = points.len() / 2;
    let cost = |at: usize| {
        let rect = Rect { middle: points[at], half };
        let covered =
            |margin| layout.boxes.iter().filter(move |place| place.rect.meets(&rect, margin)).count();
        let others = layout.edges.iter().filter(|other| !std::ptr::eq(*other, edge));
        let crossed =
            others.filter(|other| other.curve.points().iter().any(|&point| rect.has(point, 1.0))).count();
        let marked = marks.iter().filter(|mark| mark.rect.meets(&rect, 2.0)).count();
        let near_tip = points[at].distance(edge.curve.end) < TIP;
        covered(0.0) * 100_000
            + marked * 100_000
            + covered(4.0) * 300
            + usize::from(near_tip) * 200
            + crossed * 60
            + at.abs_diff(middle)
    };
    let best = (1..points.len() - 1).min_by_key(|&at| cost(at)).unwrap_or(middle);
    Rect { middle: points[best], half }
}
