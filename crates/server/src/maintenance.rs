//! Maintenance of a store without a server: verify, back up, restore, create an admin token.
//!
//! Verifying and backing up read one snapshot beside running servers; restoring needs an empty store that no
//! server uses.

use std::path::Path;

use wardroom_core::table::Role;
pub use wardroom_store::{Checkpoint, Error, Fault, Location, Report};
use wardroom_store::{SealKey, Store};

use crate::{
    platform::{
        app::{App, by_system},
        config::Config,
        identity::{
            auth::TokenDocument,
            secret::{self, Key},
            token,
        },
    },
    serve::{StartError, same_key},
};

/// The result of a verification, and whether signatures were checked.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The counts, and the first fault if there is one.
    pub report: Report,
    /// Why signatures were not checked; none if they were.
    pub unsigned: Option<String>,
}

/// Verifies the history of a store, also against checkpoints that were exported before.
///
/// # Errors
/// When the store cannot be read.
pub async fn verify(config: &Config, exported: &[Checkpoint]) -> Result<Verified, Error> {
    let (key, unsigned) = match seal_key(&config.key_file) {
        Ok(key) => (Some(key), None),
        Err(reason) => (None, Some(reason)),
    };
    let report = wardroom_store::verify(&config.location, key.as_ref(), exported).await?;
    Ok(Verified { report, unsigned })
}

/// The key of the server, if it can be read; verification never makes one.
fn seal_key(path: &Path) -> Result<SealKey, String> {
    let key = Key::load(path)?.ok_or_else(|| format!("there is no key in {}", path.display()))?;
    SealKey::new(&key.derive("checkpoint")).map_err(|error| error.to_string())
}

/// Every checkpoint of a store, the oldest first.
///
/// # Errors
/// When the store cannot be read.
pub async fn checkpoints(config: &Config) -> Result<Vec<Checkpoint>, Error> {
    wardroom_store::checkpoints(&config.location).await
}

/// Writes everything to a new file that only its owner can read.
///
/// # Errors
/// When the store cannot be read or the file not be written; an existing file is not replaced.
pub async fn backup(config: &Config, to: &Path) -> Result<(), Error> {
    wardroom_store::backup(&config.location, to).await
}

/// Restores a backup into an empty store.
///
/// # Errors
/// When the backup is damaged, or the store is not empty or in use; nothing is changed then.
pub async fn restore(from: &Path, config: &Config) -> Result<(), Error> {
    wardroom_store::restore(from, &config.location).await
}

/// Makes an admin token for the holder of the server's key and database, and returns its secret: the way back
/// in when every token is lost. An embedded database must not be in use.
///
/// # Errors
/// When there is no such store, the key is another one, or the name was used before; nothing is
/// changed then.
pub async fn admin_token(config: Config, name: &str) -> Result<String, StartError> {
    crate::platform::identity::token_name::check(name)
        .map_err(|error| StartError::Setup(error.to_string()))?;
    Store::require(&config.location).await?;
    let path = config.key_file.display().to_string();
    let key = Key::load(&config.key_file).map_err(StartError::Setup)?;
    let key =
        key.ok_or_else(|| StartError::Setup(format!("{path}: is missing; it takes the key of the server")))?;
    let store = Store::open(&config.location).await?;
    if store.get("server", "key").await?.is_none() {
        return Err(StartError::Setup("no server has used this database yet: start one".to_owned()));
    }
    let app = App::new(store, config, key, crate::kinds::KINDS);
    same_key(&app).await?;
    let (secret, expires_at) = (secret::new_token(), app.now() + token::DEFAULT_LIFETIME);
    let (role, group_id, adapter) = (Role::Admin, None, None);
    let document = TokenDocument { role, kinds: Vec::new(), group_id, adapter, expires_at };
    let content = token::content(&app.key, name, &document, &secret)
        .map_err(|error| StartError::Setup(error.to_string()))?;
    let mut entry = by_system(&app, "registered", token::named(name));
    entry.comment = Some("made on the machine of the server, with its key".to_owned());
    match app.create(content, entry).await {
        Ok(_) => Ok(secret),
        Err(Error::KeyTaken { .. }) => {
            Err(StartError::Setup(format!("the name {name:?} was used before: choose another")))
        }
        Err(error) => Err(error.into()),
    }
}
