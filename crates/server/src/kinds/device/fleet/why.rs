//! Why the rollout of a fleet stands as it does.

use wardroom_core::{device::fleet, why::Why};

use super::{
    document::{Document, KIND, state},
    view,
};
use crate::platform::{app::App, deleted, http::error::Error};

/// Explains a fleet.
pub(crate) async fn why(app: &App, name: &str) -> Result<Vec<Why>, Error> {
    let found = match view::find(app, name).await {
        Err(Error::NotFound { .. }) => {
            let gone = deleted::why(app, KIND, name).await?;
            return gone.map(|gone| vec![gone]).ok_or_else(|| Error::not_found(KIND, name));
        }
        found => found?,
    };
    let document = Document::of(&found)?;
    let progress = view::present(&document, view::progress(app, name).await?);
    let paused = document.paused.as_ref().map(view::paused);
    Ok(vec![fleet::why(name, state(&found), &progress, paused, found.state_changed_at)])
}
