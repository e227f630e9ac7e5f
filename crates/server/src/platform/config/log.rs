//! `[log]`: the level and the format.

use serde::Deserialize;

use super::ConfigError;

#[derive(Deserialize)]
pub(super) struct RawLog {
    level: String,
    format: String,
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl RawLog {
    /// The filter, and whether logs are JSON.
    pub(super) fn resolve(self) -> Result<(String, bool), ConfigError> {
        let json = match self.format.as_str() {
            "json" => true,
            "text" => false,
            other => return Err(ConfigError(format!("log.format: {other:?} must be text or json"))),
        };
        // An unknown word would be taken for the name of a module, and silence everything else.
        let level = |part: &str| part.rsplit('=').next().map(|level| level.trim().to_ascii_lowercase());
        let is_level = |part: &str| level(part).is_some_and(|level| LEVELS.contains(&level.as_str()));
        // Filters of spans have commas of their own; the reader of filters looks at those.
        if self.level.contains('[') || self.level.split(',').all(is_level) {
            return Ok((self.level, json));
        }
        let write =
            "must be off, error, warn, info, debug or trace, or a filter such as info,wardroom_server=debug";
        Err(ConfigError(format!("log.level: {:?} {write}", self.level)))
    }
}
