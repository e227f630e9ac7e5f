//! What needs a person, in columns.

use jiff::Timestamp;
use wardroom_api::attention::Need;
use wardroom_core::why::length;

use super::View;
use crate::{
    table::{
        Column,
        Level::{Narrow, Wide},
        Tones, column, or_none,
    },
    text::time,
};

impl View for Need {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("KIND/NAME",     Narrow, |need, _| named(need)),
        column("STATE",         Narrow, |need, _| need.state.clone()),
        column("FOR",           Narrow, since),
        column("WHY",           Narrow, |need, _| need.why.clone()),
        column("URGENCY",       Wide,   |need, _| need.urgency.clone()),
        column("OVERDUE SINCE", Wide,   |need, _| or_none(need.overdue_since.map(time).as_deref())),
        column("MEMBERS",       Wide,   |need, _| need.count.to_string()),
        column("ID",            Wide,   |need, _| need.id.clone()),
    ];

    const TONES: Tones = Tones::ByRow;

    fn name(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

/// The member, and how many others have the same cause.
fn named(need: &Need) -> String {
    match need.count {
        0 | 1 => View::name(need),
        count => format!("{} and {} more", View::name(need), count - 1),
    }
}

fn since(need: &Need, now: Timestamp) -> String {
    length(now.duration_since(need.since))
}
