//! A server from its configuration: opens the store, makes the first token, starts listeners and jobs.

use std::{
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use utoipa_axum::router::OpenApiRouter;
use wardroom_store::{Document, Error as StoreError, Store};

use crate::{
    kinds::{
        KINDS,
        device::{self, authority::Authority},
        node::{self, discovery},
        satellite::{
            self,
            effects::{self, Upstreams, Worker},
        },
    },
    platform::{
        app::{App, by_system},
        config::Config,
        http::{
            host::Loopback,
            listen::{self, Listener, MemberListener},
            router,
        },
        identity::{
            certificate::Trust,
            first_token,
            secret::{self, Key},
            spiffe,
        },
        liveness,
        work::{jobs, schedule},
    },
};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or an address.
    #[error("{0}")]
    Setup(String),
    /// The database.
    #[error(transparent)]
    Store(#[from] wardroom_store::Error),
}

/// A server that listens, and is about to serve.
pub struct Server {
    app: App,
    listeners: Vec<Listener>,
    worker: Arc<Worker>,
    trust: Option<Arc<Trust>>,
    /// The trust of the listener of devices, and its address.
    devices: Option<(Arc<Trust>, SocketAddr)>,
    /// Where people connect.
    pub address: SocketAddr,
    /// Where machines boot.
    pub boot_address: Option<SocketAddr>,
    /// Where satellites with an X.509-SVID connect.
    pub spiffe_address: Option<SocketAddr>,
    /// Where devices connect.
    pub device_address: Option<SocketAddr>,
    /// Where the first admin token was written, on the first start.
    pub first_token: Option<PathBuf>,
}

impl Server {
    /// Opens the store and the sockets.
    ///
    /// # Errors Returns the reason why the server cannot start.
    pub async fn start(mut config: Config) -> Result<Self, StartError> {
        // Check files and settings before anything is written.
        let tls = match &config.tls {
            Some((certificate, key)) => Some(listen::tls(certificate, key).map_err(StartError::Setup)?),
            None => None,
        };
        let upstreams = Upstreams::new(&config).map_err(StartError::Setup)?;
        let spiffe = match &satellite::settings::Settings::of(&config).spiffe {
            Some(settings) => {
                let trust = spiffe::trust(settings).map(Arc::new).map_err(StartError::Setup)?;
                Some((bind(settings.listen, "spiffe.listen").await?, trust))
            }
            None => None,
        };
        let (socket, address) = bind(config.listen, "server.listen (--listen)").await?;
        let boot = match node::settings::Settings::of(&config).listen {
            Some(address) => Some(bind(address, "boot.listen (--boot-listen)").await?),
            None => None,
        };
        let devices = bind_devices(&mut config).await?;

        make_private_dir(&config.data_dir)?;
        if config.secrets.directory.starts_with(&config.data_dir) {
            make_private_dir(&config.secrets.directory.join("bmc"))?;
        }
        let store = Store::open(&config.location).await?;
        let key = load_key(&store, &config.key_file).await?;
        let boot_address = boot.as_ref().map(|(_, address)| *address);
        let spiffe_address = spiffe.as_ref().map(|((_, address), _)| *address);
        fill_in_urls(&mut config, address, boot_address, spiffe_address);
        let app = App::new(store, config, key, KINDS);
        same_key(&app).await?;
        take_over(&app).await?;
        Authority::load(&app).await.map_err(StartError::Setup)?;
        let first_token = first_token::make(&app, &app.config.data_dir).await?;

        let (router, members) = (router::api(app.clone()), Some(MemberListener::of(&app)));
        let loopback = |address| loopback(&app, address);
        let mut listeners = vec![Listener {
            loopback: loopback(address),
            socket,
            tls,
            trust: None,
            networks: None,
            router,
            members,
        }];
        if let Some((socket, address)) = boot {
            let networks = Some(node::settings::Settings::of(&app.config).networks.clone());
            let router = router::part(app.clone(), node::routes::machines());
            let (loopback, tls, trust, members) = (loopback(address), None, None, None);
            listeners.push(Listener { socket, loopback, tls, trust, networks, router, members });
        }
        let trust = spiffe.as_ref().map(|(_, trust)| Arc::clone(trust));
        if let Some((bound, trust)) = spiffe {
            listeners.push(with_certificates(&app, bound, trust, satellite::routes::machines())?);
        }
        let device_address = devices.as_ref().map(|(_, address)| *address);
        let mut trusted = None;
        if let Some(bound) = devices {
            let trust = device::listener::trust(&app, bound.1).await.map_err(StartError::Setup)?;
            trusted = Some((Arc::clone(&trust), bound.1));
            listeners.push(with_certificates(&app, bound, trust, device::routes::machines())?);
        }
        let worker = Worker::new(app.clone(), upstreams);
        Ok(Self {
            app,
            listeners,
            worker,
            trust,
            devices: trusted,
            address,
            boot_address,
            spiffe_address,
            device_address,
            first_token,
        })
    }

    /// Serves until `stop` says so.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut tasks = JoinSet::new();
        let grace = self.app.config.shutdown;
        liveness::sweep::arrive(&self.app).await;
        for listener in self.listeners {
            tasks.spawn(listener.run(stop.clone(), grace));
        }
        self.worker.begin().await;
        let mut jobs = JoinSet::new();
        liveness::sweep::spawn(&self.app, &stop, &mut jobs);
        let kinds = KINDS.iter().map(|kind| (kind.jobs)(&self.app));
        let devices = self.devices.map(|(trust, address)| device::listener::job(trust, address));
        let own =
            [jobs::jobs(&self.app), effects::jobs(&self.worker, self.trust), devices.into_iter().collect()];
        let all = own.into_iter().chain(kinds);
        schedule::start(&self.app, all.flatten().collect(), &stop, &mut jobs);
        let (app, mut stopped) = (self.app.clone(), stop.clone());
        tasks.spawn(async move {
            // A dropped sender means the same.
            let _ = stopped.wait_for(|stop| *stop).await;
            app.stopping.send_replace(true);
        });
        let mut stopped = stop.clone();
        let _ = stopped.wait_for(|stop| *stop).await;
        let limit = tokio::time::Instant::now() + grace;
        while tasks.join_next().await.is_some() {}
        // Changes whose callers hung up are finished too.
        if tokio::time::timeout_at(limit, self.app.detached.closed()).await.is_err() {
            tracing::warn!("some changes whose callers hung up did not finish in time and were cut off");
        }
        // The server must also stop while its database does not answer.
        if tokio::time::timeout(grace, jobs.join_all()).await.is_err() {
            tracing::warn!("the last jobs did not finish in time and were cut off");
            self.worker.end().await;
        }
        // Other slow jobs must not keep beats from being stored either.
        if tokio::time::timeout(grace, jobs::finish(&self.app)).await.is_err() {
            tracing::warn!("the last beats and reports were not stored in time");
        }
    }
}

