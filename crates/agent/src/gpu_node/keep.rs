//! What survives a restart: the credential, the name of this installation, and results that are not reported yet.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wardroom_api::gpu_node::agent::{Task, TaskResult};

/// Whom the agent speaks for.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) node: String,
    pub(super) credential: String,
    /// The end of the token that it enrolled with, to tell another one from it.
    #[serde(default)]
    pub(super) token_end: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Outcome {
    task: Task,
    result: TaskResult,
}

/// A folder that only its owner can read.
pub(super) struct Keeper {
    dir: PathBuf,
    /// Held as long as the agent lives; one that is killed lets go by itself.
    _lock: fs::File,
    running: PathBuf,
}

const CREDENTIAL: &str = "credential.json";
const INSTALLATION: &str = "installation";
/// Held by the agent that uses the folder: a second one would end what the first one does, and do it again.
const LOCK: &str = "agent.lock";
/// Which command runs.
const RUNNING: &str = "running";
const RESULTS: &str = "results";
/// Results whose task was taken away; reported if it comes back.
const ASIDE: &str = "aside";

impl Keeper {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        for dir in [dir.to_owned(), dir.join(RESULTS), dir.join(ASIDE)] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
            made.with_context(|| format!("cannot use --state-dir {}", dir.display()))?;
        }
        let path = dir.join(LOCK);
        let lock = fs::File::create(&path).with_context(|| format!("{}", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock, running: dir.join(RUNNING) }),
            Err(fs::TryLockError::WouldBlock) => anyhow::bail!(
                "--state-dir {} is in use: another wardroom-agent runs with it, and would do the same tasks; give each \
                 agent a folder of its own",
                dir.display()
            ),
            Err(fs::TryLockError::Error(error)) => Err(error).with_context(|| format!("{}", path.display())),
        }
    }

    /// Where is written down which command runs.
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
        self.write(&self.dir.join(CREDENTIAL), &serde_json::to_vec(kept)?)
    }

    /// Names this installation; made once.
    pub(super) fn installation(&self) -> anyhow::Result<String> {
        let path = self.dir.join(INSTALLATION);
        if let Ok(name) = fs::read_to_string(&path) {
            return Ok(name);
        }
        let name = uuid::Uuid::now_v7().to_string();
        self.write(&path, name.as_bytes())?;
        Ok(name)
    }

    pub(super) fn keep_result(&self, task: &Task, result: &TaskResult) -> anyhow::Result<()> {
        let outcome = Outcome { task: task.clone(), result: result.clone() };
        self.write(&self.file(RESULTS, &task.id), &serde_json::to_vec(&outcome)?)
    }

    /// Results that are not reported yet.
    pub(super) fn results(&self) -> Vec<(Task, TaskResult)> {
        let entries = fs::read_dir(self.dir.join(RESULTS)).into_iter().flatten().flatten();
        let read = entries.filter_map(|entry| read::<Outcome>(&entry.path()));
        read.map(|outcome| (outcome.task, outcome.result)).collect()
    }

    /// The result of a task that comes back.
    pub(super) fn result(&self, task: &str) -> Option<TaskResult> {
        let path = self.file(ASIDE, task);
        let outcome = read::<Outcome>(&path)?;
        remove(&path);
        Some(outcome.result)
    }

    pub(super) fn forget_result(&self, task: &str) {
        remove(&self.file(RESULTS, task));
    }

    /// Keeps a result that cannot be reported now; the ones before it are of no use any more.
    pub(super) fn set_aside(&self, task: &str) {
        for entry in fs::read_dir(self.dir.join(ASIDE)).into_iter().flatten().flatten() {
            remove(&entry.path());
        }
        if let Err(error) = fs::rename(self.file(RESULTS, task), self.file(ASIDE, task)) {
            tracing::warn!(task, %error, "a result cannot be set aside");
        }
    }

    /// A task's id names its file; whatever else is in it stays out of the path.
    fn file(&self, folder: &str, task: &str) -> PathBuf {
        let decent = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let name: String = task.chars().filter(|character| decent(*character)).take(64).collect();
        self.dir.join(folder).join(format!("{name}.json"))
    }

    /// Writes a file that is whole or not there, and that only its owner can read.
    fn write(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let new = path.with_extension("new");
        let context = || format!("{}", path.display());
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        let mut file = file.with_context(context)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).with_context(context)?;
        fs::rename(&new, path).with_context(context)?;
        let folder = path.parent().unwrap_or(&self.dir);
        fs::File::open(folder).and_then(|folder| folder.sync_all()).with_context(context)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let whole = path.extension().is_some_and(|extension| extension == "json");
    let bytes = whole.then(|| fs::read(path).ok()).flatten()?;
    match serde_json::from_slice(&bytes) {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "a kept file cannot be read");
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

    #[test]
    fn what_is_kept_survives_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let keeper = Keeper::open(&state).unwrap();
        assert!(keeper.credential().unwrap().is_none());
        let kept = Kept { node: "n".to_owned(), credential: "c".to_owned(), token_end: None };
        keeper.keep_credential(&kept).unwrap();
        let name = keeper.installation().unwrap();
        let task = Task {
            id: "t-1".to_owned(),
            kind: "node.drain".to_owned(),
            state: "dispatched".to_owned(),
            run: "r".to_owned(),
            epoch: 1,
            time_limit: 1,
            force: false,
        };
        let result = TaskResult { epoch: 1, outcome: "succeeded".to_owned(), ..TaskResult::default() };
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
        assert_eq!(again.result("t-1"), None, "once");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state.join(CREDENTIAL)), 0o600);
        assert_eq!(mode(&state), 0o700);
    }
}
