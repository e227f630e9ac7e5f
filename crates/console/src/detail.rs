//! The page of one member: why it is where it is, before what it is.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use wardroom_api::{
    Problem,
    action::Action,
    client::{Exit, Explained, Why},
    history::Row,
};
use wardroom_core::{
    diagram::{self, Diagram, Numbered, Shown},
    tone::{self, Tone},
};

use crate::{
    command,
    face::{Cell, Face, Fact, Layer, Layers, Member, Panel, Seen},
    form,
    icon::{self, Class as _, icon},
    lifecycles::figure,
    part::{self, badge, cell, chip, state},
    problem,
    text::{block, prose, text},
    time,
};

mod timeline;

use timeline::timeline;

/// A member as its page shows it.
#[derive(Debug, Clone)]
pub struct Detail<'a> {
    /// Its kind.
    pub face: &'a Face,
    /// Its head.
    pub member: Member,
    /// The member as the API answers it.
    pub json: Value,
    /// Which tab is shown.
    pub tab: Tab,
    /// Why it is in its state; nothing where the server does not explain it.
    pub why: Option<Explained>,
    /// What is known of it.
    pub facts: Vec<Fact>,
    /// Three of its layers.
    pub layers: Layers,
    /// What only its kind has.
    pub panels: Vec<Panel>,
    /// Its newest history.
    pub history: Vec<Row>,
    /// The cursor of older history.
    pub older: Option<String>,
    /// The newest history could not be read, because of the caller's role.
    pub hides_history: bool,
    /// What can be asked of it.
    pub offers: Vec<Offer>,
    /// The role of the caller.
    pub role: String,
    /// Why a part of the page is missing.
    pub unread: Vec<Problem>,
    /// An action that was just taken.
    pub done: Option<String>,
    /// The time of the server.
    pub now: Timestamp,
}

/// The tabs of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// What is now.
    Now,
    /// What was.
    History,
    /// How it is selected.
    Labels,
    /// What the API says.
    Json,
}

impl Tab {
    /// The tab of a part of a path.
    #[must_use]
    pub fn of(part: &str) -> Option<Self> {
        [Self::Now, Self::History, Self::Labels, Self::Json].into_iter().find(|tab| tab.segment() == part)
    }

    const fn segment(self) -> &'static str {
        match self {
            Self::Now => "",
            Self::History => "history",
            Self::Labels => "labels",
            Self::Json => "json",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::History => "History",
            Self::Labels => "Labels",
            Self::Json => "JSON",
        }
    }
}

/// An action that can be asked for, or the reason why not.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The action as the API gives it.
    pub action: Action,
    /// Names it among the actions of its resource.
    pub key: String,
    /// The path of its form; nothing if the caller's role does not suffice.
    pub path: Option<String>,
    /// What it does.
    pub effect: String,
}

impl Offer {
    /// Whether the caller may do it now.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.action.possible && self.path.is_some()
    }
}

