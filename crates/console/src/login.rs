//! The login.

use maud::{Markup, html};

use crate::{
    part,
    shell::{self, Theme},
    text::text,
};

/// The login as it is shown.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// The theme.
    pub theme: Theme,
    /// Where the person wanted to go.
    pub next: String,
    /// What was wrong with the last try.
    pub wrong: Option<String>,
    /// The version of the server, and how it is reached.
    pub about: String,
}

/// The page.
#[must_use]
pub fn page(login: &Login) -> Markup {
    let body = html! {
        main .alone {
            div .card {
                h1 .brand { (shell::brand()) }
                p { "Log in with an API token. The session lasts 12 hours at most and can do what the token can." }
                form method="post" action="/console/login" {
                    input type="hidden" name="next" value=(login.next);
                    label for="token" { "Token" }
                    input #token .mono name="token" type="password" required maxlength="512" placeholder="wrt_…" autocomplete="current-password" spellcheck="false" autofocus
                        aria-describedby=[login.wrong.is_some().then_some("wrong")] aria-invalid=[login.wrong.is_some().then_some("true")];
                    @if let Some(wrong) = &login.wrong { p #wrong .wrong role="alert" { (text(wrong)) } }
                    button .first { "Log in" }
                }
                p .hint { "The first start wrote a token to " code { "wardroom-data/admin.token" } ". Make one for yourself:" }
                (part::command("wardroom token create NAME --role operator"))
                p .hint { (login.about) }
            }
        }
    };
    shell::document("Log in · Wardroom", login.theme, &body)
}
