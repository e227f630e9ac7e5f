//! Callers that are recognised from memory: one cache for every kind of credential.
//!
//! A kind implements [`Cached`]: the part of a record that is kept, and how a request is judged by it. The
//! cache keeps members under the names that callers show, reads a record once when a caller is not known, and
//! forgets it when the record changes.
//!
//! What must stay true: once the answer to a revocation, deletion or reissue was sent, no server accepts the
//! old credential. An embedded database has one server; its store tells the cache of each commit before the
//! caller is told ([`super::deny`]). With PostgreSQL another server may have changed anything: an entry
//! counts for [`TRUSTED`] from before the read that found it, or from before the last read of the deny set
//! that did not name it, and a handler that takes access away waits for [`Cache::settle`] before it answers.
//! With several servers no caller is refused from memory, because another server may have issued the
//! credential.
//!
//! Guessing is paid for by the caller that guesses: a lookup for an unknown name waits for a turn once its
//! address failed often, and a known member never waits.

mod index;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use index::Index;
use jiff::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};
use wardroom_store::{Denied, Resource};

use super::deny::Forgets;
use crate::platform::{app::App, clock::Moment, http::error::Error, id::Id};

/// How long a replica trusts an entry that it has not confirmed.
pub(crate) const TRUSTED: Duration = Duration::from_secs(1);

/// Covers differences in the speed of clocks over that time, with a large margin.
const MARGIN: Duration = Duration::from_millis(50);

/// How long the least trusted version of a record is remembered: longer than any read takes.
const ANNOUNCED: Duration = Duration::from_secs(120);

/// Lookups at a time for addresses that fail often, as many for callers whose credential is not the known one, and how
/// long a caller waits for its turn. Both together are fewer than there are connections to read with.
const TURNS: usize = 2;
const LONGEST_TURN: Duration = Duration::from_secs(5);

/// The part of a record that requests are judged by.
pub(crate) trait Cached: Send + Sync + Sized + 'static {
    const KIND: &'static str;
    /// How many members are kept; none for all, which are loaded at the start.
    const MOST: Option<usize>;
    const UNKNOWN: Error;
    /// The setup that reading a record needs.
    type Setup: Send + Sync;
    /// The credential that a caller shows beside its name.
    type Shown: Copy + Send + Sync;
    /// The result for an accepted request.
    type Standing: Send;

    fn read(setup: &Self::Setup, resource: &Resource, read_at: Moment) -> Result<Self, Error>;
    /// Finds the living record that has a name.
    fn look_up(app: &App, name: &str) -> impl Future<Output = Result<Option<Resource>, Error>> + Send;
    fn record(&self) -> &Record;
    /// The names that callers show, numbered from 0 without a gap.
    fn known_as(&self, number: u8) -> Option<&str>;
    /// Whether this member keeps a name that another member has too.
    fn goes_before(&self, _other: &Self, _name: &str) -> bool {
        false
    }
    /// Whether a caller shows a credential of this member, accepted or not.
    fn has(&self, shown: Self::Shown, now: Timestamp) -> bool;
    fn judge(self: &Arc<Self>, shown: Self::Shown, now: Timestamp) -> Result<Self::Standing, Error>;
}

/// The version of the record that a member was read from, and when.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: Id,
    pub(crate) version: i64,
    pub(crate) deleted: bool,
    pub(crate) read_at: Moment,
}

impl Record {
    pub(crate) fn of(resource: &Resource, read_at: Moment) -> Self {
        let content = &resource.content;
        Self { id: Id::new(&content.id), version: resource.version, deleted: content.deleted, read_at }
    }
}

/// Limits concurrent lookups, so that guesses cannot flood the database; shared by all kinds.
pub(crate) struct Turns {
    strangers: Semaphore,
    /// For callers with a known name and an unknown credential, which may be members with a new credential
    /// from another server; they do not queue behind strangers.
    doubts: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        let [strangers, doubts] = [TURNS, TURNS].map(Semaphore::new);
        Self { strangers, doubts }
    }
}

pub(crate) struct Cache<M: Cached> {
    memory: RwLock<Memory<M>>,
    setup: M::Setup,
    /// Whether other servers change records too.
    shared: bool,
    turns: Arc<Turns>,
}

struct Memory<M: Cached> {
    known: Index<M>,
    /// For recently changed records: the least trusted version.
    floor: HashMap<Id, (i64, Moment)>,
    /// When the last read of the deny set began.
    confirmed: Option<Moment>,
    /// Whether every existing member is in the cache.
    complete: bool,
}

/// What is known under a name.
struct Recalled<M> {
    /// The member, if its entry is trusted.
    believed: Option<Arc<M>>,
    /// The member, if the cache has one.
    living: Option<Arc<M>>,
    complete: bool,
}

