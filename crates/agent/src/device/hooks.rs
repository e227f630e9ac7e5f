//! Hooks: what the owner of a device runs at four moves of an update and around reboots.
//!
//! Each hook has a folder of YAML files. The vendor's files are overlaid by local ones of the same name, and run in the
//! order of their names. The first action that fails ends the hook.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use wardroom_core::device::hook::Hook;

use super::{config::Hooks, crash, files::Change};
use crate::{
    command::{self, Program, Ran, complaint, last},
    orphan,
};

mod action;

use action::Action;
pub(crate) use action::duration;

/// What a hook can know of the update or reboot that it belongs to.
pub(crate) struct Occasion<'a> {
    pub(crate) hook: Hook,
    /// The version that the update leads to; empty outside an update.
    pub(crate) version: &'a str,
    pub(crate) changes: &'a [Change],
    /// Whether the device has booted since the update began.
    pub(crate) rebooted: bool,
}

/// Runs all actions of a hook whose conditions hold.
pub(crate) async fn run(hooks: &Hooks, occasion: &Occasion<'_>, mark: &Path) -> Result<(), String> {
    let hook = occasion.hook;
    for (name, path) in list(hooks, hook).map_err(|error| format!("hook {hook}: {error}"))? {
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("hook {hook}: cannot read {}: {error}", path.display()))?;
        let actions =
            Action::read(&text).map_err(|error| format!("hook {hook}: {}: {error}", path.display()))?;
        for (number, action) in actions.iter().enumerate() {
            let Some(command) = action.command(occasion) else { continue };
            let output = act(action, &command, occasion, mark).await;
            let number = number + 1;
            match output {
                Ok(output) => tracing::info!(%hook, file = name, action = number, output, "a hook has run"),
                Err(error) => {
                    tracing::error!(%hook, file = name, action = number, error, "a hook failed");
                    return Err(format!("hook {hook}, {name}, action {number}: {}", last(&error, 500)));
                }
            }
        }
    }
    Ok(())
}

async fn act(
    action: &Action,
    command: &[String],
    occasion: &Occasion<'_>,
    mark: &Path,
) -> Result<String, String> {
    let limit = action.limit();
    let hook = occasion.hook.as_str();
    let own = [("WARDROOM_HOOK", hook), ("WARDROOM_RENDERED_VERSION", occasion.version)];
    let given = action.env_vars.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let environment: Vec<_> = own.into_iter().chain(given).collect();
    let program = Program { command, environment: &environment, folder: action.work_dir.as_deref() };
    orphan::end(mark, limit).await?;
    crash::point(hook);
    let ran = command::run(&program, limit, Some(mark)).await;
    crash::point(hook);
    let shown = command.first().map(String::as_str).unwrap_or_default();
    match ran {
        Ran::Exited(Some(0), written) => Ok(written.text.trim_end().to_owned()),
        // The gate of a command says so instead of the system.
        Ran::Exited(Some(127), written) => Err(format!("{shown}: {}", complaint(Some(127), &written.text))),
        Ran::Exited(code, written) => Err(format!("{shown}: {}", complaint(code, &written.text))),
        Ran::TooLong(written) => {
            let said = last(&written.text, 300);
            Err(format!("{shown}: ended after {}: {said}", seconds(limit)))
        }
        Ran::NotStarted(error) => Err(error),
    }
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs())
}

/// Returns the files of a hook by name, local ones in place of the vendor's.
fn list(hooks: &Hooks, hook: Hook) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut files = BTreeMap::new();
    for root in [&hooks.vendor, &hooks.local] {
        for folder in entries(root)? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.eq_ignore_ascii_case(hook.as_str()) {
                continue;
            }
            for file in entries(&folder)? {
                if file.extension().is_some_and(|extension| extension == "yaml") {
                    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    files.insert(name, file);
                }
            }
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: io::Error| format!("cannot read {}: {error}", folder.display());
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path()).map_err(told)).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(told(error)),
    }
}

#[cfg(test)]
mod tests;
