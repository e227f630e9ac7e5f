//! What the agent knows across restarts, in one file that is written atomically.
//!
//! Invariant: what the record says is on disk before the agent acts on it. A step whose progress cannot be written is
//! not continued.

use std::{
    cell::{Ref, RefCell},
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use wardroom_api::device::DeviceSpec;
use wardroom_core::device::update::State;

use super::{crash, files::Change, machine::Progress};
use crate::folder;

/// A spec and its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) version: String,
    pub(crate) spec: DeviceSpec,
}

/// A change of the operating system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OsChange {
    pub(crate) from: String,
    pub(crate) to: String,
}

/// An update that has begun and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) to: Version,
    pub(crate) progress: Progress,
    pub(crate) changes: Vec<Change>,
    pub(crate) os: Option<OsChange>,
    /// The boot in which the update began.
    pub(crate) began_in: String,
    /// The boot that a reboot of the update is to end.
    pub(crate) reboot_from: Option<String>,
    /// The boot that the reboot of a rollback is to end.
    pub(crate) back_from: Option<String>,
}

/// How the last update ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) version: String,
    pub(crate) state: State,
    pub(crate) message: String,
}

/// What is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The spec in force.
    pub(crate) current: Option<Version>,
    pub(crate) update: Option<Update>,
    pub(crate) outcome: Option<Outcome>,
}

impl Record {
    /// Returns whether an update to this version must begin. A version that failed is not tried again.
    pub(crate) fn wants(&self, version: &str) -> bool {
        let runs = self.current.as_ref().is_some_and(|current| current.version == version);
        let failed = self
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome.version == version && outcome.state == State::Error);
        self.update.is_none() && !runs && !failed
    }
}

/// The state folder of the agent, and the record in it.
pub(crate) struct Store {
    dir: PathBuf,
    record: RefCell<Record>,
    /// Notified after each change of the record.
    pub(crate) changed: Notify,
    /// Held as long as the agent lives.
    _lock: fs::File,
}

const RECORD: &str = "device.json";
/// Room on the disk that a write of the record may use when there is no other.
const SPARE: &str = "spare";
/// The mark: which command runs.
const RUNNING: &str = "running";

impl Store {
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        folder::create(dir)?;
        // A spec names files by their real path.
        let dir = dir.canonicalize().with_context(|| format!("--state-dir {}", dir.display()))?;
        let lock = folder::lock(&dir)?;
        let path = dir.join(RECORD);
        let record = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!("{} cannot be read; what this device runs is not known any more", path.display())
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Record::default(),
            Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
        };
        Ok(Self { dir, record: RefCell::new(record), changed: Notify::new(), _lock: lock })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the mark that says which command runs.
    pub(crate) fn running(&self) -> PathBuf {
        self.dir.join(RUNNING)
    }

    pub(crate) fn record(&self) -> Ref<'_, Record> {
        self.record.borrow()
    }

    /// Changes the record on disk, then in memory.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Record)) -> Result<(), String> {
        let mut record = self.record.borrow().clone();
        change(&mut record);
        let bytes = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
        let written = crash::around("record", || folder::write(&self.dir.join(RECORD), &bytes));
        written.map_err(|error| format!("cannot write the state of the agent: {error:#}"))?;
        *self.record.borrow_mut() = record;
        self.changed.notify_one();
        Ok(())
    }

    /// Reserves room for the record, so that a full disk does not keep a rollback from being written down.
    pub(crate) fn reserve(&self) -> Result<(), String> {
        let size = serde_json::to_vec(&*self.record.borrow()).map_or(0, |bytes| bytes.len());
        folder::write(&self.dir.join(SPARE), &vec![b'.'; 4096 + 2 * size])
            .map_err(|error| format!("cannot reserve room for the state of the agent: {error:#}"))
    }

    /// Gives the reserved room back.
    pub(crate) fn release(&self) {
        for left in
            [self.dir.join(SPARE), self.dir.join(SPARE).with_extension("new"), self.dir.join("device.new")]
        {
            if let Err(error) = fs::remove_file(&left)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %left.display(), %error, "a file cannot be removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_tried_once() {
        let record = |current: &str, failed: &str| Record {
            current: Some(Version { version: current.to_owned(), spec: DeviceSpec::default() }),
            update: None,
            outcome: Some(Outcome {
                version: failed.to_owned(),
                state: State::Error,
                message: String::new(),
            }),
        };
        assert!(Record::default().wants("1"));
        assert!(record("1", "2").wants("3"));
        assert!(!record("1", "2").wants("1"), "it runs");
        assert!(!record("1", "2").wants("2"), "it failed");
    }

    #[test]
    fn a_record_survives_and_a_broken_one_is_not_guessed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let outcome = Outcome { version: "2".to_owned(), state: State::Error, message: "why".to_owned() };
        store.change(|record| record.outcome = Some(outcome.clone())).unwrap();
        assert!(Store::open(dir.path()).is_err(), "it is in use");
        drop(store);
        assert_eq!(Store::open(dir.path()).unwrap().record().outcome, Some(outcome));
        fs::write(dir.path().join(RECORD), "{").unwrap();
        assert!(Store::open(dir.path()).err().unwrap().to_string().contains("device.json"));
    }
}