impl<M: Cached> Cache<M> {
    pub(crate) fn new(setup: M::Setup, shared: bool, turns: Arc<Turns>) -> Self {
        let memory =
            Memory { known: Index::default(), floor: HashMap::new(), confirmed: None, complete: false };
        Self { memory: RwLock::new(memory), setup, shared, turns }
    }

    /// Reads a record without keeping it.
    pub(crate) fn read(&self, resource: &Resource, read_at: Moment) -> Result<M, Error> {
        M::read(&self.setup, resource, read_at)
    }

    /// Keeps a record as it was read or committed, unless a newer version is known.
    pub(crate) fn note(&self, resource: &Resource, read_at: Moment) {
        // `read` logged the error; the next caller with this name causes another read.
        if let Ok(member) = self.read(resource, read_at) {
            let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
            memory.keep(&Arc::new(member));
        }
    }

    /// Returns a member that was trusted within this time, for answers during an outage of the database.
    pub(crate) fn kept(&self, name: &str, within: Duration, now: Moment) -> Option<Arc<M>> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let is_confirmed = memory.confirmed.is_some_and(|confirmed| now.is_within(within, confirmed));
        let known = memory.known.get(name).filter(|known| {
            let record = known.record();
            let is_lately = is_confirmed || now.is_within(within, record.read_at);
            !record.deleted && memory.floor_of(&record.id) <= record.version && is_lately
        });
        known.cloned()
    }

    /// Waits until every other server has noticed a revocation.
    pub(crate) async fn settle(&self) {
        if self.shared {
            tokio::time::sleep(TRUSTED + MARGIN).await;
        }
    }

    /// Recognises the caller of a request from an address; a refusal counts against the address.
    pub(crate) async fn identify(
        &self,
        app: &App,
        name: &str,
        shown: M::Shown,
        from: IpAddr,
    ) -> Result<M::Standing, Error> {
        self.find(app, name, shown, Some(from)).await
    }

    /// Judges a recognised caller again, because its body or answer may have taken a while.
    pub(crate) async fn standing(
        &self,
        app: &App,
        name: &str,
        shown: M::Shown,
    ) -> Result<M::Standing, Error> {
        self.find(app, name, shown, None).await
    }

    async fn find(
        &self,
        app: &App,
        name: &str,
        shown: M::Shown,
        from: Option<IpAddr>,
    ) -> Result<M::Standing, Error> {
        let asked = app.moment();
        let Recalled { believed, living, complete } = self.recall(name, asked);
        match believed.map(|known| known.judge(shown, asked.time())) {
            Some(Ok(standing)) => return Ok(standing),
            Some(Err(refused)) if !self.shared => return count(app, from, refused),
            None if complete && !self.shared => return count(app, from, M::UNKNOWN),
            // Another server may have changed the record meanwhile.
            Some(Err(_)) | None => {}
        }
        let _turn = match (from, living) {
            (Some(from), None) => self.turn(app, from).await?,
            (Some(_), Some(known)) if !known.has(shown, asked.time()) => {
                Some(wait(&self.turns.doubts).await?)
            }
            (Some(_), Some(_)) | (None, _) => None,
        };
        let now = app.moment();
        // Concurrent guesses at one member share one read.
        let is_new = |known: &Arc<M>| {
            let Record { deleted, read_at, .. } = *known.record();
            !deleted && !read_at.is_before(asked)
        };
        if let Some(known) = self.recall(name, now).believed.filter(is_new) {
            return known.judge(shown, now.time()).or_else(|refused| count(app, from, refused));
        }
        let Some(resource) = M::look_up(app, name).await? else {
            return count(app, from, M::UNKNOWN);
        };
        let known = Arc::new(self.read(&resource, now)?);
        self.memory.write().unwrap_or_else(PoisonError::into_inner).keep(&known);
        let standing = known.judge(shown, now.time()).or_else(|refused| count(app, from, refused))?;
        // A revocation may have been acknowledged elsewhere meanwhile.
        if self.shared && !app.moment().is_within(TRUSTED, now) {
            app.liveness.refuses();
            return Err(Error::Unavailable("the database answers too slowly to check the credential: retry"));
        }
        Ok(standing)
    }

    /// Makes a caller with an unknown name wait for a turn if its address fails often: guessing slows
    /// newcomers at the same address but does not block them, and costs the database little.
    async fn turn(&self, app: &App, from: IpAddr) -> Result<Option<SemaphorePermit<'_>>, Error> {
        if !app.limiter.has_failed_a_lot(from, app.clock.instant()) {
            return Ok(None);
        }
        wait(&self.turns.strangers).await.map(Some)
    }

    fn recall(&self, name: &str, now: Moment) -> Recalled<M> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let is_confirmed = memory.confirmed.is_some_and(|confirmed| now.is_within(TRUSTED, confirmed));
        let known = memory.known.get(name);
        let living = known.filter(|known| !known.record().deleted).cloned();
        let believed = known.filter(|known| {
            let record = known.record();
            memory.floor_of(&record.id) <= record.version
                && (!self.shared || is_confirmed || now.is_within(TRUSTED, record.read_at))
        });
        Recalled { believed: believed.cloned(), living, complete: memory.complete }
    }
}

