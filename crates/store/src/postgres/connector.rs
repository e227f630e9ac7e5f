//! Opens connections to the hosts of a URL, and closes those to a server that is not the primary any more.
//!
//! What must stay true: a host that accepts connections but does not answer does not delay attempts at other
//! hosts.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::Connect;
use futures_util::future::{self, Either};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::{Client, Config, Error, NoTls};

use super::transport::Transport;

/// How long the network may take to reach a host, unless the URL says (`connect_timeout`).
pub(super) const REACH: Duration = Duration::from_secs(2);
/// How long a reached host may take for encryption, password and the check for the primary.
const LET_IN: Duration = Duration::from_secs(3);
/// After this time without success the next host is tried in parallel.
const HEAD_START: Duration = Duration::from_millis(500);

/// The hosts of a URL, and which of them is in use.
pub(super) struct Connector {
    /// One configuration for each host.
    hosts: Vec<Config>,
    transport: Transport,
    /// The last successful host is tried first.
    preferred: AtomicUsize,
    /// Connections that were begun so far.
    begun: AtomicU64,
    /// None until the primary changes for the first time.
    current: watch::Sender<Option<Current>>,
}

/// The host in use, and the first connection to the server that runs there now. All other connections are closed.
#[derive(Clone, Copy, Debug)]
struct Current {
    host: usize,
    since: u64,
}

/// A connection, with the task that drives it.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) driver: JoinHandle<()>,
    pub(super) host: usize,
    /// The number of this connection among those that were begun.
    number: u64,
}

type Driven = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Connector {
    pub(super) fn new(config: &Config, transport: Transport) -> Arc<Self> {
        let count = config.get_hosts().len().max(config.get_hostaddrs().len());
        let hosts = match count {
            // The driver says what is missing.
            0 => vec![config.clone()],
            _ => (0..count).map(|host| only(config, host)).collect(),
        };
        let (preferred, begun, current) = (AtomicUsize::new(0), AtomicU64::new(0), watch::Sender::default());
        Arc::new(Self { hosts, transport, preferred, begun, current })
    }

    /// Opens a connection to the first host that accepts it.
    pub(super) async fn open(&self) -> Result<Opened, Error> {
        let is_random = self.hosts[0].get_load_balance_hosts() == LoadBalanceHosts::Random;
        let step = usize::from(is_random && self.hosts.len() > 1);
        let first = self.preferred.fetch_add(step, Ordering::Relaxed);
        let mut others = (0..self.hosts.len()).map(|other| (first + other) % self.hosts.len());
        let (mut attempts, mut error) = (FuturesUnordered::new(), None);
        loop {
            let more = others.next().map(|host| attempts.push(self.open_host(host))).is_some();
            let ended = match timeout(HEAD_START, attempts.next()).await {
                Ok(ended) => ended,
                Err(_) if more => continue,
                Err(_) => attempts.next().await,
            };
            match ended {
                Some(Ok(opened)) => {
                    self.preferred.store(opened.host, Ordering::Relaxed);
                    return Ok(opened);
                }
                Some(Err(failed)) => error = Some(failed),
                None => return Err(error.unwrap_or_else(Error::__private_api_timeout)),
            }
        }
    }

    async fn open_host(&self, host: usize) -> Result<Opened, Error> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let config = &self.hosts[host];
        let limit = config.get_connect_timeout().copied().unwrap_or(REACH) + LET_IN;
        // The driver's own limit ends when the network has reached the host.
        let opened = timeout(limit, self.connect(config)).await;
        let (client, connection) = opened.unwrap_or_else(|_| Err(Error::__private_api_timeout()))?;
        let driver = tokio::spawn(self.until_closed(host, number, connection));
        Ok(Opened { client, driver, host, number })
    }

    async fn connect(&self, config: &Config) -> Result<(Client, Driven), Error> {
        // The next statement on the client reports the error that ended the connection.
        Ok(match &self.transport {
            Transport::Plain => {
                let (client, connection) = config.connect(NoTls).await?;
                (client, Box::pin(async move { drop(connection.await) }))
            }
            Transport::Tls(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                (client, Box::pin(async move { drop(connection.await) }))
            }
        })
    }

    /// Drives a connection until it ends or [`Self::keep_only`] closes it; statements on their way fail at once then.
    fn until_closed(&self, host: usize, number: u64, connection: Driven) -> impl Future<Output = ()> + use<> {
        let mut current = self.current.subscribe();
        async move {
            let closed = async {
                let is_other = |current: &Current| current.host != host || number < current.since;
                if current.wait_for(|current| current.as_ref().is_some_and(is_other)).await.is_err() {
                    future::pending::<()>().await;
                }
            };
            match future::select(connection, pin!(closed)).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }

    /// Closes the connections to other hosts than this connection's, and those that were begun before it.
    pub(super) fn keep_only(&self, opened: &Opened) {
        self.current.send_replace(Some(Current { host: opened.host, since: opened.number }));
    }
}

