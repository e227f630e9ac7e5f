//! One action of a hook: its conditions and its command.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::SignedDuration;
use serde::Deserialize;

use super::Occasion;
use crate::device::files::{Change, Operation};

/// How long an action may take when it says nothing else.
const LIMIT: Duration = Duration::from_secs(10);

/// One action.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Action {
    run: Run,
    #[serde(default)]
    pub(super) env_vars: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) work_dir: Option<PathBuf>,
    #[serde(default)]
    timeout: Option<String>,
    /// All of them must hold.
    #[serde(default, rename = "if")]
    conditions: Vec<Condition>,
}

/// A command: words, or a text that is split into words at spaces outside quotes. No shell reads it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Run {
    Text(String),
    Words(Vec<String>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Condition {
    /// `rebooted == true`
    Expression(String),
    Fields(Fields),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    /// A file, or with a slash at the end everything below a folder.
    #[serde(default)]
    path: Option<String>,
    /// Which changes count; all when absent.
    #[serde(default)]
    op: Vec<Operation>,
    #[serde(default)]
    rebooted: Option<bool>,
}

impl Action {
    /// Reads the actions of a file. All of it is validated before the first one runs.
    pub(super) fn read(text: &str) -> Result<Vec<Self>, String> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Vec::new());
        }
        let actions: Vec<Self> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        for (number, action) in actions.iter().enumerate() {
            action.validate().map_err(|error| format!("action {}: {error}", number + 1))?;
        }
        Ok(actions)
    }

    fn validate(&self) -> Result<(), String> {
        if self.words()?.is_empty() {
            return Err("run: the command is empty".to_owned());
        }
        if let Some(text) = &self.timeout {
            let limit = duration(text).map_err(|error| format!("timeout: {error}"))?;
            if limit.is_zero() {
                return Err("timeout: must be longer than 0".to_owned());
            }
        }
        for condition in &self.conditions {
            match condition {
                Condition::Expression(text) => {
                    rebooted(text).map(drop)?;
                }
                Condition::Fields(fields) if fields.path.is_none() && fields.rebooted.is_none() => {
                    return Err("if: needs `path` or `rebooted`".to_owned());
                }
                Condition::Fields(fields) => {
                    if fields.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
                        return Err("if: path must be absolute".to_owned());
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn limit(&self) -> Duration {
        self.timeout.as_deref().and_then(|text| duration(text).ok()).unwrap_or(LIMIT)
    }

    /// Returns the command to run; nothing if a condition does not hold.
    pub(super) fn command(&self, occasion: &Occasion<'_>) -> Option<Vec<String>> {
        let mut about: Option<&str> = None;
        let mut changes: Vec<&Change> = occasion.changes.iter().collect();
        for condition in &self.conditions {
            match condition {
                Condition::Expression(text) => {
                    if rebooted(text).ok()? != occasion.rebooted {
                        return None;
                    }
                }
                Condition::Fields(fields) => {
                    if fields.rebooted.is_some_and(|wanted| wanted != occasion.rebooted) {
                        return None;
                    }
                    let Some(path) = &fields.path else { continue };
                    let fits = |change: &&Change| fields.is_about(path, change);
                    let fitting: Vec<_> = occasion.changes.iter().filter(fits).collect();
                    if fitting.is_empty() {
                        return None;
                    }
                    if about.replace(path).is_none() {
                        changes = fitting;
                    } else {
                        changes.extend(fitting);
                    }
                }
            }
        }
        let words = self.words().ok()?;
        Some(words.iter().flat_map(|word| filled(word, about.unwrap_or_default(), &changes)).collect())
    }

    fn words(&self) -> Result<Vec<String>, String> {
        match &self.run {
            Run::Words(words) => Ok(words.clone()),
            Run::Text(text) => split(text),
        }
    }
}

impl Fields {
    fn is_about(&self, path: &str, change: &Change) -> bool {
        let is_there = match path.strip_suffix('/') {
            Some(folder) => change.path.starts_with(folder) && change.path != Path::new(folder),
            None => change.path == Path::new(path),
        };
        is_there && (self.op.is_empty() || self.op.contains(&change.operation))
    }
}

/// Replaces variables. A word that is one list of files becomes a word for each of them.
fn filled(word: &str, about: &str, changes: &[&Change]) -> Vec<String> {
    let paths = |wanted: Option<Operation>| -> Vec<String> {
        let fits = |change: &&&Change| wanted.is_none_or(|wanted| change.operation == wanted);
        changes.iter().filter(fits).map(|change| change.path.display().to_string()).collect()
    };
    let lists = [
        ("${Files}", None),
        ("${CreatedFiles}", Some(Operation::Created)),
        ("${UpdatedFiles}", Some(Operation::Updated)),
        ("${RemovedFiles}", Some(Operation::Removed)),
    ];
    if let Some((_, wanted)) = lists.iter().find(|(name, _)| *name == word) {
        return paths(*wanted);
    }
    let mut text = word.replace("${Path}", about.trim_end_matches('/'));
    for (name, wanted) in lists {
        if text.contains(name) {
            text = text.replace(name, &paths(wanted).join(" "));
        }
    }
    vec![text]
}

/// Splits a text at spaces outside quotes.
fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in text.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            None if character == '"' || character == '\'' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            None if character.is_whitespace() => words.extend(word.take()),
            Some(_) | None => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err("run: a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}

fn rebooted(text: &str) -> Result<bool, String> {
    let words: String = text.split_whitespace().collect();
    match words.as_str() {
        "rebooted==true" | "rebooted" => Ok(true),
        "rebooted==false" | "!rebooted" => Ok(false),
        _ => Err(format!("if: {text:?} is not known, expected `rebooted == true` or `rebooted == false`")),
    }
}

/// Reads a duration such as `90s`, `10m` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration such as 30s, 10m or 1h30m");
    let read: SignedDuration = text.trim().parse().map_err(|_| wrong())?;
    read.try_into().map_err(|_| wrong())
}
