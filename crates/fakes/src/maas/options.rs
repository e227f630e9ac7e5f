//! The fake as a program.

use std::{io, net::SocketAddr, time::Duration};

use clap::{Args, ValueEnum};

use super::{Config, Fake, Op, OverLimit, Pace};

/// What a site and a node can say that fits this fake, and how it is told what to do.
const HELP: &str = "\
There are two subnets, `provisioning` (10.20.0.0/16) and `roce` (10.30.0.0/16). Every machine, also one that a client
creates, has the disks `SAMSUNG MZ` (twice) and `DELLBOSS VD`, which is the one to boot from:

  wardroom create site lab --url URL --key file:KEY --subnet provisioning --boot-disk-model DELLBOSS

Below URL/_fake it can be told things; a machine is named by its system id or its hostname:

  POST   /_fake/machines             a machine: {\"hostname\": \"gpu-1\", \"macs\": [\"52:54:00:12:34:56\"], \"status\": 4,
                                     \"configured\": true, \"disks\": [{\"name\": \"sda\", \"model\": \"BOSS\", \"serial\": \"B1\",
                                     \"size\": 480000000000}]}; all of it can be left out
  POST   /_fake/machines/ID          a change: {\"status\": 6, \"power\": \"on\", \"outcomes\": {\"deploying\": [{\"fail\": \"no\"}]}}
  POST   /_fake/machines/ID/finish   ends the work under way: \"pass\", or {\"fail\": \"why\"}
  GET    /_fake/machines/ID/user-data   what cloud-init gets on a deployed machine
  DELETE /_fake/machines/ID          removes it
  POST   /_fake/faults               {\"op\": \"deploy\", \"kind\": {\"status\": 504}, \"when\": \"after\"}
  DELETE /_fake/faults               no more of them
  GET    /_fake/machines, /_fake/effects, /_fake/requests

A fault happens to the next request that fits its `op` and its `machine` (each may be left out), `before` (unless told) or
`after` it takes effect, `times` times (1), behind `skip` requests that go through (0). Its `kind` is \"busy\", \"conflict\",
\"unavailable\", \"unauthorized\", \"hang_up\", \"silence\", \"garbage\", \"echo\", {\"status\": 504}, {\"slow\": MILLISECONDS},
{\"later\": [STATUS, SECONDS]} or {\"later_at\": [STATUS, SECONDS]}, the latter as a date. Its `op` is one of:
";

/// All of it, with the operations as the routes name them.
fn help() -> String {
    let lines = Op::NAMES.chunks(6).map(|names| format!("  {}", names.join(", ")));
    format!("{HELP}\n{}", lines.collect::<Vec<_>>().join(",\n"))
}

/// How the program behaves.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The API key to accept.
    #[arg(long, default_value = "consumer:token:secret")]
    key: String,
    /// How many machines there are in the beginning.
    #[arg(long, default_value_t = 0)]
    machines: usize,
    /// How many milliseconds commissioning, deploying, erasing and testing take; without it they wait to be ended.
    #[arg(long)]
    pace: Option<u64>,
    /// How many milliseconds a release takes.
    #[arg(long, default_value_t = 0)]
    releasing: u64,
    /// How many requests are answered in a second.
    #[arg(long)]
    requests_per_second: Option<u32>,
    /// What happens to more.
    #[arg(long, value_enum, default_value = "delay")]
    over_limit: Over,
    /// How many seconds lie between two reports of hardware.
    #[arg(long, default_value_t = 900)]
    sync_interval: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Over {
    Delay,
    Refuse,
    TooMany,
}

/// Somewhere: two programs one after the other are one MAAS to whoever drives them.
fn random() -> u64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    u32::from_ne_bytes(bytes).into()
}

impl Options {
    /// Runs until the process is stopped.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn run(self) -> io::Result<()> {
        let pace = self.pace.map(|time| Pace::all(Duration::from_millis(time))).unwrap_or_default();
        let config = Config {
            key: self.key,
            machines: self.machines,
            first_id: random(),
            pace: Pace { releasing: Some(Duration::from_millis(self.releasing)), ..pace },
            requests_per_second: self.requests_per_second,
            over_limit: match self.over_limit {
                Over::Delay => OverLimit::Delay,
                Over::Refuse => OverLimit::Refuse,
                Over::TooMany => OverLimit::TooMany,
            },
            sync_interval: Duration::from_secs(self.sync_interval),
            ..Config::default()
        };
        let fake = Fake::start(config, self.listen).await?;
        crate::wire::announce(&fake.url())?;
        tokio::signal::ctrl_c().await
    }
}
