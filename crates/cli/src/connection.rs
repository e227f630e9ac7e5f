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
    context::{self, Contexts, Server},
    exit::{Code, failure},
    output, text,
};

/// The server when nothing names another one.
pub(crate) const DEFAULT: &str = "http://127.0.0.1:8440";

/// The file that a server on this machine writes on its first start.
const LOCAL_TOKEN: &str = "wardroom-data/admin.token";

/// The server and the token.
#[derive(Args)]
pub(crate) struct Connection {
    /// The URL of the server, from WARDROOM_SERVER_URL if absent; default: that of the context, or http://127.0.0.1:8440.
    #[arg(help_heading = "Connection", long, value_name = "URL")]
    server: Option<String>,
    /// Use the server and the token of this context, of those that `wardroom login` made.
    #[arg(help_heading = "Connection", long, value_name = "NAME", conflicts_with = "server", value_parser = context::name)]
    context: Option<String>,
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
    /// The connection of a command line that is not complete yet.
    pub(crate) fn of(
        server: Option<String>,
        context: Option<String>,
        token_file: Option<String>,
        ca_file: Option<String>,
    ) -> Self {
        let ca_file = ca_file.or_else(|| variable("WARDROOM_CA_FILE"));
        let (token_file, ca_file) = (token_file.map(PathBuf::from), ca_file.map(PathBuf::from));
        Self { server, context, token_file, ca_file, timeout: 1 }
    }

    /// A client with the token that was found.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let chosen = self.chosen()?;
        let token = self.token(&chosen)?.map(|(token, _)| token);
        let own = chosen.context.as_ref().and_then(|(_, kept)| kept.ca_file.as_deref());
        let ca_file = self.ca_file.as_deref().or(own);
        client(&chosen.server, token, ca_file, Duration::from_secs(self.timeout))
    }

    /// The URL of the server.
    pub(crate) fn url(&self) -> anyhow::Result<String> {
        Ok(self.chosen()?.server)
    }

    /// The URL of the server, and where the token comes from.
    pub(crate) fn place(&self) -> anyhow::Result<(String, String)> {
        let chosen = self.chosen()?;
        let source = self.token(&chosen)?.map_or_else(|| "nowhere".to_owned(), |(_, source)| source);
        Ok((chosen.server, source))
    }

    /// The server, with its context if a context names it.
    fn chosen(&self) -> anyhow::Result<Chosen> {
        let of = |contexts: &Contexts, name: &str| {
            let kept = contexts.get(name)?.clone();
            Ok(Chosen { server: kept.server.clone(), context: Some((name.to_owned(), kept)) })
        };
        if let Some(server) = &self.server {
            return Ok(Chosen { server: server.clone(), context: None });
        }
        if let Some(name) = &self.context {
            return of(&Contexts::read()?, name);
        }
        if let Some(server) = variable("WARDROOM_SERVER_URL") {
            return Ok(Chosen { server, context: None });
        }
        let contexts = Contexts::read()?;
        match variable("WARDROOM_CONTEXT").or_else(|| contexts.current.clone()) {
            Some(name) => of(&contexts, &name),
            None => Ok(Chosen { server: DEFAULT.to_owned(), context: None }),
        }
    }

    /// Returns the token of the first source that has one, and names the source. A token is sent only where it belongs: that of
    /// a context to the server of the context, and the local admin token to a server on this machine.
    fn token(&self, chosen: &Chosen) -> anyhow::Result<Option<(String, String)>> {
        if let Some(path) = &self.token_file {
            return Ok(Some((read(path)?, path.display().to_string())));
        }
        let kept = chosen.context.as_ref();
        let kept = kept.map(|(name, kept)| (kept.token.clone(), format!("the context {name}")));
        if self.context.is_some() {
            return Ok(kept);
        }
        if let Some(token) = variable("WARDROOM_TOKEN") {
            return Ok(Some((token, "WARDROOM_TOKEN".to_owned())));
        }
        if let Some(path) = variable("WARDROOM_TOKEN_FILE") {
            return Ok(Some((read(Path::new(&path))?, path)));
        }
        let local = Path::new(LOCAL_TOKEN);
        if kept.is_some() || !client::is_local(&chosen.server) || is_absent(local) {
            return Ok(kept);
        }
        Ok(Some((read(local)?, LOCAL_TOKEN.to_owned())))
    }
}

/// A server, and the context that names it.
struct Chosen {
    server: String,
    context: Option<(String, Server)>,
}

/// A client of a server.
pub(crate) fn client(
    server: &str,
    token: Option<String>,
    ca_file: Option<&Path>,
    timeout: Duration,
) -> anyhow::Result<Client> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let certificates = ca_file.map(read).transpose()?;
    let warned: fn(&str) = |text| output::note(&format!("warning: {}", text::clean(text)));
    let (server, timeout, warned) = (server.to_owned(), Some(timeout), Some(warned));
    Ok(Client::new(&Options { server, token, certificates, timeout, warned })?)
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
