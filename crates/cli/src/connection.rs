//! The server that a command talks to, and the token it uses.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use wardroom_api::client::{self, Client, Options};

use crate::{
    exit::{Code, failure},
    output, text,
};

/// The file that a server on this machine writes on its first start.
const LOCAL_TOKEN: &str = "wardroom-data/admin.token";

/// The server and the token.
#[derive(Args)]
pub(crate) struct Connection {
    /// The URL of the server.
    #[arg(
        help_heading = "Connection",
        long,
        value_name = "URL",
        env = "WARDROOM_SERVER_URL",
        default_value = "http://127.0.0.1:8440"
    )]
    server: String,
    /// A file with the API token; overrides WARDROOM_TOKEN and WARDROOM_TOKEN_FILE.
    #[arg(help_heading = "Connection", long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM certificates to trust instead of the system's.
    #[arg(help_heading = "Connection", long, value_name = "FILE", env = "WARDROOM_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// The longest time to wait for an answer.
    #[arg(help_heading = "Connection", long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

impl Connection {
    /// A client with the token that was found.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let certificates = match &self.ca_file {
            Some(path) => {
                Some(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)
            }
            None => None,
        };
        let timeout = Some(Duration::from_secs(self.timeout));
        let (server, token) = (self.server.clone(), self.token()?);
        let warned: fn(&str) = |text| output::note(&format!("warning: {}", text::clean(text)));
        let options = Options { server, token, certificates, timeout, warned: Some(warned) };
        Ok(Client::new(&options)?)
    }

    /// Returns the token of the first source that has one. The local admin token is sent only to a server on this machine.
    fn token(&self) -> anyhow::Result<Option<String>> {
        if let Some(path) = &self.token_file {
            return read(path).map(Some);
        }
        if let Some(token) = variable("WARDROOM_TOKEN") {
            return Ok(Some(token));
        }
        if let Some(path) = variable("WARDROOM_TOKEN_FILE") {
            return read(Path::new(&path)).map(Some);
        }
        let local = Path::new(LOCAL_TOKEN);
        if !client::is_local(&self.server) || is_absent(local) {
            return Ok(None);
        }
        read(local).map(Some)
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Returns whether a file does not exist. An unreadable one does, so that the error names the cause.
fn is_absent(path: &Path) -> bool {
    std::fs::metadata(path).is_err_and(|error| error.kind() != ErrorKind::PermissionDenied)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let (read, path) = (std::fs::read_to_string(path), path.display());
    let said = match read {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => format!("the token file {path} is empty"),
        Err(error) => format!("cannot read the token in {path}: {error}"),
    };
    Err(failure(Code::Denied, said))
}
