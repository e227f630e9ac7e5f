//! Clients of the MAAS of each site, limited to the rate that the site allows.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use wardroom_store as store;
use wardroom_upstream::{
    Gate,
    maas::{Class, Effect, Error as MaasError, Key, Maas, Machine, Settings as Client, Subnet},
};
use wardroom_workflow::{Limits, Rate, Slots};

use super::{
    cache::Cache,
    document,
    gather::{Look, Looks, Memo},
    reach::Local,
    site::Settings,
};
use crate::platform::{
    clock::Clock,
    config::{Config, secrets::Secrets},
    identity::reference::{self, Use},
};

/// A single call must end before the lease of its run expires.
const TIMEOUT: Duration = Duration::from_secs(70);

/// Clients of the sites, made once for each setting.
#[derive(Debug)]
pub(crate) struct Clients {
    secrets: Secrets,
    /// How long a single call may take.
    timeout: Duration,
    /// Where keys may be sent.
    gate: Gate,
    made: Mutex<Made>,
    /// The limits of each site that this server knows.
    allowed: Mutex<HashMap<String, Allowed>>,
}

#[derive(Debug, Default)]
struct Made {
    /// By a fingerprint of their settings: sites with the same settings share a client.
    clients: HashMap<String, Arc<Site>>,
    used: HashMap<String, String>,
}

/// The limits of a site for its MAAS. Sites with the same MAAS share the strictest limit.
#[derive(Debug, Clone)]
struct Allowed {
    /// The normalized address of the MAAS.
    maas: String,
    per_second: f64,
    deploys_per_minute: f64,
    deploys_at_once: u32,
}

impl Allowed {
    fn by(settings: &Settings) -> Self {
        Self {
            maas: document::address(&settings.url),
            per_second: settings.requests_per_second,
            deploys_per_minute: settings.deploys_per_minute,
            deploys_at_once: settings.deploys_at_once,
        }
    }

    /// How often its MAAS may be called.
    fn rate(&self) -> Rate {
        Rate { per_second: self.per_second.max(0.01), burst: 4 }
    }

    fn stricter(self, other: &Self) -> Self {
        Self {
            maas: self.maas,
            per_second: self.per_second.min(other.per_second),
            deploys_per_minute: self.deploys_per_minute.min(other.deploys_per_minute),
            deploys_at_once: self.deploys_at_once.min(other.deploys_at_once),
        }
    }
}

/// The MAAS of one or several sites, and the state that all its callers share.
#[derive(Debug)]
struct Site {
    maas: Maas,
    looks: Looks,
    user: Memo<String>,
    tag: Memo<()>,
    subnets: Memo<Arc<Vec<Subnet>>>,
}

/// A site's MAAS within its limits.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    shared: Arc<Site>,
    limits: Limits,
    /// The name of its MAAS in the limits.
    maas: String,
    #[cfg(test)]
    rate: Rate,
    deploys: Rate,
    deploys_at_once: usize,
    /// How long a run waits while the limit of deployments is reached.
    pause: Duration,
}

impl Clients {
    /// Starts without clients.
    pub(crate) fn new(config: &Config) -> Self {
        let (secrets, gate) = (config.secrets.clone(), Local::of(config).gate());
        Self { secrets, timeout: TIMEOUT, gate, made: Mutex::default(), allowed: Mutex::default() }
    }

