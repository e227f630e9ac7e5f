//! History: every change of every member, with its actor and its reason.

use jiff::Timestamp;
use maud::{Markup, html};
use wardroom_api::Problem;

use crate::{
    form,
    icon::icon,
    overview::{Change, Places, moved, what},
    part, problem,
    text::{cut, text, visible},
    time,
};

/// The filters of history: the parameter of the API, and its label.
pub const FILTERS: &[(&str, &str, &str)] = &[
    ("kind", "Kind", "gpu-node"),
    ("type", "Type", "transition"),
    ("who", "By", "a name, or workflow"),
    ("text", "Comment has", "mirror"),
    ("since", "Since", "2026-11-19T14:00:00Z"),
    ("request_id", "Request", "req-7f2c91"),
];

/// History as it is shown.
#[derive(Debug, Clone)]
pub struct History {
    /// The rows, newest first.
    pub rows: Vec<Change>,
    /// The filters that are set.
    pub given: Vec<(&'static str, String)>,
    /// The cursor of older rows.
    pub older: Option<String>,
    /// Why it could not be read.
    pub problem: Option<Problem>,
    /// The pages of the kinds.
    pub places: Places,
    /// The time of the server.
    pub now: Timestamp,
}

impl History {
    fn value(&self, name: &str) -> &str {
        self.given.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }
}

/// The page.
#[must_use]
pub fn page(history: &History) -> Markup {
    html! {
        div .head { div {
            h1 { "History" }
            p .quiet.small { "Every change of every member: who, when, from where and why. Rows are chained by hashes; none can be changed or cut unnoticed." }
        } }
        (filters(history))
        @match &history.problem {
            Some(refused) => { (problem::banner(refused)) },
            None if history.rows.is_empty() => { div .card { p .in { "No change matches" @if history.older.is_some() { " among those that were looked at; older ones may" } "." } } },
            None => { (table(history)) },
        }
        nav .pages aria-label="Pages" {
            span {
                "Newest first · times in UTC"
                @if history.given.is_empty() { " · without logins: " a href={ "/console/history" (form::query([("kind", "session")])) } { "show them" } }
            }
            span {
                @if let Some(older) = &history.older {
                    @let pairs = history.given.iter().map(|(name, value)| (*name, value.as_str())).chain([("after", older.as_str())]);
                    a rel="next" href={ "/console/history" (form::query(pairs)) } { "Older →" }
                }
            }
        }
        (part::command("wardroom audit verify"))
    }
}

fn filters(history: &History) -> Markup {
    html! {
        form .fields action="/console/history" role="search" {
            @for (name, label, example) in FILTERS {
                div {
                    label for={ "filter-" (name) } { (label) }
                    input id={ "filter-" (name) } name=(name) value=(visible(history.value(name), false)) placeholder=(example) maxlength="256" autocomplete="off";
                }
            }
            div .buttons {
                button { "Filter" }
                @if !history.given.is_empty() { a .button href="/console/history" { "Clear" } }
            }
        }
    }
}

fn table(history: &History) -> Markup {
    html! {
        div .card.scroll tabindex="0" role="region" aria-label="History" {
            table .cards {
                thead { tr {
                    th scope="col" { "Time (UTC)" } th scope="col" { "What" } th scope="col" { "Change" } th scope="col" { "By" } th scope="col" { "Why" }
                    th .num scope="col" { "Hash" }
                } }
                tbody { @for change in &history.rows { (row(change, history)) } }
            }
        }
    }
}

fn row(change: &Change, history: &History) -> Markup {
    let row = &change.row;
    let by = row.user_id.as_deref().unwrap_or(&row.triggered_by);
    let hash = row.hash.get(..8).unwrap_or(&row.hash);
    html! {
        tr #{ "change-" (form::encoded(&row.id)) } {
            td .mono data-label="Time" { (time::exact(row.created_at)) }
            td data-label="What" { (what(change, &history.places)) }
            td data-label="Change" { span { (moved(row)) } }
            td data-label="By" { (cut(by)) }
            td data-label="Why" { @if let Some(comment) = &row.comment { (cut(comment)) } }
            td .num.mono data-label="Hash" { span title={ "request " (row.request_id.as_deref().unwrap_or("none")) } { (icon("chain")) " " (text(hash)) } }
        }
    }
}
