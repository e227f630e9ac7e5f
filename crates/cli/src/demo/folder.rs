//! The folder of a demo: gone when the demo ends, unless the user keeps it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;

use crate::exit::{Code, failure};

const PREFIX: &str = "wardroom-demo-";

/// Held while a demo runs, so that another one can tell what was left behind.
const LOCK: &str = "demo.lock";

/// A folder that only its owner can read.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    is_kept: bool,
    _lock: File,
}

impl Folder {
    /// Makes the folder; removes what demos that were killed left behind.
    pub(super) fn make(keep: Option<&Path>) -> anyhow::Result<Self> {
        let path = match keep {
            Some(path) => kept(path)?,
            None => {
                let temporary = std::env::temp_dir();
                remove_leftovers(&temporary);
                fresh(&temporary)?
            }
        };
        let lock = File::create(path.join(LOCK)).with_context(|| path.display().to_string())?;
        lock.try_lock().with_context(|| format!("another demo uses {}", path.display()))?;
        Ok(Self { path, is_kept: keep.is_some(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn is_kept(&self) -> bool {
        self.is_kept
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("server.log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Work that was cut off may still write. What cannot be removed now is removed by the next demo.
            for _ in 0..5 {
                if fs::remove_dir_all(&self.path).is_ok() || !self.path.exists() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Writes a file that only its owner can read.
pub(super) fn write_secret(path: &Path, secret: &str) -> anyhow::Result<()> {
    let open = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    let written = open.and_then(|mut file| file.write_all(secret.as_bytes()));
    written.with_context(|| path.display().to_string())
}

/// A folder that the user names: a new one, or an empty one.
fn kept(path: &Path) -> anyhow::Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("--keep {}", path.display()))?;
    let path = path.canonicalize()?;
    if fs::read_dir(&path)?.next().is_some() {
        let (said, next) = (path.display(), "name a new folder; to look at one that was kept, run");
        return Err(failure(
            Code::Failed,
            format!("--keep {said} is not empty\nnext: {next} `wardroom serve --data-dir {said}`"),
        ));
    }
    Ok(path)
}

fn fresh(within: &Path) -> anyhow::Result<PathBuf> {
    for number in 0..1000 {
        let path = within.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
    anyhow::bail!("{} is full of folders of demos: remove {PREFIX}*", within.display())
}

/// Removes folders whose demo does not run any more.
fn remove_leftovers(within: &Path) {
    let Ok(entries) = fs::read_dir(within) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_folder = entry.file_type().is_ok_and(|found| found.is_dir());
        if is_ours && is_folder && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// One without a lock is about to start.
fn is_abandoned(path: &Path) -> bool {
    OpenOptions::new().write(true).open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_abandoned_is_removed() {
        let within = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let path = within.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).unwrap();
            path
        };
        let (running, killed, starting) = (of("1-0"), of("2-0"), of("3-0"));
        let lock = File::create(running.join(LOCK)).unwrap();
        lock.try_lock().unwrap();
        File::create(killed.join(LOCK)).unwrap();
        let other = within.path().join("other");
        fs::create_dir(&other).unwrap();
        remove_leftovers(within.path());
        assert!(running.exists() && starting.exists() && other.exists());
        assert!(!killed.exists());
    }

    #[test]
    fn a_kept_folder_must_be_empty() {
        let within = tempfile::tempdir().unwrap();
        let path = within.path().join("kept");
        let folder = Folder::make(Some(&path)).unwrap();
        drop(folder);
        assert!(path.join(LOCK).exists(), "it stays");
        let refused = Folder::make(Some(&path)).unwrap_err().to_string();
        assert!(
            refused.contains("is not empty") && refused.contains("wardroom serve --data-dir"),
            "{refused}"
        );
    }
}
