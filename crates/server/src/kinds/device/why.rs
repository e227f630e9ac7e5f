//! Why a device is as it is: an explanation for each of its four statuses.

use wardroom_core::why::Why;

use super::{
    document::{Document, Heard, KIND},
    view,
};
use crate::platform::{app::App, deleted, http::error::Error, liveness};

/// Explains a device.
pub(super) async fn why(app: &App, name: &str) -> Result<Vec<Why>, Error> {
    let device = match view::find(app, name).await {
        Err(Error::NotFound { .. }) => {
            let gone = deleted::why(app, KIND, name).await?;
            return gone.map(|gone| vec![gone]).ok_or_else(|| Error::not_found(KIND, name));
        }
        found => found?,
    };
    liveness::view::refresh(app, KIND, std::slice::from_ref(&device)).await?;
    let document = Document::of(&device)?;
    let mut whys =
        view::with_facts(app, &device, &document, |facts, now| wardroom_core::device::why(name, facts, now));
    if Heard::of(&device) == Heard::Lately {
        whys[0].blockers.extend(liveness::view::blockers(app, KIND, name).await?);
    }
    Ok(whys.into())
}
