//! One verb on many members: what the dry run says, the form that does it, and the result of each.

use maud::{Markup, html};
use wardroom_api::{
    Problem,
    action::Action,
    bulk::{BulkOutcome, BulkReport, BulkResultWord as Word, BulkShare},
};
use wardroom_core::tone::Tone;

use crate::{
    detail::label,
    dialog::Field,
    face::Face,
    form,
    part::{self, count},
    problem,
    shell::csrf,
    text::{prose, text},
};

/// A verb that can be tried on many members.
#[derive(Debug, Clone)]
pub struct Verb {
    /// Its name among those of the kind.
    pub key: String,
    /// Its request, with the member left open.
    pub action: Action,
    /// What it does.
    pub effect: String,
}

impl Verb {
    /// What it is called: the verb, and what its body fixes.
    #[must_use]
    pub fn name(&self) -> String {
        let fixed = self.action.body.as_ref().and_then(|body| body.as_object()).into_iter().flatten();
        let words = fixed.filter_map(|(field, value)| match value {
            serde_json::Value::String(text) => Some(text.clone()),
            // "Approve (approved)" would say it twice.
            serde_json::Value::Bool(true) if field.starts_with(&self.action.action) => None,
            serde_json::Value::Bool(true) => Some(field.clone()),
            serde_json::Value::Null
            | serde_json::Value::Bool(false)
            | serde_json::Value::Number(_)
            | serde_json::Value::Array(_)
            | serde_json::Value::Object(_) => None,
        });
        let words: Vec<_> = words.collect();
        match words.is_empty() {
            true => label(&self.action.action),
            false => format!("{} ({})", label(&self.action.action), words.join(", ")),
        }
    }
}

/// The share of the fleet above which the count is typed.
pub const TYPED: f64 = 5.0;

/// The page after a dry run, or after the run.
#[derive(Debug, Clone)]
pub struct Bulk<'a> {
    /// The kind.
    pub face: &'a Face,
    /// The verb.
    pub verb: Verb,
    /// Which members were selected, in words.
    pub selected: String,
    /// The list that they were selected from.
    pub back: String,
    /// What would become of each member, or what became of it.
    pub report: Option<BulkReport>,
    /// Why there is none.
    pub problem: Option<Problem>,
    /// What the members' answers show only once: the member, the field and the value.
    pub secrets: Vec<(String, String, String)>,
    /// The fields that a person fills in.
    pub fields: Vec<Field>,
    /// Whether the count that was typed is another one.
    pub is_miscounted: bool,
    /// The token of the session.
    pub csrf: String,
    /// Makes the run once, however often the form is sent.
    pub once: String,
}

/// The page.
#[must_use]
pub fn page(bulk: &Bulk<'_>) -> Markup {
    html! {
        div .head {
            div {
                h1 { (text(&bulk.verb.name())) ": " (text(&bulk.selected)) }
                @if !bulk.verb.effect.is_empty() { p .quiet { (prose(&bulk.verb.effect)) } }
            }
        }
        @if let Some(problem) = &bulk.problem { (problem::banner(problem)) p { a .button href=(bulk.back) { "Back to the list" } } }
        @if let Some(report) = &bulk.report {
            (summary(bulk, report))
            @if !bulk.secrets.is_empty() { (secrets(bulk)) }
            @if report.dry_run { (confirm(bulk, report)) }
            @else { p { a .button.first href=(bulk.back) { "Back to the list" } } div .gap {} }
            (groups(bulk, report))
        }
    }
}

fn secrets(bulk: &Bulk<'_>) -> Markup {
    html! {
        section .card { div .in {
            p { "This is shown only now. Keep it where secrets are kept." }
            @for (member, name, value) in &bulk.secrets {
                p .hint { (text(member)) ": " (label(name)) }
                div .command { code .secret { (value) } button .needs-script type="button" data-copy { (crate::icon::icon("copy")) span { "Copy" } } }
            }
        } }
    }
}

/// The counts, and the blast radius.
fn summary(bulk: &Bulk<'_>, report: &BulkReport) -> Markup {
    let BulkReport { changed, unchanged, refused, overtaken, .. } = report;
    let tone = if report.dry_run {
        Tone::Wait
    } else if refused + overtaken > 0 {
        Tone::Warn
    } else {
        Tone::Good
    };
    part::banner(
        tone,
        &html! {
            p role="status" {
                @if report.dry_run {
                    b { "Nothing was done yet. " } (changed) " would be changed, " (unchanged) " stay as they are, " (refused) " would be refused."
                } @else {
                    b { (changed) " changed" } ", " (unchanged) " stayed as they were, " (refused) " refused, " (overtaken) " left alone because they changed since the dry run."
                }
            }
            p { (share(report.fleet)) " of all " (bulk.face.many) "." }
            @for (zone, part) in &report.zones { p { (share(*part)) " in zone " b { (text(zone)) } "." } }
        },
    )
}

fn share(share: BulkShare) -> Markup {
    html! { (count(share.members)) " of " (count(share.of)) " (" (share.percent) " %)" }
}

