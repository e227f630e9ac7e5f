//! `wardroom simulate`.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use clap::{Args, Subcommand, value_parser};

use crate::{
    exit::{Code, failure},
    output,
    simulate::{self, Options},
};

/// Puts load on a server, to see what it bears.
#[derive(Subcommand)]
pub(crate) enum Simulate {
    /// Devices that enrol with keys of their own, poll, apply updates, and fail some of them.
    Devices(Devices),
}

/// Simulates devices until it is told to stop, and says what they saw.
///
/// Each device has a key and a certificate of its own, opens a connection for each poll and hangs up, at a moment of its
/// own in each interval. Stop it with Ctrl-C, or with `--seconds`.
#[derive(Args)]
pub(crate) struct Devices {
    /// How many devices there are.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Decides which updates fail and when each device polls.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the server listens for devices.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8442")]
    agents: String,
    /// The certificate of the authority of devices.
    #[arg(long, value_name = "FILE", default_value = "wardroom-data/device-ca.pem")]
    ca_file: PathBuf,
    /// An enrolment token that approves by itself, for as many devices.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Seconds between two polls of a device.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(1..=86_400))]
    interval: u64,
    /// So many percent of the updates fail.
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = value_parser!(u8).range(0..=100))]
    failures: u8,
    /// Addresses of this machine from which devices connect, in turn: each has about 28,000 ports.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    from: Vec<IpAddr>,
    /// Stop after so many seconds, from when all devices are enrolled.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl Devices {
    fn run(self) -> anyhow::Result<()> {
        let token = std::fs::read_to_string(&self.token_file)
            .with_context(|| format!("--token-file {}", self.token_file.display()))?;
        let authority = std::fs::read(&self.ca_file).with_context(|| {
            format!("--ca-file {}: copy it from the data folder of the server", self.ca_file.display())
        })?;
        let options = Options {
            count: usize::try_from(self.count)?,
            seed: self.seed,
            agents: self.agents.clone(),
            token: token.trim().to_owned(),
            interval: Duration::from_secs(self.interval),
            failures: self.failures,
            from: self.from,
            length: self.seconds.map(Duration::from_secs),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let seen = runtime.block_on(simulate::run(Arc::new(options), &authority));
        runtime.shutdown_background();
        let seen = seen?;
        output::print(&seen.to_string())?;
        if seen.is_well() {
            return Ok(());
        }
        Err(failure(Code::Failed, "requests failed: see above".to_owned()))
    }
}

impl Simulate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self::Devices(devices) = self;
        devices.run()
    }
}
