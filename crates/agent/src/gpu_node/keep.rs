//! The state that survives a restart: the credential, the name of this installation, and results not reported yet.
//!
//! Invariant: as long as the agent lives, a result is held until the server has it, whatever happens to the
//! folder. A disk may be full or read-only, and an uninstall removes the folder; a lost result would cause its task,
//! such as a wipe, executed again.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wardroom_api::gpu_node::agent::{Task, TaskResult};

use crate::folder;

/// The identity of the agent.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) node: String,
    pub(super) credential: String,
    /// The last letters of the token it enrolled with, to recognise another one.
    pub(super) token_end: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Outcome {
    task: Task,
    result: TaskResult,
}

/// Results by the id of their task. The two folders are read once, at the start.
struct Results {
    due: BTreeMap<String, Outcome>,
    aside: BTreeMap<String, Outcome>,
}

/// The state folder, readable only by its owner, and copies that outlive it.
pub(super) struct Keeper {
    dir: PathBuf,
    /// The lock, held as long as the agent lives; the system releases it when the agent is killed.
    _lock: fs::File,
    running: PathBuf,
    installation: OnceCell<String>,
    results: RefCell<Results>,
}

const CREDENTIAL: &str = "credential.json";
const INSTALLATION: &str = "installation";
/// The mark: which command runs.
const RUNNING: &str = "running";
const RESULTS: &str = "results";
/// Results whose task was withdrawn; reported if it comes back.
const ASIDE: &str = "aside";

/// The most results kept of withdrawn tasks: a task that comes back is a recent one.
const MOST_ASIDE: usize = 16;