    /// The same with a shorter timeout, for tests.
    #[cfg(test)]
    pub(crate) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the limits of all sites.
    pub(crate) fn know<'a>(&self, sites: impl Iterator<Item = (&'a str, &'a Settings)>, limits: &Limits) {
        let all: Vec<_> = sites.collect();
        let allowed =
            all.iter().map(|(name, settings)| ((*name).to_owned(), Allowed::by(settings))).collect();
        *self.allowed.lock().unwrap_or_else(PoisonError::into_inner) = allowed;
        for (name, settings) in all {
            let allowed = self.allowed(name, settings);
            limits.pace(name, &allowed.maas, allowed.rate());
        }
    }

    /// The current limits of a site, combined with all sites of the same MAAS. The settings that a run loaded
    /// only name the MAAS.
    fn allowed(&self, name: &str, settings: &Settings) -> Allowed {
        let own = Allowed::by(settings);
        let mut known = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = known.entry(name.to_owned()).or_insert_with(|| own.clone()).clone();
        let own = if now.maas == own.maas { now } else { own };
        let maas = own.maas.clone();
        known.values().filter(|other| other.maas == maas).fold(own, Allowed::stricter)
    }

    /// The client of a site.
    ///
    /// # Errors
    /// What is wrong with the site's settings or secrets, in words.
    pub(crate) fn session(
        &self,
        name: &str,
        settings: &Settings,
        limits: &Limits,
    ) -> Result<Session, String> {
        let secret = |at: &str| reference::resolve(at, Use::Site, &self.secrets);
        let key = secret(&settings.key)?;
        let ca = settings.ca.as_deref().map(secret).transpose()?;
        let id = fingerprint(settings, &key, ca.as_deref());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match made.clients.get(&id) {
            Some(shared) => Arc::clone(shared),
            None => {
                let key: Key =
                    key.parse().map_err(|error| format!("the secret at {}: {error}", settings.key))?;
                let client = Client {
                    url: settings.url.clone(),
                    key,
                    ca: ca.map(String::into_bytes),
                    timeout: self.timeout,
                    gate: self.gate.clone(),
                    clock: || Clock.now(),
                };
                let maas = Maas::new(client)?;
                let (looks, user, tag, subnets) = Default::default();
                let shared = Arc::new(Site { maas, looks, user, tag, subnets });
                made.clients.insert(id.clone(), Arc::clone(&shared));
                shared
            }
        };
        if made.used.insert(name.to_owned(), id.clone()) != Some(id) {
            // Unused clients are dropped.
            let Made { clients, used } = &mut *made;
            clients.retain(|id, _| used.values().any(|used| used == id));
        }
        drop(made);
        let allowed = self.allowed(name, settings);
        let rate = allowed.rate();
        limits.pace(name, &allowed.maas, rate);
        Ok(Session {
            shared,
            limits: limits.clone(),
            maas: allowed.maas,
            #[cfg(test)]
            rate,
            deploys: Rate { per_second: (allowed.deploys_per_minute / 60.0).max(0.001), burst: 4 },
            deploys_at_once: usize::try_from(allowed.deploys_at_once).unwrap_or(usize::MAX),
            pause: Cache::pause(settings),
        })
    }
}

/// A fingerprint of settings that reveals no secret.
fn fingerprint(settings: &Settings, key: &str, ca: Option<&str>) -> String {
    let url = document::address(&settings.url);
    super::secret::hash(&format!("{url}\n{key}\n{}\n{}", ca.unwrap_or_default(), settings.tag))
}

impl Session {
    #[cfg(test)]
    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// Waits for this call's turn, then returns MAAS.
    pub(crate) async fn turn(&self) -> &Maas {
        self.limits.turn(&self.maas).await;
        &self.shared.maas
    }

    /// Takes a slot among the deployments of the MAAS for a run, or returns when to retry: its sites limit
    /// the deployments per minute and at once.
    pub(crate) async fn begin_deploy(&self, slots: &Slots, run: &str) -> store::Result<Result<(), Duration>> {
        let group = self.deployments();
        let turn = match self.limits.ask(&group, self.deploys, run, Instant::now()) {
            Ok(turn) => turn,
            Err(wait) => return Ok(Err(wait)),
        };
        if slots.take(&group, self.deploys_at_once, run).await? {
            return Ok(Ok(()));
        }
        self.limits.give_back(&group, self.deploys, run, turn, Instant::now());
        Ok(Err(self.pause))
    }

    pub(crate) fn deployments(&self) -> String {
        // A slash would put a MAAS below another one's path among that one's slots.
        format!("deploy/{}", self.maas.replace('/', "|"))
    }

    /// Renews the slot of a deployment that is still under way.
    pub(crate) async fn keep_deploying(&self, slots: &Slots, run: &str) -> store::Result<bool> {
        slots.take(&self.deployments(), self.deploys_at_once, run).await
    }
}

pub(crate) const BATCH: usize = 100;

/// Background readers of machines. Runs always keep a quarter of the turns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reader {
    /// The poller of machines that runs wait for.
    Poll,
    /// The drift sweep.
    Sweep,
}

impl Reader {
    const fn part(self) -> (&'static str, f64) {
        match self {
            Self::Poll => ("poll", 0.5),
            Self::Sweep => ("sweep", 0.25),
        }
    }
}

impl Session {
    /// Machines by id. Those that MAAS does not have are missing.
    pub(crate) async fn list(&self, ids: &[&str], reader: Reader) -> Result<Vec<Machine>, MaasError> {
        self.turn_of(reader).await.machines(ids).await
    }

