//! Who a satellite is, from memory: a beat asks no database.
//!
//! What must stay true: from the answer to a revocation, a deletion or a reissue on, no server lets the old credential
//! in. An embedded database has one server, which remembers its own changes as it commits them. With PostgreSQL
//! another server may have changed anything, so what is remembered holds for [`MEMORY`] only, counted from before the
//! read that found it, or from before the last read of the deny set ([`super::deny`]) that did not name it; whoever
//! takes access away waits for that long before saying so. Nor is anybody refused from memory there: another server may
//! have issued what is shown. Who shows what is not known here waits for a turn to be looked up, and who shows what is
//! known waits for nobody, so that guessing is paid for by who guesses.

mod known;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use jiff::Timestamp;
pub(crate) use known::{Known, Shown, Standing, Which, handle_of};
use tokio::sync::{Semaphore, SemaphorePermit};
use wardroom_store::{Denied, Location, Resource};

use super::{
    document::{self, Document, KIND},
    secret,
};
use crate::{app::App, config::Config, error::Error, secret::same};

/// How long a server of several believes what it has not confirmed.
const MEMORY: Duration = Duration::from_secs(1);

/// What clocks of different machines may differ in speed over that time, many times over.
const MARGIN: Duration = Duration::from_millis(50);

/// How long a version that others announced is remembered: longer than any read takes.
const ANNOUNCED: Duration = Duration::from_secs(120);

/// Lookups at a time on behalf of addresses that fail a lot, as many on behalf of who shows what is not known here to be
/// a satellite's, and how long one waits for its turn. Both together are fewer than there are connections to read with.
const TURNS: usize = 2;
const LONGEST_TURN: Duration = Duration::from_secs(5);

/// How often a registration is judged again whose judgement came too late to count.
const TRIES: usize = 2;

const UNKNOWN: Error = Error::Robot("the credential is not valid: it is unknown, void or not issued yet");

/// A point on both clocks: a machine that slept has one that stood still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    pub(crate) time: Timestamp,
}

/// A satellite that calls, and what it showed.
#[derive(Debug, Clone)]
pub(crate) struct SatelliteIdentity {
    pub(crate) id: Box<str>,
    pub(crate) name: Box<str>,
    handle: Box<str>,
    shown: Shown,
}

impl SatelliteIdentity {
    /// Whether it came with a certificate, and so by the listener for those.
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

/// What is remembered of all satellites.
pub(crate) struct Identities {
    memory: RwLock<Memory>,
    /// Whether other servers change satellites too.
    shared: bool,
    /// For lookups on behalf of strangers.
    turns: Semaphore,
    /// For lookups of satellites whose credential is another one as far as is known here. Strangers do not queue here:
    /// who was given a new one by another server would wait behind them.
    doubts: Semaphore,
    /// The label that says who falls silent together.
    zone_label: String,
}

/// What is remembered under a name.
struct Recalled {
    /// The satellite, if what is remembered may be believed.
    believed: Option<Arc<Known>>,
    /// The satellite, if there is one, or was a moment ago.
    living: Option<Arc<Known>>,
    /// Whether who is not remembered is not anywhere.
    complete: bool,
}

#[derive(Default)]
struct Memory {
    known: HashMap<Box<str>, Arc<Known>>,
    /// For satellites that were changed lately, the version below which nothing is believed.
    floor: HashMap<Box<str>, (i64, Instant)>,
    /// When the last read of the deny set began.
    confirmed: Option<Moment>,
    /// Whether who is not here is not anywhere.
    complete: bool,
}

impl Identities {
    pub(crate) fn new(config: &Config) -> Self {
        let shared = matches!(config.location, Location::Postgres { .. });
        let zone_label = config.liveness.zone_label.clone();
        let [turns, doubts] = [TURNS, TURNS].map(Semaphore::new);
        Self { memory: RwLock::default(), shared, turns, doubts, zone_label }
    }

    /// What requests are judged by, from a stored satellite.
    pub(crate) fn read(&self, resource: &Resource, read_at: Moment) -> Result<Known, Error> {
        Known::of(resource, read_at, &self.zone_label)
    }

