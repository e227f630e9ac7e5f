//! Recognises satellites by their credentials, from memory: a beat needs no read of the database.
//!
//! The cache is the platform's ([`crate::platform::identity::cache`]); this module defines its entries.

mod known;

use std::{
    collections::HashSet,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

pub(crate) use known::{Known, Shown, Standing, Which, handle_of};
use wardroom_store::Resource;

use super::{
    document::{self, Document, KIND},
    knocks::Knocks,
    secret,
};
use crate::platform::{
    app::App,
    clock::Moment,
    config::Config,
    http::error::Error,
    identity::{cache::Cache, secret::same},
    parts::Parts,
};

/// How often the check of a registration is repeated if it was too slow to count.
const TRIES: usize = 2;

const UNKNOWN: Error = Error::Basic("the credential is not valid: it is unknown, revoked or not issued yet");

/// A calling satellite, and the credential it showed.
#[derive(Debug, Clone)]
pub(crate) struct SatelliteIdentity {
    pub(crate) id: Box<str>,
    pub(crate) name: Box<str>,
    handle: Box<str>,
    shown: Shown,
}

impl SatelliteIdentity {
    /// Whether it showed a certificate, on the listener for certificates.
    pub(crate) fn shows_certificate(&self) -> bool {
        matches!(self.shown, Shown::Svid(_))
    }

    /// Whether it showed the secret with this hash.
    pub(crate) fn shows(&self, hash: &str) -> bool {
        match self.shown {
            Shown::Secret(shown) => secret::hash_of(hash).is_some_and(|known| same(&known, &shown)),
            Shown::Svid(_) => false,
        }
    }
}

/// The label of zones, and the zone names, each stored once.
pub(crate) struct Zones {
    label: String,
    names: Mutex<HashSet<Arc<str>>>,
}

impl Zones {
    pub(crate) fn of(label: &str) -> Self {
        Self { label: label.to_owned(), names: Mutex::default() }
    }

    fn zone_of(&self, satellite: &Resource) -> Option<Arc<str>> {
        let name = satellite.content.labels.get(&self.label)?.as_str();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return Some(Arc::clone(known));
        }
        let name = Arc::<str>::from(name);
        names.insert(Arc::clone(&name));
        Some(name)
    }
}

pub(crate) struct Identities(Arc<Cache<Known>>);

impl Identities {
    pub(crate) fn of(app: &App) -> &Self {
        app.part()
    }

    pub(crate) fn new(parts: &mut Parts, config: &Config) -> Self {
        Self(parts.cache(Zones::of(&config.liveness.zone_label)))
    }

    /// Reads a satellite without keeping it.
    pub(crate) fn read(&self, satellite: &Resource, read_at: Moment) -> Result<Known, Error> {
        self.0.read(satellite, read_at)
    }

    /// Waits until every other server has noticed a revocation.
    pub(crate) async fn settle(&self) {
        self.0.settle().await;
    }

    /// Recognises the satellite by the credential of a caller.
    pub(crate) async fn identify(
        &self,
        app: &App,
        handle: &str,
        shown: Shown,
        from: IpAddr,
    ) -> Result<SatelliteIdentity, Error> {
        let standing = self.0.identify(app, handle, shown, from).await;
        if let Err(Error::Revoked) = &standing {
            app.part::<Knocks>().note(handle, app.now());
        }
        let known = standing?.known;
        let (id, name) = (known.id().into(), known.name().into());
        Ok(SatelliteIdentity { id, name, handle: handle.into(), shown })
    }

    /// Judges a satellite again: after its body was read, and once more before the answer is sent, because
    /// each may have taken a while.
    pub(crate) async fn standing(&self, app: &App, identity: &SatelliteIdentity) -> Result<Standing, Error> {
        self.0.standing(app, &identity.handle, identity.shown).await
    }

    /// Checks that the credential of this version is still valid, right before it is handed out.
    pub(crate) async fn check_issued(&self, app: &App, satellite: &Resource) -> Result<(), Error> {
        let Document { credential, robot, .. } = Document::of(satellite)?;
        let issued = credential.and_then(|issued| secret::hash_of(&issued.hash));
        let shown = Shown::Secret(issued.ok_or(UNKNOWN)?);
        let handle = robot.map_or_else(|| handle_of(&satellite.content.name), |robot| robot.name);
        // Its token is used up, so a slow check is repeated before the credential is withheld.
        for _ in 0..TRIES {
            match self.0.standing(app, &handle, shown).await {
                Err(Error::Unavailable(why)) => tracing::info!(why, "registration is judged again"),
                judged => return judged.map(drop),
            }
        }
        self.0.standing(app, &handle, shown).await.map(drop)
    }
}

