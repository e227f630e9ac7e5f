//! Explains the state of a satellite.

use jiff::Timestamp;
use wardroom_core::{
    satellite::{Event, REISSUE, State, TABLE},
    table::Owner,
    why::{Blocker, Exit, Next, Stay, Why, explain},
};
use wardroom_store::{EffectProgress, Resource, Rows};

use super::{
    asked::{HARBOR_ROBOT, PUBLISH_STATE, SPIRE_ENTRY},
    document::{self, Document, Flow, KIND},
    identity::handle_of,
    knocks::Knocks,
    replication::{self, Replication},
};
use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::satellite::{
        config::{self, CONFIGS},
        group::GROUPS,
    },
    platform::{app::App, deleted::pending, http::error::Error, liveness},
};

pub(crate) async fn why(app: &App, name: &str) -> Result<Vec<Why>, Error> {
    let satellite = super::find(app, name).await?;
    let (state, document, now) = (document::state(&satellite)?, Document::of(&satellite)?, app.now());
    let mut stay = Stay::of(state, satellite.state_changed_at);
    if state == State::Pending {
        let ends = ends(&document).filter(|_| !joins(&document));
        stay.patience = ends.map(|end| end.duration_since(stay.counted_from));
    }
    let mut blockers = blockers(name, state, &document, now);
    if state == State::Pending && document.flow == Flow::Spiffe && Settings::of(&app.config).spiffe.is_none()
    {
        let what = "it registers with a certificate, and this server has no listener for certificates \
                    ([spiffe] in the configuration): it can register only at a replica that has one";
        blockers.push(Blocker { what: what.into(), fix: None });
    }
    if state == State::Online {
        blockers.extend(liveness::view::blockers(app, KIND, &satellite.content.id).await?);
    }
    if let (State::Stale, Some(config)) = (state, &document.config) {
        let silences = config::silences(app, config).await?;
        blockers
            .extend(silences.map(|what| Blocker { what: what.into(), fix: Some(CONFIGS.edit.of(config)) }));
    }
    let replication = match state {
        State::Online => Some(replication::of(app, &satellite, now).await?),
        State::Pending | State::Stale | State::Revoked => None,
    };
    let effects = app.store.effects_of(KIND, &satellite.content.id).await?;
    // Outstanding effects do not keep a revoked satellite from being refused.
    if state != State::Revoked {
        blockers.extend(effects.iter().filter_map(pending));
        blockers.extend(unpublished(app, &document).await?);
    }
    let replicates = replication.map(|Replication { blockers: more, said }| {
        blockers.extend(more);
        said
    });
    let mut why = explain(TABLE, name, state, stay, now, blockers);
    if state == State::Online {
        why.fine.extend(liveness::view::heard(app, KIND, &satellite.content.id));
    }
    why.meaning.to_mut().push_str(&replicates.unwrap_or_default());
    why.meaning.to_mut().push_str(&more(app, &satellite, state, &effects).await?);
    if state == State::Revoked {
        why.blockers.extend(knocking(app, &satellite, &document));
    }
    let way = way_in(&document);
    // A pending satellite comes in one of two ways.
    why.exits.retain(|exit| match exit.event() {
        Some(event @ (Event::Registered | Event::Refreshed)) => event == way,
        Some(Event::Heartbeat | Event::HeartbeatsMissed | Event::Revoke | Event::Reenable) | None => true,
    });
    if let (Next::Wait { until, .. }, Some(first)) = (&mut why.next, why.exits.first()) {
        until.clone_from(&first.when);
    }
    match state {
        State::Pending => why.exits.push(Exit {
            on: None,
            to: State::Pending.as_str(),
            when: "A person gives the satellite a new token if it lost its credential.".into(),
            by: Owner::Admin,
            call: Some(REISSUE.of(name)),
        }),
        State::Stale => {
            if let Next::Wait { until, .. } = &mut why.next {
                *until =
                    "The satellite sends heartbeats again; if it does not, check its host and its network."
                        .into();
            }
        }
        State::Revoked if must_reissue(&document, &satellite) => {
            why.exits.iter_mut().for_each(|exit| exit.call = Some(REISSUE.of(name)));
            why.next = Next::Call(REISSUE.of(name));
        }
        State::Online | State::Revoked => {}
    }
    Ok(vec![why])
}

/// A blocker for a revoked satellite that is still asking: it has to be let in, or stopped.
fn knocking(app: &App, satellite: &Resource, document: &Document) -> Option<Blocker> {
    let robot = document.robot.as_ref().map(|robot| robot.name.clone());
    let robot = robot.unwrap_or_else(|| handle_of(&satellite.content.name));
    let handles = [Some(robot), document.spiffe_id.clone()];
    let of = |handle: String| app.part::<Knocks>().of(&handle, satellite.state_changed_at, app.now());
    let knock = handles.into_iter().flatten().filter_map(of).max_by_key(|knock| knock.last)?;
    let what = match knock.count {
        1 => "it still runs and asks with its old credential: refused once".to_owned(),
        count => format!("it still runs and asks with its old credential: refused {count} times"),
    };
    let at = knock.last.strftime("%Y-%m-%dT%H:%M:%SZ");
    let what = format!("{what}, last {at}; let it in again, or stop it at its host");
    Some(Blocker { what: what.into(), fix: None })
}

