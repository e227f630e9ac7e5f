//! The history of a member on its page: its own rows, and those of the work on it.

use maud::{Markup, html};
use wardroom_api::history::Row;
use wardroom_core::tone;

use super::{Detail, label};
use crate::{
    form,
    icon::{self, icon},
    part::state,
    text::text,
    time,
};

pub(super) fn timeline(detail: &Detail<'_>, title: &str) -> Markup {
    html! {
        section #timeline .card {
            header {
                h2 { (title) } span .quiet.small { "newest first" }
                @if let Some(newest) = detail.history.iter().find(|row| row.kind == detail.face.kind) {
                    span .right { (icon("chain")) " " (newest.sequence) @if newest.sequence == 1 { " row" } @else { " rows" } ", chained by hashes" }
                }
            }
            @if detail.history.is_empty() && !detail.hides_history && detail.unread.is_empty() { p .in.quiet { "It has no history of its own: it is derived from others." } }
            @if detail.hides_history { p .in.quiet { "Your role does not read history; viewer, operator, admin and auditor do." } }
            ol { @for row in &detail.history { (entry(detail, row)) } }
            @if let Some(older) = &detail.older {
                p .in { a href={ (detail.face.page(&detail.member.key)) "/history" (form::query([("after", older.as_str())])) } { "Older →" } }
            }
        }
    }
}

fn entry(detail: &Detail<'_>, row: &Row) -> Markup {
    let tone = tone::of(&row.kind, &row.to_state);
    let moved = row.from_state.as_ref().is_some_and(|from| *from != row.to_state);
    html! {
        li .line {
            (time::ago(row.created_at, detail.now))
            (icon::of(tone))
            div {
                p {
                    @if let Some((stage, outcome)) = stage_of(row) {
                        code { (text(stage)) } " " (text(outcome))
                        @if let Some(number) = row.metadata["attempt"].as_u64().filter(|number| *number > 1) { ", attempt " (number) }
                    } @else if moved {
                        (state(&row.kind, row.from_state.as_deref().unwrap_or_default())) " → " (state(&row.kind, &row.to_state))
                    } @else {
                        b { (text(&label(&row.type_))) }
                        @if row.from_state.is_none() { " as " (state(&row.kind, &row.to_state)) }
                    }
                }
                @if let Some(comment) = &row.comment { p { "“" (text(comment)) "”" } }
                p .by { (text(&row.triggered_by)) @if let Some(user) = &row.user_id { " · " (text(user)) } }
            }
            span .mono.quiet.seq { @if row.kind != detail.face.kind { (text(&row.kind)) " " } "#" (row.sequence) " " (text(row.hash.get(..8).unwrap_or(&row.hash))) }
        }
    }
}

/// The stage of an attempt, and how it went.
fn stage_of(row: &Row) -> Option<(&str, &str)> {
    if row.type_ != "attempt" {
        return None;
    }
    Some((row.metadata["stage"].as_str()?, row.metadata["outcome"].as_str()?))
}
