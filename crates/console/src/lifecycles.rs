//! The lifecycles as pictures, drawn from the tables that the server decides by.

use maud::{Markup, PreEscaped, html};
use wardroom_core::{
    Named as _,
    diagram::{Diagram, Shown},
    lifecycles::{MoveView, PlanView},
};

use crate::{
    detail::label,
    form,
    part::{count, state},
    text::{prose, text},
};

/// A lifecycle as it is shown.
#[derive(Debug)]
pub struct Lifecycle {
    /// The picture.
    pub diagram: &'static Diagram,
    /// What its subjects are called.
    pub title: String,
    /// Where they are listed.
    pub segment: Option<&'static str>,
    /// How many are in which state.
    pub counts: Vec<(String, u64)>,
}

impl Lifecycle {
    fn name(&self) -> &'static str {
        self.diagram.lifecycle.name
    }

    fn path(&self, state: &str) -> String {
        let state = form::query([("state", state)].into_iter().filter(|(_, state)| !state.is_empty()));
        format!("/console/lifecycles/{}{state}", self.name())
    }

    fn figure(&self, current: Option<&str>) -> Markup {
        let counts: Vec<_> = self.counts.iter().map(|(state, count)| (&**state, *count)).collect();
        figure(self.diagram, Shown { current, counts: &counts, events: None })
    }

    fn size(&self) -> String {
        let lifecycle = &self.diagram.lifecycle;
        format!("{} states, {} moves", lifecycle.states.len(), lifecycle.moves.len())
    }
}

/// A picture in a box that scrolls by itself where it is too wide.
#[must_use]
pub fn figure(diagram: &Diagram, shown: Shown<'_>) -> Markup {
    html! {
        div .scroll.figure tabindex="0" role="region" aria-label={ "Diagram of " (diagram.lifecycle.name) } {
            (PreEscaped(diagram.for_page(shown)))
        }
    }
}

/// All lifecycles.
#[must_use]
pub fn all(lifecycles: &[Lifecycle]) -> Markup {
    html! {
        div .head { div {
            h1 { "Lifecycles" }
            p .quiet.small { "Drawn from the tables the server decides by. Dashed: the end of a life. Green outline: in service. Numbers: how many are there now." }
        } }
        @for one in lifecycles {
            section .card {
                header {
                    h2 { a href=(one.path("")) { (one.title) } }
                    span .quiet.small { (one.size()) }
                    (listed(one))
                }
                (one.figure(None))
                (common(one))
            }
        }
    }
}

fn listed(one: &Lifecycle) -> Markup {
    html! { @if let Some(segment) = one.segment { a .right href={ "/console/" (segment) } { "As a list" } } }
}

/// The moves that most states have, and that the picture leaves out.
fn common(one: &Lifecycle) -> Markup {
    let common = one.diagram.common();
    html! {
        @if !common.is_empty() {
            p .in.small.quiet {
                "From most states, and drawn from the chosen one only: "
                @for (at, (on, to)) in common.iter().enumerate() {
                    @if at > 0 { ", " }
                    span .mono { (on) } " → " (to)
                }
                "."
            }
        }
    }
}

/// One lifecycle, with the moves of a state.
#[must_use]
pub fn one(shown: &Lifecycle, current: Option<&str>, plans: &[PlanView]) -> Markup {
    let lifecycle = &shown.diagram.lifecycle;
    let meaning = current.and_then(|current| lifecycle.state(current)).map(|state| state.meaning);
    html! {
        div .head { div {
            p .crumb { a href="/console/lifecycles" { "Lifecycles" } }
            h1 { (shown.title) }
            p .quiet.small { (shown.size()) ". Choose a state to see what can happen there." }
        } }
        nav .chips aria-label="States" {
            @for one in &lifecycle.states {
                @let count = shown.counts.iter().find(|(state, _)| state == one.name).map_or(0, |(_, count)| *count);
                a href=(shown.path(one.name)) aria-current=[(Some(one.name) == current).then_some("true")] {
                    (crate::icon::of(one.tone)) (one.name)
                    @if count > 0 { b { (self::count(i64::try_from(count).unwrap_or(i64::MAX))) } }
                }
            }
        }
        section .card {
            header {
                h2 { @match current { Some(current) => { "From " (current) }, None => { "States and moves" } } }
                @if let Some(meaning) = meaning { span .quiet.small { (prose(meaning)) } }
                (listed(shown))
            }
            (shown.figure(current))
            @match current {
                Some(current) => { (moves(shown, current)) },
                None => { (common(shown)) },
            }
        }
        @for plan in plans { (stages(plan)) }
    }
}

fn moves(shown: &Lifecycle, current: &str) -> Markup {
    let numbered = shown.diagram.numbered(current, None);
    html! {
        @if numbered.is_empty() {
            p .in.quiet { "No move leaves this state." }
        } @else {
            table .cards.moves {
                thead .unseen { tr { th { "Number" } th { "Event" } th { "Leads to" } th { "When" } th { "By" } } }
                tbody { @for one in numbered { (row(shown.name(), one.number, one.row)) } }
            }
        }
    }
}

fn row(name: &str, number: usize, row: &MoveView) -> Markup {
    html! {
        tr {
            td { span .ball { (number) } }
            td .mono { (text(row.on)) }
            td { (state(name, row.to)) }
            td { (prose(row.when)) @if let Some(reason) = row.reason { p .hint { (prose(reason)) } } }
            td {
                span .quiet.small {
                    @match row.call {
                        Some(call) => { "needs " (call.role) },
                        None => { (row.by) " does this" },
                    }
                }
            }
        }
    }
}

fn stages(plan: &PlanView) -> Markup {
    html! {
        section .card {
            header { h2 { (label(plan.kind.as_str())) } span .quiet.small { (prose(plan.meaning)) } }
            table .cards {
                thead { tr { th scope="col" { "Stage" } th scope="col" { "What it does" } th scope="col" { "When" } th .num scope="col" { "Patience" } } }
                tbody { @for step in plan.steps {
                    tr {
                        th .mono scope="row" { (step.stage) }
                        td { (prose(step.stage.meaning())) }
                        td .quiet { (prose(step.when.meaning())) }
                        td .num { (wardroom_core::why::length(plan.kind.patience_at(step.stage))) }
                    }
                } }
            }
        }
    }
}
