//! A refusal or a failure, as a page or a part of one.

use maud::{Markup, html};
use wardroom_api::Problem;
use wardroom_core::tone::Tone;

use crate::{
    part,
    shell::{self, Theme},
    text::text,
};

/// What is wrong, what to do, and the id by which the log has it.
#[must_use]
pub fn banner(problem: &Problem) -> Markup {
    let tone = if problem.status < 500 { Tone::Warn } else { Tone::Bad };
    part::banner(
        tone,
        &html! {
            p role="alert" { b { (text(&problem.title)) ". " } (text(&problem.detail)) }
            @for error in &problem.errors {
                p { code { (text(&error.field)) } ": " (text(&error.message)) }
            }
            p .hint { "Request " code { (text(&problem.request_id)) } }
        },
    )
}

/// The same in the place of a page.
#[must_use]
pub fn page(problem: &Problem) -> Markup {
    html! {
        div .head { div { h1 { (text(&problem.title)) } } }
        (banner(problem))
    }
}

/// A page for a caller that has no session, or whose page cannot be made.
#[must_use]
pub fn alone(problem: &Problem, theme: Theme) -> Markup {
    let body = html! {
        main .alone {
            div .card {
                h1 .brand { (shell::brand()) }
                (banner(problem))
                p { a .button href="/console" { "To the overview" } }
            }
        }
    };
    shell::document(&format!("{} · Wardroom", problem.title), theme, &body)
}
