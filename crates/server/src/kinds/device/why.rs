//! Why a device is as it is: an explanation for each of its four statuses.

use wardroom_core::{
    device::updated,
    why::{Blocker, Next, Why},
};

use super::{
    document::{Document, Heard, KIND},
    fleet, view,
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
    if whys[1].state == updated::Status::OutOfDate.as_str() {
        wait_for_the_fleet(app, &document, &mut whys[1]).await?;
    }
    if !document.claimed_by.is_empty() {
        whys[1].blockers.push(Blocker { what: view::contested(&document).into(), fix: None });
    }
    Ok(whys.into())
}

/// Says how the rollout stands, for a device that was not given the template of its fleet yet, and who must act if it stands
/// still.
async fn wait_for_the_fleet(app: &App, document: &Document, why: &mut Why) -> Result<(), Error> {
    let Some(member) = &document.fleet else { return Ok(()) };
    if document.given().is_some_and(|given| given.version == member.wants) {
        return Ok(());
    }
    let explained = match fleet::why::why(app, &member.fleet).await {
        // It was deleted a moment ago.
        Err(Error::NotFound { .. }) => return Ok(()),
        explained => explained?,
    };
    let Some(rollout) = explained.into_iter().next() else { return Ok(()) };
    let info = rollout.fine.first().or(rollout.blockers.first().map(|first| &first.what));
    let info = info.map_or("", |info| info);
    let what = format!("the rollout of its fleet {} is {}. {info}", member.fleet, rollout.state);
    why.blockers.push(Blocker { what: what.into(), fix: None });
    match rollout.next {
        next @ (Next::Call(_) | Next::Mend { .. }) => why.next = next,
        Next::Nothing | Next::Wait { .. } => {}
    }
    Ok(())
}
