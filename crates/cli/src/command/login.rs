//! `wardroom login`.

use std::{
    io::{BufRead as _, IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use wardroom_api::client;

use crate::{
    connection,
    context::{self, Contexts, Server},
    exit::{Code, failure},
    output, text,
};

/// Longer than any token.
const LONGEST: u64 = 4096;

/// Checks a token at a server, and keeps both as a context that commands use from then on. The token is read from standard input,
/// or asked for on a terminal; it is never an argument. For example: `wardroom login https://fleet.example < ada.token`
#[derive(Args)]
pub(crate) struct Login {
    /// The URL of the server.
    #[arg(value_name = "URL", default_value = connection::DEFAULT)]
    server: String,
    /// The name of the context; default: the host of the URL.
    #[arg(long, value_name = "NAME", value_parser = context::name)]
    name: Option<String>,
    /// PEM certificates to trust instead of the system's.
    #[arg(long, value_name = "FILE", env = "WARDROOM_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// The longest time to wait for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

impl Login {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Self { server, name, ca_file, timeout } = self;
        let name = match name {
            Some(name) => name,
            None => host(&server)?,
        };
        if server.starts_with("http://") && !client::is_local(&server) {
            output::note("warning: the token goes over plain HTTP: others on the way can read it");
        }
        // A context is used from any folder.
        let ca_file = ca_file
            .map(|path| path.canonicalize().with_context(|| path.display().to_string()))
            .transpose()?;
        let token = asked(&server)?;
        let timeout = Duration::from_secs(timeout);
        let me =
            connection::client(&server, Some(token.clone()), ca_file.as_deref(), timeout)?.whoami().await?;
        let (user, role) = (me.name, me.role);
        let kept = Server { server: server.clone(), token, user: user.clone(), ca_file };
        Contexts::change(|contexts| {
            contexts.contexts.insert(name.clone(), kept);
            contexts.current = Some(name.clone());
            Ok(())
        })?;
        output::line(&text::clean(&format!(
            "logged in to {server} as {user} ({role}); the context is {name}"
        )))
    }
}

/// The name of a context that was given none.
fn host(server: &str) -> anyhow::Result<String> {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let plain: String =
        host.chars().map(|character| if character == ':' { '-' } else { character }).collect();
    context::name(&plain).map_err(|_| {
        failure(Code::Usage, format!("{server:?} gives no name for the context: add --name NAME"))
    })
}

/// The token from standard input; on a terminal it is asked for, and what is typed is not shown.
fn asked(server: &str) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    let mut given = String::new();
    if stdin.is_terminal() {
        let mut errors = std::io::stderr().lock();
        write!(errors, "Token for {}: ", text::clean(server))?;
        errors.flush()?;
        let hidden = Hidden::start();
        stdin.lock().take(LONGEST).read_line(&mut given)?;
        drop(hidden);
        writeln!(errors)?;
    } else {
        stdin.lock().take(LONGEST).read_to_string(&mut given)?;
    }
    let token = given.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        let next = "next: write one token to standard input: wardroom login URL < FILE";
        return Err(failure(
            Code::Usage,
            format!("standard input has no token, or more than one word\n{next}"),
        ));
    }
    Ok(token.to_owned())
}

/// The terminal does not show what is typed, until this is dropped.
struct Hidden(Option<Termios>);

impl Hidden {
    fn start() -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(before) = &before {
            let mut without = before.clone();
            without.local_modes.remove(LocalModes::ECHO);
            // A terminal that cannot hide it shows it, as any other typed line.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &without);
        }
        Self(before)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn a_context_is_named_after_its_host() {
        for (server, name) in [
            ("https://fleet.example/", "fleet.example"),
            ("http://127.0.0.1:8440", "127.0.0.1-8440"),
            ("https://fleet.example:8440/x?y", "fleet.example-8440"),
        ] {
            assert_eq!(host(server).unwrap(), name);
        }
        assert!(host("https://user:secret@fleet.example").is_err() && host("http://[::1]:8440").is_err());
    }
}