/// What a button says: `retry_stage` is `Retry stage`.
#[must_use]
pub fn label(verb: &str) -> String {
    let words = verb.replace('_', " ");
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// What the button of an action says: its verb, and what it makes where it makes something.
#[must_use]
pub fn words(action: &Action) -> String {
    let made =
        if action.action == "create" { format!("create {}", action.kind) } else { action.action.clone() };
    label(&made.replace('-', " "))
}

/// The page.
#[must_use]
pub fn page(detail: &Detail<'_>) -> Markup {
    html! {
        (head(detail))
        @if let Some(done) = &detail.done {
            (part::banner(Tone::Good, &html! { p role="status" { b { (text(&label(done))) } " was accepted. History has it with your name." } }))
        }
        @for problem in &detail.unread { (problem::banner(problem)) }
        (tabs(detail))
        @match detail.tab {
            Tab::Now => { (now(detail)) },
            Tab::History => { (timeline(detail, "History")) },
            Tab::Labels => { (labels(detail)) },
            Tab::Json => { (json(&detail.json)) },
        }
    }
}

fn head(detail: &Detail<'_>) -> Markup {
    let member = &detail.member;
    html! {
        div .head {
            div {
                p .crumb { a href={ "/console/" (detail.face.segment) } { (detail.face.many) } }
                div .name {
                    h1 { (text(&member.name)) }
                    span #state { @if !member.state.is_empty() { (state(detail.face.kind, &member.state)) } }
                    @if member.deleted { (badge(Tone::Over, "deleted")) }
                    @for one in member.chips.iter().take(2) { (chip(one)) }
                }
                @if member.id != member.name { p .mono.quiet { (text(&member.id)) } }
            }
        }
    }
}

fn tabs(detail: &Detail<'_>) -> Markup {
    let base = detail.face.page(&detail.member.key);
    html! {
        nav .tabs aria-label="Parts of this page" {
            @for tab in [Tab::Now, Tab::History, Tab::Labels, Tab::Json] {
                @let path = if tab == Tab::Now { base.clone() } else { format!("{base}/{}", tab.segment()) };
                a href=(path) aria-current=[(tab == detail.tab).then_some("page")] { (tab.title()) }
            }
        }
    }
}

fn now(detail: &Detail<'_>) -> Markup {
    html! {
        div .two {
            div {
                @if let Some(explained) = &detail.why { (why(detail, explained)) }
            }
            div { (facts(detail)) }
        }
        @if detail.why.is_some() && has_layers(detail) { (layers(detail)) }
        @for one in &detail.panels { (panel(one, detail.now)) }
        @if let Some(explained) = &detail.why { (moves(detail, explained)) }
        (actions(detail))
        (timeline(detail, "Timeline"))
    }
}

/// The reason of the state: one sentence, what is in the way, the next step with its button and its command.
fn why(detail: &Detail<'_>, explained: &Explained) -> Markup {
    let brief = &explained.brief;
    let tone = tone::of(detail.face.kind, &brief.state);
    let overdue = explained.data.iter().any(|why| why.overdue);
    let main = brief.next.action.as_ref();
    let first = main.and_then(|action| offer(detail, action));
    html! {
        section #why .card.why.(tone.class_name()) {
            div .in {
                h2 { "Why is " (subject_of(explained)) " " (text(tone::word(detail.face.kind, &brief.state))) "?" }
                p .lead { (text(&brief.sentence)) }
                ul .points {
                    li { (icon::of(if overdue { Tone::Warn } else { tone })) span { (prose(&brief.meaning)) } }
                    @for blocker in &brief.blockers { li { (icon::of(Tone::Bad)) span { (prose(blocker)) } } }
                    @if brief.more_blockers > 0 { li { span .quiet { "and " (brief.more_blockers) " more causes" } } }
                    @for fine in &brief.fine { li { (icon::of(Tone::Good)) span { (prose(fine)) } } }
                }
            }
            footer {
                p { b { "Next " } span .quiet { (prose(&brief.next.what)) } }
                @if let Some(action) = main {
                    div .steps {
                        @if let Some(offer) = first { (button(offer, true)) }
                        @for step in &brief.others {
                            @if let Some(offer) = step.action.as_ref().and_then(|action| offer_of(detail, action)) {
                                @if offer.is_open() { (button(offer, false)) }
                            }
                        }
                        span .quiet.small.right { (needs(action, &detail.role, first.is_some_and(|offer| offer.path.is_some()))) }
                    }
                    (part::command(&command_of(detail.face, &detail.member, action)))
                } @else if let Some(path) = where_next(detail) {
                    div .steps { a .button href=(path) { "Open the run" } }
                }
            }
        }
    }
}

/// What is explained: the member itself, or one of its statuses.
fn subject_of(explained: &Explained) -> &str {
    let about = explained.data.first().map(|why| &*why.about);
    about.filter(|about| !matches!(*about, "state" | "run")).unwrap_or("it")
}

/// Returns the command that carries out an action on a member, or on the work on it.
#[must_use]
pub fn command_of(face: &Face, member: &Member, action: &Action) -> String {
    let is_its_own = action.kind == face.kind || face.work.is_some_and(|work| action.kind == work);
    let called = member.called.as_ref().unwrap_or(&member.name);
    command::of(action, if is_its_own { called } else { &action.id })
}