/// Repairs leftovers of a crashed server, or of a person with rights in the database.
async fn take_over(app: &App) -> Result<(), StartError> {
    if !app.store.mended().is_empty() {
        tracing::warn!(
            triggers = app.store.mended().join(", "),
            "the triggers that keep history append-only were missing and were created again; a database user had dropped them"
        );
    }
    if !app.store.is_shared() {
        // No other server can hold it: the lock on the folder says so.
        app.store.void_lease(discovery::LEASE).await?;
    }
    Ok(())
}

/// The names of a listener on a loopback address: those of this machine for itself, and of the configured URLs.
fn loopback(app: &App, listener: SocketAddr) -> Option<Loopback> {
    let boot = node::settings::Settings::of(&app.config).url.as_deref();
    let urls = [
        app.config.public_url.as_deref(),
        boot,
        satellite::settings::Settings::url_by_certificate(&app.config),
        device::settings::Settings::of(&app.config).url.as_deref(),
    ];
    Loopback::of(listener, &urls.into_iter().flatten().collect::<Vec<_>>())
}

/// The socket for devices. Where the default address is taken, another server on this machine has it: this one goes on
/// without.
async fn bind_devices(config: &mut Config) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    let settings: &mut device::settings::Settings = config.of_mut();
    let Some(address) = settings.listen else { return Ok(None) };
    match bind(address, "devices.listen (--device-listen)").await {
        Ok((socket, address)) => {
            if !address.ip().is_unspecified() {
                settings.url.get_or_insert_with(|| format!("https://{address}"));
            }
            Ok(Some((socket, address)))
        }
        Err(error) if settings.listen_is_default => {
            tracing::warn!(%error, "devices cannot connect to this server");
            settings.listen = None;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A listener for members with certificates.
fn with_certificates(
    app: &App,
    (socket, address): (TcpListener, SocketAddr),
    trust: Arc<Trust>,
    routes: OpenApiRouter<App>,
) -> Result<Listener, StartError> {
    Ok(Listener {
        loopback: loopback(app, address),
        socket,
        tls: Some(trust.acceptor().map_err(StartError::Setup)?),
        trust: Some(trust),
        networks: None,
        router: router::part(app.clone(), routes),
        members: Some(MemberListener::of(app)),
    })
}

/// The URLs that were not set are those of the addresses.
fn fill_in_urls(
    config: &mut Config,
    address: SocketAddr,
    boot: Option<SocketAddr>,
    spiffe: Option<SocketAddr>,
) {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    if !address.ip().is_unspecified() {
        config.public_url.get_or_insert_with(|| format!("{scheme}://{address}"));
    }
    let nodes: &mut node::settings::Settings = config.of_mut();
    nodes.url.get_or_insert_with(|| format!("http://{}", boot.unwrap_or(address)));
    let satellites: &mut satellite::settings::Settings = config.of_mut();
    if let (Some(settings), Some(address)) = (&mut satellites.spiffe, spiffe) {
        settings.url.get_or_insert_with(|| format!("https://{address}"));
    }
}

async fn bind(address: SocketAddr, setting: &str) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |error: std::io::Error| {
        let help = if error.kind() == ErrorKind::AddrInUse {
            "another program uses this address: stop it, or choose another address with"
        } else if error.kind() == ErrorKind::PermissionDenied {
            "ports below 1024 need a privilege: choose another address with"
        } else {
            "choose an address of this machine with"
        };
        StartError::Setup(format!("cannot listen on {address}: {error}\nnext: {help} {setting}"))
    };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    Ok((socket, bound))
}

/// Whether a server could start with this configuration, as far as its files go. The database is not asked.
///
/// # Errors
/// The file or folder that is wrong, and how.
pub fn check(config: &Config) -> Result<(), StartError> {
    if let Some((certificate, key)) = &config.tls {
        listen::tls(certificate, key).map_err(StartError::Setup)?;
    }
    Upstreams::new(config).map_err(StartError::Setup)?;
    satellite::settings::Settings::of(config)
        .spiffe
        .as_ref()
        .map(spiffe::trust)
        .transpose()
        .map_err(StartError::Setup)?;
    let there = config.data_dir.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let probe = there.join(format!(".wardroom-check-{}", std::process::id()));
    std::fs::write(&probe, []).map_err(|error| unwritable(there, &error))?;
    std::fs::remove_file(&probe).map_err(|error| unwritable(there, &error))?;
    Key::load(&config.key_file).map(drop).map_err(StartError::Setup)
}

fn make_private_dir(path: &Path) -> Result<(), StartError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> StartError {
    let next =
        "make it writable for the user of the server, or choose another with server.data_dir (--data-dir)";
    StartError::Setup(format!("server.data_dir: {} cannot be written: {error}\nnext: {next}", path.display()))
}

/// Loads the server's key. A key is created for a new store only: an existing store needs its own.
async fn load_key(store: &Store, path: &Path) -> Result<Key, StartError> {
    if let Some(key) = Key::load(path).map_err(StartError::Setup)? {
        return Ok(key);
    }
    if store.get("server", "key").await?.is_some() {
        let path = path.display();
        return Err(StartError::Setup(format!(
            "{path}: is missing, and this database was made with a key; copy that one here, or name it with server.key_file"
        )));
    }
    Key::create(path).map_err(StartError::Setup)
}

/// Checks that this server has the key of the database: replicas with different keys would refuse each
/// other's tokens.
pub(crate) async fn same_key(app: &App) -> Result<(), StartError> {
    let mut record = jobs::server_record("server", "key");
    let fingerprint = Document::of(
        &serde_json::json!({"fingerprint": secret::encode(&app.key.derive("fingerprint")[..8])}),
    )?;
    record.document.clone_from(&fingerprint);
    let stored = match app.create(record, by_system(app, "registered", serde_json::Value::Null)).await {
        Ok(stored) => stored,
        Err(StoreError::Conflict) => {
            let stored = app.store.get("server", "key").await?;
            stored.ok_or_else(|| StartError::Setup("the record of the server's key is gone".to_owned()))?
        }
        Err(error) => return Err(error.into()),
    };
    if stored.content.document == fingerprint {
        return Ok(());
    }
    let path = app.config.key_file.display();
    Err(StartError::Setup(format!(
        "{path}: is not the key that this database was made with; copy that one here, or name it with server.key_file"
    )))
}

/// Returns a signal to stop the server when the process gets SIGTERM or SIGINT.
///
/// # Panics
/// When signals cannot be listened to, which leaves no way to stop cleanly.
#[must_use]
pub fn stop_on_signal() -> watch::Receiver<bool> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = watch::channel(false);
    let sender = Arc::new(sender);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let sender = Arc::clone(&sender);
        let mut signals = signal(kind).expect("signals can be listened to");
        tokio::spawn(async move {
            signals.recv().await;
            let _ = sender.send(true);
            // A second signal ends the wait.
            signals.recv().await;
            std::process::exit(1);
        });
    }
    receiver
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wardroom_store::Location;

    use super::*;
    use crate::platform::{
        bare::{self, Lines},
        config, testing,
    };

    /// A server that was killed while it registered a machine, or whose clock was set back since.
    #[tokio::test]
    async fn the_lease_of_a_dead_server_does_not_stop_discovery() {
        let dir = tempfile::tempdir().unwrap();
        let app = bare::app(&dir).await;
        let hour = Duration::from_secs(3600);
        for name in [discovery::LEASE, "task/1"] {
            app.store.acquire_lease(name, "dead", hour).await.unwrap().unwrap();
        }
        take_over(&app).await.unwrap();
        assert!(app.store.acquire_lease(discovery::LEASE, "alive", hour).await.unwrap().is_some());
        assert_eq!(
            app.store.acquire_lease("task/1", "alive", hour).await.unwrap(),
            None,
            "an agent may have it"
        );
    }

    #[tokio::test]
    async fn guards_that_were_taken_are_told() {
        let (database, dir) = (testing::database().await, tempfile::tempdir().unwrap());
        let location = Location::Postgres { url: database.url.clone() };
        drop(Store::open(&location).await.unwrap());
        testing::execute(&database.url, "ALTER TABLE history DISABLE TRIGGER history_append_only").await;
        let config = config::resolve(&config::Sources::default(), crate::kinds::KINDS).unwrap();
        let key = Key::create(&dir.path().join("key")).unwrap();
        let (lines, _listening) = Lines::listen();
        let app = App::new(Store::open(&location).await.unwrap(), config, key, crate::kinds::KINDS);
        take_over(&app).await.unwrap();
        let told = lines.with(
            "the triggers that keep history append-only were missing and were created again; a database user had dropped them",
        );
        assert_eq!(told[0]["fields"]["triggers"], "history_append_only");
    }
}
