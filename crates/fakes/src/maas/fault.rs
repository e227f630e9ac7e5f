//! Faults to order: the n-th next request that fits goes wrong in a chosen way.

use std::time::Duration;

use serde::Deserialize;

use super::route::Op;
use crate::wire::{Reply, answer, with};

/// A fault to order.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The operation, by its name; none for any.
    #[serde(default)]
    pub op: Option<String>,
    /// The machine, also among others; none for any.
    #[serde(default)]
    pub machine: Option<String>,
    /// How many requests that fit go through unharmed first.
    #[serde(default)]
    pub skip: u32,
    /// How many requests it happens to.
    #[serde(default = "once")]
    pub times: u32,
    /// Whether the request takes effect nevertheless.
    #[serde(default)]
    pub when: When,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// Whether a faulty request takes effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// The fault happens before the effect.
    #[default]
    Before,
    /// The fault happens after the effect.
    After,
}

/// The kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// An answer with this status, such as 500 or 504.
    Status(u16),
    /// 409 with `Retry-After`: MAAS's database gave up.
    Busy,
    /// 409 without `Retry-After`.
    Conflict,
    /// 404 in MAAS's own words.
    Gone,
    /// 503 with `Retry-After`.
    Unavailable,
    /// An answer with this status and a `Retry-After` of this many seconds.
    Later(u16, u64),
    /// The same, as a date.
    LaterAt(u16, i64),
    /// 401, with the secret in its body.
    Unauthorized,
    /// The connection ends without an answer.
    HangUp,
    /// There is never an answer.
    Silence,
    /// The answer comes after so many milliseconds, and is right.
    Slow(u64),
    /// The answer is right at first and then nonsense.
    Garbage,
    /// 400 that repeats the request's body, secrets and all.
    Echo,
}

const fn once() -> u32 {
    1
}

impl Fault {
    /// A fault of an operation, once, before it takes effect.
    #[must_use]
    pub fn of(op: &str, kind: FaultKind) -> Self {
        Self { op: Some(op.to_owned()), machine: None, skip: 0, times: 1, when: When::Before, kind }
    }

    /// The same, after the operation took effect.
    #[must_use]
    pub fn after(self) -> Self {
        Self { when: When::After, ..self }
    }

    /// The same, this often.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// The same, only for one machine.
    #[must_use]
    pub fn machine(self, id: &str) -> Self {
        Self { machine: Some(id.to_owned()), ..self }
    }

    fn fits(&self, op: Op, machines: &[String]) -> bool {
        self.op.as_deref().is_none_or(|name| name == op.name())
            && self.machine.as_deref().is_none_or(|id| machines.iter().any(|machine| machine == id))
    }
}

/// Returns the fault for a request, if any, and counts it.
pub(super) fn take(faults: &mut Vec<Fault>, op: Op, machines: &[String]) -> Option<(When, FaultKind)> {
    let at = faults.iter().position(|fault| fault.times > 0 && fault.fits(op, machines))?;
    let fault = faults.get_mut(at)?;
    if fault.skip > 0 {
        fault.skip -= 1;
        return None;
    }
    fault.times -= 1;
    let happens = (fault.when, fault.kind);
    faults.retain(|fault| fault.times > 0);
    Some(happens)
}

/// Carries a fault out; `right` is the answer that would have been given.
pub(super) async fn happen(
    kind: FaultKind,
    secret: &str,
    body: &[u8],
    right: Option<Reply>,
) -> Option<Reply> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let reply = match kind {
        FaultKind::Status(status) => answer(status, TEXT, format!("ordered to answer {status}")),
        FaultKind::Busy => with(answer(409, TEXT, "Database conflict"), "retry-after", "5"),
        FaultKind::Conflict => answer(409, TEXT, "Ordered to refuse"),
        FaultKind::Gone => answer(404, TEXT, "No Machine matches the given query."),
        FaultKind::Unavailable => {
            with(answer(503, TEXT, "Unable to connect to any rack controller"), "retry-after", "10")
        }
        FaultKind::Later(status, seconds) => {
            with(answer(status, TEXT, "Come again later"), "retry-after", &seconds.to_string())
        }
        FaultKind::LaterAt(status, seconds) => {
            with(answer(status, TEXT, "Come again later"), "retry-after", &date(seconds))
        }
        FaultKind::Unauthorized => {
            *super::auth::refusal(&format!("'Invalid signature. Expected signature base string: &{secret}'"))
        }
        FaultKind::HangUp => return Some(Reply::HangUp),
        FaultKind::Silence => return Some(Reply::Silence),
        FaultKind::Slow(milliseconds) => {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            return right;
        }
        FaultKind::Echo => answer(400, TEXT, format!("{secret} {}", String::from_utf8_lossy(body))),
        FaultKind::Garbage => answer(200, "application/json; charset=utf-8", "{\"system_id\": \"x"),
    };
    Some(Reply::Answer(reply))
}

/// The date so many seconds from now, as HTTP writes dates.
fn date(seconds: i64) -> String {
    let at = super::clock::now().wall + jiff::SignedDuration::from_secs(seconds);
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