fn where_next<'a>(detail: &'a Detail<'_>) -> Option<&'a str> {
    let lines = detail.layers.work.lines.iter();
    lines.into_iter().find_map(|cell| if let Cell::Link(path, _) = cell { Some(&**path) } else { None })
}

fn needs(action: &Action, role: &str, may: bool) -> Markup {
    html! {
        "needs " (action.role)
        @if may { " · that is you" } @else { " · you are " (role) }
    }
}

fn offer<'a>(detail: &'a Detail<'_>, action: &Action) -> Option<&'a Offer> {
    offer_of(detail, action)
}

/// The offer of an action: the same request.
fn offer_of<'a>(detail: &'a Detail<'_>, action: &Action) -> Option<&'a Offer> {
    detail.offers.iter().find(|offer| is_same(offer, action))
}

fn is_same(offer: &Offer, action: &Action) -> bool {
    let own = &offer.action;
    (&own.path, &own.body, &own.action) == (&action.path, &action.body, &action.action)
}

/// A button that leads to the form of an action; without a link where it cannot be taken.
#[must_use]
pub fn button(offer: &Offer, first: bool) -> Markup {
    let words = words(&offer.action);
    html! {
        @match &offer.path {
            Some(path) if offer.action.possible => {
                a .button.first[first].danger[!first && is_final(&offer.action)] href=(path) { (words) }
            },
            Some(_) => { span .button.off role="link" aria-disabled="true" { (words) } },
            None => {},
        }
    }
}

/// Whether an action ends something for good.
fn is_final(action: &Action) -> bool {
    matches!(
        &*action.action,
        "delete" | "retire" | "remove" | "revoke" | "cancel" | "force_delete" | "decommission"
    )
}

fn facts(detail: &Detail<'_>) -> Markup {
    html! {
        section .card {
            header { h2 { "Facts" } }
            dl .in.facts {
                @for (name, value) in detail.facts.iter().filter(|(_, value)| *value != Cell::None) {
                    dt { (name) } dd { (cell(value, detail.now)) }
                }
                @if detail.member.seen != Seen::Unknown { dt { "Last seen" } dd { (part::seen(detail.member.seen, detail.now)) } }
                @if !detail.member.labels.is_empty() { dt { "Labels" } dd { (cell(&Cell::Labels(detail.member.labels.clone()), detail.now)) } }
            }
        }
    }
}

/// Whether its kind has layers to tell apart.
fn has_layers(detail: &Detail<'_>) -> bool {
    let Layers { desired, observed, work } = &detail.layers;
    [desired, observed, work].iter().any(|layer| !layer.head.is_empty())
}

fn layers(detail: &Detail<'_>) -> Markup {
    let lifecycle = Layer::of(tone::word(detail.face.kind, &detail.member.state))
        .at(detail.member.since)
        .toned(detail.face.kind, &detail.member.state);
    let derived = derived(detail);
    let all = [
        ("Desired", &detail.layers.desired),
        ("Observed", &detail.layers.observed),
        ("Lifecycle", &lifecycle),
        ("Work", &detail.layers.work),
        ("Derived", &derived),
    ];
    html! {
        section .card aria-label="Layers of truth" {
            div .layers {
                @for (name, layer) in all {
                    div {
                        h3 { span { (name) } @if let Some(at) = layer.at { (time::since(at, detail.now)) } }
                        @let tone = layer.tone.filter(|tone| !matches!(tone, Tone::Over | Tone::Unknown));
                        b class=[tone.map(icon::Class::class_name)] { @if layer.head.is_empty() { "–" } @else { (text(&layer.head)) } }
                        @for line in &layer.lines { div { (cell(line, detail.now)) } }
                    }
                }
            }
        }
    }
}

