//! The fake as a program.

use std::{net::SocketAddr, path::PathBuf};

use super::{Harbor, Options};
use crate::fault::serve::until_told;

/// A Harbor that keeps everything in memory.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The address to listen on; port 0 chooses a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// A file that keeps the state over a restart.
    #[arg(long)]
    state: Option<PathBuf>,
    /// The administrator's name.
    #[arg(long, default_value = "admin")]
    username: String,
    /// The administrator's password.
    #[arg(long, default_value = "Harbor12345")]
    password: String,
    /// The prefix of robots' names.
    #[arg(long, default_value = "robot$")]
    prefix: String,
}

impl Arguments {
    /// Runs until it is stopped.
    ///
    /// # Errors
    /// When it cannot start.
    #[expect(clippy::print_stdout, reason = "the caller reads the address")]
    pub async fn run(self) -> anyhow::Result<()> {
        let Arguments { listen, state, username, password, prefix } = self;
        let harbor =
            Harbor::start(Options { listen, username, password, prefix, state, ..Options::default() })
                .await?;
        println!("http://{}", harbor.address());
        until_told().await;
        Ok(())
    }
}
