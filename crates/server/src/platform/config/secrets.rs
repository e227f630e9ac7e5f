//! `[secrets]`: where the secrets are that sites and GPU nodes refer to.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ConfigError;

/// The places that references may lead to.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// The folder of files.
    pub directory: PathBuf,
    /// How the names of variables begin.
    pub env_prefix: String,
}

#[derive(Deserialize)]
pub(super) struct RawSecrets {
    directory: String,
    env_prefix: String,
}

impl RawSecrets {
    pub(super) fn resolve(self, data_dir: &Path) -> Result<Secrets, ConfigError> {
        let Self { directory, env_prefix } = self;
        // Without a prefix, an operator who registers a node could have any variable of the server sent to an
        // address.
        if env_prefix.is_empty() {
            return Err(ConfigError(
                "secrets.env_prefix: must not be empty, such as WARDROOM_SECRET_".to_owned(),
            ));
        }
        let directory = if directory.is_empty() { data_dir.join("secrets") } else { directory.into() };
        Ok(Secrets { directory, env_prefix })
    }
}
