//! Liveness: whether the server hears, and what it makes of silence.

use jiff::Timestamp;
use maud::{Markup, html};
use wardroom_api::{
    Problem,
    liveness::{Guard, Liveness},
};
use wardroom_core::tone::Tone;

use crate::{
    detail::panel,
    face::{Cell, Panel},
    form, part, problem,
    text::text,
    time,
};

/// The page.
#[must_use]
pub fn page(liveness: &Result<Liveness, Problem>, now: Timestamp) -> Markup {
    html! {
        div .head { div {
            h1 { "Liveness" }
            p .quiet.small { "How this server listens, judges silence, and guards against judging its own deafness" }
        } }
        (part::command("wardroom liveness"))
        div .gap {}
        @match liveness {
            Err(refused) => { (problem::banner(refused)) },
            Ok(liveness) => { (shown(liveness, now)) },
        }
    }
}

fn shown(liveness: &Liveness, now: Timestamp) -> Markup {
    let watched: u64 = liveness.members.values().sum();
    html! {
        @match &liveness.listening.deaf {
            Some(cause) => { (part::banner(Tone::Warn, &html! { p { b { "This server cannot hear now: " } (text(cause)) ". No member is charged for it." } })) },
            None => {},
        }
        section .card {
            header { h2 { "Now" } }
            dl .in.facts {
                dt { "Listening" } dd { "since " (time::ago(liveness.listening.since, now)) }
                dt { "Watched" } dd { (part::count(i64::try_from(watched).unwrap_or(i64::MAX))) " members" }
                dt { "Silent" } dd { (liveness.silent) " longer than their interval" }
                dt { "Due" } dd { (liveness.due) " missed more beats than the rule allows" }
                dt { "Suspected" } dd { (liveness.suspected) " held back by a guard" }
                dt { "Sweeps" } dd { @if liveness.sweeper.this_server { "this server" } @else { "another replica" } @if let Some(at) = liveness.sweeper.last_sweep { ", last " (time::ago(at, now)) } }
                dt { "Stored" } dd { @match liveness.flush.at { Some(at) => { (liveness.flush.rows) " beats, " (time::ago(at, now)) }, None => { "nothing yet" } } @if liveness.flush.failed { " · the last try failed" } }
            }
        }
        (panel(&guards(liveness), now))
        @let deaf = deaf(liveness);
        @if !deaf.rows.is_empty() { (panel(&deaf, now)) }
    }
}

fn guards(liveness: &Liveness) -> Panel {
    let row = |name: String, guard: &Guard| {
        let incident = guard.incident.as_ref();
        vec![
            Cell::Text(name),
            Cell::State("guard", guard.phase.clone()),
            Cell::Text(format!("{} of {}", guard.silent, guard.watched)),
            Cell::time(guard.since),
            incident.map_or(Cell::None, |id| {
                Cell::Link(format!("/console/incidents/{}", form::encoded(id)), "incident".to_owned())
            }),
        ]
    };
    let zones = liveness.zones.iter().map(|(zone, guard)| row(format!("zone {zone}"), guard));
    Panel {
        title: "Guards",
        note: "the fleet, and zones in which something is going on".to_owned(),
        heads: &["Of", "Phase", "Silent", "Since", "Incident"],
        rows: std::iter::once(row("the fleet".to_owned(), &liveness.fleet)).chain(zones).collect(),
        current: None,
    }
}

fn deaf(liveness: &Liveness) -> Panel {
    let rows = liveness.listening.periods.iter();
    let rows = rows
        .map(|period| vec![Cell::Text(period.cause.clone()), Cell::time(period.from), Cell::Time(period.to)]);
    Panel {
        title: "When this server could not hear",
        note: "not counted as silence of members".to_owned(),
        heads: &["Cause", "From", "To"],
        rows: rows.collect(),
        current: None,
    }
}
