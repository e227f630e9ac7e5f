//! A BMC with as many systems as wanted: power, one-time boot, a password that locks, and faults to order.

mod answer;
mod options;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use options::Options;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsAcceptor;

use crate::wire;

/// How a fake behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
    /// The number of systems, named `1`, `2`, …
    pub systems: usize,
    /// How long power takes to change.
    pub delay: Duration,
    /// The number of wrong passwords in a row after which the right one is refused too.
    pub lock_after: Option<u32>,
    /// Certificate and key, as PEM; plain text without them.
    pub tls: Option<(Vec<u8>, Vec<u8>)>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            user: "root".to_owned(),
            password: "calvin".to_owned(),
            systems: 1,
            delay: Duration::ZERO,
            lock_after: None,
            tls: None,
        }
    }
}

/// A fault of the next requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An answer with this status, without an effect.
    Status(u16),
    /// Never an answer, without an effect.
    Silence,
    /// The request takes effect, and the connection ends without an answer.
    LostReply,
    /// The answer comes after so many milliseconds.
    Slow(u64),
    /// The request takes effect at once, and the answer comes after this many milliseconds.
    Late(u64),
}

/// A system as tests see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct System {
    /// Whether it is on.
    pub on: bool,
    /// The one-time boot source, instead of its disk.
    pub boot_once: Option<String>,
    /// The source of its last boot.
    pub booted_from: Option<String>,
    /// The number of accepted resets, by type.
    pub resets: BTreeMap<String, u64>,
    #[serde(skip)]
    pending: Option<(Instant, bool)>,
}

#[derive(Debug)]
struct Bmc {
    config: Config,
    systems: BTreeMap<String, System>,
    faults: Vec<Fault>,
    wrong_passwords: u32,
}

/// A running fake; it ends when it is dropped.
#[derive(Debug)]
pub struct Fake {
    listener: wire::Listener,
    bmc: Arc<Mutex<Bmc>>,
    tls: bool,
}

impl Fake {
    /// Starts a fake on an address.
    ///
    /// # Errors
    /// When the address cannot be bound, or the certificate cannot be used.
    pub async fn start(config: Config, listen: SocketAddr) -> io::Result<Self> {
        let acceptor =
            config.tls.as_ref().map(|(certificate, key)| acceptor(certificate, key)).transpose()?;
        let system =
            System { on: false, boot_once: None, booted_from: None, resets: BTreeMap::new(), pending: None };
        let systems = (1..=config.systems).map(|number| (number.to_string(), system.clone())).collect();
        let bmc = Arc::new(Mutex::new(Bmc { config, systems, faults: Vec::new(), wrong_passwords: 0 }));
        let shared = Arc::clone(&bmc);
        let handle = move |request| answer::handle(Arc::clone(&shared), request);
        let tls = acceptor.is_some();
        let listener = match acceptor {
            None => wire::spawn(listen, handle).await?,
            Some(acceptor) => {
                let wrap = move |stream| {
                    let acceptor = acceptor.clone();
                    async move { acceptor.accept(stream).await.ok() }
                };
                wire::spawn_with(listen, handle, wrap).await?
            }
        };
        Ok(Self { listener, bmc, tls })
    }

    /// Returns the address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Returns the URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http{}://{}", if self.tls { "s" } else { "" }, self.listener.address)
    }

    /// Orders a fault for the next request; several are for the next ones, in their order.
    pub fn fault(&self, fault: Fault) {
        lock(&self.bmc).faults.push(fault);
    }

    /// Changes the password, as a person at the console would; this also unlocks the account.
    pub fn set_password(&self, password: &str) {
        let mut bmc = lock(&self.bmc);
        password.clone_into(&mut bmc.config.password);
        bmc.wrong_passwords = 0;
    }

    /// Returns the number of wrong passwords in a row.
    #[must_use]
    pub fn wrong_passwords(&self) -> u32 {
        lock(&self.bmc).wrong_passwords
    }

    /// A system as it is now.
    #[must_use]
    pub fn system(&self, id: &str) -> Option<System> {
        let mut bmc = lock(&self.bmc);
        bmc.settle(wire::now());
        bmc.systems.get(id).cloned()
    }
}

impl Bmc {
    /// Carries out the changes of power whose time has come.
    fn settle(&mut self, now: Instant) {
        for system in self.systems.values_mut() {
            if let Some((_, on)) = system.pending.take_if(|(due, _)| *due <= now) {
                if on && !system.on {
                    system.booted_from = Some(system.boot_once.take().unwrap_or_else(|| "Hdd".to_owned()));
                }
                system.on = on;
            }
        }
    }
}

fn lock(bmc: &Mutex<Bmc>) -> MutexGuard<'_, Bmc> {
    bmc.lock().unwrap_or_else(PoisonError::into_inner)
}

fn acceptor(certificate: &[u8], key: &[u8]) -> io::Result<TlsAcceptor> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(io::Error::other)?, key)
        .map_err(io::Error::other)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
