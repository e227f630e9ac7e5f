//! Files of an update as one transaction: staged, put in place, restored or cleaned up.
//!
//! A new file is written beside its target, synced and renamed over it, so that each file is the old or the new one at every
//! moment. The old file keeps a second name until the update has ended. Every function here can be interrupted anywhere and
//! called again. The caller stores its progress between them: nothing is put in place before all is staged.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    disk::{self, Rights},
    spec::File,
};

/// The mode of a new file when the spec gives none.
const MODE: u32 = 0o644;

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    Created,
    Updated,
    Removed,
}

/// One file of an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    pub(crate) operation: Operation,
    /// Folders to create for it, the outermost first.
    folders: Vec<PathBuf>,
}

impl Change {
    pub(crate) const fn new(path: PathBuf, operation: Operation) -> Self {
        Self { path, operation, folders: Vec::new() }
    }
}

/// Compares the device with the files of a spec. `before` has the files of the spec in force: those that are not in `files`
/// are removed.
pub(crate) fn plan(before: &[File], files: &[File]) -> Result<Vec<Change>, String> {
    let wanted: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
    let mut changes = Vec::new();
    for file in files {
        let Some(now) = look(&file.path)? else {
            let folders = missing_folders(&file.path)?;
            changes.push(Change { path: file.path.clone(), operation: Operation::Created, folders });
            continue;
        };
        if !is_same(file, &now).map_err(|error| told("read", &file.path, &error))? {
            changes.push(Change::new(file.path.clone(), Operation::Updated));
        }
    }
    for file in before.iter().filter(|file| !wanted.contains(&file.path)) {
        if look(&file.path)?.is_some() {
            changes.push(Change::new(file.path.clone(), Operation::Removed));
        }
    }
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(changes)
}

/// Writes the new files beside their targets and keeps the old ones. Nothing is in place afterwards.
pub(crate) fn stage(changes: &[Change], files: &[File]) -> Result<(), String> {
    for (number, change) in changes.iter().enumerate() {
        for folder in &change.folders {
            disk::create_folder(folder).map_err(|error| told("create", folder, &error))?;
        }
        let old = match change.operation {
            Operation::Created => None,
            Operation::Updated | Operation::Removed => {
                let kept = disk::keep(&change.path, &name(change, number, "old"));
                kept.map_err(|error| told("keep the old", &change.path, &error))?;
                Some(fs::symlink_metadata(&change.path).map_err(|error| told("read", &change.path, &error))?)
            }
        };
        if change.operation != Operation::Removed {
            let file = files.iter().find(|file| file.path == change.path);
            let file = file.ok_or_else(|| format!("{} is not in the spec", change.path.display()))?;
            disk::write(&name(change, number, "new"), &file.content, rights(file, old.as_ref()))
                .map_err(|error| told("write", &change.path, &error))?;
        }
    }
    sync(changes)
}

/// Puts the new files in place, and takes removed ones away.
pub(crate) fn put(changes: &[Change], files: &[File]) -> Result<(), String> {
    for (number, change) in changes.iter().enumerate() {
        let done = match change.operation {
            Operation::Removed => disk::remove(&change.path),
            Operation::Created | Operation::Updated => {
                let staged = name(change, number, "new");
                match disk::is_there(&staged) {
                    // It was put in place before an interruption.
                    Ok(false) if is_new(change, files) => Ok(()),
                    Ok(_) => disk::rename(&staged, &change.path),
                    Err(error) => Err(error),
                }
            }
        };
        done.map_err(|error| told("replace", &change.path, &error))?;
    }
    sync(changes)
}

