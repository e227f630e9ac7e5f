//! What every member of the demo needs: the addresses of the server, clients of it, and the fakes.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use tokio::sync::{Semaphore, watch};
use wardroom_api::client::{Client, Error, Options};
use wardroom_server::serve::Server;

use super::{plan::Plan, upstreams::Upstreams};

/// How many members join at once.
const AT_ONCE: usize = 24;

/// The pause before a request that failed is repeated.
pub(super) const PAUSE: Duration = Duration::from_millis(700);

/// Where the server listens.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    /// For people, and members that come with a token.
    pub(super) server: String,
    /// For machines that boot.
    boot: String,
    /// For devices.
    pub(super) devices: String,
    /// For satellites with a certificate.
    satellites: String,
}

impl Addresses {
    pub(super) fn of(server: &Server) -> anyhow::Result<Self> {
        let boot = server.boot_address.context("the demo needs a listener for machines that boot")?;
        let devices = server.device_address.context("the demo needs a listener for devices")?;
        let satellites = server.spiffe_address.context("the demo needs a listener for certificates")?;
        Ok(Self {
            satellites: format!("https://{satellites}"),
            server: format!("http://{}", server.address),
            boot: format!("http://{boot}"),
            devices: format!("https://{devices}"),
        })
    }
}

/// What every member needs.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) upstreams: Upstreams,
    pub(super) folder: PathBuf,
    pub(super) addresses: Addresses,
    /// The certificates that members trust.
    pub(super) ca: Vec<u8>,
    /// The administrator, for what only that role may do.
    pub(super) admin: Client,
    /// The operator of the demo.
    pub(super) operator: Client,
    /// A member without a credential of its own kind yet.
    pub(super) stranger: Client,
    /// A machine that boots.
    pub(super) machine: Client,
    /// Bounds how many join at once.
    pub(super) gate: Semaphore,
    /// Whether the dark zone is cut off.
    pub(super) dark: watch::Sender<bool>,
    joined: watch::Sender<usize>,
    /// The token with which devices enrol.
    pub(super) enrolment: OnceLock<Arc<str>>,
    /// The id of the token of the adapter that will fall silent.
    pub(super) mute_token: OnceLock<String>,
    /// GPU nodes and devices that are well, for the operator to work with.
    pub(super) devices: Mutex<Vec<String>>,
    pub(super) gpu_nodes: Mutex<Vec<String>>,
    pub(super) nodes: Mutex<Vec<String>>,
}

impl World {
    pub(super) async fn new(
        plan: Plan,
        upstreams: Upstreams,
        folder: &Path,
        addresses: Addresses,
    ) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).with_context(|| path.display().to_string())
        };
        let ca = read("device-ca.pem")?;
        let admin = String::from_utf8(read("admin.token")?)?.trim().to_owned();
        let admin = client(&addresses.server, Some(admin), &ca)?;
        let create = wardroom_api::token::TokenCreate {
            name: "demo-operator".to_owned(),
            role: "operator".to_owned(),
            ..Default::default()
        };
        let token = admin.create_token(&create).await?.secret;
        let world = Self {
            admin,
            operator: client(&addresses.server, Some(token), &ca)?,
            stranger: client(&addresses.server, None, &ca)?,
            machine: client(&addresses.boot, None, &ca)?,
            plan,
            upstreams,
            folder: folder.to_owned(),
            addresses,
            ca,
            gate: Semaphore::new(AT_ONCE),
            dark: watch::Sender::new(false),
            joined: watch::Sender::new(0),
            enrolment: OnceLock::new(),
            mute_token: OnceLock::new(),
            devices: Mutex::default(),
            gpu_nodes: Mutex::default(),
            nodes: Mutex::default(),
        };
        super::fleet::tokens(&world).await?;
        Ok(world)
    }

    /// A client of the server with a token.
    pub(super) fn client(&self, token: Option<String>) -> Result<Client, Error> {
        client(&self.addresses.server, token, &self.ca)
    }

    /// The options of a client of the listener for devices.
    pub(super) fn device_options(&self, token: Option<String>) -> Options {
        options(&self.addresses.devices, token, &self.ca)
    }

    /// A client of the listener for satellites that show a certificate of the trust domain.
    pub(super) fn satellite(&self, id: &str) -> anyhow::Result<Client> {
        let domain = &self.upstreams.domain;
        let options = options(&self.addresses.satellites, None, domain.root.as_bytes());
        Ok(Client::with_certificate(&options, domain.identity(id)?.as_bytes())?)
    }

    /// Counts a member that is registered.
    pub(super) fn has_joined(&self) {
        self.joined.send_modify(|joined| *joined += 1);
    }

    pub(super) fn joined(&self) -> usize {
        *self.joined.borrow()
    }

    /// Waits until all members are registered.
    pub(super) async fn all_there(&self) {
        let mut joined = self.joined.subscribe();
        // The sender lives as long as the world.
        let _ = joined.wait_for(|joined| *joined >= self.plan.members()).await;
    }

    /// Waits while a zone is cut off.
    pub(super) async fn linked(&self, zone: &str) {
        if zone == self.plan.dark_zone {
            let mut dark = self.dark.subscribe();
            // The sender lives as long as the world.
            let _ = dark.wait_for(|dark| !dark).await;
        }
    }

    /// Waits until a zone is cut off.
    pub(super) async fn cut(&self, zone: &str) {
        if zone != self.plan.dark_zone {
            return std::future::pending().await;
        }
        let mut dark = self.dark.subscribe();
        let _ = dark.wait_for(|dark| *dark).await;
    }
}

/// What a list holds.
pub(super) fn listed(list: &Mutex<Vec<String>>) -> Vec<String> {
    list.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds to a list.
pub(super) fn note(list: &Mutex<Vec<String>>, name: &str) {
    list.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
}

fn client(server: &str, token: Option<String>, ca: &[u8]) -> Result<Client, Error> {
    Client::new(&options(server, token, ca))
}

fn options(server: &str, token: Option<String>, ca: &[u8]) -> Options {
    // Trusting one certificate only, a client does not read all those of the system.
    let certificates = Some(ca.to_vec());
    Options { server: server.to_owned(), token, certificates, timeout: None, warned: None }
}

/// Repeats a request until it succeeds: the server may be busy, or wait for an upstream.
pub(super) async fn until_done<T, F: Future<Output = Result<T, Error>>>(mut request: impl FnMut() -> F) -> T {
    loop {
        match request().await {
            Ok(done) => return done,
            Err(error) => tracing::debug!(%error, "a request of the demo is repeated"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
