//! Layout: where boxes and curves of a lifecycle go.
//!
//! The places of the states are data beside each table. The bends of the curves are searched: for each pair of
//! states the cheapest of fifteen, where hitting a box costs far more than crossing a curve, and crossing a
//! curve more than a bend. Equal tables give equal pictures.

use super::geometry::{Curve, Point, Rect, cross};
use crate::lifecycles::{MoveView, StateView};

/// The height of a box.
pub(super) const HEIGHT: f64 = 32.0;
/// The least width of a box.
const WIDTH: f64 = 112.0;
/// From the middle of a row to that of the next.
const ROW: f64 = 78.0;
/// The width that the columns of a diagram fill together, as far as the gaps between them allow it.
const FILL: f64 = 980.0;
/// The least and the largest gap between two columns.
const GAP: (f64, f64) = (28.0, 96.0);
/// How far two curves between the same two boxes, one each way, stay from the line between the middles.
const ASIDE: f64 = 9.0;
/// How near a curve may come to a box that it does not belong to.
const CLEAR: f64 = 6.0;
/// How far a curve may leave the grid at no cost.
const MARGIN: f64 = 24.0;
/// How near two curves look like one.
const CLOSE: f64 = 6.0;
/// More than the way between two sampled points of a curve.
const STEP: f64 = 60.0;
/// The height of a bend, as a share of the distance.
const BENDS: [f64; 15] =
    [0.0, 0.05, -0.05, 0.1, -0.1, 0.16, -0.16, 0.23, -0.23, 0.31, -0.31, 0.39, -0.39, 0.47, -0.47];
/// How often all curves are looked at again; the search ends earlier once nothing changes.
const ROUNDS: usize = 8;

/// One state's box.
#[derive(Debug, Clone)]
pub(super) struct Box {
    pub(super) state: &'static str,
    pub(super) rect: Rect,
}

/// All moves from one state to another, as one curve.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) curve: Curve,
    points: Vec<Point>,
    /// The box around the points.
    around: Rect,
}

/// A lifecycle with all places found.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) boxes: Vec<Box>,
    pub(super) edges: Vec<Edge>,
    /// Where two states have moves both ways, their curves stay apart.
    pairs: Vec<(usize, usize)>,
}

impl Layout {
    /// Finds the places of a lifecycle; states without a place are left out, with their moves.
    pub(super) fn new<'a>(states: &[StateView], moves: impl Iterator<Item = &'a MoveView>) -> Self {
        let mut layout = Self { boxes: boxes(states), edges: Vec::new(), pairs: Vec::new() };
        layout.add(moves);
        layout
    }

    /// The same picture with more moves, whose curves bend around those that are there.
    pub(super) fn with<'a>(&self, moves: impl Iterator<Item = &'a MoveView>) -> Self {
        let mut layout = self.clone();
        layout.add(moves);
        layout
    }

    fn add<'a>(&mut self, moves: impl Iterator<Item = &'a MoveView>) {
        let first = self.pairs.len();
        for row in moves {
            let place = |state| self.boxes.iter().position(|place| place.state == state);
            let (Some(from), Some(to)) = (place(row.from), place(row.to)) else { continue };
            if from != to && !self.pairs.contains(&(from, to)) {
                self.pairs.push((from, to));
            }
        }
        let bent = bent(&self.boxes, &self.edges, &self.pairs, first);
        self.edges.extend(bent);
    }

    /// The box around all that is drawn.
    pub(super) fn around(&self) -> Rect {
        let corners = self.boxes.iter().flat_map(|place| place.rect.corners());
        let curves = self.edges.iter().flat_map(|edge| edge.around.corners());
        Rect::around(&corners.chain(curves).collect::<Vec<_>>())
    }
}

fn boxes(states: &[StateView]) -> Vec<Box> {
    let placed = || states.iter().filter_map(|state| Some((state.name, state.place?)));
    let widest = placed().map(|(name, _)| width(name)).fold(0.0, f64::max);
    let width = (widest + 14.0).max(WIDTH).ceil();
    let last = placed().map(|(_, (column, _))| column).fold(0.0, f64::max);
    let gap = ((FILL - (last + 1.0) * width) / last.max(1.0)).clamp(GAP.0, GAP.1).floor();
    let half = Point::new(width / 2.0, HEIGHT / 2.0);
    placed()
        .map(|(state, (column, row))| Box {
            state,
            rect: Rect { middle: Point::new(column * (width + gap), row * ROW), half },
        })
        .collect()
}

/// The width of a name at 12 px, a little generous: browsers have different fonts.
pub(super) fn width(name: &str) -> f64 {
    let of = |letter: char| match letter {
        'i' | 'j' | 'l' | ',' | '.' | ' ' => 3.4,
        'f' | 'r' | 't' => 5.0,
        'm' | 'w' => 10.6,
        'A'..='Z' => 8.4,
        _ => 6.9,
    };
    name.chars().map(of).sum()
}

