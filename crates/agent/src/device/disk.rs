//! Effects on the disk, one function each. A test can end the process before and after every one of them.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::Path,
};

use super::crash;

/// Whose a file is, and who may read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Rights {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        Self { mode: metadata.mode() & 0o7777, user: metadata.uid(), group: metadata.gid() }
    }
}

/// Writes a new file and waits until it is on disk. A file of that name is replaced, not followed.
pub(crate) fn write(path: &Path, content: &[u8], rights: Rights) -> io::Result<()> {
    remove(path)?;
    crash::around("write", || {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        let now = Rights::of(&file.metadata()?);
        if (now.user, now.group) != (rights.user, rights.group) {
            fchown(&file, Some(rights.user), Some(rights.group))?;
        }
        // After the owner: a change of owner takes bits of the mode away.
        file.set_permissions(fs::Permissions::from_mode(rights.mode))?;
        file.sync_all()
    })
}

/// Keeps a file under a second name; where the file system has no hard links, as a copy.
pub(crate) fn keep(path: &Path, kept: &Path) -> io::Result<()> {
    remove(kept)?;
    if crash::around("link", || fs::hard_link(path, kept)).is_ok() {
        return Ok(());
    }
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return crash::around("symlink", || std::os::unix::fs::symlink(fs::read_link(path)?, kept));
    }
    write(kept, &fs::read(path)?, Rights::of(&metadata))
}

/// Moves a file over another.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    crash::around("rename", || fs::rename(from, to))
}

/// Removes a file that may be gone already.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    crash::around("remove", || gone(fs::remove_file(path)))
}

/// Creates a folder that may be there already.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    crash::around("create folder", || match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    })
}

/// Removes a folder, unless something else is in it.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    crash::around("remove folder", || match gone(fs::remove_dir(path)) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    })
}

/// Waits until the names in a folder are on disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    crash::around("sync", || match fs::File::open(path) {
        Ok(folder) => folder.sync_all(),
        Err(error) => gone(Err(error)),
    })
}

/// Returns whether there is anything of that name.
pub(crate) fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) => gone(Err(error)).map(|()| false),
    }
}

fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        done => done,
    }
}
