//! The overview: what needs a person, how the fleet is, what changed lately.

use jiff::Timestamp;
use maud::{Markup, html};
use wardroom_api::{Problem, attention::Need, history::Row, liveness::Incident};
use wardroom_core::{
    tone::{self, Tone},
    why::length,
};

use crate::{
    detail::{label, words},
    form, icon,
    part::{self, bar, count, state},
    problem,
    text::{cut, text},
    time,
};

/// The overview as it is shown.
#[derive(Debug, Clone)]
pub struct Overview {
    /// What needs a person.
    pub attention: Result<Needs, Problem>,
    /// The fleet by kind.
    pub fleet: Vec<Axis>,
    /// The newest changes, as far as the caller may read them.
    pub changes: Vec<Change>,
    /// Open incidents.
    pub incidents: Vec<Incident>,
    /// Why a part of the page is missing.
    pub unread: Vec<Problem>,
    /// The pages of the kinds.
    pub places: Places,
    /// The time of the server.
    pub now: Timestamp,
}

/// What needs a person.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// A line for each cause.
    pub lines: Vec<Line>,
    /// Members that were not looked at.
    pub left_out: usize,
}

/// One cause, and where its next step is taken.
#[derive(Debug, Clone)]
pub struct Line {
    /// The cause.
    pub need: Need,
    /// The form of the next step; nothing where there is none, or where the caller's role does not suffice.
    pub form: Option<String>,
    /// The list of the members in its state; nothing for what has no list by state.
    pub list: Option<String>,
}

/// One kind in the picture of the fleet.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The kind.
    pub kind: &'static str,
    /// What many are called.
    pub title: &'static str,
    /// The part of the path of its list.
    pub segment: &'static str,
    /// How many are in each state, in the order of a life.
    pub states: Vec<(String, i64)>,
}

/// A change, and what people call the member.
#[derive(Debug, Clone)]
pub struct Change {
    /// The row of history.
    pub row: Row,
    /// What people call the resource, where that is known.
    pub name: Option<String>,
}

/// The part of the path of each kind with pages.
#[derive(Debug, Clone, Default)]
pub struct Places(pub Vec<(&'static str, &'static str, &'static str)>);

impl Places {
    /// The page of a resource; nothing for a kind without pages.
    #[must_use]
    pub fn page(&self, kind: &str, id: &str) -> Option<String> {
        let (_, segment, _) = self.0.iter().find(|(known, ..)| *known == kind)?;
        Some(format!("/console/{segment}/{}", form::encoded(id)))
    }

    /// What one of a kind is called.
    #[must_use]
    pub fn one<'a>(&self, kind: &'a str) -> &'a str {
        self.0.iter().find(|(known, ..)| *known == kind).map_or(kind, |(_, _, one)| one)
    }
}

/// The most lines of a group on the overview.
const MOST: usize = 8;

/// The page.
#[must_use]
pub fn page(overview: &Overview) -> Markup {
    html! {
        div .head {
            div {
                h1 { "Overview" }
                p .quiet.small { (summary(overview)) }
            }
        }
        @for problem in &overview.unread { (problem::banner(problem)) }
        @for incident in &overview.incidents { (held(incident, overview.now)) }
        div .two {
            div { (needs(overview)) }
            div { (fleet(overview)) }
        }
        (changes(overview))
    }
}

fn summary(overview: &Overview) -> Markup {
    let members: i64 = overview.fleet.iter().flat_map(|axis| &axis.states).map(|(_, count)| count).sum();
    html! {
        (count(members)) " members"
        @if let Ok(attention) = &overview.attention {
            @match attention.lines.len() {
                0 => { " · nothing needs you" },
                1 => { " · one thing needs a person" },
                many => { " · " (many) " things need a person" },
            }
        }
    }
}

fn held(incident: &Incident, now: Timestamp) -> Markup {
    let zone = incident.zone.as_deref();
    part::banner(
        Tone::Warn,
        &html! {
            p {
                b { @match zone { Some(zone) => { "Zone " (text(zone)) }, None => { "The fleet" } } " fell silent together. " }
                (incident.silent) " of " (incident.watched) " members are silent, so they are held as suspected. Raised "
                (time::ago(incident.raised_at, now)) ". " a href={ "/console/incidents/" (form::encoded(&incident.id)) } { "Open incident" } "."
                @if let Some(until) = incident.held_until { " The hold ends " (time::ago(until, now)) " at the latest." }
            }
        },
    )
}

