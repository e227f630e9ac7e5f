//! `wardroom serve`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use wardroom_server::{
    platform::{
        config::{self, Config, Sources},
        log::{LastLines, Log},
    },
    serve::{Server, stop_on_signal},
};

use crate::{output, place};

/// Runs the server.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: Settings,
}

/// The configuration of a server; flags win over the environment, and that over the file.
#[derive(Args)]
pub(crate) struct Settings {
    /// A configuration file; `wardroom config default` prints one to start from.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The address for people and integrators.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The address where machines boot and report; empty for none.
    #[arg(long, value_name = "ADDRESS")]
    boot_listen: Option<String>,
    /// The address where the agents of devices connect; empty for none.
    #[arg(long, value_name = "ADDRESS")]
    device_listen: Option<String>,
    /// The folder of the embedded database, the key and the first token.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// postgres://… instead of the embedded database.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Serve plain HTTP on an address that is not loopback.
    #[arg(long)]
    insecure_http: bool,
}

impl Settings {
    pub(crate) fn resolve(&self) -> anyhow::Result<Config> {
        Ok(config::resolve(&self.sources()?, wardroom_server::KINDS)?)
    }

    pub(crate) fn sources(&self) -> anyhow::Result<Sources> {
        let given = [
            ("server.listen", self.listen.clone()),
            ("boot.listen", self.boot_listen.clone()),
            ("devices.listen", self.device_listen.clone()),
            ("server.data_dir", self.data_dir.clone()),
            ("server.database_url", self.database_url.clone()),
            ("server.insecure_http", self.insecure_http.then(|| "true".to_owned())),
        ];
        let flags = given.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        place::sources(self.config.as_deref(), flags)
    }
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let config = self.settings.resolve()?;
        let _last_lines = start_logging(&config)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        runtime.block_on(async {
            let stop = stop_on_signal();
            let server = Server::start(config).await?;
            announce(&server, scheme);
            server.run(stop).await;
            let _ = output::print("wardroom has stopped\n");
            Ok(())
        })
    }
}

/// Writes the start lines; a closed standard output does not stop the server.
fn announce(server: &Server, scheme: &str) {
    let mut said = format!("wardroom listens on {scheme}://{}\n", server.address);
    if let Some(address) = server.boot_address {
        said.push_str(&format!("machines boot from http://{address}\n"));
    }
    if let Some(address) = server.spiffe_address {
        said.push_str(&format!("satellites with an SVID connect to https://{address}\n"));
    }
    if let Some(address) = server.device_address {
        said.push_str(&format!("devices connect to https://{address}\n"));
    }
    if let Some(path) = &server.first_token {
        said.push_str(&format!("the first admin token is in {}\n", path.display()));
    }
    let _ = output::print(&said);
}

/// Starts the log, which never makes a request wait or fail, whatever becomes of standard error.
fn start_logging(config: &Config) -> anyhow::Result<LastLines> {
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_new(&config.log_level)
        .with_context(|| format!("log.level: {:?} is not a filter", config.log_level))?;
    let (log, last_lines) = Log::to(std::io::stderr()).context("the log has no thread to write with")?;
    // A fault of the log is not reported on standard error either: that panics when it cannot be written.
    let builder = fmt().with_env_filter(filter).with_writer(move || log.clone()).log_internal_errors(false);
    if config.log_json {
        builder.json().init()
    } else {
        builder.with_ansi(false).init()
    }
    Ok(last_lines)
}
