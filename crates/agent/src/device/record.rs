//! What the agent knows across restarts, in one file that is written atomically.
//!
//! Invariant: what the record says is on disk before the agent acts on it. A step whose progress cannot be written is
//! not continued.

use std::{
    cell::{Cell, Ref, RefCell},
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
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

/// A reboot that an operator requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reboot {
    /// The number of the request.
    pub(crate) number: u64,
    /// The boot that it is to end.
    pub(crate) from: String,
    /// Whether the hook before it has run.
    pub(crate) hooked: bool,
}

/// What is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// The spec in force.
    pub(crate) current: Option<Version>,
    pub(crate) update: Option<Update>,
    pub(crate) outcome: Option<Outcome>,
    /// The number of the last requested reboot that was done or failed.
    pub(crate) reboots: u64,
    pub(crate) reboot: Option<Reboot>,
    /// Why the last requested reboot, or the hook after it, failed.
    pub(crate) reboot_problem: Option<String>,
}

impl Record {
    /// Returns whether an update is in progress that may have changed the device.
    pub(crate) fn changes_device(&self) -> bool {
        let state = self.update.as_ref().map(|update| update.progress.state);
        state.is_some_and(|state| !matches!(state, State::Preparing | State::ReadyToUpdate))
    }

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
    /// The number of changes so far, and of those that the server knows.
    generation: Cell<u64>,
    delivered: watch::Sender<u64>,
    listens: Cell<bool>,
    /// Held as long as the agent lives.
    _lock: fs::File,
}

/// How long a reboot waits for its report.
const TELL: Duration = Duration::from_secs(5);

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
        Ok(Self {
            dir,
            record: RefCell::new(record),
            changed: Notify::new(),
            generation: Cell::new(0),
            delivered: watch::Sender::new(0),
            listens: Cell::new(false),
            _lock: lock,
        })
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
        self.touch();
        Ok(())
    }

    /// Says that a report would be another one now.
    pub(crate) fn touch(&self) {
        self.generation.set(self.generation.get() + 1);
        self.changed.notify_one();
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// Says that reports are sent from now on.
    pub(crate) fn listen(&self) {
        self.listens.set(true);
    }

    /// Says that the server knows the first so many changes.
    pub(crate) fn delivered(&self, generation: u64) {
        self.delivered.send_replace(generation);
    }

    /// Waits until the server knows what is stored now, but not for long: a reboot does not depend on a server.
    pub(crate) async fn told(&self) {
        if self.listens.get() {
            let generation = self.generation.get();
            let mut delivered = self.delivered.subscribe();
            let known = delivered.wait_for(|known| *known >= generation);
            if tokio::time::timeout(TELL, known).await.is_err() {
                tracing::warn!("the server does not know of the reboot yet");
            }
        }
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
            ..Record::default()
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
