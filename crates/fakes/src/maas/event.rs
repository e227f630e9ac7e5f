//! Events of a machine. The last one that matters is also what MAAS shows as the machine's status message.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde_json::{Value, json};
use wardroom_core::gpu_node::maas::Status;

use super::rules::label;

/// How many events of a machine are kept.
const MOST: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Debug,
    Info,
    Error,
}

impl Level {
    pub(super) fn parse(name: &str) -> Self {
        match name {
            "DEBUG" | "AUDIT" => Self::Debug,
            "ERROR" | "CRITICAL" => Self::Error,
            _ => Self::Info,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Error => "ERROR",
        }
    }
}

#[derive(Debug, Clone)]
struct Event {
    id: u64,
    at: Timestamp,
    level: Level,
    kind: String,
    description: String,
    user: Option<String>,
}

/// The events of one machine.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<Event>);

/// Where events get their ids and times.
pub(super) struct Pen<'a> {
    pub(super) next: &'a mut u64,
    pub(super) at: Timestamp,
    pub(super) user: &'a str,
}

impl Events {
    /// Something a user asked for, perhaps with a comment.
    pub(super) fn user(&mut self, pen: &mut Pen<'_>, kind: &str, comment: &str) {
        let user = pen.user.to_owned();
        let dash = if comment.is_empty() { "" } else { " - " };
        self.push(pen, Level::Debug, kind, format!("({user}){dash}{comment}"), Some(user));
    }

    pub(super) fn debug(&mut self, pen: &mut Pen<'_>, kind: &str, description: impl Into<String>) {
        self.push(pen, Level::Debug, kind, description.into(), None);
    }

    pub(super) fn info(&mut self, pen: &mut Pen<'_>, kind: &str, description: impl Into<String>) {
        self.push(pen, Level::Info, kind, description.into(), None);
    }

    pub(super) fn error(&mut self, pen: &mut Pen<'_>, kind: &str, description: impl Into<String>) {
        self.push(pen, Level::Error, kind, description.into(), None);
    }

    pub(super) fn moved(&mut self, pen: &mut Pen<'_>, from: Status, to: Status) {
        let mut text = format!("From '{}' to '{}'", label(from), label(to));
        if to == Status::Allocated && from == Status::Ready {
            text = format!("{text} (to {})", pen.user);
        }
        self.debug(pen, "Node changed status", text);
    }

    fn push(
        &mut self,
        pen: &mut Pen<'_>,
        level: Level,
        kind: &str,
        description: String,
        user: Option<String>,
    ) {
        *pen.next += 1;
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Event {
            id: *pen.next,
            at: pen.at,
            level,
            kind: kind.to_owned(),
            description,
            user,
        });
    }

    /// The machine's status message and action.
    pub(super) fn message(&self) -> (Value, Value) {
        let Some(event) = self.0.iter().rev().find(|event| event.level > Level::Debug) else {
            return (Value::Null, Value::Null);
        };
        let dash = if event.description.is_empty() { "" } else { " - " };
        let failed = event.kind == "Marking node failed";
        let text = format!("{}{dash}{}", event.kind, event.description);
        (json!(text), json!(if failed { "mark_failed" } else { "" }))
    }

    /// Newest first, of a level at least, after an id.
    pub(super) fn page(
        &self,
        level: Level,
        after: u64,
        limit: usize,
        id: &str,
        hostname: &str,
    ) -> Vec<Value> {
        let wanted = self.0.iter().rev().filter(|event| event.level >= level && event.id > after);
        wanted
            .take(limit)
            .map(|event| {
                json!({
                    "username": event.user.as_deref().unwrap_or("unknown"),
                    "node": id,
                    "hostname": hostname,
                    "id": event.id,
                    "level": event.level.name(),
                    "created": event.at.strftime("%a, %d %b. %Y %H:%M:%S").to_string(),
                    "type": event.kind,
                    "description": event.description,
                })
            })
            .collect()
    }
}
