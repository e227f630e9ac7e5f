//! The outside as two files tell it: the objects of a cluster, and the answers of the API, of names and of the
//! environment.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value as Json;
use wardroom_upstream::kubernetes::Kind;

use super::Trouble;
use crate::expression;

/// A recording.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// By `metadata.name`, or a name with an object that has its own.
    objects: BTreeMap<String, Json>,
    answers: Answers,
    /// How often each recorded endpoint was asked.
    asked: BTreeMap<usize, usize>,
}

/// The file of answers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Answers {
    responses: Vec<Endpoint>,
    /// Addresses by name.
    dns: BTreeMap<String, Vec<String>>,
    /// Variables of the environment.
    environment: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    #[serde(rename = "match")]
    matching: Matching,
    /// One after the other; the last one stays.
    responses: Vec<Reply>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Matching {
    method: String,
    /// A regular expression.
    url_pattern: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Reply {
    status_code: u16,
    #[serde(default)]
    body: Json,
}

impl Recorded {
    /// Reads a recording.
    pub(crate) fn open(objects: Option<&Path>, answers: Option<&Path>) -> anyhow::Result<Self> {
        let objects = match objects {
            Some(path) => serde_json::from_value(read(path)?).map_err(|_| {
                anyhow::anyhow!("{}: an object from names to objects is expected", path.display())
            })?,
            None => BTreeMap::new(),
        };
        let answers = match answers {
            Some(path) => serde_json::from_value(read(path)?)
                .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?,
            None => Answers::default(),
        };
        Ok(Self { objects, answers, ..Self::default() })
    }

    /// A recording in a test.
    #[cfg(test)]
    pub(crate) fn of(objects: Json, answers: Json) -> Self {
        let objects = serde_json::from_value(objects).unwrap();
        Self { objects, answers: serde_json::from_value(answers).unwrap(), ..Self::default() }
    }

    /// Returns whether a recorded answer belongs to a path.
    pub(crate) fn knows(&self, path: &str) -> bool {
        self.endpoint("GET", path).is_some()
    }

    fn endpoint(&self, method: &str, path: &str) -> Option<usize> {
        self.answers.responses.iter().position(|endpoint| {
            let matching = &endpoint.matching;
            matching.method.eq_ignore_ascii_case(method) && expression::matches(path, &matching.url_pattern)
        })
    }

    pub(super) fn read(&mut self, method: &str, path: &str) -> Result<(u16, Json), Trouble> {
        let at = self.endpoint(method, path);
        let at = at.ok_or_else(|| Trouble::lasting(format!("{method} {path} has no recorded answer")))?;
        let asked = self.asked.entry(at).or_default();
        let replies = &self.answers.responses[at].responses;
        let reply = replies.get(*asked).or_else(|| replies.last());
        *asked += 1;
        let reply =
            reply.ok_or_else(|| Trouble::lasting(format!("{method} {path} has no recorded answer")))?;
        Ok((reply.status_code, reply.body.clone()))
    }

    pub(super) fn lookup(&self, name: &str) -> Vec<String> {
        self.answers.dns.get(name).cloned().unwrap_or_default()
    }

    /// A dry run does not look at the environment of the one who runs it.
    pub(super) fn environment(&self, name: &str) -> String {
        self.answers.environment.get(name).cloned().unwrap_or_else(|| format!("env.{name}"))
    }

    pub(super) fn get(&self, name: &str) -> Option<Json> {
        let named = |object: &&Json| object["metadata"]["name"] == name;
        self.objects.get(name).or_else(|| self.objects.values().find(named)).cloned()
    }

    pub(super) fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &[(String, String)],
    ) -> Vec<Json> {
        let matches = |object: &&Json| {
            let metadata = &object["metadata"];
            object["kind"] == kind.kind.as_str()
                && object["apiVersion"] == kind.api_version.as_str()
                && namespace.is_none_or(|namespace| metadata["namespace"] == namespace)
                && selector.iter().all(|(key, value)| metadata["labels"][key] == value.as_str())
        };
        self.objects.values().filter(matches).cloned().collect()
    }

    /// Returns the recorded object, or what was applied as long as it has no status.
    pub(super) fn apply(&self, object: &Json) -> Json {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.get(name).unwrap_or_else(|| object.clone())
    }
}

/// Reads JSON or YAML.
pub(crate) fn read(path: &Path) -> anyhow::Result<Json> {
    let text =
        std::fs::read_to_string(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    let node = crate::yaml::read(&text);
    let node =
        node.map_err(|(at, why)| anyhow::anyhow!("{}:{}:{}: {why}", path.display(), at.line, at.column))?;
    Ok(node.to_json())
}
