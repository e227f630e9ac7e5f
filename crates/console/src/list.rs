//! The list of a kind.

use jiff::Timestamp;
use maud::{Markup, html};
use wardroom_api::{Problem, found::Found};
use wardroom_core::tone;

use crate::{
    bulk::{self, Verb},
    face::{BY_AGE, Face, Member, NEWEST_FIRST, Seen, Selects},
    form, icon,
    part::{self, cell, chip, count, seen, state},
    problem,
    text::{text, visible},
    time,
};

/// The list as it is shown.
#[derive(Debug, Clone)]
pub struct List<'a> {
    /// The kind.
    pub face: &'a Face,
    /// The members of the page.
    pub rows: Vec<Member>,
    /// How many are in each state, of those that match the filter; nothing where they were not counted.
    pub counts: Option<Vec<(String, i64)>>,
    /// The filter, as it was typed.
    pub filter: String,
    /// The state that is selected.
    pub state: String,
    /// The cursor of the next page.
    pub next: Option<String>,
    /// The cursor of this page; empty for the first.
    pub after: String,
    /// The cursors of the pages between the first and this one, in their order.
    pub trail: Vec<String>,
    /// The command that lists the same.
    pub command: String,
    /// What was wrong with the filter, or why the list could not be read.
    pub problem: Option<Problem>,
    /// Whether there are none at all.
    pub is_empty: bool,
    /// How many there are without a filter.
    pub total: Option<i64>,
    /// What can be tried on many of them at once.
    pub verbs: Vec<Verb>,
    /// The time of the server.
    pub now: Timestamp,
}

/// The most cursors that a page remembers.
const TRAIL: usize = 12;

/// The page.
#[must_use]
pub fn page(list: &List<'_>) -> Markup {
    html! {
        div .head {
            div {
                h1 { (list.face.many) }
                p .quiet.small { (summary(list)) }
            }
        }
        @if list.is_empty {
            (empty(list.face))
        } @else {
            @if list.face.selects != Selects::Nothing { (chips(list)) }
            @if list.face.selects == Selects::All { (filter(list)) }
            (part::command(&list.command))
            p .unseen #order { (order(list.face)) }
            div .gap {}
            @match &list.problem {
                Some(problem) if problem.errors.is_empty() => { (problem::banner(problem)) },
                Some(_) => {},
                None if list.rows.is_empty() => { (no_match(list)) },
                None if list.verbs.is_empty() => { (table(list)) (pages(list)) },
                // The ticks are sent with the filter of this page; another filter is another page, without them.
                None => {
                    form action=(bulk::path(list.face)) autocomplete="off" { (table(list)) (bulk::bar(&list.verbs, "verb", &list.filter, &list.state)) }
                    (pages(list))
                },
            }
        }
    }
}

/// The order of a list in words.
fn order(face: &Face) -> &'static str {
    if face.pages == BY_AGE {
        "Ordered by when they were registered, oldest first."
    } else if face.pages == NEWEST_FIRST {
        "Ordered by when they were registered, newest first."
    } else {
        "Ordered by name."
    }
}

fn summary(list: &List<'_>) -> Markup {
    html! {
        @match list.total {
            _ if list.is_empty => { "None yet" },
            Some(all) => { (count(all)) " in all" },
            None => {},
        }
        @if !list.filter.is_empty() || !list.state.is_empty() { " · filtered" }
    }
}

/// The path of this list with another state or page.
fn path(list: &List<'_>, state: &str, after: &str, trail: &[String]) -> String {
    let trail = trail[trail.len().saturating_sub(TRAIL)..].join(",");
    let query = form::query([("q", &*list.filter), ("state", state), ("after", after), ("trail", &trail)]);
    format!("/console/{}{query}", list.face.segment)
}

fn chips(list: &List<'_>) -> Markup {
    let known = (list.face.states)();
    let counted = |name: &str| {
        let counts = list.counts.as_ref()?;
        Some(counts.iter().find(|(state, _)| state == name).map_or(0, |(_, count)| *count))
    };
    let all: Option<i64> = list.counts.as_ref().map(|counts| counts.iter().map(|(_, count)| count).sum());
    let is_shown = |name: &str| counted(name) != Some(0) || name == list.state;
    html! {
        nav .chips aria-label="States" {
            a href=(path(list, "", "", &[])) aria-current=[list.state.is_empty().then_some("true")] {
                "All" @if let Some(all) = all { b { (count(all)) } }
            }
            @for name in known.iter().filter(|name| is_shown(name)) {
                a href=(path(list, name, "", &[])) aria-current=[(list.state == **name).then_some("true")] {
                    (icon::of(tone::of(list.face.kind, name))) (tone::word(list.face.kind, name))
                    @if let Some(number) = counted(name) { b { (count(number)) } }
                }
            }
        }
    }
}

fn filter(list: &List<'_>) -> Markup {
    let wrong = list.problem.as_ref().filter(|problem| !problem.errors.is_empty());
    let fields = list.face.fields.join(", ");
    html! {
        form .filter action={ "/console/" (list.face.segment) } role="search" aria-label="Filter" {
            div .find {
                (icon::icon("search"))
                input .mono type="search" name="q" value=(visible(&list.filter, false)) aria-label="Filter" maxlength="2048" autocomplete="off" spellcheck="false"
                    placeholder="a label or a field: site=berlin,rack in (a,b)" aria-describedby="filter-help" aria-invalid=[wrong.map(|_| "true")];
            }
            @if !list.state.is_empty() { input type="hidden" name="state" value=(visible(&list.state, false)); }
            button { "Filter" }
            @if !list.filter.is_empty() { a .button href=(path(&List { filter: String::new(), ..list.clone() }, &list.state, "", &[])) { "Clear" } }
        }
        div #filter-help {
            @for error in wrong.iter().flat_map(|problem| &problem.errors) {
                p .wrong role="alert" { (text(&error.message)) }
            }
            @if wrong.is_some() {
                p .hint { "Labels: " code { "key=value" } ", " code { "key in (a,b)" } ", " code { "!key" } @if !fields.is_empty() { ". Fields: " (fields) } "." }
            }
        }
    }
}