    /// Whether other servers change satellites too.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Remembers a satellite as it was read or committed.
    pub(crate) fn note(&self, resource: &Resource, read_at: Moment) {
        // One that cannot be read is told to the log, and found again by who asks for it.
        let Ok(known) = self.read(resource, read_at).map(Arc::new) else { return };
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let own = |handle: &str| memory.known.get(handle).filter(|old| old.id == known.id);
        let older = own(&handle_of(&known.name));
        let older = older.or_else(|| known.handles.iter().find_map(|handle| own(handle))).cloned();
        // One that was read before somebody else changed it knows less than we do.
        if older.as_ref().is_some_and(|older| older.version > known.version) {
            return;
        }
        for handle in older.iter().flat_map(|old| &old.handles) {
            let is_its = memory.known.get(handle).is_some_and(|found| found.id == known.id);
            if is_its && !known.handles.contains(handle) {
                memory.known.remove(handle);
            }
        }
        let is_outdated =
            |known: &Known| memory.floor.get(&known.id).is_some_and(|(version, _)| *version > known.version);
        for handle in &known.handles {
            let stays = |old: &Arc<Known>| match old.id == known.id {
                true => old.version > known.version,
                false => is_outdated(&known) || old.goes_before(&known, handle),
            };
            if !memory.known.get(handle).is_some_and(stays) {
                memory.known.insert(handle.clone(), Arc::clone(&known));
            }
        }
        announce(&mut memory.floor, &known.id, known.version, read_at.instant);
    }

    /// Believes nothing below this version of a satellite, because another server has changed it.
    pub(crate) fn announce(&self, id: &str, version: i64, now: Instant) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        announce(&mut memory.floor, id, version, now);
    }

