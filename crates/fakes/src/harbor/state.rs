//! The state of the fake.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::registry::Images;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) last_id: i64,
    pub(super) robots: BTreeMap<i64, Robot>,
    pub(super) projects: BTreeMap<String, Project>,
    /// With the project in front.
    pub(super) repositories: BTreeSet<String>,
    /// What was pushed, by repository.
    #[serde(default)]
    pub(super) images: BTreeMap<String, Images>,
    /// Components that are down.
    pub(super) down: BTreeSet<String>,
}

impl State {
    /// A new Harbor has one project.
    pub(super) fn new() -> Self {
        let library = Project { id: 1, is_public: true };
        Self {
            last_id: 1,
            robots: BTreeMap::new(),
            projects: BTreeMap::from([("library".to_owned(), library)]),
            repositories: BTreeSet::new(),
            images: BTreeMap::new(),
            down: BTreeSet::new(),
        }
    }

    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Project {
    pub(super) id: i64,
    pub(super) is_public: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Robot {
    pub(super) id: i64,
    /// Without the prefix.
    pub(super) name: String,
    pub(super) level: String,
    pub(super) description: String,
    pub(super) duration: i64,
    pub(super) disable: bool,
    pub(super) secret: String,
    pub(super) creation_time: Timestamp,
    pub(super) update_time: Timestamp,
    /// In seconds since 1970; -1 for never.
    pub(super) expires_at: i64,
    pub(super) permissions: Vec<Permission>,
}

impl Robot {
    pub(super) fn may_log_in(&self, secret: &str, now: Timestamp) -> bool {
        let is_alive = self.expires_at == -1 || now.as_second() < self.expires_at;
        !self.disable && is_alive && self.secret == secret
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Permission {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) access: Vec<Access>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Access {
    #[serde(default)]
    pub(super) resource: String,
    #[serde(default)]
    pub(super) action: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) effect: String,
}