/// The groups of attention: their title, and the words of urgency that belong to each.
const GROUPS: &[(&str, &[&str])] = &[
    ("Stuck or past patience", &["stuck", "silent"]),
    ("Waiting for your decision", &["person"]),
    ("Soon", &["soon"]),
];

fn needs(overview: &Overview) -> Markup {
    html! {
        section .card #needs {
            header {
                h2 { "Needs a person" }
                @if let Ok(attention) = &overview.attention
                    && !attention.lines.is_empty() { (part::badge(Tone::Bad, &attention.lines.len().to_string())) }
                span .right { a href="/console/attention" { "As a list" } }
            }
            @match &overview.attention {
                Err(refused) => { div .in { (problem::banner(refused)) } },
                Ok(attention) => { (groups(attention, overview, Some(MOST))) },
            }
        }
    }
}

fn groups(attention: &Needs, overview: &Overview, most: Option<usize>) -> Markup {
    let of = |words: &[&str]| -> Vec<&Line> {
        attention.lines.iter().filter(|line| words.contains(&&*line.need.urgency)).collect()
    };
    html! {
        @for (title, words) in GROUPS {
            @let found = of(words);
            @if !found.is_empty() {
                p .group { (title) " " span .quiet { (found.len()) } }
                @for one in found.iter().take(most.unwrap_or(usize::MAX)) { (line(one, overview)) }
                @if let Some(rest) = most.and_then(|most| found.len().checked_sub(most)).filter(|rest| *rest > 0) {
                    p .in.small { a href="/console/attention" { (rest) " more" } }
                }
            }
        }
        @if attention.lines.is_empty() {
            p .in { (icon::of(Tone::Good)) " Nothing needs you." }
        }
        @if attention.left_out > 0 {
            p .in.quiet.small { (attention.left_out) " more members are in a state that may need a person; too many of them to explain each." }
        }
    }
}

/// One cause: the member, why, for how long, and where to act.
fn line(one: &Line, overview: &Overview) -> Markup {
    let need = &one.need;
    let page = overview.places.page(&need.kind, &need.id);
    let tone = match &*need.urgency {
        "stuck" => Tone::Bad,
        "silent" => Tone::Warn,
        "person" => Tone::Wait,
        _ => Tone::Work,
    };
    html! {
        div .need {
            (icon::of(tone))
            div {
                div .who {
                    @match &page {
                        Some(page) => { a href=(page) { b { (cut(&need.name)) } } },
                        None => { b { (cut(&need.name)) } },
                    }
                    @if need.count > 1 { span .quiet { "and " (need.count - 1) " more" } }
                    span .quiet.small { (overview.places.one(&need.kind)) }
                    (state(&need.kind, &need.state))
                    @if let Some(over) = need.overdue_since {
                        span .quiet.small { (length(overview.now.duration_since(over))) " past its patience" }
                    }
                }
                p .what { (crate::text::prose(&need.why)) }
            }
            span .for { (time::since(need.since, overview.now)) }
            span .act { (step(one, page.as_deref())) }
        }
    }
}

/// The button of a line: its next step by name, the list where many wait for the same, else the page that explains it.
fn step(one: &Line, page: Option<&str>) -> Markup {
    let name = crate::text::visible(&one.need.name, false);
    match (&one.need.next, &one.form, &one.list, page) {
        (_, _, Some(list), _) if one.need.count > 1 => html! {
            a .button href=(list) aria-label={ "See all that are " (tone::word(&one.need.kind, &one.need.state)) " for the same cause as " (name) } { "See all" }
        },
        (Some(next), Some(form), ..) => {
            let words = words(next);
            html! { a .button href=(form) aria-label={ (words) " " (name) } { (words) } }
        }
        (.., Some(page)) => html! {
            a .button href={ (page) "#why" } aria-label={ "See why: " (name) } { "See why" }
        },
        (.., None) => html! {},
    }
}

fn fleet(overview: &Overview) -> Markup {
    html! {
        section .card #fleet {
            header { h2 { "Fleet" } }
            div .in {
                @for axis in overview.fleet.iter().filter(|axis| !axis.states.is_empty()) { (kind(axis)) }
                @if overview.fleet.iter().all(|axis| axis.states.is_empty()) {
                    p .quiet { "There are no members yet. Each list says how the first one comes to be." }
                }
            }
        }
    }
}

