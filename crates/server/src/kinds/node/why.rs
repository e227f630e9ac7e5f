//! Why a node is in its state.

use wardroom_core::{
    node::{self, TABLE},
    why::{Stay, Why, explain},
};

use super::{
    boots,
    document::{self, Document, KIND},
    find, installs, progress,
};
use crate::platform::{app::App, http::error::Error, liveness::view};

pub(super) async fn why(app: &App, id: &str) -> Result<Vec<Why>, Error> {
    let resource = find(app, id).await?;
    let (state, document) = (document::state(&resource)?, Document::of(&resource)?);
    let mut blockers = node::blockers(
        id,
        state,
        document.workflow_id.is_some(),
        document.install_attempts,
        document.last_install_error.as_deref(),
    );
    let handed = boots::handed(app, &resource).await?;
    blockers.extend(handed.and_then(|handed| node::unreported(state, handed)));
    blockers.extend(view::blockers(app, KIND, id).await?);
    // An installation is overdue when it has been silent for too long, not when it is long.
    let mut stay = Stay::of(state, resource.state_changed_at);
    if state == node::State::Installing {
        let seen = progress::of(app, &resource).await?;
        stay.counted_from = installs::heard(app, &resource, seen.as_ref())?;
        stay.patience = Some(installs::patience(app));
    }
    let mut why = explain(TABLE, id, state, stay, app.now(), blockers);
    if matches!(state, node::State::Pending | node::State::Installing) {
        why.fine.extend(
            document.workflow_id.map(|workflow| format!("the workflow {workflow} is assigned").into()),
        );
    }
    if let Some(handed) = handed.filter(|_| matches!(state, node::State::Pending | node::State::Installing)) {
        why.meaning.to_mut().push_str(&format!(" {handed}"));
    }
    Ok(vec![why])
}
