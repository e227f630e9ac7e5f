//! `wardroom demo`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, value_parser};

use crate::{
    demo::{self, FEWEST, MOST},
    exit::{Code, failure},
};

/// Runs a fleet to try everything on.
///
/// A server with a temporary store, fakes of the systems that it drives, and simulated members of every kind. Some things
/// are wrong on purpose. Ctrl-C ends it and leaves nothing behind.
#[derive(Args)]
pub(crate) struct Demo {
    /// Decides where problems are planted; the same number plants the same ones.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many members there are.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u64).range(FEWEST as u64..=MOST as u64))]
    members: u64,
    /// The address for people; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8440")]
    listen: SocketAddr,
    /// Keep the store in this folder, which must be new or empty.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

impl Demo {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self { seed, members, listen, keep } = self;
        if !listen.ip().is_loopback() {
            let said = format!(
                "--listen {listen}: the demo is for this machine only\nnext: choose an address such as 127.0.0.1:0"
            );
            return Err(failure(Code::Usage, said));
        }
        let options = demo::Options { seed, members: usize::try_from(members)?, listen, keep };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(demo::run(options));
        // Work of the server that was cut off does not hold up the end.
        runtime.shutdown_background();
        ended
    }
}