/// The members that the dry run would change, with their versions, as one field of a form.
#[must_use]
pub fn seen(report: &BulkReport) -> String {
    let seen = report.items.iter().filter(|item| item.result == Word::Changed);
    let seen = seen.filter_map(|item| Some(format!("{}*{}", item.id, item.version?)));
    seen.collect::<Vec<_>>().join("*")
}

fn confirm(bulk: &Bulk<'_>, report: &BulkReport) -> Markup {
    html! {
        section .card.dialog aria-labelledby="confirm" {
            div .in {
                h2 #confirm { "Do it to " (report.changed) " " @if report.changed == 1 { (bulk.face.one) } @else { (bulk.face.many) } }
                @if report.changed == 0 {
                    p { "None of them can be changed by this; the reasons are below." }
                    footer { a .button href=(bulk.back) { "Back to the list" } }
                } @else {
                    p .hint { "Only the members listed under “would be changed” are changed, and of them only those that are still as they were in this dry run." }
                    form method="post" autocomplete="off" {
                        (csrf(&bulk.csrf))
                        input type="hidden" name="once" value=(bulk.once);
                        input type="hidden" name="members" value=(seen(report));
                        @for field in &bulk.fields { (crate::dialog::input(field)) }
                        @if report.fleet.percent > TYPED {
                            label for="count" { "This is more than " (TYPED) " % of all. Type how many are changed" }
                            input #count name="count" inputmode="numeric" required autocomplete="off" aria-describedby="miscounted";
                            input type="hidden" name="of" value=(report.changed);
                            p .wrong #miscounted role="alert" { @if bulk.is_miscounted { "Nothing was done: " (report.changed) " would be changed." } }
                        }
                        footer {
                            a .button href=(bulk.back) { "Leave it" }
                            button .first { (text(&bulk.verb.name())) ": " (report.changed) }
                        }
                    }
                }
            }
        }
    }
}

/// The members by what becomes of them.
fn groups(bulk: &Bulk<'_>, report: &BulkReport) -> Markup {
    let words = match report.dry_run {
        true => [
            (Word::Refused, "Would be refused"),
            (Word::Overtaken, "Changed meanwhile"),
            (Word::Changed, "Would be changed"),
            (Word::Unchanged, "Stay as they are"),
        ],
        false => [
            (Word::Refused, "Refused"),
            (Word::Overtaken, "Left alone: they changed since the dry run"),
            (Word::Changed, "Changed"),
            (Word::Unchanged, "Stayed as they were"),
        ],
    };
    html! {
        @for (word, title) in words {
            @let items: Vec<_> = report.items.iter().filter(|item| item.result == word).collect();
            @if !items.is_empty() {
                section .card.scroll tabindex="0" role="region" aria-label=(title) {
                    header { h2 { (title) " (" (items.len()) ")" } }
                    table .cards {
                        thead { tr { th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { "Zone" } th scope="col" { "Result" } } }
                        tbody { @for item in items { (row(bulk, report.dry_run, item)) } }
                    }
                }
            }
        }
    }
}

fn row(bulk: &Bulk<'_>, is_dry_run: bool, item: &BulkOutcome) -> Markup {
    let face = bulk.face;
    html! {
        tr {
            th scope="row" { a href=(face.page(&item.id)) { (crate::text::cut(&item.name)) } }
            td { @match &item.state { Some(state) => { (part::state(face.kind, state)) }, None => { span .quiet.none { "–" } } } }
            td data-label="Zone" { @match &item.zone { Some(zone) => { (text(zone)) }, None => { span .quiet.none { "–" } } } }
            td data-label="Result" {
                @match (&item.problem, &item.becomes) {
                    (Some(problem), _) => { (reason(problem)) },
                    (None, Some(becomes)) if item.result == Word::Changed && item.state.as_ref() != Some(becomes) => {
                        @if is_dry_run { "would become " } @else { "became " } b { (text(becomes)) }
                    },
                    (None, _) if item.result == Word::Changed => { @if is_dry_run { "would be changed" } @else { "changed" } },
                    (None, _) => { "nothing to do" },
                }
            }
        }
    }
}

fn reason(problem: &Problem) -> Markup {
    html! {
        @if problem.errors.is_empty() { (text(&problem.detail)) }
        @for error in &problem.errors { (text(&error.field)) ": " (text(&error.message)) " " }
    }
}

/// The part of a list that begins a dry run: the verb, and of which members.
#[must_use]
pub fn bar(verbs: &[Verb], id: &str, filter: &str, state: &str) -> Markup {
    html! {
        div .bulk {
            input type="hidden" name="q" value=(filter);
            input type="hidden" name="state" value=(state);
            label for=(id) { "Many at once" }
            select #(id) name="verb" { @for verb in verbs { option value=(verb.key) { (text(&verb.name())) } } }
            button name="who" value="ticked" { "Try on the ticked" }
            button name="who" value="all" { "Try on all that match" }
            p .hint { "A dry run: it says what would happen, and changes nothing." }
        }
    }
}

/// The path of the page of a verb on many members of a kind.
#[must_use]
pub fn path(face: &Face) -> String {
    format!("/console/bulk/{}", form::encoded(face.segment))
}
