use super::{
    Diagram, Shown, all, for_one_file,
    geometry::Rect,
    layout::{Layout, hits},
    marks::marks,
    of,
};
use crate::lifecycles;

/// A new state without a place fails here, before a user misses it in a picture.
#[test]
fn every_state_of_every_lifecycle_has_a_place() {
    let lifecycles = lifecycles::all();
    for lifecycle in &lifecycles {
        assert!(of(lifecycle.name).is_some(), "{}", lifecycle.name);
        for state in &lifecycle.states {
            assert!(state.place.is_some(), "give {} of {} a line in PLACES", state.name, lifecycle.name);
        }
    }
    assert_eq!(all().len(), lifecycles.len());
}

#[test]
fn no_two_boxes_overlap() {
    for Diagram { lifecycle, layout } in all() {
        for (at, one) in layout.boxes.iter().enumerate() {
            for other in &layout.boxes[at + 1..] {
                let both = (one.state, other.state);
                assert!(!one.rect.meets(&other.rect, 20.0), "{}: {both:?} overlap or touch", lifecycle.name);
            }
        }
    }
}

/// Each state as the current one, which adds its common moves; and none.
fn situations() -> impl Iterator<Item = (&'static Diagram, Option<&'static str>)> {
    all().iter().flat_map(|diagram| {
        let states = diagram.lifecycle.states.iter().map(|state| Some(state.name));
        std::iter::once(None).chain(states).map(move |current| (diagram, current))
    })
}

/// The layout of a situation, with all moves of the state.
fn laid(diagram: &Diagram, current: Option<&str>) -> Layout {
    diagram.laid(&current.map(|current| diagram.numbered(current, None)).unwrap_or_default())
}

#[test]
fn no_curve_hits_a_box() {
    for (diagram, current) in situations() {
        let layout = laid(diagram, current);
        for edge in &layout.edges {
            let ends = (layout.boxes[edge.from].state, layout.boxes[edge.to].state);
            assert_eq!(hits(&layout.boxes, edge), 0, "{}, {current:?}: {ends:?}", diagram.lifecycle.name);
        }
    }
}

#[test]
fn every_move_has_one_curve_unless_it_is_common_and_its_state_is_not_current() {
    for (diagram, current) in situations() {
        let (layout, common) = (laid(diagram, current), diagram.common());
        for row in &diagram.lifecycle.moves {
            let ends = |at: usize| layout.boxes[at].state;
            let drawn =
                layout.edges.iter().filter(|edge| (ends(edge.from), ends(edge.to)) == (row.from, row.to));
            let (drawn, needed) =
                (drawn.count(), Some(row.from) == current || !common.contains(&(row.on, row.to)));
            assert!(drawn == 1 || (drawn == 0 && !needed), "{} {} {current:?}: {drawn}", row.from, row.on);
        }
    }
}

#[test]
fn moves_that_most_states_have_are_common() {
    let common = |name| of(name).unwrap().common();
    assert_eq!(common("node"), [("retire", "retired")]);
    assert_eq!(common("gpu-node"), []);
    assert_eq!(common("device-update"), []);
}

#[test]
fn every_legal_move_is_numbered_and_listed() {
    for (diagram, current) in situations() {
        let Some(current) = current else { continue };
        let listed = diagram.numbered(current, None);
        let moves: Vec<_> = diagram.lifecycle.moves.iter().filter(|row| row.from == current).collect();
        assert_eq!(listed.len(), moves.len(), "{current} of {}", diagram.lifecycle.name);
        assert!(moves.iter().all(|row| listed.iter().any(|numbered| numbered.row.on == row.on)));
        // The preferred move is the first of the list, as it is in the table.
        assert_eq!(listed.first().map(|first| first.row.on), moves.first().map(|row| row.on));

        // The number in the list is the one on the curve to the same state.
        let layout = laid(diagram, Some(current));
        let mut drawn: Vec<_> =
            marks(&layout, &diagram.numbered(current, None)).iter().map(|mark| mark.number).collect();
        drawn.sort_unstable();
        let mut numbers: Vec<_> = listed.iter().map(|numbered| numbered.number).collect();
        numbers.dedup();
        assert_eq!(drawn, numbers, "{current} of {}", diagram.lifecycle.name);
        for pair in listed.windows(2) {
            assert_eq!(pair[0].number == pair[1].number, pair[0].row.to == pair[1].row.to);
        }
    }
}

/// What cannot happen to this one member has no number, in the list and in the picture.
#[test]
fn only_the_events_that_can_happen_are_numbered() {
    let run = of("run").unwrap();
    let events = ["finish", "cancel_and_undo", "restart_and_undo"];
    let listed = run.numbered("running", Some(&events));
    let listed: Vec<_> = listed.iter().map(|one| (one.number, one.row.on)).collect();
    assert_eq!(listed, [(1, "finish"), (2, "cancel_and_undo"), (2, "restart_and_undo")]);
    let svg = run.for_page(Shown { current: Some("running"), events: Some(&events), counts: &[] });
    assert_eq!((svg.matches("class=\"mark\"").count(), svg.matches("edge legal").count()), (2, 2));
}

#[test]
fn no_number_covers_a_box_or_another_number() {
    for (diagram, current) in situations() {
        let Some(current) = current else { continue };
        let layout = laid(diagram, Some(current));
        let marks = marks(&layout, &diagram.numbered(current, None));
        for (at, mark) in marks.iter().enumerate() {
            let covers = |rect: &Rect| rect.meets(&mark.rect, 0.0);
            assert!(
                !layout.boxes.iter().any(|place| covers(&place.rect)),
                "{current}: {} covers a box",
                mark.number
            );
            let other = marks[at + 1..].iter().find(|other| covers(&other.rect));
            assert!(other.is_none(), "{current}: {} covers {other:?}", mark.number);
        }
    }
}

/// The console's policy forbids styles, and a page has many diagrams: no style, no colour, no id.
#[test]
fn a_diagram_for_a_page_has_classes_only() {
    for (diagram, current) in situations() {
        let counts = current.map(|current| (current, 1204));
        let draw = || diagram.for_page(Shown { current, counts: counts.as_slice(), events: None });
        let svg = draw();
        for forbidden in ["style", "fill=", "stroke", "id=", "#"] {
            assert!(!svg.contains(forbidden), "{forbidden} in {svg}");
        }
        assert_eq!(svg.contains(">1,204</text>"), current.is_some());
        assert_eq!(svg.contains(" current t-"), current.is_some());
        assert_eq!(svg, draw(), "equal tables give equal pictures");
    }
}

#[test]
fn an_unknown_state_is_current_nowhere() {
    let svg = all()[0].for_page(Shown { current: Some("<nothing>"), ..Shown::default() });
    assert!(!svg.contains("mark") && !svg.contains("legal") && !svg.contains("nothing"), "{svg}");
}

#[test]
fn a_file_stands_alone() {
    for diagram in all() {
        let svg = diagram.for_file();
        assert!(
            svg.starts_with("<svg xmlns=") && !svg.contains("class=") && !svg.contains("style="),
            "{svg}"
        );
        for state in &diagram.lifecycle.states {
            assert!(svg.contains(&format!(">{}</text>", state.name)), "{} of {svg}", state.name);
        }
        for (on, _) in diagram.common() {
            assert!(svg.contains(on), "{on} is not drawn and not named: {svg}");
        }
    }
    let sheet = for_one_file(&all().iter().collect::<Vec<_>>());
    assert_eq!(sheet.matches("<svg").count(), 1);
    for diagram in all() {
        assert!(sheet.contains(&format!(">{}</text>", diagram.lifecycle.name)));
    }
}
