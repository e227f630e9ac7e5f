//! The state folder: readable only by its owner, used by one agent at a time, each file written atomically.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use anyhow::Context as _;

/// The lock file. A second agent in the folder would end the work of the first and repeat it.
pub(crate) const LOCK: &str = "agent.lock";

/// How often, and after which pause, a lock that is held is tried again.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// Creates a folder that only its owner can read.
pub(crate) fn create(dir: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.with_context(|| format!("cannot use --state-dir {}", dir.display()))
}

/// Locks the folder until the file is dropped; the system releases the lock when the agent is killed.
pub(crate) fn lock(dir: &Path) -> anyhow::Result<fs::File> {
    let path = dir.join(LOCK);
    let lock = fs::File::create(&path).with_context(|| format!("{}", path.display()))?;
    // A command that an agent was about to start when it was killed holds the lock until it runs.
    let mut locked = lock.try_lock();
    for _ in 0..TRIES {
        if !matches!(locked, Err(fs::TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(PAUSE);
        locked = lock.try_lock();
    }
    match locked {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => anyhow::bail!(
            "--state-dir {} is in use: another wardroom-agent runs with it, and would do the same tasks; give each \
             agent a folder of its own",
            dir.display()
        ),
        Err(fs::TryLockError::Error(error)) => Err(error).with_context(|| format!("{}", path.display())),
    }
}

/// Writes a file atomically, readable only by its owner.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let context = || format!("{}", path.display());
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
    let mut file = file.with_context(context)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).with_context(context)?;
    fs::rename(&new, path).with_context(context)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).with_context(context)
}
