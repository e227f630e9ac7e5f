//! Plans, and transactions without a crash; crashes are in the tests of the device.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: &str) -> File {
        let content = content.as_bytes().to_owned();
        File { path: self.path(name), content, mode: None, user: None, group: None }
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().permissions().mode() & 0o7777
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn operations(changes: &[Change]) -> Vec<(String, Operation)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    changes.iter().map(|change| (name(&change.path), change.operation)).collect()
}

#[test]
fn a_plan_has_what_differs_from_the_device_and_nothing_else() {
    let dir = Folder::new();
    for (name, content) in [("same", "1"), ("other", "1"), ("gone", "1"), ("foreign", "1")] {
        dir.write(name, content);
    }
    let before = [dir.file("gone", "1"), dir.file("never", "1"), dir.file("same", "1")];
    let wanted = [dir.file("same", "1"), dir.file("other", "2"), dir.file("new", "1")];
    let changes = plan(&before, &wanted).unwrap();
    let expected = [("gone", Operation::Removed), ("new", Operation::Created), ("other", Operation::Updated)];
    assert_eq!(operations(&changes), expected.map(|(name, operation)| (name.to_owned(), operation)));

    let stricter = File { mode: Some(0o600), ..dir.file("same", "1") };
    assert_eq!(operations(&plan(&[], &[stricter]).unwrap()), [("same".to_owned(), Operation::Updated)]);
}

#[test]
fn what_cannot_be_replaced_is_refused_by_name() {
    let dir = Folder::new();
    fs::create_dir(dir.path("folder")).unwrap();
    dir.write("file", "1");
    for (name, why) in [("folder", "is a folder"), ("file/below", "file")] {
        let error = plan(&[], &[dir.file(name, "2")]).unwrap_err();
        assert!(error.contains(why) && error.contains(dir.path("").to_str().unwrap()), "{error}");
    }
    let device = File { path: "/dev/null".into(), ..dir.file("x", "2") };
    assert!(plan(&[], &[device]).unwrap_err().contains("/dev/null is no regular file"));
}

#[test]
fn mode_is_kept_set_or_the_default() {
    let dir = Folder::new();
    for name in ["kept", "set"] {
        dir.write(name, "1");
        fs::set_permissions(dir.path(name), fs::Permissions::from_mode(0o4711)).unwrap();
    }
    let set = File { mode: Some(0o600), ..dir.file("set", "2") };
    let files = [dir.file("kept", "2"), set, dir.file("new", "2")];
    let changes = plan(&[], &files).unwrap();
    stage(&changes, &files).unwrap();
    put(&changes, &files).unwrap();
    clean(&changes).unwrap();
    assert_eq!([dir.mode("kept"), dir.mode("set"), dir.mode("new")], [0o4711, 0o600, 0o644]);
    assert_eq!(dir.names(), ["kept", "new", "set"]);
}

#[test]
fn a_link_is_replaced_and_restored_and_its_target_stays() {
    let dir = Folder::new();
    dir.write("target", "1");
    symlink("target", dir.path("link")).unwrap();
    let files = [dir.file("link", "2")];
    let changes = plan(&[], &files).unwrap();
    stage(&changes, &files).unwrap();
    put(&changes, &files).unwrap();
    assert_eq!((dir.read("link").unwrap(), dir.read("target").unwrap()), ("2".to_owned(), "1".to_owned()));
    restore(&changes, true).unwrap();
    assert_eq!(fs::read_link(dir.path("link")).unwrap(), Path::new("target"));
    assert_eq!(dir.names(), ["link", "target"]);
}

#[test]
fn a_restore_takes_created_folders_away_unless_they_are_used() {
    let dir = Folder::new();
    let files = [dir.file("a/b/file", "1"), dir.file("c/d/file", "1")];
    let changes = plan(&[], &files).unwrap();
    stage(&changes, &files).unwrap();
    put(&changes, &files).unwrap();
    dir.write("c/other", "1");
    restore(&changes, true).unwrap();
    restore(&changes, true).unwrap();
    assert_eq!(dir.names(), ["c"]);
    assert!(!dir.path("c/d").exists() && dir.path("c/other").exists());
}

/// A file that appeared while nothing was in place yet is not ours.
#[test]
fn a_restore_before_anything_was_put_removes_nothing() {
    let dir = Folder::new();
    dir.write("old", "1");
    let files = [dir.file("new", "1"), dir.file("old", "2")];
    let changes = plan(&[], &files).unwrap();
    stage(&changes, &files).unwrap();
    dir.write("new", "of another program");
    restore(&changes, false).unwrap();
    assert_eq!(dir.read("new").as_deref(), Some("of another program"));
    assert_eq!((dir.read("old").as_deref(), dir.names().len()), (Some("1"), 2));
}
