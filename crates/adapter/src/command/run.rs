//! `run`: drives the adapter against a server.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use wardroom_api::client::{Client, Options as ClientOptions};
use wardroom_upstream::kubernetes::{Kubernetes, Options as KubernetesOptions, Source};

use super::check;
use crate::run::{self, Connection};

/// What is run, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The URL of the server.
    #[arg(long, value_name = "URL", env = "WARDROOM_SERVER_URL")]
    server: String,
    /// A file with a token of role `adapter`. It is read again when the server no longer accepts the token.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// A file with the certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE", env = "WARDROOM_CA_FILE")]
    ca_file: Option<PathBuf>,
}

/// Runs the adapter until it is told to stop. Kubernetes comes from `KUBECONFIG`, or from the service account of the
/// pod, and is used only when the configuration has objects.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Some(config) = check::read(&options.config) else { return Ok(ExitCode::FAILURE) };
    let kubernetes = if config.needs_kubernetes() {
        let manager = format!("wardroom-adapter-{}", config.name);
        let options = KubernetesOptions { source: Source::Environment, manager, timeout: None, watch: None };
        Some(Kubernetes::new(options).await?)
    } else {
        None
    };
    let server = options.server.clone();
    let connection = Connection::new(&server, move || client(&options))?;
    tokio::select! {
        () = run::run(config, connection, kubernetes) => Ok(ExitCode::FAILURE),
        () = stopped() => Ok(ExitCode::SUCCESS),
    }
}

fn client(options: &Options) -> anyhow::Result<Client> {
    let token = read(&options.token_file)?;
    let certificates = options.ca_file.as_deref().map(std::fs::read).transpose().context("the CA file")?;
    let options = ClientOptions {
        server: options.server.clone(),
        token: Some(token.trim().to_owned()),
        certificates,
        timeout: Some(std::time::Duration::from_secs(30)),
        warned: None,
    };
    Ok(Client::new(&options)?)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("the token file {}", path.display()))
}

/// Waits for a signal to stop. Work that is cut off is done again after the next start.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