/// Whether a revoked satellite can come back with a new token only.
fn must_reissue(document: &Document, satellite: &Resource) -> bool {
    document.credential.is_none() || document.has_own_agent(&satellite.content.name)
}

/// Returns facts of this satellite beyond its state: the person that revoked it and the reason, or its last
/// beat.
async fn more(
    app: &App,
    satellite: &Resource,
    state: State,
    effects: &[EffectProgress],
) -> Result<String, Error> {
    let id = &satellite.content.id;
    let mut said = String::new();
    match state {
        State::Revoked => {
            let (rows, _) = app.store.history(KIND, id, Rows::Transitions, 1, 0).await?;
            if let Some(entry) = rows.first().map(|row| &row.entry) {
                let by = entry.user_id.as_deref().unwrap_or(&entry.triggered_by);
                let reason = entry
                    .comment
                    .as_deref()
                    .map_or(", without a comment".to_owned(), |why| format!(": {why}"));
                said = format!(" Revoked by {by}{reason}.");
            }
            if let Some(untold) = untold(effects) {
                said.push_str(&format!(" It is refused already; {untold}."));
            }
        }
        State::Stale => {
            liveness::view::refresh(app, KIND, std::slice::from_ref(satellite)).await?;
            if let Some((seen, interval)) = app.liveness.last_beat(KIND, id) {
                let held = interval.map_or_else(String::new, |interval| format!(", held to {interval}"));
                said = format!(" Last heard {}{held}.", seen.strftime("%Y-%m-%dT%H:%M:%SZ"));
            }
        }
        State::Pending | State::Online => {}
    }
    Ok(said)
}

/// Lists outstanding effects of a refused satellite, one of each type, first those that would let it in.
/// Later effects of a type wait for the first.
fn untold(effects: &[EffectProgress]) -> Option<String> {
    let first = |name| effects.iter().filter(|effect| effect.effect_type == name).find_map(pending);
    let untold = [HARBOR_ROBOT, SPIRE_ENTRY, PUBLISH_STATE].into_iter().filter_map(first);
    untold.map(|Blocker { what, .. }| what.into_owned()).reduce(|all, next| format!("{all}; {next}"))
}

/// The event by which a pending satellite comes online: with its old credential, or by registering.
fn way_in(document: &Document) -> Event {
    match (&document.registration, document.refresh) {
        (None, Some(_)) => Event::Refreshed,
        (Some(_), _) | (None, None) => Event::Registered,
    }
}

/// Blockers for images that the satellite's state names and the registry may not have yet.
async fn unpublished(app: &App, document: &Document) -> Result<Vec<Blocker>, Error> {
    let groups = document.groups.iter().map(|group| (GROUPS, group));
    let mut blockers = Vec::new();
    for (named, name) in groups.chain(document.config.iter().map(|config| (CONFIGS, config))) {
        let effects = app.store.effects_of(named.kind, name).await?;
        let open = effects.iter().filter(|effect| effect.effect_type == PUBLISH_STATE).filter_map(pending);
        blockers.extend(open.map(|blocker| {
            let what = format!("of the {} {name}, {}", named.word, blocker.what).into();
            Blocker { what, ..blocker }
        }));
    }
    Ok(blockers)
}

/// Whether its token is a join token for its agent, which after joining can register at any time.
fn joins(document: &Document) -> bool {
    document.flow == Flow::Spiffe && document.registration.is_some()
}

/// Until when a pending satellite can register by itself.
fn ends(document: &Document) -> Option<Timestamp> {
    let token = document.registration.as_ref().map(|registration| registration.expires_at);
    token.or(document.refresh.map(|refresh| refresh.until))
}

fn blockers(name: &str, state: State, document: &Document, now: Timestamp) -> Vec<Blocker> {
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
        blockers.extend(what.map(|what| Blocker { what: what.into(), fix: Some(REISSUE.of(name)) }));
    }
    blockers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(effects: &[(&str, Option<&str>)], expected: Option<&str>) {
        let effect = |(id, (name, error)): (i64, &(&str, Option<&str>))| EffectProgress {
            id,
            effect_type: (*name).to_owned(),
            sequence: id,
            created_at: Timestamp::UNIX_EPOCH,
            attempts: i64::from(error.is_some()),
            last_error: error.map(str::to_owned),
            next_attempt_at: None,
            done_at: (*error == Some("done")).then_some(Timestamp::UNIX_EPOCH),
            claimed_until: None,
        };
        let effects: Vec<_> = (1..).zip(effects).map(effect).collect();
        assert_eq!(untold(&effects).as_deref(), expected);
    }

    /// Each system is told in its own time: outstanding changes in one do not hide those in another.
    #[test]
    fn a_revoked_satellite_lists_every_system_with_outstanding_changes() {
        check(&[], None);
        check(&[("harbor_robot", Some("done")), ("publish_state", Some("done"))], None);
        check(
            &[
                ("publish_state", Some("503")),
                ("spire_entry", Some("no route")),
                ("harbor_robot", Some("done")),
                ("harbor_robot", None),
                ("harbor_robot", Some("is behind the one before")),
            ],
            Some(
                "harbor_robot has not been done yet; spire_entry was tried once and failed: no route; \
                 publish_state was tried once and failed: 503",
            ),
        );
    }
}
