//! What liveness reads in the records of members.

use wardroom_core::liveness::Interval;
use wardroom_store::Resource;

/// The interval that a member's document says it was given.
pub(super) fn given_interval(resource: &Resource) -> Option<Interval> {
    #[derive(serde::Deserialize)]
    struct Given {
        #[serde(default)]
        heartbeat_interval: Option<String>,
    }
    let given = resource.content.document.read::<Given>().ok()?.heartbeat_interval?;
    Interval::parse("heartbeat_interval", &given).ok()
}
