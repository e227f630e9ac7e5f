//! The fake as a program.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context as _;

use super::{Options, Spire, Tls, tls::certificates};
use crate::fault::serve::until_told;

/// A SPIRE server that keeps everything in memory.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The address for control calls; port 0 chooses a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The private socket.
    #[arg(long, required_unless_present = "tcp")]
    socket: Option<PathBuf>,
    /// The address to listen on with mutual TLS.
    #[arg(long, requires_all = ["certificate", "key", "bundle"])]
    tcp: Option<SocketAddr>,
    /// The server's certificate, a PEM file.
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// Its key, a PEM file.
    #[arg(long)]
    key: Option<PathBuf>,
    /// The roots of the trust domain, a PEM file.
    #[arg(long)]
    bundle: Option<PathBuf>,
    /// The trust domain.
    #[arg(long, default_value = "example.org")]
    trust_domain: String,
    /// A file that keeps the state over a restart.
    #[arg(long)]
    state: Option<PathBuf>,
}

impl Arguments {
    /// Runs until it is stopped. The first line it prints is the address of
    /// control calls; the second, with TCP, its TCP address.
    ///
    /// # Errors
    /// When it cannot start.
    #[expect(clippy::print_stdout, reason = "the caller reads the addresses")]
    pub async fn run(self) -> anyhow::Result<()> {
        let roots = match &self.bundle {
            Some(bundle) => certificates(bundle).with_context(|| bundle.display().to_string())?,
            None => Vec::new(),
        };
        let tcp = match (self.tcp, self.certificate, self.key, self.bundle) {
            (Some(address), Some(certificate), Some(key), Some(bundle)) => {
                Some((address, Tls { certificate, key, bundle }))
            }
            _ => None,
        };
        let spire = Spire::start(Options {
            trust_domain: self.trust_domain,
            socket: self.socket,
            tcp,
            control: self.listen,
            roots: roots.iter().map(|root| root.to_vec()).collect(),
            state: self.state,
            ..Options::default()
        })
        .await?;
        println!("http://{}", spire.control());
        if let Some(address) = spire.address() {
            println!("{address}");
        }
        until_told().await;
        Ok(())
    }
}