/// What follows from the other layers and the clock.
fn derived(detail: &Detail<'_>) -> Layer {
    let Some(explained) = &detail.why else { return Layer::default() };
    let state = tone::of(detail.face.kind, &detail.member.state);
    let (head, tone) = if explained.data.iter().any(|why| why.overdue) {
        ("past its patience", Some(Tone::Warn))
    } else if state == Tone::Bad {
        ("needs a person", Some(Tone::Bad))
    } else if !explained.brief.blockers.is_empty() {
        ("something is in the way", Some(Tone::Warn))
    } else {
        match state {
            Tone::Good | Tone::Bad => ("as it should be", Some(Tone::Good)),
            Tone::Work => ("on its way", None),
            Tone::Wait => ("waits", None),
            Tone::Warn => ("not as it should be", Some(Tone::Warn)),
            Tone::Held => ("held on purpose", None),
            Tone::Over => ("at its end", None),
            Tone::Unknown => ("unknown", None),
        }
    };
    let layer = Layer { tone, ..Layer::of(head) };
    match explained.data.first().and_then(|why| why.patience_ends) {
        Some(ends) => layer.line(Cell::text(Some("patience ends"))).line(Cell::Time(ends)),
        None => layer,
    }
}

/// A table that only this kind has.
#[must_use]
pub fn panel(panel: &Panel, now: Timestamp) -> Markup {
    html! {
        section .card {
            header { h2 { (panel.title) } @if !panel.note.is_empty() { span .right { (prose(&panel.note)) } } }
            div .scroll tabindex="0" role="region" aria-label=(panel.title) {
                table .cards {
                    thead { tr { @for head in panel.heads { th scope="col" { (head) } } } }
                    tbody { @for (number, row) in panel.rows.iter().enumerate() {
                        tr .current[panel.current == Some(number)] aria-current=[(panel.current == Some(number)).then_some("step")] {
                            @for (head, one) in panel.heads.iter().zip(row) { td data-label=(head) { (cell(one, now)) } }
                        }
                    } }
                }
            }
        }
    }
}

/// What can be asked of it besides the moves, or in a table of its own; with the reason where it would be refused now.
fn actions(detail: &Detail<'_>) -> Markup {
    let exits = || detail.why.iter().flat_map(|explained| &explained.data).flat_map(|why| &why.exits);
    let is_move =
        |offer: &Offer| exits().any(|exit| exit.call.as_ref().is_some_and(|call| is_same(offer, call)));
    let has_table = detail.json["actions"].is_array();
    let offers: Vec<_> = detail.offers.iter().filter(|offer| has_table || !is_move(offer)).collect();
    if offers.is_empty() {
        return html! {};
    }
    html! {
        section #actions .card {
            header { h2 { "What you can do" } span .right { "you: " (detail.role) } }
            table .cards.moves {
                tbody { @for offer in offers {
                    tr {
                        td .do { @if offer.path.is_some() { (button(offer, false)) } @else { b { (words(&offer.action)) } } }
                        td .reason {
                            @if !offer.effect.is_empty() { p { (prose(&offer.effect)) } }
                            @if !offer.action.possible {
                                p .hint { (icon::of(Tone::Over)) " Not now: " (text(offer.action.reason.as_deref().unwrap_or("the state does not allow it"))) }
                            }
                            @if offer.path.is_none() { p .hint { "Needs the role " (offer.action.role) "." } }
                        }
                        td { code .small { (text(&command_of(detail.face, &detail.member, &offer.action))) } }
                    }
                } }
            }
        }
    }
}

/// Every way out of where it is, in the order of the table.
fn moves(detail: &Detail<'_>, explained: &Explained) -> Markup {
    html! {
        section #moves .card {
            header { h2 { "Where it is, and where it can go" } span .right { "drawn from the table the server decides by" } }
            @if let Some(drawn) = diagram::of(detail.face.kind) { (drawn_now(detail, drawn, explained)) }
            div .scroll tabindex="0" role="region" aria-label="Ways out" {
                table .cards.moves {
                    thead .unseen { tr { th { "Number" } th { "Event" } th { "Leads to" } th { "When" } th { "How" } } }
                    tbody {
                        @for why in &explained.data {
                            @if explained.data.len() > 1 {
                                tr .part { td colspan="5" { (label(if why.about == "state" { detail.face.one } else { &why.about })) } }
                            }
                            @for (number, exit) in numbered(detail, why) {
                                tr {
                                    td { @if let Some(number) = number { span .ball { (number) } } }
                                    td .mono.event { (text(exit.on.as_deref().unwrap_or(&why.about))) }
                                    td { (state(subject(detail, &why.about), &exit.to)) }
                                    td { (prose(&exit.when)) @if let Some(reason) = reason(exit) { p .hint { "Not now: " (text(reason)) } } }
                                    td { (how(detail, exit)) }
                                }
                            }
                        }
                    }
                }
            }
            @if explained.data.iter().all(|why| why.exits.is_empty()) {
                p .in.quiet { "No move leaves this state." }
            }
        }
    }
}

