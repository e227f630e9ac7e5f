//! The fake as a program.

use std::{io, net::SocketAddr, time::Duration};

use clap::{Args, ValueEnum};

use super::{Config, Fake, Op, OverLimit, Pace};

/// Help: settings of a site and a node for this fake, and its control calls.
const HELP: &str = "\
There are two subnets, `provisioning` (10.20.0.0/16) and `roce` (10.30.0.0/16). Every machine, also one that a client
creates, has two disks `SAMSUNG MZ` and the boot disk `DELLBOSS VD`:

  wardroom create site lab --url URL --key file:KEY --subnet provisioning --boot-disk-model DELLBOSS

Control calls, with the system id or hostname of a machine as ID:

  POST   /_fake/machines             adds a machine: {\"hostname\": \"gpu-1\", \"macs\": [\"52:54:00:12:34:56\"], \"status\": 4,
                                     \"configured\": true, \"disks\": [{\"name\": \"sda\", \"model\": \"BOSS\", \"serial\": \"B1\",
                                     \"size\": 480000000000}]}; every field is optional
  POST   /_fake/machines/ID          changes it: {\"status\": 6, \"power\": \"on\", \"outcomes\": {\"deploying\": [{\"fail\": \"no\"}]}}
  POST   /_fake/machines/ID/finish   ends the work under way: \"pass\", or {\"fail\": \"why\"}
  GET    /_fake/machines/ID/user-data   the user data for cloud-init on a deployed machine
  DELETE /_fake/machines/ID          removes it
  POST   /_fake/faults               orders a fault: {\"op\": \"deploy\", \"kind\": {\"status\": 504}, \"when\": \"after\"}
  DELETE /_fake/faults               removes all faults
  GET    /_fake/machines, /_fake/effects, /_fake/requests

A fault happens to the next requests that match its `op` and `machine` (both optional), `before` (the default) or
`after` they take effect, `times` times (1), after `skip` requests without a fault (0). Its `kind` is \"busy\", \"conflict\",
\"unavailable\", \"unauthorized\", \"hang_up\", \"silence\", \"garbage\", \"echo\", {\"status\": 504}, {\"slow\": MILLISECONDS},
{\"later\": [STATUS, SECONDS]} or {\"later_at\": [STATUS, SECONDS]}, the latter as a date. Its `op` is one of:
";

/// The help, with the names of all operations.
fn help() -> String {
    let lines = Op::NAMES.chunks(6).map(|names| format!("  {}", names.join(", ")));
    format!("{HELP}\n{}", lines.collect::<Vec<_>>().join(",\n"))
}

/// How the program behaves.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct Options {
    /// The address to listen on; port 0 chooses a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The API key to accept.
    #[arg(long, default_value = "consumer:token:secret")]
    key: String,
    /// The number of machines at the start.
    #[arg(long, default_value_t = 0)]
    machines: usize,
    /// How many milliseconds commissioning, deploying, erasing and testing take; by default they wait for a control call.
    #[arg(long)]
    pace: Option<u64>,
    /// How many milliseconds a release takes.
    #[arg(long, default_value_t = 0)]
    releasing: u64,
    /// The most requests answered in a second; default: no limit.
    #[arg(long)]
    requests_per_second: Option<u32>,
    /// The treatment of requests above the limit.
    #[arg(long, value_enum, default_value = "delay")]
    over_limit: Over,
    /// The interval between two reports of hardware, in seconds.
    #[arg(long, default_value_t = 900)]
    sync_interval: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Over {
    Delay,
    Refuse,
    TooMany,
}

/// A random first id, so that a restarted program reuses no id of the one before.
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