/// Bends the curves of all pairs from `first` on, each in view of all others, until all stay as they are.
fn bent(boxes: &[Box], fixed: &[Edge], pairs: &[(usize, usize)], first: usize) -> Vec<Edge> {
    let grid = Rect::around(&boxes.iter().flat_map(|place| place.rect.corners()).collect::<Vec<_>>());
    let candidates: Vec<Vec<(Edge, f64)>> = pairs[first..]
        .iter()
        .map(|&pair| {
            let candidate = |bend: f64| {
                let edge = edge(boxes, pairs, pair, bend);
                let passed = fixed.iter().map(|other| shared_cost(&edge, other)).sum::<f64>();
                let cost = own_cost(boxes, &grid, &edge, bend) + passed;
                (edge, cost)
            };
            BENDS.into_iter().map(candidate).collect()
        })
        .collect();
    let mut chosen = vec![0; candidates.len()];
    for _ in 0..ROUNDS {
        let before = chosen.clone();
        for (at, bends) in candidates.iter().enumerate() {
            let others = |one: &Edge| -> f64 {
                let others = candidates.iter().zip(&chosen).enumerate().filter(|(other, _)| *other != at);
                others.map(|(_, (bends, bend))| shared_cost(one, &bends[*bend].0)).sum()
            };
            let costs = bends.iter().map(|(edge, cost)| cost + others(edge)).enumerate();
            let cheapest = costs.reduce(|best, next| if next.1 < best.1 { next } else { best });
            chosen[at] = cheapest.map_or(0, |(bend, _)| bend);
        }
        if chosen == before {
            break;
        }
    }
    candidates.into_iter().zip(chosen).map(|(mut bends, bend)| bends.swap_remove(bend).0).collect()
}

fn edge(boxes: &[Box], pairs: &[(usize, usize)], (from, to): (usize, usize), bend: f64) -> Edge {
    let (start, end) = (boxes[from].rect, boxes[to].rect);
    let way = end.middle.minus(start.middle);
    let right = way.unit().right();
    let aside = if pairs.contains(&(to, from)) { right.times(ASIDE) } else { Point::new(0.0, 0.0) };
    // The control point of a quadratic curve is twice as far out as the curve comes.
    let control = start.middle.plus(way.times(0.5)).plus(right.times(2.0 * bend * way.length()));
    let whole =
        Curve { start: start.middle.plus(aside), control: control.plus(aside), end: end.middle.plus(aside) };
    let curve = whole.clipped(&start, &end);
    let points = curve.points();
    let around = Rect::around(&points);
    Edge { from, to, curve, points, around }
}

/// The cost of a curve by itself: boxes that it hits, its bend, and how far it leaves the grid.
fn own_cost(boxes: &[Box], grid: &Rect, edge: &Edge, bend: f64) -> f64 {
    let length = boxes[edge.to].rect.middle.distance(boxes[edge.from].rect.middle);
    let beyond = (edge.around.middle.y - grid.middle.y).abs() + edge.around.half.y - grid.half.y;
    f64::from(hits(boxes, edge)) * 100_000.0
        + bend.abs() * (length * 0.4 + 60.0)
        + (beyond - MARGIN).max(0.0) * 2.6
}

/// Counts the boxes that a curve hits; its own two only where it comes back to them.
pub(super) fn hits(boxes: &[Box], edge: &Edge) -> u32 {
    let hit = |(at, place): &(usize, &Box)| {
        let margin = if *at == edge.from || *at == edge.to { -1.0 } else { CLEAR };
        edge.points.iter().any(|&point| place.rect.has(point, margin))
    };
    u32::try_from(boxes.iter().enumerate().filter(hit).count()).unwrap_or(u32::MAX)
}

/// The cost of two curves together: where they cross, and how long they run so close that they look like one.
fn shared_cost(one: &Edge, other: &Edge) -> f64 {
    if !one.around.meets(&other.around, CLOSE) {
        return 0.0;
    }
    let (mut crossings, mut close) = (0_u32, 0.0);
    for (mine, step) in one.points.iter().zip(one.points.windows(2)) {
        if !other.around.has(*mine, STEP) {
            continue;
        }
        let crossed =
            other.points.windows(2).filter(|theirs| cross([step[0], step[1]], [theirs[0], theirs[1]]));
        crossings += crossed.map(|_| 1).sum::<u32>();
        if other.points.iter().any(|theirs| theirs.distance(*mine) < CLOSE) {
            close += step[0].distance(step[1]);
        }
    }
    // Two curves that cross are close for a moment.
    f64::from(crossings) * 30.0 + (close - 2.0 * CLOSE).max(0.0)
}