/// What pools open connections with.
pub(super) struct ForPool(pub(super) Arc<Connector>);

impl Connect for ForPool {
    fn connect(
        &self,
        _: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        Box::pin(async { self.0.open().await.map(|opened| (opened.client, opened.driver)) })
    }
}

/// The configuration of one of the hosts. The driver has no way to take a host from a configuration.
fn only(all: &Config, host: usize) -> Config {
    let mut config = Config::new();
    config
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .target_session_attrs(all.get_target_session_attrs())
        .channel_binding(all.get_channel_binding())
        .load_balance_hosts(all.get_load_balance_hosts());
    match all.get_hosts().get(host) {
        Some(Host::Tcp(name)) => drop(config.host(name)),
        Some(Host::Unix(path)) => drop(config.host_path(path)),
        None => {}
    }
    all.get_hostaddrs().get(host).map(|address| config.hostaddr(*address));
    all.get_ports().get(host).or(all.get_ports().first()).map(|port| config.port(*port));
    all.get_user().map(|user| config.user(user));
    all.get_password().map(|password| config.password(password));
    all.get_dbname().map(|name| config.dbname(name));
    all.get_options().map(|options| config.options(options));
    all.get_application_name().map(|name| config.application_name(name));
    all.get_connect_timeout().map(|limit| config.connect_timeout(*limit));
    all.get_tcp_user_timeout().map(|limit| config.tcp_user_timeout(*limit));
    all.get_keepalives_interval().map(|interval| config.keepalives_interval(interval));
    all.get_keepalives_retries().map(|retries| config.keepalives_retries(retries));
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a URL may say reaches the host: the configuration of a URL with one host comes back as it is.
    #[test]
    fn a_host_keeps_what_the_url_says() {
        for url in [
            "postgres://ada:secret@db.example:5433/w?application_name=x&connect_timeout=7&sslmode=require\
             &target_session_attrs=read-write&keepalives_idle=9&tcp_user_timeout=11&channel_binding=require\
             &options=-c%20geqo%3Doff&keepalives_interval=3&keepalives_retries=2&load_balance_hosts=random\
             &sslnegotiation=direct&hostaddr=192.0.2.1",
            "postgres:///w?host=/run/postgresql&keepalives=0",
        ] {
            let config: Config = url.parse().unwrap();
            assert!(only(&config, 0) == config, "{url}");
        }
        let several: Config = "postgres://ada@one.example:1,two.example:2/w".parse().unwrap();
        assert!(only(&several, 1) == "postgres://ada@two.example:2/w".parse::<Config>().unwrap());
        let one_port: Config = "host=one.example,two.example port=7 user=ada".parse().unwrap();
        assert!(only(&one_port, 1) == "host=two.example port=7 user=ada".parse::<Config>().unwrap());
    }
}
