//! What is around every page: top bar, sidebar, theme.

use maud::{DOCTYPE, Markup, html};

use crate::{
    assets,
    icon::{icon, sprite},
    part::count,
    text::{cut, visible},
};

/// Light or dark, as the person chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// As the system has it.
    #[default]
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Theme {
    /// The value of the cookie.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The theme of a cookie.
    #[must_use]
    pub fn of(value: &str) -> Self {
        match value {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }

    /// The one that the button leads to, and its icon.
    const fn next(self) -> (Self, &'static str) {
        match self {
            Self::System => (Self::Dark, "contrast"),
            Self::Dark => (Self::Light, "moon"),
            Self::Light => (Self::System, "sun"),
        }
    }
}

/// A section of the console, in the sidebar.
#[derive(Debug, Clone)]
pub struct Section {
    /// Where it is, such as `gpu-nodes`; empty for the overview.
    pub segment: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its icon.
    pub icon: &'static str,
    /// How many there are.
    pub count: Option<i64>,
    /// Of these, how many failed.
    pub bad: i64,
}

/// What every page has around it.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The sections in groups, with the title of each group.
    pub sections: Vec<(&'static str, Vec<Section>)>,
    /// The section of this page.
    pub here: &'static str,
    /// The path of this page, where the theme is changed.
    pub path: String,
    /// The name of the caller.
    pub who: String,
    /// Its role.
    pub role: String,
    /// The token of the session for forms.
    pub csrf: String,
    /// The theme.
    pub theme: Theme,
    /// The place in the feed that the page shows; nothing where it is not known.
    pub place: Option<String>,
}

/// The token of the session in a form.
#[must_use]
pub fn csrf(token: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(token); }
}

/// The first element of every page.
#[must_use]
pub fn document(title: &str, theme: Theme, body: &Markup) -> Markup {
    let chosen = (theme != Theme::System).then(|| theme.as_str());
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[chosen] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (visible(title, false)) }
                link rel="icon" href=(assets::path("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(assets::path(assets::STYLE));
                @for script in assets::SCRIPTS { script type="module" src=(assets::path(script)) {} }
            }
            body { (sprite()) (body) }
        }
    }
}

/// A whole page.
#[must_use]
pub fn page(frame: &Frame, title: &str, content: &Markup) -> Markup {
    let body = html! {
        a .skip href="#main" { "Skip to content" }
        (top(frame))
        div .body {
            (side(frame))
            main #main tabindex="-1" { (content) }
        }
    };
    document(&format!("{title} · Wardroom"), frame.theme, &body)
}

/// The mark and the name.
#[must_use]
pub fn brand() -> Markup {
    html! {
        svg .logo viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" {
            path d="M2 4l2.6 8L8 5.6 11.4 12 14 4" {}
        }
        "Wardroom"
    }
}

fn top(frame: &Frame) -> Markup {
    let (next, theme_icon) = frame.theme.next();
    html! {
        header .top {
            a .icon-button.menu href="#nav" aria-label="Menu" { (icon("menu")) }
            a .brand href="/console" { (brand()) }
            form .find action="/console/find" role="search" aria-label="Find" {
                (icon("search"))
                input type="search" name="name" aria-label="Find a member" placeholder="Find a member by name or id" maxlength="253" autocomplete="off";
            }
            div .right {
                span #live data-place=[&frame.place] {}
                form method="post" action="/console/theme" {
                    (csrf(&frame.csrf))
                    input type="hidden" name="theme" value=(next.as_str());
                    input type="hidden" name="back" value=(frame.path);
                    button .icon-button title={ "Theme: " (frame.theme.as_str()) } aria-label={ "Theme: " (frame.theme.as_str()) ". Change to " (next.as_str()) } { (icon(theme_icon)) }
                }
                span .who { (cut(&frame.who)) " · " (frame.role) }
                form method="post" action="/console/logout" {
                    (csrf(&frame.csrf))
                    button .icon-button title="Log out" aria-label="Log out" { (icon("out")) }
                }
            }
        }
    }
}

fn side(frame: &Frame) -> Markup {
    html! {
        nav .side #nav aria-label="Sections" {
            @for (title, sections) in &frame.sections {
                @if !title.is_empty() { h2 { (title) } }
                ul {
                    @for section in sections {
                        @let here = (section.segment == frame.here).then_some("page");
                        li { a href=(href(section.segment)) aria-current=[here] {
                            (icon(section.icon)) (section.title)
                            @if section.bad > 0 {
                                span .red { (count(section.bad)) span .unseen { " failed" } }
                            }
                            @if let Some(all) = section.count { span .n { (count(all)) } }
                        } }
                    }
                }
            }
        }
    }
}

fn href(segment: &str) -> String {
    if segment.is_empty() { "/console".to_owned() } else { format!("/console/{segment}") }
}