impl Keeper {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        for dir in [dir.to_owned(), dir.join(RESULTS), dir.join(ASIDE)] {
            folder::create(&dir)?;
        }
        Ok(Self {
            dir: dir.to_owned(),
            _lock: folder::lock(dir)?,
            running: dir.join(RUNNING),
            installation: OnceCell::new(),
            results: RefCell::new(Results {
                due: outcomes(&dir.join(RESULTS)),
                aside: outcomes(&dir.join(ASIDE)),
            }),
        })
    }

    /// Returns the path of the mark that says which command runs.
    pub(super) fn running(&self) -> &Path {
        &self.running
    }

    pub(super) fn credential(&self) -> anyhow::Result<Option<Kept>> {
        let path = self.dir.join(CREDENTIAL);
        match fs::read(&path) {
            Ok(bytes) => {
                Ok(Some(serde_json::from_slice(&bytes).with_context(|| format!("{}", path.display()))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{}", path.display())),
        }
    }

    pub(super) fn keep_credential(&self, kept: &Kept) -> anyhow::Result<()> {
        folder::write(&self.dir.join(CREDENTIAL), &serde_json::to_vec(kept)?)
    }

    /// Returns the name of this installation, created once. Tasks are held under it, so it stays the same without its file.
    pub(super) fn installation(&self) -> anyhow::Result<String> {
        if let Some(name) = self.installation.get() {
            return Ok(name.clone());
        }
        let path = self.dir.join(INSTALLATION);
        let name = if let Ok(name) = fs::read_to_string(&path) {
            name
        } else {
            let name = uuid::Uuid::now_v7().to_string();
            folder::write(&path, name.as_bytes())?;
            name
        };
        Ok(self.installation.get_or_init(|| name).clone())
    }

    /// Holds a result until it is reported. Fails if it is not on disk, where a restart looks for it.
    pub(super) fn keep_result(&self, task: &Task, result: &TaskResult) -> anyhow::Result<()> {
        let outcome = Outcome { task: task.clone(), result: result.clone() };
        let bytes = serde_json::to_vec(&outcome);
        let mut results = self.results.borrow_mut();
        results.aside.remove(&task.id);
        results.due.insert(task.id.clone(), outcome);
        folder::write(&self.file(RESULTS, &task.id), &bytes?)?;
        // Removed only after the other is written: it may be the only copy on disk.
        remove(&self.file(ASIDE, &task.id));
        Ok(())
    }

    /// Returns the results that are not reported yet.
    pub(super) fn results(&self) -> Vec<(Task, TaskResult)> {
        let due = self.results.borrow().due.clone();
        due.into_values().map(|outcome| (outcome.task, outcome.result)).collect()
    }

    /// Returns the result of a task that came back.
    pub(super) fn result(&self, task: &str) -> Option<TaskResult> {
        let results = self.results.borrow();
        let held = results.due.get(task).or_else(|| results.aside.get(task));
        held.map(|outcome| outcome.result.clone())
    }

    pub(super) fn forget_result(&self, task: &str) {
        let mut results = self.results.borrow_mut();
        results.due.remove(task);
        results.aside.remove(task);
        remove(&self.file(RESULTS, task));
        remove(&self.file(ASIDE, task));
    }

    /// Sets aside a result that cannot be reported now, and drops the oldest ones.
    pub(super) fn set_aside(&self, task: &str) {
        let mut results = self.results.borrow_mut();
        let outcome = results.due.remove_entry(task);
        results.aside.extend(outcome);
        let file = self.file(ASIDE, task);
        // A missing file could not be written, which was logged then.
        if let Err(error) = fs::rename(self.file(RESULTS, task), &file)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(task, %error, "a result cannot be set aside on disk");
        }
        // Ids grow with time: the first are the oldest.
        while results.aside.len() > MOST_ASIDE
            && let Some((oldest, _)) = results.aside.pop_first()
        {
            remove(&self.file(ASIDE, &oldest));
        }
    }

    /// Returns the file of a task; characters that do not belong in an id are left out of the path.
    fn file(&self, folder: &str, task: &str) -> PathBuf {
        let decent = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let name: String = task.chars().filter(|character| decent(*character)).take(64).collect();
        self.dir.join(folder).join(format!("{name}.json"))
    }
}

fn outcomes(folder: &Path) -> BTreeMap<String, Outcome> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = entries.filter_map(|entry| read::<Outcome>(&entry.path()));
    read.map(|outcome| (outcome.task.id.clone(), outcome)).collect()
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let whole = path.extension().is_some_and(|extension| extension == "json");
    let bytes = whole.then(|| fs::read(path).ok()).flatten()?;
    match serde_json::from_slice(&bytes) {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "cannot read a stored file");
            None
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a file cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn ended() -> (Task, TaskResult) {
        let task = Task {
            id: "t-1".to_owned(),
            kind: "node.drain".to_owned(),
            state: "dispatched".to_owned(),
            run: "r".to_owned(),
            epoch: 1,
            time_limit: 1,
            force: false,
        };
        (task, TaskResult { epoch: 1, outcome: "succeeded".to_owned(), ..TaskResult::default() })
    }

    #[test]
    fn the_stored_identity_survives_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let keeper = Keeper::open(&state).unwrap();
        assert!(keeper.credential().unwrap().is_none());
        let kept = Kept { node: "n".to_owned(), credential: "c".to_owned(), token_end: String::new() };
        keeper.keep_credential(&kept).unwrap();
        let name = keeper.installation().unwrap();
        let (task, result) = ended();
        keeper.keep_result(&task, &result).unwrap();

        let refused = Keeper::open(&state).err().unwrap().to_string();
        assert!(refused.contains("another wardroom-agent"), "{refused}");
        drop(keeper);
        let again = Keeper::open(&state).unwrap();
        assert_eq!(again.credential().unwrap().unwrap().node, "n");
        assert_eq!(again.installation().unwrap(), name);
        assert_eq!(again.results().len(), 1);
        again.set_aside("t-1");
        assert!(again.results().is_empty());
        assert_eq!(again.result("t-1"), Some(result));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state.join(CREDENTIAL)), 0o600);
        assert_eq!(mode(&state), 0o700);
    }

    #[test]
    fn a_result_that_comes_back_stays_on_disk_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let (task, result) = ended();
        let keeper = Keeper::open(dir.path()).unwrap();
        keeper.keep_result(&task, &result).unwrap();
        keeper.set_aside("t-1");
        // It cannot be moved back: a file is in place of the folder.
        let folder = dir.path().join(RESULTS);
        fs::remove_dir(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        assert_eq!(keeper.result("t-1"), Some(result.clone()));
        keeper.keep_result(&task, &result).unwrap_err();
        assert_eq!(keeper.results().len(), 1);
        drop(keeper);

        fs::remove_file(&folder).unwrap();
        let again = Keeper::open(dir.path()).unwrap();
        assert_eq!(again.result("t-1"), Some(result.clone()));
        again.keep_result(&task, &result).unwrap();
        again.forget_result("t-1");
        drop(again);
        assert_eq!(Keeper::open(dir.path()).unwrap().result("t-1"), None);
    }
}
