//! Callers, and the permissions of robots.

use axum::http::{HeaderMap, header::AUTHORIZATION};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{Refusal, Shared};
use crate::fault::lock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    Admin,
    Robot(i64),
}

impl Shared {
    /// Identifies the caller. A disabled or expired robot is anonymous.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let (name, secret) = basic(headers).ok_or_else(Refusal::unauthorized)?;
        if name == self.options.username && secret == self.options.password {
            return Ok(Caller::Admin);
        }
        let now = self.clock.now();
        let short = name.strip_prefix(&self.options.prefix).ok_or_else(Refusal::unauthorized)?;
        let state = lock(&self.state);
        let robot = state.robots.values().find(|robot| robot.name == short && robot.may_log_in(&secret, now));
        robot.map(|robot| Caller::Robot(robot.id)).ok_or_else(Refusal::unauthorized)
    }

    /// Permits the administrator, and a robot with this permission on robots. No robot may update one.
    pub(super) fn may_manage_robots(&self, headers: &HeaderMap, action: &str) -> Result<(), Refusal> {
        let Caller::Robot(id) = self.caller(headers)? else { return Ok(()) };
        let state = lock(&self.state);
        let accesses = state.robots[&id].permissions.iter().filter(|part| part.kind == "system");
        let may = accesses
            .flat_map(|part| &part.access)
            .any(|access| access.resource == "robot" && access.action == action);
        if may && action != "update" { Ok(()) } else { Err(Refusal::forbidden()) }
    }

    /// Permits only the administrator.
    pub(super) fn must_be_admin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.caller(headers)? == Caller::Admin { Ok(()) } else { Err(Refusal::forbidden()) }
    }
}

/// Name and password; the password may hold colons.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let pair = String::from_utf8(BASE64_STANDARD.decode(value).ok()?).ok()?;
    let (name, password) = pair.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}
