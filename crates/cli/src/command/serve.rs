//! `wardroom serve`.

use std::{io::Write as _, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use wardroom_server::{
    config::{self, Config, Sources},
    serve::{Server, stop_on_signal},
};

/// Runs the server.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: Settings,
}

/// What says how a server is set up; flags win over the environment, and that over the file.
#[derive(Args)]
pub(crate) struct Settings {
    /// A configuration file; `wardroom config default` prints one to start from.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Where people and integrators connect.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where machines boot and report; empty for none.
    #[arg(long, value_name = "ADDRESS")]
    boot_listen: Option<String>,
    /// Where the embedded database, the key and the first token are kept.
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
        let file = match &self.config {
            Some(path) => Some(
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
            ),
            None => None,
        };
        let given = [
            ("server.listen", self.listen.clone()),
            ("boot.listen", self.boot_listen.clone()),
            ("server.data_dir", self.data_dir.clone()),
            ("server.database_url", self.database_url.clone()),
            ("server.insecure_http", self.insecure_http.then(|| "true".to_owned())),
        ];
        let flags = given.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let environment = std::env::vars().filter(|(name, _)| name.starts_with("WARDROOM_")).collect();
        Ok(config::resolve(&Sources { file, environment, flags })?)
    }
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let config = self.settings.resolve()?;
        start_logging(&config)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = stop_on_signal();
            let server = Server::start(config).await?;
            announce(&server);
            server.run(stop).await;
            Ok(())
        })
    }
}

fn announce(server: &Server) {
    let mut out = std::io::stdout().lock();
    // Nobody may be listening to standard output; the server goes on.
    let _ = writeln!(out, "wardroom listens on {}", server.address);
    if let Some(address) = server.boot_address {
        let _ = writeln!(out, "machines boot from {address}");
    }
    if let Some(path) = &server.first_token {
        let _ = writeln!(out, "the first admin token is in {}", path.display());
    }
    let _ = out.flush();
}

fn start_logging(config: &Config) -> anyhow::Result<()> {
    use tracing_subscriber::{EnvFilter, fmt};
    let filter = EnvFilter::try_new(&config.log_level)
        .with_context(|| format!("log.level: {:?} is not a filter", config.log_level))?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if config.log_json {
        builder.json().init()
    } else {
        builder.with_ansi(false).init()
    }
    Ok(())
}
