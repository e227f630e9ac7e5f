//! Shared by unit tests: a server without listeners and jobs, and its log.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tracing::subscriber::DefaultGuard;
use wardroom_store::{Location, Store};

use crate::{
    kinds::KINDS,
    platform::{
        app::App,
        config::{Sources, resolve},
        identity::secret::Key,
    },
};

/// A server on SQLite, without its listeners and jobs.
pub(crate) async fn app(dir: &tempfile::TempDir) -> App {
    let store = Store::open(&Location::Sqlite { dir: dir.path().to_owned() }).await.unwrap();
    let key = Key::create(&dir.path().join("key")).unwrap();
    App::new(store, resolve(&Sources::default(), KINDS).unwrap(), key, KINDS)
}

/// What this thread logs, as lines of JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Listens until the guard is gone.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    /// The lines with this message.
    pub(crate) fn with(&self, message: &str) -> Vec<serde_json::Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["fields"]["message"] == message).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