/// Which columns a page of a list has: those that some member has something in.
struct Columns {
    state: bool,
    seen: bool,
    since: bool,
}

impl Columns {
    fn of(rows: &[Member]) -> Self {
        Self {
            state: rows.iter().any(|member| !member.state.is_empty()),
            seen: rows.iter().any(|member| member.seen != Seen::Unknown),
            since: rows.iter().any(|member| member.since.is_some()),
        }
    }
}

fn table(list: &List<'_>) -> Markup {
    let columns = Columns::of(&list.rows);
    html! {
        div .card.scroll tabindex="0" role="region" aria-label=(list.face.many) {
            table .cards #rows {
                thead { tr {
                    @if !list.verbs.is_empty() { th scope="col" { span .unseen { "Ticked" } } }
                    th scope="col" { "Name" }
                    @if columns.state { th scope="col" { "State" } }
                    @for (_, head) in list.face.columns() { th scope="col" { (head) } }
                    @if columns.seen { th .num scope="col" { "Last seen" } }
                    @if columns.since { th .num scope="col" { "In state" } }
                } }
                tbody { @for member in &list.rows { (cells(list, &columns, member)) } }
            }
        }
    }
}

/// One row; its id lets a live page replace its cells.
#[must_use]
pub fn row(list: &List<'_>, member: &Member) -> Markup {
    cells(list, &Columns::of(&list.rows), member)
}

fn cells(list: &List<'_>, columns: &Columns, member: &Member) -> Markup {
    let face = list.face;
    html! {
        tr #{ "row-" (form::encoded(&member.id)) } {
            @if !list.verbs.is_empty() {
                td .tick { label { input type="checkbox" name="member" value=(member.id) aria-label={ "Tick " (visible(&member.name, false)) }; } }
            }
            th scope="row" { a href=(face.page(&member.key)) { (crate::text::cut(&member.name)) } }
            @if columns.state { td {
                span { (state(face.kind, &member.state)) @for one in member.chips.iter().take(2) { " " (chip(one)) } }
            } }
            @for (at, head) in face.columns() { td data-label=(head) { (cell(&member.cells[at], list.now)) } }
            @if columns.seen { td .num data-label="Last seen" { (seen(member.seen, list.now)) } }
            @if columns.since { td .num data-label="In state" {
                @match member.since { Some(at) => { (time::since(at, list.now)) }, None => { span .quiet { "–" } } }
            } }
        }
    }
}

fn pages(list: &List<'_>) -> Markup {
    let on = |trail: &[String], last: &str| {
        let mut trail = trail.to_vec();
        trail.extend((!last.is_empty()).then(|| last.to_owned()));
        trail
    };
    let before = match list.trail.split_last() {
        _ if list.after.is_empty() => None,
        Some((last, rest)) => Some(path(list, &list.state, last, rest)),
        None => Some(path(list, &list.state, "", &[])),
    };
    html! {
        nav .pages aria-label="Pages" {
            span { @if let Some(before) = before { a rel="prev" href=(before) { (list.face.pages.0) } } }
            span {
                (count(i64::try_from(list.rows.len()).unwrap_or(i64::MAX))) " on this page"
                @if let Some(counted) = matching(list) { " · " (count(counted)) " match" }
            }
            span {
                @if let Some(next) = &list.next {
                    a rel="next" href=(path(list, &list.state, next, &on(&list.trail, &list.after))) { (list.face.pages.1) }
                }
            }
        }
    }
}

/// How many match, where they were counted.
fn matching(list: &List<'_>) -> Option<i64> {
    let counts = list.counts.as_ref()?;
    let of_state = |(state, _): &&(String, i64)| list.state.is_empty() || *state == list.state;
    Some(counts.iter().filter(of_state).map(|(_, count)| count).sum())
}

fn no_match(list: &List<'_>) -> Markup {
    html! {
        div .card { div .in {
            h2 { "No " (list.face.one) " matches" }
            p .quiet {
                @if !list.state.is_empty() { "In state " b { (text(tone::word(list.face.kind, &list.state))) } ". " }
                @if !list.filter.is_empty() { "With " code { (text(&list.filter)) } ". " }
                a href={ "/console/" (list.face.segment) } { "Show all" }
            }
        } }
    }
}

fn empty(face: &Face) -> Markup {
    html! {
        div .card { div .in {
            h2 { (face.about.0) }
            p .quiet { (face.about.1) }
            div .gap {}
            ol .start {
                @for (what, command) in face.start {
                    li { p { (what) } (part::command(command)) }
                }
            }
        } }
    }
}

/// The members that a name leads to.
#[must_use]
pub fn candidates(name: &str, found: &[(&Face, Found)]) -> Markup {
    html! {
        div .head { div { h1 { "Find " (text(name)) } p .quiet.small { (found.len()) " found" } } }
        section .card {
            @if found.is_empty() {
                p .in { "No member has this name or an id that begins so. A name has to be whole; of an id four characters suffice." }
            } @else {
                table .cards { tbody { @for (face, one) in found {
                    tr {
                        th scope="row" { a href=(face.page(&one.id)) { (text(&one.name)) } }
                        td { (face.one) }
                        td { span { (state(face.kind, &one.state)) } }
                        td .mono { (text(&one.id)) }
                    }
                } } }
            }
        }
    }
}