impl<M: Cached> Memory<M> {
    fn floor_of(&self, id: &Id) -> i64 {
        self.floor.get(id).map_or(0, |(version, _)| *version)
    }

    fn keep(&mut self, member: &Arc<M>) {
        let Record { id, version, deleted, read_at } = member.record();
        let names = || (0..).map_while(|number| Some((number, member.known_as(number)?)));
        let older = names().find_map(|(_, name)| self.known.get(name).filter(|old| old.record().id == *id));
        let older = older.cloned();
        // A read from before another change is older than the entry.
        if older.as_ref().is_some_and(|older| older.record().version > *version) {
            return;
        }
        for name in older.iter().flat_map(|older| (0..).map_while(|number| older.known_as(number))) {
            let is_its = self.known.get(name).is_some_and(|found| found.record().id == *id);
            if is_its && names().all(|(_, kept)| kept != name) {
                self.known.remove(name);
            }
        }
        let is_outdated = self.floor_of(id) > *version;
        let mut has_all = true;
        for (number, name) in names() {
            let stays = |old: &Arc<M>| match old.record().id == *id {
                true => old.record().version > *version,
                false => is_outdated || old.goes_before(member, name),
            };
            if self.known.get(name).is_some_and(stays) {
                has_all = false;
            } else {
                self.make_room();
                self.known.insert(number, Arc::clone(member));
            }
        }
        // Otherwise the member itself says which version is known.
        if *deleted || !has_all {
            self.announce(id.clone(), *version, *read_at);
        }
    }

    fn make_room(&mut self) {
        if M::MOST.is_some_and(|most| self.known.len() >= most) {
            self.known.clear();
        }
    }

    fn announce(&mut self, id: Id, version: i64, now: Moment) {
        let (known, seen) = self.floor.entry(id).or_insert((version, now));
        (*known, *seen) = ((*known).max(version), now);
    }
}

impl<M: Cached> Forgets for Cache<M> {
    fn kind(&self) -> &'static str {
        M::KIND
    }

    fn keeps_all(&self) -> bool {
        M::MOST.is_none()
    }

    fn committed(&self, resource: &Resource, began: Moment) {
        if self.keeps_all() {
            self.note(resource, began);
        } else {
            self.announce(&resource.content.id, resource.version, began);
        }
    }

    fn found(&self, resource: &Resource, asked: Moment) {
        self.note(resource, asked);
    }

    fn announce(&self, id: &str, version: i64, now: Moment) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.announce(Id::new(id), version, now);
    }

    fn doubt(&self, id: &str, version: i64, now: Moment) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.announce(Id::new(id), version, now);
        memory.complete = false;
    }

    fn confirm(&self, denied: &[Denied], asked: Moment, longest_gap: Duration) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let missed = |last: Moment| asked.since(last) > longest_gap;
        match memory.confirmed {
            Some(last) if missed(last) => memory.known.clear(),
            Some(_) => {}
            None => memory.known.retain(|known| !missed(known.record().read_at)),
        }
        for row in denied.iter().filter(|row| row.kind == M::KIND) {
            memory.announce(Id::new(&row.id), row.version, asked);
        }
        memory.confirmed = Some(asked);
    }

    fn complete(&self) {
        self.memory.write().unwrap_or_else(PoisonError::into_inner).complete = true;
    }

    fn sweep(&self, now: Moment) {
        let memory = &mut *self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let Memory { known, floor, .. } = memory;
        known.retain(|known| {
            let Record { id, version, .. } = known.record();
            floor.get(id).is_none_or(|(least, _)| least <= version)
        });
        floor.retain(|_, (_, seen)| now.since(*seen) < ANNOUNCED);
        floor.shrink_to(floor.len() * 2);
    }
}

async fn wait(turns: &Semaphore) -> Result<SemaphorePermit<'_>, Error> {
    match tokio::time::timeout(LONGEST_TURN, turns.acquire()).await {
        Ok(permit) => permit.map_err(|_| Error::Internal),
        Err(_) => Err(Error::TooMany(1)),
    }
}

/// Counts a refusal against its address.
fn count<T>(app: &App, from: Option<IpAddr>, refused: Error) -> Result<T, Error> {
    if let Some(from) = from {
        app.limiter.count_failure(from, app.clock.instant());
    }
    Err(refused)
}

#[cfg(test)]
impl<M: Cached> Cache<M> {
    /// Returns the trusted member with a name.
    pub(crate) fn believed(&self, name: &str, now: Moment) -> Option<Arc<M>> {
        self.recall(name, now).believed
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.memory.read().unwrap_or_else(PoisonError::into_inner).complete
    }
}
