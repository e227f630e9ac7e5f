//! SVG: a layout written down, with classes for pages or with colours for files.

use std::fmt::Write as _;

use super::{
    Diagram, Numbered, Shown,
    geometry::Point,
    layout::{Box, Edge, Layout},
    marks::{Mark, RADIUS, marks, number_of},
};
use crate::{
    lifecycles::{Lifecycle, StateView},
    tone::Tone,
};

/// The space around everything.
const MARGIN: f64 = 8.0;
/// The height of a name above a diagram.
const TITLE: f64 = 34.0;
/// The height of the line below a diagram.
const NOTE: f64 = 22.0;
/// How a name above a diagram looks, and the line below it.
const HEADING: &str = r##" font-size="15" font-weight="600" fill="#6b7b8c""##;
const NOTES: &str = r##" font-size="12" text-anchor="middle" fill="#6b7b8c""##;
/// The length of the head of an arrow, and half of its width.
const HEAD: (f64, f64) = (8.0, 3.6);

/// Where the colours come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// From a style sheet, by classes.
    Classes,
    /// From attributes: middle greys for lines, and boxes with grounds of their own, legible on light and on dark.
    Colours,
}

/// Writes a document for a page.
pub(super) fn page(diagram: &Diagram, shown: Shown<'_>) -> String {
    let current = shown.current.filter(|current| diagram.lifecycle.state(current).is_some());
    let shown = Shown { current, ..shown };
    let legal = current.map(|current| diagram.numbered(current, shown.events)).unwrap_or_default();
    let layout = diagram.laid(&legal);
    let [first, last] = layout.around().corners();
    let (corner, size) = extent(first, last);
    let mut out = open(corner, size, Look::Classes, &label(&diagram.lifecycle, shown));
    write(&mut out, diagram, &layout, &legal, shown, Look::Classes);
    out + "</svg>\n"
}

/// Writes a document that stands alone.
pub(super) fn file(diagram: &Diagram) -> String {
    let (body, size) = standing(diagram);
    open(Point::new(0.0, 0.0), size, Look::Colours, &label(&diagram.lifecycle, Shown::default()))
        + &body
        + "</svg>\n"
}

/// Writes a document with several lifecycles below each other.
pub(super) fn sheet(diagrams: &[&Diagram]) -> String {
    let drawn: Vec<_> = diagrams.iter().map(|diagram| (diagram.lifecycle.name, standing(diagram))).collect();
    let wide = drawn.iter().map(|(_, (_, size))| size.x).fold(0.0, f64::max);
    let (mut body, mut y) = (String::new(), 0.0);
    for (name, (diagram, size)) in &drawn {
        text(&mut body, "", Point::new(MARGIN, y + TITLE - 12.0), name, HEADING);
        let aside = short(((wide - size.x) / 2.0).floor());
        body += &format!("<g transform=\"translate({aside} {})\">\n{diagram}</g>\n", short(y + TITLE));
        y += TITLE + size.y;
    }
    let names: Vec<_> = drawn.iter().map(|(name, _)| *name).collect();
    let label = format!("Lifecycles: {}", names.join(", "));
    open(Point::new(0.0, 0.0), Point::new(wide, y), Look::Colours, &label) + &body + "</svg>\n"
}

/// Draws with colours, from the point 0,0 on, and says below which moves are not drawn; with the size.
fn standing(diagram: &Diagram) -> (String, Point) {
    let [first, last] = diagram.layout.around().corners();
    let (corner, mut size) = extent(first, last);
    let mut out = format!("<g transform=\"translate({} {})\">\n", short(-corner.x), short(-corner.y));
    write(&mut out, diagram, &diagram.layout, &[], Shown::default(), Look::Colours);
    out += "</g>\n";
    if let Some(note) = note(diagram) {
        size.y += NOTE;
        text(&mut out, "", Point::new(size.x / 2.0, size.y - NOTE / 2.0), &note, NOTES);
    }
    (out, size)
}

