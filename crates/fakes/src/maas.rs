//! A MAAS that is as stateful as the real one and answers as a recorded one did.
//!
//! One table defines the effect of each operation in each status. Work under way ends at its time, when the
//! machine reports to the metadata service, or when a test says so; nothing runs in the background, so a thousand
//! machines cost their memory and nothing else.

mod auth;
mod body;
mod changes;
mod clock;
mod control;
mod event;
mod fault;
mod handle;
mod limit;
mod machine;
mod metadata;
mod network;
mod operate;
mod options;
mod progress;
mod route;
mod rules;
mod site;
mod storage;
mod view;
mod world;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use changes::{Change, DiskSpec, Seed};
pub use fault::{Fault, FaultKind, When};
pub use limit::OverLimit;
pub use machine::{Bmc, Outcome};
pub use options::Options;
pub use route::Op;
pub use world::Recorded;

use crate::wire;
use clock::Now;
use wardroom_core::gpu_node::maas::Status;
use world::World;

/// How a fake behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// The API key that it accepts, `consumer:token:secret`.
    pub key: String,
    /// The owner of the key.
    pub user: String,
    /// The number of machines at the start, all `New`.
    pub machines: usize,
    /// The first system id of machines; a restarted MAAS reuses no earlier id.
    pub first_id: u64,
    /// How long work takes.
    pub pace: Pace,
    /// The most requests answered in a second.
    pub requests_per_second: Option<u32>,
    /// The treatment of requests above the limit.
    pub over_limit: OverLimit,
    /// How often a deployed machine reports its hardware.
    pub sync_interval: Duration,
    /// Whether it remembers every request, for tests that look at them.
    pub record: bool,
}

/// How long each kind of work takes; none for work that a test ends.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Commissioning.
    pub commissioning: Option<Duration>,
    /// Deploying.
    pub deploying: Option<Duration>,
    /// Releasing; in the recording it had ended by the next read.
    pub releasing: Option<Duration>,
    /// Erasing disks.
    pub erasing: Option<Duration>,
    /// Testing, and entering rescue mode.
    pub testing: Option<Duration>,
}

impl Pace {
    /// Everything takes this long, except a release, which takes no time.
    #[must_use]
    pub const fn all(time: Duration) -> Self {
        Self {
            commissioning: Some(time),
            deploying: Some(time),
            releasing: Some(Duration::ZERO),
            erasing: Some(time),
            testing: Some(time),
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            commissioning: None,
            deploying: None,
            releasing: Some(Duration::ZERO),
            erasing: None,
            testing: None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            key: "consumer:token:secret".to_owned(),
            user: "admin".to_owned(),
            machines: 0,
            first_id: 0,
            pace: Pace::default(),
            requests_per_second: None,
            over_limit: OverLimit::Delay,
            sync_interval: Duration::from_secs(900),
            record: false,
        }
    }
}

/// A running fake; it ends when it is dropped.
#[derive(Debug)]
pub struct Fake {
    listener: wire::Listener,
    world: Shared,
}

type Shared = Arc<Mutex<World>>;

/// The number of effects of each operation, by machine.
pub type Effects = BTreeMap<String, BTreeMap<String, u64>>;

impl Fake {
    /// Starts a fake on an address.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(config: Config, listen: SocketAddr) -> io::Result<Self> {
        let world = Arc::new(Mutex::new(World::new(config)));
        let shared = Arc::clone(&world);
        let listener =
            wire::spawn(listen, move |request| handle::handle(Arc::clone(&shared), request)).await?;
        Ok(Self { listener, world })
    }

    /// Returns the address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Returns the URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/MAAS", self.listener.address)
    }

    /// Orders a fault.
    pub fn fault(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Removes the faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// Returns the faults that have not happened yet.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.lock().faults.clone()
    }

    /// Returns the number of answered requests for each operation.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.lock().requests.clone()
    }

    /// Returns the effects on each machine, also on deleted ones.
    #[must_use]
    pub fn effects(&self) -> Effects {
        self.lock().effects()
    }

    /// Returns the requests since the last call, if the fake records them.
    #[must_use]
    pub fn take_requests(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.lock().recorded)
    }

    /// Returns the ids of all machines.
    #[must_use]
    pub fn machines(&self) -> Vec<String> {
        self.lock().machines.keys().cloned().collect()
    }

    /// Adds a machine without a request.
    #[must_use]
    pub fn seed(&self, seed: &Seed) -> String {
        self.lock().seed(seed, clock::now())
    }

    /// Changes a machine without a request; returns whether it exists.
    pub fn change(&self, id: &str, change: &Change) -> bool {
        self.on(id, |world, id, now| world.change(id, change, now))
    }

    /// Returns the user data for cloud-init on a machine.
    #[must_use]
    pub fn user_data(&self, id: &str) -> Vec<u8> {
        self.lock().machines.get(id).map(|machine| machine.user_data.clone()).unwrap_or_default()
    }

    /// Returns what cloud-init got on the machine of this name, while it is deployed.
    #[must_use]
    pub fn deployed(&self, hostname: &str) -> Option<Vec<u8>> {
        let mut world = self.lock();
        let id = world.named(hostname)?;
        world.settle(&id, clock::now());
        let machine = world.machines.get(&id)?;
        (machine.status == Status::Deployed).then(|| machine.user_data.clone())
    }

    /// Returns the id of the machine of this name, if it is there.
    #[must_use]
    pub fn named(&self, hostname: &str) -> Option<String> {
        self.lock().named(hostname)
    }

    /// Forgets how the next pieces of work on a machine were ordered to end. Work that hangs goes on to hang.
    pub fn forget_outcomes(&self, id: &str) {
        if let Some(machine) = self.lock().machines.get_mut(id) {
            machine.outcomes.clear();
        }
    }

    /// Ends the work under way on a machine.
    pub fn finish(&self, id: &str, outcome: &Outcome) -> bool {
        self.on(id, |world, id, now| world.finish(id, outcome, now))
    }

    /// Removes a machine, as another user of MAAS would.
    pub fn vanish(&self, id: &str) -> bool {
        self.lock().machines.remove(id).is_some()
    }

    fn on(&self, id: &str, act: impl FnOnce(&mut World, &str, Now)) -> bool {
        let mut world = self.lock();
        let known = world.machines.contains_key(id);
        if known {
            act(&mut world, id, clock::now());
        }
        known
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }
}

fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}
