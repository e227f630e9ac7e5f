//! What a change asks workers to do about other systems. On the embedded default there is nothing to ask for.

use wardroom_store::Effect;

use crate::app::App;

/// What a change of a satellite asks for.
pub(crate) fn effects_for(_app: &App, _cause: &str) -> Vec<Effect> {
    Vec::new()
}