fn kind(axis: &Axis) -> Markup {
    let total: i64 = axis.states.iter().map(|(_, count)| count).sum();
    let parts: Vec<_> =
        axis.states.iter().map(|(state, count)| (tone::of(axis.kind, state), *count)).collect();
    let said: Vec<_> = axis
        .states
        .iter()
        .map(|(state, count)| format!("{count} {}", tone::word(axis.kind, state)))
        .collect();
    html! {
        p .axis { b { (axis.title) } span .right { (count(total)) } }
        (bar(&parts, &format!("{}: {}", axis.title, said.join(", "))))
        div .legend {
            @for (state, number) in &axis.states {
                a href={ "/console/" (axis.segment) (form::query([("state", state.as_str())])) } {
                    (icon::of(tone::of(axis.kind, state))) b { (count(*number)) } (text(tone::word(axis.kind, state)))
                }
            }
        }
    }
}

fn changes(overview: &Overview) -> Markup {
    html! {
        section .card #changes {
            header { h2 { "Recent changes" } span .right { a href="/console/history" { "History" } } }
            @if overview.changes.is_empty() {
                p .in.quiet { "There are none that you may see." }
            } @else {
                div .scroll tabindex="0" role="region" aria-label="Recent changes" {
                    table .cards {
                        thead { tr { th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "Change" } th scope="col" { "By" } th scope="col" { "Why" } } }
                        tbody { @for one in &overview.changes { (change(one, &overview.places, overview.now)) } }
                    }
                }
            }
        }
    }
}

/// A row of history in a table.
#[must_use]
pub fn change(change: &Change, places: &Places, now: Timestamp) -> Markup {
    let row = &change.row;
    let by = row.user_id.as_deref().unwrap_or(&row.triggered_by);
    html! {
        tr {
            td .quiet data-label="When" { (time::ago(row.created_at, now)) }
            td data-label="What" { (what(change, places)) }
            td data-label="Change" { span { (moved(row)) } }
            td data-label="By" { (cut(by)) }
            td data-label="Why" { @if let Some(comment) = &row.comment { (cut(comment)) } }
        }
    }
}

/// The resource of a row: its name where the row has it, else its id.
#[must_use]
pub fn what(change: &Change, places: &Places) -> Markup {
    let row = &change.row;
    let named = ["name", "hostname", "satellite"].iter().find_map(|key| row.metadata[*key].as_str());
    let name = change.name.as_deref().or(named);
    html! {
        span {
            @match (places.page(&row.kind, &row.resource_id), name) {
                (Some(page), name) => { a href=(page) { (cut(name.unwrap_or(&row.resource_id))) } },
                (None, Some(name)) => { (cut(name)) },
                // What has no page and no name is told apart by the end of its id.
                (None, None) => { span .mono title=(crate::text::visible(&row.resource_id, false)) { (text(&short(&row.resource_id))) } },
            }
            " " span .quiet.small { (places.one(&row.kind)) " #" (row.sequence) }
        }
    }
}

/// The end of an id: ids of one time begin alike.
fn short(id: &str) -> String {
    const MOST: usize = 8;
    match id.char_indices().rev().nth(MOST - 1) {
        Some((at, _)) if at > 1 => format!("…{}", &id[at..]),
        _ => id.to_owned(),
    }
}

/// What a row changed: two states, or its type.
#[must_use]
pub fn moved(row: &Row) -> Markup {
    html! {
        @match &row.from_state {
            Some(from) if *from != row.to_state => { (state(&row.kind, from)) " → " (state(&row.kind, &row.to_state)) },
            Some(_) => { (text(&label(&row.type_))) },
            None => { (text(&label(&row.type_))) " " (state(&row.kind, &row.to_state)) },
        }
    }
}

/// The list of all that needs a person.
#[must_use]
pub fn attention(overview: &Overview) -> Markup {
    html! {
        div .head { div {
            h1 { "Needs a person" }
            p .quiet.small { "One line for each cause, the longest overdue first" }
        } }
        (part::command("wardroom get --needs-attention"))
        div .gap {}
        section .card {
            @match &overview.attention {
                Err(refused) => { div .in { (problem::banner(refused)) } },
                Ok(attention) => { (groups(attention, overview, None)) },
            }
        }
    }
}