    /// Believes what is remembered for a while longer, but for what the deny set names; `asked` is from before the
    /// read. After a gap in which something may have been missed, everything is forgotten.
    pub(crate) fn confirm(&self, denied: &[Denied], asked: Moment, longest_gap: Duration) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let missed = |last: Moment| asked.instant.saturating_duration_since(last.instant) > longest_gap;
        match memory.confirmed {
            Some(last) if missed(last) => memory.known.clear(),
            Some(_) => {}
            None => memory.known.retain(|_, known| !missed(known.read_at)),
        }
        for row in denied.iter().filter(|row| row.kind == KIND) {
            announce(&mut memory.floor, &row.id, row.version, asked.instant);
        }
        memory.confirmed = Some(asked);
    }

    /// Says that every satellite there is is remembered.
    pub(crate) fn complete(&self) {
        self.memory.write().unwrap_or_else(PoisonError::into_inner).complete = true;
    }

    /// A change to this version may have happened, or may happen yet: what was there before is looked up again.
    pub(crate) fn doubt(&self, id: &str, version: i64, now: Instant) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        announce(&mut memory.floor, id, version, now);
        memory.complete = false;
    }

    /// Forgets versions that no read can be behind of any more.
    pub(crate) fn sweep(&self, now: Instant) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let Memory { known, floor, .. } = memory;
        known.retain(|_, known| floor.get(&known.id).is_none_or(|(version, _)| *version <= known.version));
        floor.retain(|_, (_, seen)| now.saturating_duration_since(*seen) < ANNOUNCED);
    }

    /// Waits until every other server has noticed that access was taken away.
    pub(crate) async fn settle(&self) {
        if self.shared {
            tokio::time::sleep(MEMORY + MARGIN).await;
        }
    }

    /// The satellite behind what a caller shows, or why there is none.
    pub(crate) async fn identify(
        &self,
        app: &App,
        handle: &str,
        shown: Shown,
        from: IpAddr,
    ) -> Result<SatelliteIdentity, Error> {
        let standing = self.find(app, handle, shown, Some(from)).await?;
        let Known { id, name, .. } = &*standing.known;
        Ok(SatelliteIdentity { id: id.clone(), name: name.clone(), handle: handle.into(), shown })
    }

    /// The satellite as it is now: asked again when an answer is about to be given, because its body may have
    /// taken its time, and once more when there is an answer, because that may have taken longer still.
    pub(crate) async fn standing(&self, app: &App, identity: &SatelliteIdentity) -> Result<Standing, Error> {
        self.find(app, &identity.handle, identity.shown, None).await
    }

    /// Whether the credential that a satellite has in this version is still one, right before it is handed out.
    pub(crate) async fn check_issued(&self, app: &App, satellite: &Resource) -> Result<(), Error> {
        let Document { credential, robot, .. } = Document::of(satellite)?;
        let issued = credential.and_then(|issued| secret::hash_of(&issued.hash));
        let shown = Shown::Secret(issued.ok_or(UNKNOWN)?);
        let handle = robot.map_or_else(|| handle_of(&satellite.content.name), |robot| robot.name);
        // Its token is spent: a database that was slow once is asked again before nothing is handed out.
        for _ in 0..TRIES {
            match self.find(app, &handle, shown, None).await {
                Err(Error::Unavailable(why)) => tracing::info!(why, "a registration is judged again"),
                judged => return judged.map(drop),
            }
        }
        self.find(app, &handle, shown, None).await.map(drop)
    }

    async fn find(
        &self,
        app: &App,
        handle: &str,
        shown: Shown,
        from: Option<IpAddr>,
    ) -> Result<Standing, Error> {
        let asked = app.moment();
        let Recalled { believed, living, complete } = self.recall(handle, asked);
        match believed.map(|known| known.standing(shown, asked.time)) {
            Some(Ok(standing)) => return Ok(standing),
            Some(Err(refused)) if !self.shared => return count(app, from, refused),
            None if complete && !self.shared => return count(app, from, UNKNOWN),
            // Another server may have changed it meanwhile.
            Some(Err(_)) | None => {}
        }
        let _turn = match (from, living) {
            (Some(from), None) => self.turn(app, from, asked.instant).await?,
            (Some(_), Some(known)) if !known.has(shown, asked.time) => Some(wait(&self.doubts).await?),
            (Some(_), Some(_)) | (None, _) => None,
        };
        let now = app.moment();
        // Who guesses at one satellite does it many times at once: one read that began since then speaks for all.
        let recalled = self.recall(handle, now);
        let is_new = |known: &Arc<Known>| !known.deleted && known.read_at.instant >= asked.instant;
        if let Some(known) = recalled.believed.filter(is_new) {
            return known.standing(shown, now.time).or_else(|refused| count(app, from, refused));
        }
        let Some(resource) = look_up(app, handle).await? else {
            return count(app, from, UNKNOWN);
        };
        self.note(&resource, now);
        let known = Arc::new(self.read(&resource, now)?);
        let standing = known.standing(shown, now.time).or_else(|refused| count(app, from, refused))?;
        // While the answer was on its way, a revocation may have been acknowledged elsewhere.
        if self.shared && !app.moment().is_within(now) {
            app.liveness.refuses();
            return Err(Error::Unavailable(
                "the database answers too slowly to say whether the credential still counts: repeat",
            ));
        }
        Ok(standing)
    }

    /// Who comes from an address that fails a lot, under a name that nobody here has heard of, waits for a turn: a
    /// neighbour who guesses costs a newcomer a moment, not its beat, and the database next to nothing.
    pub(crate) async fn turn(
        &self,
        app: &App,
        from: IpAddr,
        now: Instant,
    ) -> Result<Option<SemaphorePermit<'_>>, Error> {
        if !app.limiter.has_failed_a_lot(from, now) {
            return Ok(None);
        }
        wait(&self.turns).await.map(Some)
    }

    fn recall(&self, handle: &str, now: Moment) -> Recalled {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let holds = |known: &&Arc<Known>| {
            let newest = memory.floor.get(&known.id).is_none_or(|(version, _)| *version <= known.version);
            newest && (!self.shared || now.is_within(known.read_at) || now.is_within_some(memory.confirmed))
        };
        let known = memory.known.get(handle);
        let living = known.filter(|known| !known.deleted).cloned();
        Recalled { believed: known.filter(holds).cloned(), living, complete: memory.complete }
    }
}

impl Moment {
    fn is_within_some(self, earlier: Option<Self>) -> bool {
        earlier.is_some_and(|earlier| self.is_within(earlier))
    }

