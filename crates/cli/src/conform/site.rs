//! A server in a temporary folder, for one program to be judged by.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinHandle};
use wardroom_api::{
    client::{Client, Options},
    token::TokenCreate,
};
use wardroom_server::{platform::config, serve::Server};

pub(super) struct Site {
    pub(super) folder: TempDir,
    pub(super) url: String,
    pub(super) admin: Client,
    settings: Vec<(&'static str, String)>,
    running: Option<Running>,
}

struct Running {
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Site {
    /// Starts a server with these settings beside those of every site.
    pub(super) async fn start(own: Vec<(&'static str, String)>) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("wardroom-conform-").tempdir()?;
        let none = |name: &'static str| (name, String::new());
        let mut settings = vec![
            ("server.listen", "127.0.0.1:0".to_owned()),
            ("server.data_dir", folder.path().display().to_string()),
            ("server.shutdown_seconds", "1".to_owned()),
            none("boot.listen"),
            none("devices.listen"),
        ];
        settings.extend(own);
        let (running, address) = run(&settings).await?;
        // It comes back at the same address.
        settings[0].1 = address.to_string();
        let url = format!("http://{address}");
        let token = fs::read_to_string(folder.path().join("admin.token"))?;
        let options =
            Options { server: url.clone(), token: Some(token.trim().to_owned()), ..Options::default() };
        let admin = Client::new(&options)?;
        Ok(Self { folder, url, admin, settings, running: Some(running) })
    }

    /// Makes a token, and writes it into a file that only its owner can read.
    pub(super) async fn token(&self, create: &TokenCreate, path: &Path) -> anyhow::Result<String> {
        let secret = self.admin.create_token(create).await?.secret;
        crate::secret::write_new(path, &secret)?;
        Ok(secret)
    }

    /// Stops the server in good order.
    pub(super) async fn stop(&mut self) {
        if let Some(Running { stop, serving }) = self.running.take() {
            stop.send_replace(true);
            // A server that ended by itself has ended too.
            let _ = serving.await;
        }
    }

    /// Starts the server again at its address.
    pub(super) async fn resume(&mut self) -> anyhow::Result<()> {
        self.running = Some(run(&self.settings).await?.0);
        Ok(())
    }
}

async fn run(settings: &[(&'static str, String)]) -> anyhow::Result<(Running, SocketAddr)> {
    let sources = config::Sources { flags: settings.to_vec(), ..config::Sources::default() };
    let server = Server::start(config::resolve(&sources, wardroom_server::KINDS)?).await;
    let server = server.context("the server for the program did not start")?;
    let (address, (stop, stopping)) = (server.address, watch::channel(false));
    let serving = tokio::spawn(async move {
        // How a server ends matters to nothing here: the next look fails and says so.
        let _ = server.run(stopping).await;
    });
    Ok((Running { stop, serving }, address))
}
