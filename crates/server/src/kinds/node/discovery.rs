//! Discovery: an unknown machine that boots or reports is registered to await approval.
//!
//! Any host on the network can pretend to be a new machine, so discovery is limited in rate and in number,
//! and can be turned off. The number holds for all servers: only the server with the lease counts and
//! registers.

use std::{num::NonZeroU32, time::Duration};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::Mutex;
use wardroom_store::{Change, Error as StoreError, Lease, Resource};

use super::settings::Settings;
use crate::{
    kinds::{
        node::document::KIND,
        node::report::{self, Hardware},
    },
    platform::{
        app::App,
        http::{error::Error, limit},
        identity::auth::Caller,
    },
};

/// The lease of the server that counts and registers.
pub(crate) const LEASE: &str = "discovery";
const LENGTH: Duration = Duration::from_secs(10);

/// How long to wait for another server, and how often to look.
const LOOKS: usize = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// The discoveries of this server: they take turns, and are limited in rate.
#[derive(Debug)]
pub(super) struct Discoveries {
    rate: Option<DefaultDirectRateLimiter>,
    /// The holder name of this server, locked during its turn.
    turn: Mutex<String>,
}

impl Discoveries {
    pub(super) fn new(settings: &Settings) -> Self {
        let rate = NonZeroU32::new(settings.discovery.per_minute);
        Self {
            rate: rate.map(|count| RateLimiter::direct(Quota::per_minute(count))),
            turn: Mutex::new(uuid::Uuid::now_v7().to_string()),
        }
    }

    fn check_rate(&self) -> Result<(), Error> {
        let Some(rate) = &self.rate else { return Ok(()) };
        limit::until(rate.check())
    }
}

/// Registers an unknown machine as `discovered`; another request may have done so in the same moment.
pub(crate) async fn discover(
    app: &App,
    caller: &Caller,
    mac: &str,
    hardware: &Hardware,
) -> Result<Resource, Error> {
    if !Settings::of(&app.config).discovery.enabled {
        return Err(Error::not_found("node", mac));
    }
    let discoveries = app.part::<Discoveries>();
    discoveries.check_rate()?;
    let server = discoveries.turn.lock().await;
    // Another request of the same machine may have registered it meanwhile.
    if let Some(known) = app.store.get_by_key(KIND, mac).await? {
        return Ok(known);
    }
    let lease = lease(app, &server).await?;
    let registered = register(app, caller, mac, hardware, &lease).await;
    app.store.release_lease(&lease).await?;
    registered
}

async fn lease(app: &App, server: &str) -> Result<Lease, Error> {
    for _ in 0..LOOKS {
        if let Some(lease) = app.store.acquire_lease(LEASE, server, LENGTH).await? {
            return Ok(lease);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Error::Unavailable("too many machines are registering at once: retry"))
}

async fn register(
    app: &App,
    caller: &Caller,
    mac: &str,
    hardware: &Hardware,
    lease: &Lease,
) -> Result<Resource, Error> {
    let waiting = app.store.count_by_state().await?;
    let waiting = waiting.iter().find(|count| count.kind == KIND && count.state == "discovered");
    if waiting.is_some_and(|count| count.count >= Settings::of(&app.config).discovery.max) {
        return Err(Error::Unavailable(
            "too many discovered nodes await approval: approve or retire some first",
        ));
    }
    let change = Change {
        before: None,
        after: report::discovered(mac, hardware)?,
        entry: report::by_report(app, caller, "registered", serde_json::Value::Null),
        effects: Vec::new(),
        fence: Some(lease.fence()),
        holds: Vec::new(),
    };
    match app.commit(change).await {
        Ok(resource) => Ok(resource),
        Err(StoreError::KeyTaken { .. }) => app
            .store
            .get_by_key(KIND, mac)
            .await?
            .ok_or(Error::Unavailable("another request is registering this node: retry")),
        Err(error) => Err(error.into()),
    }
}
