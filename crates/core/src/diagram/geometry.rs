//! Geometry: points, boxes and quadratic curves, as far as a diagram needs them.

/// A point, or the way from one point to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    pub(super) const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self::new(self.x + other.x, self.y + other.y)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self::new(self.x - other.x, self.y - other.y)
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self::new(self.x * factor, self.y * factor)
    }

    pub(super) fn floor(self) -> Self {
        Self::new(self.x.floor(), self.y.floor())
    }

    pub(super) fn length(self) -> f64 {
        (self.x * self.x + self.y * self.y).sqrt()
    }

    pub(super) fn distance(self, other: Self) -> f64 {
        self.minus(other).length()
    }

    /// The same direction, of length one.
    pub(super) fn unit(self) -> Self {
        self.times(1.0 / self.length().max(f64::MIN_POSITIVE))
    }

    /// A quarter turn to the right, as seen on a screen.
    pub(super) fn right(self) -> Self {
        Self::new(-self.y, self.x)
    }

    fn between(self, other: Self, share: f64) -> Self {
        self.times(1.0 - share).plus(other.times(share))
    }
}

/// A box, by its middle and half of its sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) middle: Point,
    pub(super) half: Point,
}

impl Rect {
    /// The box around some points.
    pub(super) fn around(points: &[Point]) -> Self {
        let least = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        let first = Point::new(least(|at| at.x), least(|at| at.y));
        let last = Point::new(most(|at| at.x), most(|at| at.y));
        Self { middle: first.between(last, 0.5), half: last.minus(first).times(0.5) }
    }

    /// The corners at the top left and at the bottom right.
    pub(super) fn corners(&self) -> [Point; 2] {
        [self.middle.minus(self.half), self.middle.plus(self.half)]
    }

    /// Returns whether a point is inside, or nearer than the margin; a negative margin shrinks the box.
    pub(super) fn has(&self, point: Point, margin: f64) -> bool {
        let way = point.minus(self.middle);
        way.x.abs() < self.half.x + margin && way.y.abs() < self.half.y + margin
    }

    /// Returns whether two boxes are nearer to each other than the margin.
    pub(super) fn meets(&self, other: &Self, margin: f64) -> bool {
        Self { middle: self.middle, half: self.half.plus(other.half) }.has(other.middle, margin)
    }
}

/// A quadratic curve: where it starts, where it is drawn to, where it ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Curve {
    pub(super) start: Point,
    pub(super) control: Point,
    pub(super) end: Point,
}

/// How finely a curve is looked at.
const SAMPLES: u32 = 32;

impl Curve {
    /// The point at a share of the way.
    pub(super) fn at(&self, share: f64) -> Point {
        self.start.between(self.control, share).between(self.control.between(self.end, share), share)
    }

    /// The direction at the end.
    pub(super) fn direction(&self) -> Point {
        self.end.minus(self.control).unit()
    }

    /// Points along the curve, its ends among them.
    pub(super) fn points(&self) -> Vec<Point> {
        (0..=SAMPLES).map(|step| self.at(f64::from(step) / f64::from(SAMPLES))).collect()
    }

    /// The part of the curve between two shares of the way, which is a quadratic curve too.
    fn part(&self, from: f64, to: f64) -> Self {
        let control =
            self.start.between(self.control, from).between(self.control.between(self.end, from), to);
        Self { start: self.at(from), control, end: self.at(to) }
    }

    /// The part outside of the two boxes that it leads from and to.
    pub(super) fn clipped(&self, from: &Rect, to: &Rect) -> Self {
        // Both boxes hold their end of the curve, so that a bisection finds where it leaves them.
        let edge = |rect: &Rect, inside: f64, outside: f64| {
            let (mut inside, mut outside) = (inside, outside);
            for _ in 0..30 {
                let middle = f64::midpoint(inside, outside);
                if rect.has(self.at(middle), 0.0) { inside = middle } else { outside = middle }
            }
            outside
        };
        self.part(edge(from, 0.0, 0.5), edge(to, 1.0, 0.5))
    }
}

/// Returns whether two stretches cross.
pub(super) fn cross(one: [Point; 2], other: [Point; 2]) -> bool {
    let side = |from: Point, to: Point, of: Point| {
        (to.x - from.x) * (of.y - from.y) - (to.y - from.y) * (of.x - from.x) > 0.0
    };
    let ([a, b], [c, d]) = (one, other);
    side(a, b, c) != side(a, b, d) && side(c, d, a) != side(c, d, b)
}

#[cfg(test)]
mod tests {
    use super::{Curve, Point, Rect, cross};

    const fn point(x: f64, y: f64) -> Point {
        Point::new(x, y)
    }

    #[test]
    fn stretches_cross_only_where_both_have_a_point() {
        let flat = [point(0.0, 0.0), point(10.0, 0.0)];
        assert!(cross(flat, [point(5.0, -5.0), point(5.0, 5.0)]));
        assert!(!cross(flat, [point(15.0, -5.0), point(15.0, 5.0)]));
        assert!(!cross(flat, [point(5.0, 1.0), point(5.0, 5.0)]));
    }

    #[test]
    fn a_curve_is_clipped_at_the_edges_of_its_boxes() {
        let half = point(10.0, 5.0);
        let from = Rect { middle: point(0.0, 0.0), half };
        let to = Rect { middle: point(100.0, 0.0), half };
        let straight = Curve { start: from.middle, control: point(50.0, 0.0), end: to.middle };
        let clipped = straight.clipped(&from, &to);
        assert!(clipped.start.distance(point(10.0, 0.0)) < 1e-6);
        assert!(clipped.end.distance(point(90.0, 0.0)) < 1e-6);
        assert!(clipped.direction().distance(point(1.0, 0.0)) < 1e-6);

        // A bent one keeps its course.
        let bent = Curve { control: point(50.0, 40.0), ..straight };
        let clipped = bent.clipped(&from, &to);
        assert!(clipped.at(0.5).distance(point(50.0, 20.0)) < 1e-6, "{clipped:?}");
    }

    #[test]
    fn boxes_meet_within_the_margin() {
        let half = point(10.0, 5.0);
        let one = Rect { middle: point(0.0, 0.0), half };
        let other = Rect { middle: point(22.0, 0.0), half };
        assert!(!one.meets(&other, 1.0) && one.meets(&other, 3.0));
    }
}
