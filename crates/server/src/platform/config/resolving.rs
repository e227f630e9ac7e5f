//! The sections of a configuration while they are resolved; all mistakes are reported together.

use std::{any::Any, net::SocketAddr};

use axum::http::Extensions;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{ConfigError, apart};

/// A merged configuration whose sections are read one after the other.
pub struct Resolving<'a> {
    table: &'a Table,
    wrong: Wrong,
    listeners: Vec<(&'static str, SocketAddr)>,
    kept: Extensions,
}

impl<'a> Resolving<'a> {
    pub(super) fn of(table: &'a Table) -> Self {
        Self { table, wrong: Wrong::default(), listeners: Vec::new(), kept: Extensions::new() }
    }

    /// Reads and resolves a section; records mistakes and returns nothing.
    pub fn section<R: DeserializeOwned, T>(
        &mut self,
        name: &str,
        resolve: impl FnOnce(R) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let section = self.table.get(name).cloned().unwrap_or_else(|| Value::Table(Table::new()));
        let raw = serde_path_to_error::deserialize(section).map_err(|error| {
            ConfigError(format!("{name}.{}: {}", error.path(), ranged(error.inner().message())))
        });
        self.wrong.note(raw.and_then(resolve))
    }

    /// Takes an address that the server will listen on.
    pub fn listens(&mut self, key: &'static str, address: Option<SocketAddr>) {
        self.listeners.extend(address.map(|address| (key, address)));
    }

    /// Keeps the settings of a kind: see [`super::Config::of`].
    pub fn keep<T: Any + Clone + Send + Sync>(&mut self, settings: T) {
        self.kept.insert(settings);
    }

    /// The settings of the kinds, unless something is wrong.
    pub(super) fn end(mut self) -> Result<Extensions, ConfigError> {
        // The address of `server.listen` comes first, so that errors name the other listener.
        self.listeners.sort_by_key(|(key, _)| *key != "server.listen");
        self.wrong.note(apart(&self.listeners));
        if self.wrong.0.is_empty() { Ok(self.kept) } else { Err(self.wrong.said()) }
    }
}

/// Collects all mistakes.
#[derive(Default)]
pub(super) struct Wrong(pub(super) Vec<String>);

impl Wrong {
    pub(super) fn note<T>(&mut self, resolved: Result<T, ConfigError>) -> Option<T> {
        resolved.map_err(|error| self.0.push(error.0)).ok()
    }

    pub(super) fn said(&self) -> ConfigError {
        ConfigError(self.0.join("\n"))
    }
}

/// Rewrites the parser's error for a number that is out of range in plain words.
fn ranged(message: &str) -> String {
    let most = match message.rsplit_once(", expected ").map(|(_, wanted)| wanted) {
        Some("u16") => i64::from(u16::MAX),
        Some("u32") => i64::from(u32::MAX),
        Some("u64" | "usize") => i64::MAX,
        Some(_) | None => return message.to_owned(),
    };
    format!("must be from 0 to {most}")
}