    /// Reads a single machine, if MAAS has it.
    pub(crate) async fn show(&self, id: &str, reader: Reader) -> Result<Option<Machine>, MaasError> {
        match self.turn_of(reader).await.machine(id).await {
            Ok(machine) => Ok(Some(machine)),
            Err(MaasError { class: Class::Gone, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn turn_of(&self, reader: Reader) -> &Maas {
        let (caller, part) = reader.part();
        self.limits.turn_of(&self.maas, caller, part).await;
        &self.shared.maas
    }
}

impl Session {
    /// Reads the present state of a machine. Callers that ask while a request waits for its turn share that
    /// request, because MAAS lists a hundred machines as fast as one.
    pub(crate) async fn observe(&self, id: &str) -> Result<Machine, MaasError> {
        loop {
            let mut hears = self.shared.looks.ask(id);
            let heard = tokio::select! {
                biased;
                heard = &mut hears => heard,
                door = self.shared.looks.door.lock() => {
                    if !self.shared.looks.is_empty() {
                        let maas = self.turn().await;
                        let looks = self.shared.looks.first(BATCH);
                        drop(door);
                        self.answer(maas, looks).await;
                    }
                    hears.await
                }
            };
            match heard {
                Ok(Ok(Some(machine))) => return Ok(machine),
                Ok(Ok(None)) => return self.turn().await.machine(id).await,
                Ok(Err(error)) => return Err(error),
                // The caller that sent the shared request was cancelled.
                Err(_) => {}
            }
        }
    }

    /// Returns the user of the key, which also proves that MAAS accepts it.
    pub(crate) async fn user(&self) -> Result<String, MaasError> {
        let ask = async {
            soon("version", self.turn().await.version()).await?;
            Ok(soon("whoami", self.turn().await.whoami()).await?.username)
        };
        self.shared.user.get(ask).await
    }

    pub(crate) async fn subnets(&self) -> Result<Arc<Vec<Subnet>>, MaasError> {
        let ask = async { Ok(Arc::new(soon("subnets", self.turn().await.subnets()).await?)) };
        self.shared.subnets.get(ask).await
    }

    /// Adds the site's tag to a machine, and creates the tag if it is missing.
    pub(crate) async fn tag(&self, tag: &str, comment: &str, id: &str) -> Result<(), MaasError> {
        let make = async {
            match soon("create_tag", self.turn().await.create_tag(tag, comment)).await {
                // The tag exists already.
                Ok(()) | Err(MaasError { class: Class::Refused(_), .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.shared.tag.get(make).await?;
        let tagged = self.turn().await.tag(tag, &[id], &[]).await;
        if tagged.is_err() {
            self.shared.tag.forget().await;
        }
        tagged.map(drop)
    }

    /// Sends one request for all waiting callers. If MAAS does not answer, they share the failure; if it
    /// cannot list several machines, they ask one by one, so that one bad machine does not hide the others.
    async fn answer(&self, maas: &Maas, looks: Vec<Look>) {
        let ids: Vec<_> = looks.iter().map(|look| look.id.as_str()).collect();
        let began = Instant::now();
        let found = match maas.machines(&ids).await {
            Ok(found) => found,
            Err(error) if is_away(&error.class) => {
                // A request that failed slowly is not repeated.
                let alone = looks.first().filter(|_| began.elapsed() < SOON);
                let shown = match alone {
                    Some(look) => self.turn().await.machine(&look.id).await.ok(),
                    None => None,
                };
                let Some(shown) = shown else { return self.shared.looks.fail(looks, &error) };
                vec![shown]
            }
            Err(_) => Vec::new(),
        };
        for look in looks {
            let machine = found.iter().find(|machine| machine.system_id == look.id).cloned();
            look.tell(Ok(machine));
        }
    }
}

/// Whether any other request would fail too.
pub(crate) fn is_away(class: &Class) -> bool {
    match class {
        Class::Unreachable(_)
        | Class::Elsewhere(_)
        | Class::Ambiguous(_)
        | Class::Busy { .. }
        | Class::Throttled { .. }
        | Class::Unavailable { .. }
        | Class::Credentials => true,
        Class::WrongState(_)
        | Class::Forbidden(_)
        | Class::Gone
        | Class::Refused(_)
        | Class::Malformed { .. }
        | Class::Unreadable(_) => false,
    }
}

/// The time limit of a read that other callers wait for.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Limits the time of a call that others wait for.
async fn soon<T>(op: &'static str, call: impl Future<Output = Result<T, MaasError>>) -> Result<T, MaasError> {
    tokio::time::timeout(SOON, call).await.unwrap_or_else(|_| {
        let class = Class::Ambiguous(format!("no answer within {} s", SOON.as_secs()));
        Err(MaasError { op, effect: Effect::None, class })
    })
}
