//! The form of an action: what it does, what it needs, and a comment for history.

use maud::{Markup, html};
use wardroom_api::Problem;
use wardroom_core::tone::Tone;

use crate::{
    detail::{Offer, label, words},
    face::Member,
    form, part, problem,
    shell::csrf,
    text::{prose, text},
};

/// The form as it is shown.
#[derive(Debug, Clone)]
pub struct Dialog {
    /// What the action is for, as people call it.
    pub name: String,
    /// Its page.
    pub back: String,
    /// The action.
    pub offer: Offer,
    /// The command that does the same.
    pub command: String,
    /// The fields of its request that a person fills in.
    pub fields: Vec<Field>,
    /// The token of the session.
    pub csrf: String,
    /// Makes the request once, however often the form is sent.
    pub once: String,
    /// Why it was not done.
    pub problem: Option<Problem>,
    /// What can be done instead.
    pub instead: Vec<Offer>,
}

/// How a person fills in a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A line of text; these names are known for it.
    Text(Vec<String>),
    /// A time.
    Time,
    /// A whole number.
    Number,
    /// Yes or no.
    Flag,
    /// One of these words.
    Choice(Vec<String>),
}

/// A field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name on the wire.
    pub name: String,
    /// What it is.
    pub hint: String,
    /// How it is filled in.
    pub input: Input,
    /// What was typed.
    pub value: String,
    /// Whether the request needs it.
    pub is_needed: bool,
}

/// The page.
#[must_use]
pub fn page(dialog: &Dialog) -> Markup {
    let action = &dialog.offer.action;
    let words = words(action);
    html! {
        section .card.dialog aria-labelledby="title" {
            header { h1 #title { (words) " " (text(&dialog.name)) } }
            div .in {
                @if let Some(problem) = &dialog.problem { (problem::banner(problem)) }
                @if !dialog.offer.effect.is_empty() { p { (prose(&dialog.offer.effect)) } }
                @if let Some(before) = &action.precondition { p .hint { (prose(before)) } }
                @if !action.possible {
                    p .wrong { "Not now: " (text(action.reason.as_deref().unwrap_or("the state does not allow it"))) }
                }
                @if dialog.offer.path.is_none() {
                    p .wrong { "Needs the role " (action.role) "." }
                    (part::command(&dialog.command))
                    footer { a .button href=(dialog.back) { "Back" } }
                } @else {
                    form method="post" {
                        (csrf(&dialog.csrf))
                        input type="hidden" name="once" value=(dialog.once);
                        @for field in &dialog.fields { (input(field)) }
                        div .gap {}
                        (part::command(&dialog.command))
                        footer {
                            a .button href=(dialog.back) { "Leave it" }
                            button .first { (words) }
                        }
                    }
                }
                @if dialog.problem.is_some() && !dialog.instead.is_empty() {
                    h2 { "Possible now" }
                    div .steps { @for offer in &dialog.instead { (crate::detail::button(offer, false)) } }
                }
            }
        }
    }
}

pub(crate) fn input(field: &Field) -> Markup {
    let is_comment = field.name == "comment";
    let id = format!("field-{}", form::encoded(&field.name));
    let hint = format!("{id}-hint");
    let has_hint = !is_comment && !field.hint.is_empty();
    let described = has_hint.then_some(hint.as_str());
    let words = match field.name.as_str() {
        "comment" => "Comment, for history".to_owned(),
        name => label(name.strip_suffix("_id").unwrap_or(name)),
    };
    html! {
        @if field.input == Input::Flag {
            label .check for=(id) {
                input type="checkbox" id=(id) name=(field.name) value="true" checked[field.value == "true"] aria-describedby=[described];
                span { (words) }
            }
        } @else {
            label for=(id) { (words) @if field.is_needed { " (needed)" } }
            @if is_comment {
                textarea id=(id) name=(field.name) maxlength="1024" required[field.is_needed] { (field.value) }
            } @else {
                (control(field, &id, described))
            }
        }
        @if has_hint { p .hint id=(hint) { (prose(&field.hint.replace('\n', " "))) } }
    }
}

/// The control of a field by what it takes.
fn control(field: &Field, id: &str, described: Option<&str>) -> Markup {
    let (name, value, needed) = (&field.name, &field.value, field.is_needed);
    match &field.input {
        Input::Choice(words) => html! {
            select id=(id) name=(name) required[needed] aria-describedby=[described] {
                @if !needed || value.is_empty() { option value="" { @if needed { "Choose one" } @else { "The default" } } }
                @for word in words { option value=(word) selected[word == value] { (word) } }
            }
        },
        Input::Number => html! {
            input id=(id) name=(name) value=(value) type="number" step="1" required[needed] autocomplete="off" aria-describedby=[described];
        },
        Input::Time => html! {
            input id=(id) name=(name) value=(value) placeholder="2027-01-31T12:00:00Z" maxlength="64" required[needed] autocomplete="off" aria-describedby=[described];
        },
        Input::Text(known) => {
            let list = format!("{id}-known");
            html! {
                input id=(id) name=(name) value=(value) maxlength="4096" required[needed] autocomplete="off" aria-describedby=[described]
                    list=[(!known.is_empty()).then_some(&list)];
                @if !known.is_empty() { datalist id=(list) { @for one in known { option value=(one) {} } } }
            }
        }
        // Its label holds it.
        Input::Flag => html! {},
    }
}

/// What an action answered that is shown only now.
#[must_use]
pub fn secret(name: &str, back: &str, what: &[(String, String)]) -> Markup {
    html! {
        section .card.dialog {
            header { h1 { "Done: " (text(name)) } }
            div .in {
                p { "This is shown only now. Keep it where secrets are kept." }
                @for (name, value) in what {
                    p .hint { (label(name)) }
                    div .command { code .secret { (value) } button .needs-script type="button" data-copy { (crate::icon::icon("copy")) span { "Copy" } } }
                }
                footer { a .button.first href=(back) { "I have kept it" } }
            }
        }
    }
}

/// Says that an action is no longer possible, and what is.
#[must_use]
pub fn gone(verb: &str, member: &Member, kind: &str, back: &str, comment: &str, open: &[Offer]) -> Markup {
    html! {
        section .card.dialog {
            header { h1 { (text(&label(verb))) " " (text(&member.name)) } }
            div .in {
                (part::banner(Tone::Warn, &html! {
                    p role="alert" { b { "Nothing was done. " } (text(&member.name)) " is " (part::state(kind, &member.state)) " now, where this is not offered." }
                }))
                @if !comment.is_empty() { p .hint { "What you wrote" } p .block { (crate::text::block(comment)) } }
                @if !open.is_empty() {
                    h2 { "Possible now" }
                    div .steps { @for offer in open { (crate::detail::button(offer, false)) } }
                }
                footer { a .button href=(back) { "Back" } }
            }
        }
    }
}
