//! Times: relative for people, exact for machines and on hover.

use jiff::{Timestamp, Unit, tz::TimeZone};
use maud::{Markup, html};
use wardroom_core::why::length;

/// How long ago something was, such as `3 min`; the exact time is its title.
#[must_use]
pub fn since(at: Timestamp, now: Timestamp) -> Markup {
    marked(at, &length(now.duration_since(at)), Some("since"))
}

/// The same with the word for it, such as `3 min ago` or `in 3 min`.
#[must_use]
pub fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let text = if at <= now {
        format!("{} ago", length(now.duration_since(at)))
    } else {
        format!("in {}", length(at.duration_since(now)))
    };
    marked(at, &text, Some("ago"))
}

/// The time of day and the date in UTC.
#[must_use]
pub fn exact(at: Timestamp) -> Markup {
    marked(at, &written(at), None)
}

/// With an age, a script counts on.
fn marked(at: Timestamp, text: &str, age: Option<&str>) -> Markup {
    let whole = at.round(Unit::Second).unwrap_or(at);
    html! { time datetime=(whole) data-age=[age] title={ (written(at)) " UTC" } { (text) } }
}

fn written(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
