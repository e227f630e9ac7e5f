//! Why a satellite is where it is.

use jiff::Timestamp;
use wardroom_core::{
    satellite::{Event, State, TABLE},
    table::{Call, Role},
    why::{Blocker, Next, Stay, Why, explain},
};
use wardroom_store::EffectProgress;

use super::{
    document::{self, Document, Flow, KIND},
    effects::PUBLISH_STATE,
};
use crate::{app::App, error::Error, liveness, satellite_config::CONFIGS, satellite_group::GROUPS};

const REISSUE: Call = Call {
    request: r#"POST /api/satellites/{name}/reenable {"mode":"reissue"}"#,
    role: Role::Operator,
    precondition: Some("hand the new token to the satellite; the old one is void from then on"),
};

/// Explains a satellite.
pub(crate) async fn why(app: &App, name: &str) -> Result<Vec<Why>, Error> {
    let satellite = super::find(app, name).await?;
    let (state, document, now) = (document::state(&satellite)?, Document::of(&satellite)?, app.now());
    let mut stay = Stay::of(state, satellite.state_changed_at);
    if state == State::Pending {
        let ends = ends(&document).filter(|_| !joins(&document));
        stay.patience = ends.map(|end| end.duration_since(stay.counted_from));
    }
    let mut blockers = blockers(state, &document, now);
    if state == State::Online {
        blockers.extend(liveness::view::blockers(app, KIND, &satellite.content.id).await?);
    }
    blockers.extend(app.store.effects_of(KIND, &satellite.content.id).await?.iter().filter_map(open));
    blockers.extend(unpublished(app, &document).await?);
    let mut why = explain(TABLE, state, stay, now, blockers);
    let way = way_in(&document);
    let mut rows = TABLE.moves_from(state);
    why.exits.retain(|_| {
        rows.next()
            .is_some_and(|row| ![Event::Registered, Event::Refreshed].contains(&row.on) || row.on == way)
    });
    if let (Next::Wait { until, .. }, Some(first)) = (&mut why.next, why.exits.first()) {
        until.clone_from(&first.when);
    }
    Ok(vec![why])
}

/// How a pending satellite comes in: with the credential that it had, or as a new one does.
fn way_in(document: &Document) -> Event {
    match (&document.registration, document.refresh) {
        (None, Some(_)) => Event::Refreshed,
        (Some(_), _) | (None, None) => Event::Registered,
    }
}

/// Another system that has not been told yet.
fn open(effect: &EffectProgress) -> Option<Blocker> {
    let EffectProgress { effect_type, attempts, last_error, done_at: None, .. } = effect else { return None };
    let what = match last_error {
        Some(error) if *attempts == 1 => format!("{effect_type} was tried once and failed: {error}"),
        Some(error) => format!("{effect_type} was tried {attempts} times and failed: {error}"),
        None => format!("{effect_type} has not been done yet"),
    };
    Some(Blocker { what: what.into(), fix: None })
}

/// What the satellite's state names and the registry may not have yet.
async fn unpublished(app: &App, document: &Document) -> Result<Vec<Blocker>, Error> {
    let groups = document.groups.iter().map(|group| (GROUPS, group));
    let mut blockers = Vec::new();
    for (named, name) in groups.chain(document.config.iter().map(|config| (CONFIGS, config))) {
        let effects = app.store.effects_of(named.kind, name).await?;
        let open = effects.iter().filter(|effect| effect.effect_type == PUBLISH_STATE).filter_map(open);
        blockers.extend(open.map(|blocker| {
            let what = format!("of the {} {name}, {}", named.word, blocker.what).into();
            Blocker { what, ..blocker }
        }));
    }
    Ok(blockers)
}

/// Whether its token is for its agent, which joins SPIRE with it: who joined in time registers whenever it likes.
fn joins(document: &Document) -> bool {
    document.flow == Flow::Spiffe && document.registration.is_some()
}

/// Until when a pending satellite can come by itself.
fn ends(document: &Document) -> Option<Timestamp> {
    let token = document.registration.as_ref().map(|registration| registration.expires_at);
    token.or(document.refresh.map(|refresh| refresh.until))
}

fn blockers(state: State, document: &Document, now: Timestamp) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    if state == State::Pending {
        let what = match (&document.registration, document.refresh) {
            (Some(registration), _) if registration.expires_at <= now && joins(document) => {
                let what = format!(
                    "its join token expired at {}: if its agent had not joined SPIRE by then, re-enable it with mode reissue",
                    registration.expires_at
                );
                blockers.push(Blocker { what: what.into(), fix: None });
                None
            }
            (Some(registration), _) if registration.expires_at <= now => {
                Some(format!("its registration token expired at {}", registration.expires_at))
            }
            (None, Some(refresh)) if refresh.until <= now => {
                Some(format!("the time to exchange its old credential ended at {}", refresh.until))
            }
            (Some(_), _) | (None, Some(_)) | (None, None) => None,
        };
        blockers.extend(what.map(|what| Blocker { what: what.into(), fix: Some(REISSUE) }));
    }
    blockers
}