/// Restores the old files and removes the staged ones. `was_put` says whether new files may be in place.
pub(crate) fn restore(changes: &[Change], was_put: bool) -> Result<(), String> {
    for (number, change) in changes.iter().enumerate().rev() {
        let kept = name(change, number, "old");
        let restored = || -> io::Result<()> {
            disk::remove(&name(change, number, "new"))?;
            match change.operation {
                Operation::Created if was_put => disk::remove(&change.path)?,
                Operation::Created => {}
                Operation::Updated | Operation::Removed => {
                    if was_put && disk::is_there(&kept)? {
                        disk::rename(&kept, &change.path)?;
                    }
                    // Two names of one file are not renamed, so the second is still there.
                    disk::remove(&kept)?;
                }
            }
            change.folders.iter().rev().try_for_each(|folder| disk::remove_folder(folder))
        };
        restored().map_err(|error| told("restore", &change.path, &error))?;
    }
    sync(changes)
}

/// Removes what was kept of the old files.
pub(crate) fn clean(changes: &[Change]) -> Result<(), String> {
    for (number, change) in changes.iter().enumerate() {
        for suffix in ["old", "new"] {
            let left = name(change, number, suffix);
            disk::remove(&left).map_err(|error| told("remove", &left, &error))?;
        }
    }
    sync(changes)
}

/// Returns what is at a path now; nothing if it is free. Only files and links to files can be replaced.
fn look(path: &Path) -> Result<Option<fs::Metadata>, String> {
    match fs::symlink_metadata(path) {
        Ok(now) if now.is_dir() => Err(format!("{} is a folder on this device, not a file", path.display())),
        Ok(now) if !now.is_file() && !now.is_symlink() => {
            Err(format!("{} is no regular file on this device", path.display()))
        }
        Ok(now) => Ok(Some(now)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(told("read", path, &error)),
    }
}

fn is_new(change: &Change, files: &[File]) -> bool {
    let file = files.iter().find(|file| file.path == change.path);
    file.is_some_and(|file| fs::read(&change.path).is_ok_and(|content| content == file.content))
}

fn is_same(file: &File, now: &fs::Metadata) -> io::Result<bool> {
    let same = now.is_file()
        && Rights::of(now) == rights(file, Some(now))
        && now.len() == file.content.len() as u64
        && fs::read(&file.path)? == file.content;
    Ok(same)
}

/// Returns the rights of a new file: those of the spec, else those of the file that it replaces.
fn rights(file: &File, old: Option<&fs::Metadata>) -> Rights {
    let default = Rights {
        mode: MODE,
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
    };
    // A link has a mode of its own, which means nothing.
    let old = old.filter(|old| old.is_file()).map_or(default, Rights::of);
    Rights {
        mode: file.mode.unwrap_or(old.mode),
        user: file.user.unwrap_or(old.user),
        group: file.group.unwrap_or(old.group),
    }
}

fn missing_folders(path: &Path) -> Result<Vec<PathBuf>, String> {
    let mut missing = Vec::new();
    for folder in path.ancestors().skip(1) {
        match fs::metadata(folder) {
            Ok(now) if now.is_dir() => break,
            Ok(_) => return Err(format!("{} is not a folder on this device", folder.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(folder.to_owned()),
            Err(error) => return Err(told("read", folder, &error)),
        }
    }
    missing.reverse();
    Ok(missing)
}

/// Returns a name beside the target, on the same file system, that no file of a spec can have.
fn name(change: &Change, number: usize, suffix: &str) -> PathBuf {
    change.path.with_file_name(format!("{STAGED}{number}.{suffix}"))
}

/// How the names of staged and kept files begin. A spec must not use such names.
pub(crate) const STAGED: &str = ".wardroom-";

/// Waits until the names in all folders of the changes are on disk.
fn sync(changes: &[Change]) -> Result<(), String> {
    let parents = |change: &Change| {
        let folders = change.folders.iter().chain([&change.path]).filter_map(|path| path.parent());
        folders.map(Path::to_owned).collect::<Vec<_>>()
    };
    let folders: BTreeSet<_> = changes.iter().flat_map(parents).collect();
    folders
        .iter()
        .try_for_each(|folder| disk::sync_folder(folder).map_err(|error| told("sync", folder, &error)))
}

fn told(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests;
