//! Heartbeats, answered from memory by the document's table.
//!
//! What must stay true: a beat without a state change needs no transaction; a beat that changes the state is
//! durable before it is answered; and the satellite is judged again after its body was read.

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use wardroom_api::satellite::{Beat, BeatReply};
use wardroom_core::{
    liveness::Interval,
    satellite::{Event, Reply, State as SatelliteState},
};
use wardroom_store::{Resource, TRANSITION};

use super::{
    beat, by_satellite,
    document::{self, Document},
    identity::{Known, Standing, Which},
    place, step,
};
use crate::kinds::satellite::identity::Identities;
use crate::kinds::satellite::identity::SatelliteIdentity;
use crate::platform::{
    app::{App, Decided},
    http::{
        body::{Facts, Report},
        error::Error,
        problems::Problems,
    },
    identity::auth::Caller,
};

/// The heartbeat of a satellite, with its observations. Every field is optional, and so is the body.
#[utoipa::path(
    post, path = "/satellites/sync", request_body = Option<Beat>, security(("basic" = [])),
    responses((status = 200, body = BeatReply), Problems)
)]
pub(crate) async fn sync(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Facts { value: said, ignored }: Facts<Beat>,
) -> Result<Response, Error> {
    let interval = said.state_report_interval.as_deref().filter(|text| !text.is_empty());
    let interval = interval.map(|text| Interval::parse("state_report_interval", text)).transpose()?;
    let identity = caller.member::<SatelliteIdentity>().ok_or(Error::Internal)?;
    app.liveness.takes_beats()?;
    let mut standing = Identities::of(&app).standing(&app, identity).await?;
    if let Some(event) = due(&standing) {
        carry_out(&app, &caller, &standing.known, event).await?;
        standing = Identities::of(&app).standing(&app, identity).await?;
    }
    let Standing { known, which, reply } = standing;
    let refresh = known.refresh().filter(|_| reply == Reply::Refresh || which == Which::Previous);
    let heard = beat::heard(&app, &known, interval);
    app.liveness.takes_beats()?;
    super::facts::Facts::at(&app).keep(&known.id(), said, heard.server_time);
    let asks: Vec<_> = refresh.iter().map(|_| "refresh_credentials".to_owned()).collect();
    let mut response = Json(BeatReply {
        state: known.state.to_string(),
        next_interval: heard.next.to_string(),
        server_time: heard.server_time,
        events: asks.clone(),
        actions: asks,
        refresh: refresh.map(|refresh| place::directive(&app, identity, refresh)),
    })
    .into_response();
    ignored.warn(&mut response);
    Ok(response)
}

/// The answer needs only the interval; the other fields are observations.
impl Report for Beat {
    const NEEDED: &'static [&'static str] = &["state_report_interval"];
}

/// The change that a beat causes, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// A beat with this credential brings it back online, or is the first use of a new credential, which
    /// voids the previous one. Its record decides which, because it may be newer than this server's cache.
    Heard(Which),
    /// It returns with the credential that it kept.
    Kept,
}

fn due(Standing { known, which, reply }: &Standing) -> Option<Due> {
    match reply {
        Reply::BackOnline => Some(Due::Heard(*which)),
        Reply::Refresh if known.refresh().is_some_and(|refresh| refresh.keep) => Some(Due::Kept),
        Reply::Ok if known.overlaps() && *which == Which::Current => Some(Due::Heard(*which)),
        Reply::Ok | Reply::Refresh | Reply::Unauthorized | Reply::Forbidden => None,
    }
}

