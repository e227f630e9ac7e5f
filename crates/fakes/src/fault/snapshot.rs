//! A fake's state in a file, so that a fake that is killed and started again remembers.

use std::{fs, io, path::PathBuf};

use serde::{Serialize, de::DeserializeOwned};

/// Where the state is kept; nowhere when absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot(pub(crate) Option<PathBuf>);

impl Snapshot {
    /// The state that was kept, or a new one.
    pub(crate) fn load<T: DeserializeOwned>(&self, new: impl FnOnce() -> T) -> io::Result<T> {
        let Some(path) = &self.0 else { return Ok(new()) };
        match fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(new()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn save(&self, state: &impl Serialize) {
        let Some(path) = &self.0 else { return };
        let aside = path.with_extension("new");
        let written = serde_json::to_vec(state)
            .map_err(io::Error::other)
            .and_then(|bytes| fs::write(&aside, bytes))
            .and_then(|()| fs::rename(&aside, path));
        written.unwrap_or_else(|error| panic!("the state cannot be kept in {}: {error}", path.display()));
    }
}