/// Finds the living satellite by its user name. A registry chooses the names of its robots, so names are
/// looked up among robots first.
async fn look_up(app: &App, handle: &str) -> Result<Option<Resource>, Error> {
    if handle.starts_with("spiffe://") {
        return Ok(app.store.get_by_key(KIND, &document::spiffe_key(handle)).await?);
    }
    let robot = app.store.get_by_key(KIND, &document::robot_key(handle)).await?;
    match handle.strip_prefix("robot$") {
        Some(name) if robot.is_none() => Ok(app.store.get_by_key(KIND, &document::name_key(name)).await?),
        _ => Ok(robot),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use wardroom_store::Content;

    use super::*;
    use crate::platform::{clock::Timepiece, identity::deny::Forgets as _};

    fn satellites() -> Cache<Known> {
        Cache::new(Zones::of("zone"), false, Arc::default())
    }

    fn satellite(version: i64) -> Resource {
        let at = Timestamp::UNIX_EPOCH;
        let content = Content {
            kind: KIND.to_owned(),
            id: "1".to_owned(),
            name: "edge".to_owned(),
            state: "online".to_owned(),
            document: wardroom_store::Document::of(&Document::default()).unwrap(),
            labels: Default::default(),
            fields: Default::default(),
            keys: Default::default(),
            due_at: None,
            deleted: false,
        };
        let (created_at, updated_at, state_changed_at, head) = (at, at, at, String::new());
        Resource { content, version, head, created_at, updated_at, state_changed_at }
    }

    /// A commit that was not answered may have happened: what was read before it is not believed, also when it is
    /// noted after it.
    #[test]
    fn a_record_from_before_a_doubtful_change_is_not_trusted() {
        let (identities, now) = (satellites(), Timepiece::default().moment());
        let version = || identities.believed("robot$edge", now).map(|known| known.version());
        identities.note(&satellite(3), now);
        identities.complete();
        assert_eq!(version(), Some(3));
        assert!(identities.is_complete());
        identities.doubt("1", 4, now);
        assert_eq!(version(), None);
        assert!(!identities.is_complete(), "nor are the missing satellites known");
        identities.note(&satellite(3), now);
        assert_eq!(version(), None, "this was read before");
        identities.note(&satellite(4), now);
        assert_eq!(version(), Some(4));
    }

    /// Ids begin with the time, and a clock may go back: the newer of two satellites of a name may have the lower id.
    #[test]
    fn a_deleted_satellite_stands_in_the_way_of_no_other() {
        let (identities, now) = (satellites(), Timepiece::default().moment());
        let of = |id: &str, version: i64, deleted: bool| {
            let mut satellite = satellite(version);
            satellite.content.id = id.to_owned();
            satellite.content.deleted = deleted;
            satellite
        };
        let found = || identities.believed("robot$edge", now).map(|known| known.id());
        for (gone, living) in [("2", "1"), ("3", "4")] {
            identities.note(&of(gone, 1, false), now);
            identities.note(&of(gone, 2, true), now);
            identities.note(&of(living, 1, false), now);
            assert_eq!(found().as_deref(), Some(living));
            identities.note(&of(gone, 2, true), now);
            assert_eq!(found().as_deref(), Some(living), "what is known of the other comes late");
            identities.note(&of(gone, 1, false), now);
            assert_eq!(found().as_deref(), Some(living), "and this was read before it was deleted");
            identities.note(&of(living, 2, true), now);
        }
    }

    /// A registry may put words of its own before the names of robots, and so call one as we would call another.
    #[test]
    fn the_name_of_a_robot_goes_before_a_name_that_we_would_give() {
        let now = Timepiece::default().moment();
        let robot = |id: &str, name: &str| {
            let mut satellite = satellite(1);
            (satellite.content.id, satellite.content.name) = (id.to_owned(), name.to_owned());
            let robot = document::Robot {
                id: 1,
                name: format!("robot$x-{name}"),
                expires_at: Timestamp::UNIX_EPOCH,
                renew_at: None,
                epoch: 1,
                disabled: false,
            };
            let document = Document { robot: Some(robot), ..Document::default() };
            satellite.content.document = wardroom_store::Document::of(&document).unwrap();
            satellite
        };
        // One that is about to be called, and is deleted before it ever is.
        let identities = satellites();
        identities.note(&robot("1", "edge"), now);
        for (version, deleted) in [(1, false), (2, false), (3, true)] {
            let mut newcomer = satellite(version);
            (newcomer.content.id, newcomer.content.name) = ("2".to_owned(), "x-edge".to_owned());
            newcomer.content.deleted = deleted;
            identities.note(&newcomer, now);
            let found = identities.believed("robot$x-edge", now).unwrap();
            assert_eq!(&*found.id(), "1", "the robot's beat is not refused for {version}");
        }
        let satellites_of = [robot("1", "edge"), robot("2", "x-edge")];
        for order in [[0, 1, 0], [1, 0, 1]] {
            let identities = satellites();
            order.iter().for_each(|at| identities.note(&satellites_of[*at], now));
            for (handle, id) in [("robot$x-edge", "1"), ("robot$x-x-edge", "2"), ("robot$edge", "1")] {
                let found = identities.believed(handle, now).unwrap();
                assert_eq!(&*found.id(), id, "{handle}");
            }
        }
    }

    /// A million of them are kept.
    #[test]
    fn a_satellite_in_memory_is_small() {
        assert!(size_of::<Known>() <= 160, "{}", size_of::<Known>());
    }
}
