//! Contexts: the servers that a person works with, each with its URL and token, in a file that only its owner can read.
//!
//! What must stay true: the token of a context is sent to the server of that context and to no other.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::exit::{Code, failure};

/// A server, and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// The URL of the server.
    pub(crate) server: String,
    /// The API token.
    pub(crate) token: String,
    /// The name of the token when it logged in.
    pub(crate) user: String,
    /// PEM certificates to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Every context, and the one that commands use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Server>,
}

impl Contexts {
    /// Reads the file; without one there are no contexts.
    pub(crate) fn read() -> anyhow::Result<Self> {
        match path() {
            Some(path) => read(&path),
            None => Ok(Self::default()),
        }
    }

    /// The context of a name.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<&Server> {
        self.contexts.get(name).ok_or_else(|| {
            let known = self.contexts.keys().cloned().collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "there are none".to_owned() } else { format!("there are: {known}") };
            failure(
                Code::NotFound,
                format!("there is no context {name:?}: {known}\nnext: make one with `wardroom login URL --name NAME`"),
            )
        })
    }

    /// Changes the file under a lock, so that two commands at once lose nothing.
    pub(crate) fn change<T>(change: impl FnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let path = path().ok_or_else(|| {
            failure(
                Code::Failed,
                "no folder for contexts is known: set HOME, XDG_CONFIG_HOME or WARDROOM_CONTEXTS",
            )
        })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot create {}", folder.display()))?;
        let lock = path.with_extension("lock");
        let locked = private().truncate(false).open(&lock).and_then(|file| file.lock().map(|()| file));
        let _locked: File = locked.with_context(|| format!("cannot lock {}", lock.display()))?;
        let mut contexts = read(&path)?;
        let done = change(&mut contexts)?;
        write(&path, &contexts)?;
        Ok(done)
    }
}

/// Checks the name of a context.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name =
        (1..=64).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with(['-', '.']);
    if is_name { Ok(text.to_owned()) } else { Err("use up to 64 letters, digits and . _ -".to_owned()) }
}

/// `WARDROOM_CONTEXTS`, or a file in the folder for configuration.
fn path() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = || variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    variable("WARDROOM_CONTEXTS").or_else(|| Some(folder()?.join("wardroom").join("contexts.json")))
}

fn read(path: &Path) -> anyhow::Result<Contexts> {
    let shown = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Contexts::default()),
        Err(error) => {
            return Err(failure(Code::Denied, format!("cannot read the contexts in {shown}: {error}")));
        }
    };
    if fs::metadata(path)?.mode() & 0o077 != 0 {
        let said = format!("others can read the tokens in {shown}\nnext: chmod 600 {shown}");
        return Err(failure(Code::Denied, said));
    }
    serde_json::from_str(&text).map_err(|error| {
        // The text has tokens: only the place of the mistake is said.
        let (line, column) = (error.line(), error.column());
        failure(Code::Failed, format!("{shown}: line {line}, column {column}: this is no file of contexts"))
    })
}

/// Writes beside the file and renames: a reader sees the old contexts or the new ones.
fn write(path: &Path, contexts: &Contexts) -> anyhow::Result<()> {
    let beside = path.with_extension("new");
    let text = serde_json::to_string_pretty(contexts)? + "\n";
    let written = private().truncate(true).open(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A file that only its owner can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Server {
        Server { server: url.to_owned(), token: "wrt_x".to_owned(), user: "ada".to_owned(), ca_file: None }
    }

    #[test]
    fn contexts_are_written_for_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("contexts.json");
        assert_eq!(read(&path).unwrap(), Contexts::default());
        let all = Contexts {
            current: Some("lab".to_owned()),
            contexts: [("lab".to_owned(), server("http://127.0.0.1:1"))].into(),
        };
        write(&path, &all).unwrap();
        assert_eq!(read(&path).unwrap(), all);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600") && !refused.contains("wrt_x"), "{refused}");
    }

    #[test]
    fn a_broken_file_gives_no_token_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("contexts.json");
        private().open(&path).unwrap().write_all(b"{\"contexts\": {\"a\": \"wrt_secret\"}}").unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("line 1") && !refused.contains("wrt_secret"), "{refused}");
    }

    #[test]
    fn names_are_plain() {
        assert!(name("prod.eu-1_a").is_ok());
        for wrong in ["", "-x", ".x", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