/// Names the moves that are not drawn.
fn note(diagram: &Diagram) -> Option<String> {
    let common = diagram.common();
    let mut targets: Vec<&str> = common.iter().map(|(_, to)| *to).collect();
    targets.dedup();
    let of = |target: &&str| {
        let events: Vec<_> = common.iter().filter(|(_, to)| to == target).map(|(on, _)| *on).collect();
        format!("{} → {target}", events.join(", "))
    };
    let targets: Vec<_> = targets.iter().map(of).collect();
    (!targets.is_empty()).then(|| format!("From most states, and not drawn: {}", targets.join(" · ")))
}

/// The corner at the top left with its margin, and the size.
fn extent(first: Point, last: Point) -> (Point, Point) {
    let margin = Point::new(MARGIN, MARGIN);
    let corner = first.minus(margin).floor();
    (corner, last.plus(margin).minus(corner).floor())
}

fn open(corner: Point, size: Point, look: Look, label: &str) -> String {
    let (x, y, wide, high) = (short(corner.x), short(corner.y), short(size.x), short(size.y));
    let look = match look {
        Look::Classes => r#"class="diagram""#,
        Look::Colours => {
            r#"xmlns="http://www.w3.org/2000/svg" font-family="Inter, system-ui, -apple-system, 'Segoe UI', sans-serif""#
        }
    };
    format!(
        "<svg {look} viewBox=\"{x} {y} {wide} {high}\" width=\"{wide}\" height=\"{high}\" role=\"img\" aria-label=\"{label}\">\n"
    )
}

/// The sentence for readers without the picture; the list of moves says the rest.
fn label(lifecycle: &Lifecycle, shown: Shown<'_>) -> String {
    let (states, moves) = (lifecycle.states.len(), lifecycle.moves.len());
    let whole = format!("Lifecycle {}: {states} states, {moves} moves", lifecycle.name);
    shown.current.map_or_else(
        || whole.clone(),
        |current| format!("{whole}; {current} is current, and its moves are numbered"),
    )
}

