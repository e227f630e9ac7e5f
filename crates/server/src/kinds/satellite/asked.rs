//! The effects of changes on Harbor, SPIRE and the registry.
//!
//! Every effect means "make the upstream match the record": its payload names only its cause, and it is
//! idempotent. Without any of these systems only effects on many records are created.

use serde_json::json;
use wardroom_store::Effect;

use super::document::{Document, Flow};
use crate::kinds::satellite::settings::Settings;
use crate::platform::{app::App, http::error::Error};

/// Makes the Harbor robot of a satellite fit its record.
pub(crate) const HARBOR_ROBOT: &str = "harbor_robot";

/// Makes the SPIRE entries and the agent of a satellite fit its record.
pub(crate) const SPIRE_ENTRY: &str = "spire_entry";

/// Makes the state in the registry fit the record.
pub(crate) const PUBLISH_STATE: &str = "publish_state";

/// Makes the Harbor robots of all satellites of a group fit its projects.
pub(crate) const GROUP_ROBOTS: &str = "group_robots";

/// Takes the satellites of a group that is being removed out of it, and then removes it.
pub(crate) const GROUP_MEMBERS: &str = "group_members";

/// Returns the effects of a change of a satellite, by its record before. Objects that another server created
/// for it count too, also if this server is not configured for that system.
pub(crate) fn effects_for(app: &App, record: &Document, cause: &str) -> Vec<Effect> {
    let wanted = [
        (HARBOR_ROBOT, Settings::of(&app.config).harbor.is_some() || record.robot.is_some()),
        (
            SPIRE_ENTRY,
            record.spire.is_some()
                || (Settings::of(&app.config).spire.is_some() && record.flow == Flow::Spiffe),
        ),
        (PUBLISH_STATE, Settings::of(&app.config).registry.is_some()),
    ];
    effects(&wanted, cause)
}

/// The effects of a change of a satellite group.
pub(crate) fn of_group(app: &App, cause: &str) -> Vec<Effect> {
    effects(&[(PUBLISH_STATE, Settings::of(&app.config).registry.is_some())], cause)
}

/// The further effects of a change of a satellite group's projects.
pub(crate) fn of_projects(app: &App, cause: &str) -> Vec<Effect> {
    effects(&[(GROUP_ROBOTS, Settings::of(&app.config).harbor.is_some())], cause)
}

pub(crate) fn of_removal() -> Vec<Effect> {
    effects(&[(GROUP_MEMBERS, true)], "deleted")
}

/// The effects of a change of a satellite config.
pub(crate) fn of_config(app: &App, cause: &str) -> Vec<Effect> {
    effects(&[(PUBLISH_STATE, Settings::of(&app.config).registry.is_some())], cause)
}

/// Whether an effect to publish a state is still open.
pub(crate) async fn is_publishing(app: &App, kind: &str, id: &str) -> Result<bool, Error> {
    let effects = app.store.effects_of(kind, id).await?;
    Ok(effects.iter().any(|effect| effect.effect_type == PUBLISH_STATE && effect.done_at.is_none()))
}

fn effects(wanted: &[(&str, bool)], cause: &str) -> Vec<Effect> {
    let effect =
        |effect_type: &str| Effect { effect_type: effect_type.to_owned(), payload: json!({"cause": cause}) };
    wanted.iter().filter(|(_, configured)| *configured).map(|(name, _)| effect(name)).collect()
}
