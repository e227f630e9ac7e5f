//! The fake as a program.

use std::{net::SocketAddr, path::PathBuf};

use super::{Kubernetes, Options};
use crate::fault::serve::until_told;

/// A Kubernetes API server that keeps everything in memory and runs no containers.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The address to listen on; port 0 chooses a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// A file that keeps the state over a restart.
    #[arg(long)]
    state: Option<PathBuf>,
    /// The only bearer token that is accepted; any caller is when absent. `kubectl` sends no token without TLS.
    #[arg(long)]
    token: Option<String>,
    /// A file to write a kubeconfig to, for `KUBECONFIG`.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

impl Arguments {
    /// Runs until it is stopped.
    ///
    /// # Errors
    /// When it cannot start.
    #[expect(clippy::print_stdout, reason = "the caller reads the address")]
    pub async fn run(self) -> anyhow::Result<()> {
        let Arguments { listen, state, token, kubeconfig } = self;
        let kubernetes = Kubernetes::start(Options { listen, state, token, ..Options::default() }).await?;
        if let Some(path) = kubeconfig {
            std::fs::write(path, kubernetes.kubeconfig())?;
        }
        println!("{}", kubernetes.url());
        until_told().await;
        Ok(())
    }
}