/// The picture of the lifecycle, with the moves that this member can make.
fn drawn_now(detail: &Detail<'_>, drawn: &Diagram, explained: &Explained) -> Markup {
    let own = explained.data.iter().find(|why| subject(detail, &why.about) == detail.face.kind);
    let events = own.map(events);
    figure(drawn, Shown { current: Some(&detail.member.state), events: events.as_deref(), counts: &[] })
}

/// The events of the ways out.
fn events(why: &Why) -> Vec<&str> {
    why.exits.iter().filter_map(|exit| exit.on.as_deref()).collect()
}

/// The ways out with the numbers of their curves, in the order of the numbers.
fn numbered<'a>(detail: &Detail<'_>, why: &'a Why) -> Vec<(Option<usize>, &'a Exit)> {
    let drawn = diagram::of(detail.face.kind).filter(|_| subject(detail, &why.about) == detail.face.kind);
    let events = events(why);
    let numbers = drawn.map(|drawn| drawn.numbered(&why.state, Some(&events))).unwrap_or_default();
    let number = |exit: &Exit| {
        let same = |one: &&Numbered<'_>| Some(one.row.on) == exit.on.as_deref() && one.row.to == exit.to;
        numbers.iter().find(same).map(|one| one.number)
    };
    let mut exits: Vec<_> = why.exits.iter().map(|exit| (number(exit), exit)).collect();
    exits.sort_by_key(|(number, _)| *number);
    exits
}

/// What the states of an explanation belong to.
fn subject<'a>(detail: &Detail<'a>, about: &str) -> &'a str {
    if about == "run" { "run" } else { detail.face.kind }
}

fn reason(exit: &Exit) -> Option<&str> {
    exit.call.as_ref().filter(|call| !call.possible)?.reason.as_deref()
}

fn how(detail: &Detail<'_>, exit: &Exit) -> Markup {
    let offer = exit.call.as_ref().and_then(|call| offer_of(detail, call));
    html! {
        @match offer {
            Some(offer) if offer.path.is_some() => { (button(offer, false)) },
            _ => { span .quiet.small { (exit.by) @if exit.by != "admin" { " does this" } } },
        }
    }
}

fn labels(detail: &Detail<'_>) -> Markup {
    html! {
        section .card {
            header { h2 { "Labels" } span .right { "select by them in lists and with " code { "-l" } } }
            @if detail.member.labels.is_empty() {
                p .in.quiet { "It has no labels." }
            } @else {
                table { tbody { @for (key, value) in &detail.member.labels {
                    @let query = form::query([("q", &*format!("{key}={value}"))]);
                    tr {
                        th .mono scope="row" { (text(key)) }
                        td .mono { (text(value)) }
                        td .num { a href={ "/console/" (detail.face.segment) (query) } { "All with it" } }
                    }
                } } }
            }
        }
    }
}

fn json(value: &Value) -> Markup {
    let written = serde_json::to_string_pretty(value).unwrap_or_default();
    html! {
        section .card {
            header {
                h2 { "JSON" } span .quiet.small { "as the API answers it" }
                button .needs-script.right type="button" data-copy { (icon("copy")) span { "Copy" } }
            }
            pre .json tabindex="0" { (block(&written)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn a_verb_becomes_the_words_of_a_button() {
        assert_eq!(label("retry_stage"), "Retry stage");
        assert_eq!(label("quarantine"), "Quarantine");
        assert_eq!(label(""), "");
    }
}