async fn carry_out(app: &App, caller: &Caller, known: &Known, due: Due) -> Result<(), Error> {
    let cause = (due == Due::Kept).then_some("reenabled");
    match super::change(app, &known.id(), cause, |satellite| decide(app, caller, satellite, due)).await {
        // From the answer on, the other credential is void on every server.
        Ok((_, Void::Other)) => {
            Identities::of(app).settle().await;
            Ok(())
        }
        // It was deleted meanwhile: the next check refuses it.
        Ok((_, Void::Nothing)) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Brings a satellite online for a request other than a beat, without counting its new credential as used.
pub(crate) async fn heard_again(app: &App, caller: &Caller, satellite: Resource) -> Result<Resource, Error> {
    if document::state(&satellite)? != SatelliteState::Stale {
        return Ok(satellite);
    }
    let back = |satellite: &Resource| decide(app, caller, satellite, Due::Heard(Which::Previous));
    let issued = |satellite: &Resource| -> Result<_, Error> {
        Ok(Document::of(satellite)?.credential.map(|issued| issued.hash))
    };
    match super::change(app, &satellite.content.id, None, back).await {
        // Only the credential of this decision is handed out; one that was issued meanwhile needs a new
        // request.
        Ok((after, _)) if issued(&after)? != issued(&satellite)? => {
            Err(Error::Unavailable("the credential was exchanged at the same moment: retry"))
        }
        Ok((after, _)) => Ok(after),
        // As above.
        Err(Error::NotFound { .. }) => Ok(satellite),
        Err(error) => Err(error),
    }
}

/// The credential that a change voids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Void {
    Nothing,
    /// The other one of two credentials.
    Other,
}

fn decide(app: &App, caller: &Caller, satellite: &Resource, due: Due) -> Result<Decided<Void>, Error> {
    let mut document = Document::of(satellite)?;
    let state = document::state(satellite)?;
    let overlaps = document.credential.as_ref().is_some_and(|known| known.previous_hash.is_some());
    let void = match due {
        Due::Heard(Which::Current) | Due::Kept if overlaps => Void::Other,
        Due::Heard(_) | Due::Kept => Void::Nothing,
    };
    let event = match due {
        Due::Heard(_) if state == SatelliteState::Stale => Some(Event::Heartbeat),
        Due::Heard(_) if state == SatelliteState::Online && void == Void::Other => None,
        Due::Kept if state == SatelliteState::Pending && document.may_refresh(app.now()) => {
            Some(Event::Refreshed)
        }
        // Another request moved it meanwhile: its new state decides.
        Due::Heard(_) | Due::Kept => return Ok(Decided::Nothing(Void::Nothing)),
    };
    if due == Due::Kept {
        let identity = caller.member::<SatelliteIdentity>().ok_or(Error::Internal)?;
        document.keep(&app.key, &satellite.content.id, |hash| identity.shows(hash));
    } else if void == Void::Other {
        document.forget_previous();
        document.close();
    }
    let (to, entry) = match event {
        None => (state, by_satellite(app, caller, "credential")),
        Some(event) => {
            beat::comes_online(app, satellite);
            let mut entry = by_satellite(app, caller, TRANSITION);
            entry.metadata = serde_json::json!({"event": event.as_str()});
            if due == Due::Kept {
                entry.metadata["mode"] = "keep".into();
            }
            (step(&satellite.content.name, state, event)?.to, entry)
        }
    };
    let content = document.into_content_of(satellite, to)?;
    Ok(Decided::Commit(Box::new((content, entry)), void))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use jiff::Timestamp;
    use wardroom_store::Content;

    use super::*;
    use crate::{kinds::satellite::document::Credential, platform::identity::auth::Principal};

    /// The decision does not depend on a server's cache.
    #[tokio::test]
    async fn the_first_use_of_a_credential_voids_the_one_before_in_every_state() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let address = IpAddr::from([127, 0, 0, 1]);
        let caller = Caller { principal: Principal::Anonymous, address, request_id: "r".into() };
        let decided = |state: SatelliteState, which, previous: Option<&str>| {
            let decided = decide(&app, &caller, &satellite(state, previous), Due::Heard(which)).unwrap();
            let (change, void) = match decided {
                Decided::Commit(change, void) => (Some(change), void),
                Decided::Nothing(void) => (None, void),
            };
            (change.map(|change| change.0.state), void == Void::Other)
        };
        let (online, stale) = (SatelliteState::Online, SatelliteState::Stale);
        let to = |state: SatelliteState| Some(state.to_string());
        assert_eq!(decided(online, Which::Current, Some("old")), (to(online), true));
        assert_eq!(decided(stale, Which::Current, Some("old")), (to(online), true));
        assert_eq!(decided(stale, Which::Previous, Some("old")), (to(online), false));
        assert_eq!(decided(stale, Which::Current, None), (to(online), false));
        assert_eq!(decided(online, Which::Previous, Some("old")), (None, false));
        assert_eq!(decided(online, Which::Current, None), (None, false));
        assert_eq!(decided(SatelliteState::Revoked, Which::Current, Some("old")), (None, false));
    }

    fn satellite(state: SatelliteState, previous: Option<&str>) -> Resource {
        let at = Timestamp::UNIX_EPOCH;
        let previous_hash = previous.map(str::to_owned);
        let credential = Credential { epoch: 1, hash: "new".to_owned(), issued_at: at, previous_hash };
        let document = Document { credential: Some(credential), ..Document::default() };
        let content = Content {
            kind: super::super::KIND.to_owned(),
            id: "1".to_owned(),
            name: "edge".to_owned(),
            state: state.to_string(),
            document: wardroom_store::Document::of(&document).unwrap(),
            labels: Default::default(),
            fields: Default::default(),
            keys: Default::default(),
            due_at: None,
            deleted: false,
        };
        let (created_at, updated_at, state_changed_at, head) = (at, at, at, String::new());
        Resource { content, version: 1, head, created_at, updated_at, state_changed_at }
    }
}
