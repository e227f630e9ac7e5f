//! Groups that are removed: their satellites are taken out of them page by page, however many there are.

use wardroom_store::{ClaimedEffect, Entry};

use super::{EffectError, Worker};
use crate::{
    kinds::{
        satellite::asked::of_group,
        satellite::{
            assignment::{self, Removal},
            group::GROUPS,
        },
    },
    platform::app::{App, by_system},
};

/// Continues a removal that a request began, until the group is gone. Satellites that left it are not met
/// again, so nothing has to be remembered between two attempts.
pub(super) async fn empty(worker: &Worker, effect: &ClaimedEffect) -> Result<(), EffectError> {
    let (app, group) = (&worker.app, &*effect.resource_id);
    loop {
        match assignment::take_out(app, group, || entry(app, group, "assigned")).await? {
            Removal::Over => return Ok(()),
            Removal::Empty(closed) => {
                let (entry, effects) = (entry(app, group, "deleted"), of_group(app, "deleted"));
                GROUPS.end_removal(app, &closed, entry, effects).await?;
            }
            Removal::UnderWay => {}
        }
        worker.keep(effect).await?;
    }
}

/// Returns the entry for a satellite that leaves; the group's own history names the person that asked.
fn entry(app: &App, group: &str, entry_type: &str) -> Entry {
    let comment = Some(format!("the satellite group {group} is removed"));
    Entry { comment, ..by_system(app, entry_type, serde_json::Value::Null) }
}
