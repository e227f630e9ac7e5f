//! The first admin token of an empty store, in a file that only its owner reads.
//!
//! Several servers may start at once over one folder, a folder may have served another store before, and a
//! server may end at any point. So the token is first written to a file of its own, which is renamed to
//! `admin.token` once the store has the token. An existing file may be the only copy of a token, so it is
//! kept.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use jiff::SignedDuration;
use uuid::Uuid;
use wardroom_core::table::Role;
use wardroom_store::{Error as StoreError, List};

use crate::{
    platform::{
        app::{App, by_system},
        identity::{
            auth::{Identity, TOKEN, TokenDocument},
            secret, token,
        },
    },
    serve::StartError,
};

/// What the first token is called.
const FIRST: &str = "first-admin";

/// Where people look for it.
const FILE: &str = "admin.token";

/// How the name of its file begins until the store has it.
const NEW: &str = "admin.token.new-";

/// Creates the first admin token of an empty store, and returns its file.
pub(crate) async fn make(app: &App, folder: &Path) -> Result<Option<PathBuf>, StartError> {
    let any = app.store.list(&List { kind: TOKEN.to_owned(), limit: 1, ..List::default() }).await?;
    if !any.items.is_empty() {
        return left_over(app, folder).await;
    }
    let token = secret::new_token();
    let new = folder.join(format!("{NEW}{}", Uuid::now_v7()));
    secret::write_private(&new, format!("{token}\n").as_bytes()).map_err(|error| refused(&new, &error))?;
    let document = TokenDocument {
        role: Role::Admin,
        kinds: Vec::new(),
        group_id: None,
        adapter: None,
        expires_at: app.now() + SignedDuration::from_hours(24 * 365 * 10),
    };
    let mut entry = by_system(app, "registered", token::named(FIRST));
    entry.comment = Some("the first token of an empty store".to_owned());
    let content = token::content(&app.key, FIRST, &document, &token)
        .map_err(|error| StartError::Setup(error.to_string()))?;
    match app.create(content, entry).await {
        Ok(_) => put(app, folder, &new).map(Some),
        // Another server was faster; its token is the one that works.
        Err(StoreError::KeyTaken { .. }) => {
            fs::remove_file(&new).map_err(|error| refused(&new, &error))?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds the file of a server that ended after its commit and before renaming the file.
async fn left_over(app: &App, folder: &Path) -> Result<Option<PathBuf>, StartError> {
    let entries = fs::read_dir(folder).map_err(|error| refused(folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| refused(folder, &error))?.path();
        let is_new = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NEW));
        // Another server may remove the file meanwhile.
        let Some(token) = is_new.then(|| fs::read_to_string(&path).ok()).flatten() else { continue };
        let found = app.store.get_by_key(TOKEN, &app.key.hash_token(token.trim())).await?;
        if found.as_ref().and_then(Identity::of).is_some() {
            return put(app, folder, &path).map(Some);
        }
    }
    Ok(None)
}

/// Renames the file. An existing token is copied first, so that two servers that do this at once lose none.
fn put(app: &App, folder: &Path, new: &Path) -> Result<PathBuf, StartError> {
    let path = folder.join(FILE);
    match fs::read(&path) {
        Ok(other) => {
            let kept = folder.join(format!("{FILE}.before-{}", app.now().strftime("%Y%m%dT%H%M%S%.6fZ")));
            secret::write_private(&kept, &other).map_err(|error| refused(&kept, &error))?;
            tracing::warn!(
                kept = %kept.display(),
                "admin.token held a token of another store; the file was renamed"
            );
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(refused(&path, &error)),
    }
    match fs::rename(new, &path) {
        Ok(()) => Ok(path),
        // Another server that starts has done it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path),
        Err(error) => Err(refused(&path, &error)),
    }
}

fn refused(path: &Path, error: &io::Error) -> StartError {
    StartError::Setup(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::bare;

    fn files(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        };
        let mut files: Vec<_> = entries.map(read).collect();
        files.sort();
        files
    }

    async fn works(app: &App, token: &str) -> bool {
        app.store.get_by_key(TOKEN, &app.key.hash_token(token.trim())).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn a_token_of_another_store_is_kept() {
        let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join(FILE), "wrt_other\n").unwrap();
        let app = bare::app(&dir).await;
        let path = make(&app, folder.path()).await.unwrap().unwrap();
        let [(name, token), (kept, other)] = &files(folder.path())[..] else {
            panic!("{:?}", files(folder.path()))
        };
        assert_eq!((&**name, &*path), (FILE, &*folder.path().join(FILE)));
        assert!(works(&app, token).await);
        assert!(kept.starts_with("admin.token.before-"), "{kept}");
        assert_eq!(other, "wrt_other\n");
        assert_eq!(make(&app, folder.path()).await.unwrap(), None);
    }

    #[tokio::test]
    async fn servers_that_start_together_leave_the_token_that_works() {
        for _ in 0..20 {
            let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let app = bare::app(&dir).await;
            let (left, right) = tokio::join!(make(&app, folder.path()), make(&app, folder.path()));
            assert!(left.unwrap().is_some() || right.unwrap().is_some());
            let [(name, token)] = &files(folder.path())[..] else { panic!("{:?}", files(folder.path())) };
            assert_eq!(name, FILE);
            assert!(works(&app, token).await);
        }
    }

    /// Killed after the commit, before the file had its name.
    #[tokio::test]
    async fn a_token_that_was_left_over_is_found() {
        let (dir, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let app = bare::app(&dir).await;
        let path = make(&app, folder.path()).await.unwrap().unwrap();
        let token = fs::read_to_string(&path).unwrap();
        fs::rename(&path, folder.path().join("admin.token.new-x")).unwrap();
        fs::write(folder.path().join("admin.token.new-a"), "wrt_nobodys\n").unwrap();
        assert_eq!(make(&app, folder.path()).await.unwrap(), Some(path.clone()));
        assert_eq!(fs::read_to_string(path).unwrap(), token);
    }
}