fn write(
    out: &mut String,
    diagram: &Diagram,
    layout: &Layout,
    legal: &[Numbered<'_>],
    shown: Shown<'_>,
    look: Look,
) {
    let current = shown.current;
    // Legal moves lie above the others, boxes above all curves.
    for pass in [false, true] {
        for edge in layout.edges.iter().filter(|edge| number_of(layout, edge, legal).is_some() == pass) {
            write_edge(out, edge, pass, look);
        }
    }
    for place in &layout.boxes {
        if let Some(state) = diagram.lifecycle.state(place.state) {
            let count = shown.counts.iter().find(|(name, _)| *name == state.name).map(|(_, count)| *count);
            write_box(out, place, state, current == Some(state.name), count, look);
        }
    }
    for mark in marks(layout, legal) {
        write_mark(out, &mark);
    }
}

fn write_edge(out: &mut String, edge: &Edge, legal: bool, look: Look) {
    let (curve, back) = (&edge.curve, edge.curve.direction().times(-HEAD.0));
    let (tip, base) = (curve.end, curve.end.plus(back));
    let side = curve.direction().right().times(HEAD.1);
    let (line, head) = match (look, legal) {
        (Look::Classes, false) => (r#"class="edge""#, r#"class="tip""#),
        (Look::Classes, true) => (r#"class="edge legal""#, r#"class="tip legal""#),
        (Look::Colours, _) => (r##"fill="none" stroke="#8390a0""##, r##"fill="#8390a0""##),
    };
    let _ = writeln!(
        out,
        "<path {line} d=\"M{} Q{} {}\"/><path {head} d=\"M{} L{} L{}Z\"/>",
        pair(curve.start),
        pair(curve.control),
        pair(base),
        pair(tip),
        pair(base.plus(side)),
        pair(base.minus(side)),
    );
}

fn write_box(
    out: &mut String,
    place: &Box,
    state: &StateView,
    current: bool,
    count: Option<u64>,
    look: Look,
) {
    let (corner, size) = (place.rect.middle.minus(place.rect.half), place.rect.half.times(2.0));
    let style = match look {
        Look::Classes => format!("class=\"{}\"", classes(state, current)),
        Look::Colours => colours(state),
    };
    let _ = writeln!(
        out,
        "<rect {style} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/>",
        short(corner.x),
        short(corner.y),
        short(size.x),
        short(size.y),
    );
    let below = |y| place.rect.middle.plus(Point::new(0.0, y));
    let (name, number) = match look {
        Look::Classes => (if current { "name current" } else { "name" }, ""),
        Look::Colours => ("", r##" font-size="12" font-weight="500" text-anchor="middle""##),
    };
    let ink = if look == Look::Colours {
        format!("{number} fill=\"{}\"", ink(state.tone).0)
    } else {
        String::new()
    };
    // A name alone stands in the middle; with a count both share the box.
    match count.filter(|count| *count > 0) {
        None => text(out, name, below(4.0), state.name, &ink),
        Some(count) => {
            text(out, name, below(-2.5), state.name, &ink);
            text(out, "count", below(11.0), &grouped(count), "");
        }
    }
}

fn classes(state: &StateView, current: bool) -> String {
    let mut classes = String::from("state");
    for (class, holds) in [("service", state.service), ("end", state.terminal)] {
        if holds {
            classes = classes + " " + class;
        }
    }
    if current { format!("{classes} current t-{}", state.tone) } else { classes }
}

/// A box with a ground of its own: its ink is legible on it whatever lies behind the picture.
fn colours(state: &StateView) -> String {
    let (_, ground, line) = ink(state.tone);
    let dashed = if state.terminal { r#" stroke-dasharray="4 3""# } else { "" };
    let width = if state.service { "2" } else { "1.25" };
    format!("fill=\"{ground}\" stroke=\"{line}\" stroke-width=\"{width}\"{dashed}")
}

/// Ink, ground and line of a tone, as in the console by day.
const fn ink(tone: Tone) -> (&'static str, &'static str, &'static str) {
    match tone {
        Tone::Good => ("#14683b", "#e4f4ea", "#2f9a62"),
        Tone::Work => ("#1a559e", "#e6effb", "#4584d3"),
        Tone::Wait => ("#5a428f", "#efeaf9", "#8b70d2"),
        Tone::Warn => ("#824800", "#fdf1de", "#c37a10"),
        Tone::Bad => ("#a31b1b", "#fde9e7", "#d0443a"),
        Tone::Held => ("#85275f", "#fae8f2", "#b84f8c"),
        Tone::Over | Tone::Unknown => ("#4c5866", "#ebeef2", "#8491a0"),
    }
}

fn write_mark(out: &mut String, mark: &Mark) {
    let (x, y) = (short(mark.rect.middle.x), short(mark.rect.middle.y));
    let _ = writeln!(out, "<circle class=\"mark\" cx=\"{x}\" cy=\"{y}\" r=\"{RADIUS}\"/>");
    text(out, "number", mark.rect.middle.plus(Point::new(0.0, 3.8)), &mark.number.to_string(), "");
}

fn text(out: &mut String, class: &str, at: Point, text: &str, attributes: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let (x, y) = (short(at.x), short(at.y));
    let _ = writeln!(out, "<text{class} x=\"{x}\" y=\"{y}\"{attributes}>{text}</text>");
}

fn pair(point: Point) -> String {
    format!("{} {}", short(point.x), short(point.y))
}

/// A length with at most one decimal.
fn short(length: f64) -> String {
    let tenths = (length * 10.0).round() / 10.0;
    // Negative zero is zero.
    format!("{}", tenths + 0.0)
}

/// `1,204`
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