    /// Whether so little time has passed, on both clocks, that nothing can have been acknowledged since.
    fn is_within(self, earlier: Self) -> bool {
        let steady = self.instant.saturating_duration_since(earlier.instant);
        let wall = self.time.duration_since(earlier.time);
        steady < MEMORY && wall.abs() < jiff::SignedDuration::try_from(MEMORY).unwrap_or_default()
    }
}

async fn wait(turns: &Semaphore) -> Result<SemaphorePermit<'_>, Error> {
    match tokio::time::timeout(LONGEST_TURN, turns.acquire()).await {
        Ok(permit) => permit.map_err(|_| Error::Internal),
        Err(_) => Err(Error::TooMany(1)),
    }
}

fn announce(floor: &mut HashMap<Box<str>, (i64, Instant)>, id: &str, version: i64, now: Instant) {
    match floor.get_mut(id) {
        Some((known, seen)) => (*known, *seen) = ((*known).max(version), now),
        None => drop(floor.insert(id.into(), (version, now))),
    }
}

/// Failures are counted by where they come from: guessing must not be free, and beats must not pay for it.
fn count<T>(app: &App, from: Option<IpAddr>, refused: Error) -> Result<T, Error> {
    if let Some(from) = from {
        app.limiter.count_failure(from, app.clock.instant());
    }
    Err(refused)
}

/// The living satellite that calls itself so. A registry has the say about the names of its robots: one that begins as
/// ours do is looked for among them first.
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
    use wardroom_store::Content;

    use super::*;
    use crate::config::{Sources, resolve};

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
    fn what_was_there_before_a_doubtful_change_is_not_believed() {
        let identities = Identities::new(&resolve(&Sources::default()).unwrap());
        let now = Moment { instant: crate::clock::Clock.instant(), time: Timestamp::UNIX_EPOCH };
        let version = || identities.recall("robot$edge", now).believed.map(|known| known.version);
        identities.note(&satellite(3), now);
        identities.complete();
        assert_eq!(version(), Some(3));
        identities.doubt("1", 4, now.instant);
        assert_eq!(version(), None);
        assert!(!identities.recall("robot$edge", now).complete, "nor is it known who is not there");
        identities.note(&satellite(3), now);
        assert_eq!(version(), None, "this was read before");
        identities.note(&satellite(4), now);
        assert_eq!(version(), Some(4));
    }

    /// Ids begin with the time, and a clock may go back: the newer of two satellites of a name may have the lower id.
    #[test]
    fn a_deleted_satellite_stands_in_the_way_of_no_other() {
        let identities = Identities::new(&resolve(&Sources::default()).unwrap());
        let now = Moment { instant: crate::clock::Clock.instant(), time: Timestamp::UNIX_EPOCH };
        let of = |id: &str, version: i64, deleted: bool| {
            let mut satellite = satellite(version);
            satellite.content.id = id.to_owned();
            satellite.content.deleted = deleted;
            satellite
        };
        let found = || identities.recall("robot$edge", now).believed.map(|known| known.id.to_string());
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
        let now = Moment { instant: crate::clock::Clock.instant(), time: Timestamp::UNIX_EPOCH };
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
        let identities = Identities::new(&resolve(&Sources::default()).unwrap());
        identities.note(&robot("1", "edge"), now);
        for (version, deleted) in [(1, false), (2, false), (3, true)] {
            let mut newcomer = satellite(version);
            (newcomer.content.id, newcomer.content.name) = ("2".to_owned(), "x-edge".to_owned());
            newcomer.content.deleted = deleted;
            identities.note(&newcomer, now);
            let found = identities.recall("robot$x-edge", now).believed.unwrap();
            assert_eq!(&*found.id, "1", "the robot's beat is not refused for {version}");
        }
        let satellites = [robot("1", "edge"), robot("2", "x-edge")];
        for order in [[0, 1, 0], [1, 0, 1]] {
            let identities = Identities::new(&resolve(&Sources::default()).unwrap());
            order.iter().for_each(|at| identities.note(&satellites[*at], now));
            for (handle, id) in [("robot$x-edge", "1"), ("robot$x-x-edge", "2"), ("robot$edge", "1")] {
                let found = identities.recall(handle, now).believed.unwrap();
                assert_eq!(&*found.id, id, "{handle}");
            }
        }
    }
}
