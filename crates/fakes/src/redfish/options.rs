//! The fake as a program.

use std::{fs, io, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use super::{Config, Fake};

/// Help: settings of a site and a node for this fake.
const HELP: &str = "\
Without a certificate it speaks plain HTTP, which only a site with `bmc_insecure` allows, and the server needs
`gpu_nodes.allow_local_addresses`:

  wardroom create site … --set bmc_insecure=true --bmc-network 127.0.0.1 --bmc-credential file:bmc/NAME
  wardroom gpu-node create … --bmc URL --bmc-credential file:bmc/NAME    (a file that holds USER:PASSWORD)";

/// How the program behaves.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Options {
    /// The address to listen on; port 0 chooses a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The user.
    #[arg(long, default_value = "root")]
    user: String,
    /// The password.
    #[arg(long, default_value = "calvin")]
    password: String,
    /// The number of systems.
    #[arg(long, default_value_t = 1)]
    systems: usize,
    /// How many milliseconds power takes to change.
    #[arg(long, default_value_t = 0)]
    delay: u64,
    /// The number of wrong passwords after which the account is locked.
    #[arg(long)]
    lock_after: Option<u32>,
    /// The certificate, as a PEM file.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// The key of the certificate, as a PEM file.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
}

impl Options {
    /// Runs until the process is stopped.
    ///
    /// # Errors
    /// When the address cannot be bound, or the certificate cannot be used.
    pub async fn run(self) -> io::Result<()> {
        let read = |path: PathBuf| {
            fs::read(&path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
        };
        let tls = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let config = Config {
            user: self.user,
            password: self.password,
            systems: self.systems,
            delay: Duration::from_millis(self.delay),
            lock_after: self.lock_after,
            tls,
        };
        let fake = Fake::start(config, self.listen).await?;
        crate::wire::announce(&fake.url())?;
        tokio::signal::ctrl_c().await
    }
}
