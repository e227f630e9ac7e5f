//! `[pull]`: the registries whose images satellites pull through this server.

use std::{path::PathBuf, time::Duration};

use axum::http::Uri;
use serde::Deserialize;

use crate::platform::{
    config::{ConfigError, at_least_one, minutes},
    http::text,
};

/// The registries whose images are passed on, and how many at once.
#[derive(Debug, Clone)]
pub struct Pull {
    /// Their URLs, in the one form of `address`.
    pub registries: Vec<String>,
    /// The folder with their credentials.
    pub credentials: Option<PathBuf>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Manifests and blobs that are passed on at once.
    pub streams: usize,
    /// How long each may take.
    pub longest: Duration,
}

#[derive(Deserialize)]
pub(super) struct RawPull {
    registries: Vec<String>,
    credentials_directory: String,
    ca_file: String,
    streams: u64,
    stream_minutes: u64,
}

impl RawPull {
    pub(super) fn resolve(self) -> Result<Pull, ConfigError> {
        let known = |text: &String| {
            address(text).ok_or_else(|| {
                ConfigError(format!(
                    "pull.registries: {text:?} must be a URL such as https://registry.example.com, without credentials"
                ))
            })
        };
        let path = |text: String| (!text.is_empty()).then(|| PathBuf::from(text));
        let streams = at_least_one("pull.streams", self.streams)?;
        Ok(Pull {
            registries: self.registries.iter().map(known).collect::<Result<_, _>>()?,
            credentials: path(self.credentials_directory),
            ca_file: path(self.ca_file),
            // As many as a listener has connections.
            streams: usize::try_from(streams).unwrap_or(usize::MAX).min(16_384),
            longest: minutes("pull.stream_minutes", self.stream_minutes)?,
        })
    }
}

/// Normalizes the address of a registry: with its scheme, the host in lower case, without a default port and
/// a trailing slash. None if the text is not such an address.
pub(crate) fn address(registry: &str) -> Option<String> {
    let (scheme, rest) = registry.split_once("://").unwrap_or(("https", registry));
    let scheme = scheme.to_ascii_lowercase();
    let usual = match &*scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let url: Uri = format!("{scheme}://{}", rest.trim_end_matches('/')).parse().ok()?;
    let authority = url.authority()?.as_str().to_ascii_lowercase();
    if !text::names_host(&url) || authority.contains('@') || url.query().is_some() || registry.contains('#') {
        return None;
    }
    let authority = authority.strip_suffix(usual).unwrap_or(&authority);
    Some(format!("{scheme}://{authority}{}", url.path().trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn an_address_has_one_form() {
        for (given, expected) in [
            ("https://Registry.Example.com/", Some("https://registry.example.com")),
            ("registry.example.com:443", Some("https://registry.example.com")),
            ("http://10.0.0.1:80", Some("http://10.0.0.1")),
            ("HTTP://10.0.0.1:5000/mirror/", Some("http://10.0.0.1:5000/mirror")),
            ("https://[::1]:443", Some("https://[::1]")),
            ("ftp://registry.example.com", None),
            ("https://user:secret@registry.example.com", None),
            ("https://registry.example.com?a=b", None),
            ("https://registry.example.com#a", None),
            ("", None),
        ] {
            assert_eq!(address(given).as_deref(), expected, "{given}");
        }
    }
}
