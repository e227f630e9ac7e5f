//! Robot accounts: the rules of Harbor's handlers.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Refusal, Shared,
    state::{Permission, Robot, State},
};
use crate::fault::{lock, random};

/// The body of a robot to create or update; missing fields are empty, as in Harbor.
#[derive(Debug, Deserialize)]
pub(super) struct Body {
    #[serde(default)]
    name: String,
    #[serde(default)]
    level: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    duration: i64,
    #[serde(default)]
    disable: bool,
    #[serde(default)]
    permissions: Vec<Permission>,
}

impl Shared {
    pub(super) fn create_robot(&self, body: Body) -> Result<Value, Refusal> {
        let now = self.clock.now();
        if !is_name(&body.name) {
            return Err(Refusal::bad("a robot cannot be called that"));
        }
        let robot = self.change("robot.create", |state| {
            check(&body, state)?;
            if state.robots.values().any(|robot| robot.name == body.name) {
                return Err(Refusal::conflict(format_args!("robot {}", body.name)));
            }
            let robot = Robot {
                id: state.next_id(),
                name: body.name,
                level: body.level,
                description: body.description,
                duration: body.duration,
                // Harbor ignores this field of a new robot.
                disable: false,
                secret: secret(),
                creation_time: now,
                update_time: now,
                expires_at: end(now, body.duration),
                permissions: body.permissions,
            };
            state.robots.insert(robot.id, robot.clone());
            Ok(robot)
        })?;
        Ok(json!({
            "id": robot.id,
            "name": self.full_name(&robot),
            "secret": robot.secret,
            "creation_time": robot.creation_time,
            "expires_at": robot.expires_at,
        }))
    }

    /// Returns robots of the system whose name equals the query or, with `~`, contains it.
    pub(super) fn list_robots(&self, query: &str) -> Result<Vec<Value>, Refusal> {
        let wanted = match query {
            "" => None,
            query => Some(query.strip_prefix("name=").ok_or_else(|| Refusal::bad("unknown query"))?),
        };
        let is_wanted = |robot: &Robot| match wanted.map(|name| (name, name.strip_prefix('~'))) {
            None => true,
            Some((_, Some(part))) => robot.name.contains(part),
            Some((name, None)) => robot.name == name,
        };
        let state = lock(&self.state);
        let found = state.robots.values().filter(|robot| robot.level == "system" && is_wanted(robot));
        Ok(found.map(|robot| self.view(robot)).collect())
    }

    pub(super) fn read_robot(&self, id: i64) -> Result<Value, Refusal> {
        let state = lock(&self.state);
        let robot = state.robots.get(&id).ok_or_else(|| missing(id))?;
        Ok(self.view(robot))
    }

    /// Replaces the whole robot. Its prefixed name and its level must not change.
    pub(super) fn update_robot(&self, id: i64, body: Body) -> Result<(), Refusal> {
        let now = self.clock.now();
        self.change("robot.update", |state| {
            let robot = state.robots.get(&id).ok_or_else(|| missing(id))?;
            check(&body, state)?;
            if body.level != robot.level || body.name != self.full_name(robot) {
                return Err(Refusal::bad("a robot keeps its name and its level"));
            }
            let robot = state.robots.get_mut(&id).ok_or_else(|| missing(id))?;
            if robot.duration != body.duration {
                robot.duration = body.duration;
                robot.expires_at = end(robot.creation_time, body.duration);
            }
            robot.description = body.description;
            robot.disable = body.disable;
            robot.permissions = body.permissions;
            robot.update_time = now;
            Ok(())
        })
    }

    /// Sets a new secret and keeps the expiry. A given secret is not repeated in the answer.
    pub(super) fn refresh_secret(&self, id: i64, given: &str) -> Result<Value, Refusal> {
        if !given.is_empty() && !is_secret(given) {
            return Err(Refusal::bad("the secret is too weak"));
        }
        let (next, told) = match given {
            "" => (secret(), true),
            given => (given.to_owned(), false),
        };
        self.change("robot.refresh", |state| {
            let robot = state.robots.get_mut(&id).ok_or_else(|| missing(id))?;
            robot.secret.clone_from(&next);
            Ok(())
        })?;
        Ok(json!({"secret": if told { next } else { String::new() }}))
    }

    pub(super) fn delete_robot(&self, id: i64) -> Result<(), Refusal> {
        self.change("robot.delete", |state| state.robots.remove(&id).map(drop).ok_or_else(|| missing(id)))
    }

    fn full_name(&self, robot: &Robot) -> String {
        format!("{}{}", self.options.prefix, robot.name)
    }

    fn view(&self, robot: &Robot) -> Value {
        json!({
            "id": robot.id,
            "name": self.full_name(robot),
            "level": robot.level,
            "description": robot.description,
            "duration": robot.duration,
            "disable": robot.disable,
            "editable": true,
            "creation_time": robot.creation_time,
            "update_time": robot.update_time,
            "expires_at": robot.expires_at,
            "permissions": robot.permissions,
        })
    }
}

fn missing(id: i64) -> Refusal {
    Refusal::not_found(format_args!("robot {id}"))
}

fn check(body: &Body, state: &State) -> Result<(), Refusal> {
    if body.duration != -1 && !(1..i64::from(i32::MAX)).contains(&body.duration) {
        return Err(Refusal::bad(format!("{} is no number of days", body.duration)));
    }
    if !matches!(body.level.as_str(), "system" | "project") {
        return Err(Refusal::bad(format!("{:?} is no level", body.level)));
    }
    if body.permissions.is_empty() {
        return Err(Refusal::bad("a robot needs a permission"));
    }
    for permission in &body.permissions {
        if permission.access.is_empty() {
            return Err(Refusal::bad("a permission needs something that it allows"));
        }
        match (permission.kind.as_str(), permission.namespace.as_str()) {
            ("system", "/") | ("project", "*") => {}
            ("project", name) if state.projects.contains_key(name) => {}
            ("project", name) => return Err(Refusal::not_found(format_args!("project {name}"))),
            _ => return Err(Refusal::bad("a permission for no known place")),
        }
    }
    Ok(())
}

fn end(created: Timestamp, days: i64) -> i64 {
    if days == -1 { -1 } else { (created + SignedDuration::from_hours(24 * days)).as_second() }
}

/// Runs of lower-case letters and digits, with single separators between them.
fn is_name(name: &str) -> bool {
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.split(['.', '_', '-']).all(is_word)
}

fn is_secret(secret: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| secret.bytes().any(|byte| kind(&byte));
    (8..=128).contains(&secret.len())
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
}

/// A secret that fulfils Harbor's own rule.
fn secret() -> String {
    format!("{}Aa1", random(16))
}
