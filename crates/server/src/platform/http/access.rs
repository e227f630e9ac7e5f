//! The access table: which callers may use which route.
//!
//! Deny by default: a route without a row is refused to every caller, and a test walks the routes of
//! `openapi.json` and fails for one that has none. Shared routes are here, those of a kind in the kind's
//! folder. Rules that depend on the object (an installer may only approve, a machine may only report on
//! itself) are checked by the handler.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use Allow::{Anyone, Proven, Roles, Session};
use wardroom_core::table::Role::{self, Adapter, Admin, Auditor, Installer, Operator, Viewer};

use crate::platform::{
    app::App,
    config::Config,
    console::{self, session},
    http::error::Error,
    identity::{
        auth::{Caller, Principal},
        member::Proof,
    },
    kind::Kind,
};

/// The callers that may use a route.
#[derive(Debug, Clone, Copy)]
pub enum Allow {
    /// Every caller, with credentials or without.
    Anyone,
    /// Tokens with one of these roles, within their kinds.
    Roles(&'static [Role]),
    /// Callers that prove themselves in a way of their kind, and tokens with one of these roles.
    Proven(&'static Proof, &'static [Role]),
    /// Sessions of the console, whatever their role: a page shows what the API answers to that role.
    Session,
}

/// The rate limit that a request counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Reads.
    Read,
    /// Writes by people and programs.
    Write,
    /// Boots and reports of machines.
    Report,
    /// Registrations, which are limited by their failures.
    Register,
    /// Health checks, which are always answered.
    Health,
}

impl Class {
    /// The name of the class in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Report => "report",
            Self::Register => "register",
            Self::Health => "health",
        }
    }
}

/// One route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path as it is registered.
    pub path: &'static str,
    /// The kind that a token's scope must cover; empty for one that belongs to no kind.
    pub kind: &'static str,
    /// The callers that may use it.
    pub allow: Allow,
    /// The bucket that it counts against.
    pub class: Class,
    /// Whether a GET may change something, for clients that know no other way.
    pub changes: bool,
    /// Whether a GET uses up a token; a HEAD is refused then.
    pub is_spent: bool,
    /// Whether it is a heartbeat.
    pub beats: bool,
    /// Whether its answer has a secret, which is shown once and not kept for repeats.
    pub shows_secret: bool,
    /// Whether the handler recognises repeats itself, without `Idempotency-Key`.
    pub repeats: bool,
    /// How much longer than other requests it may take, because it waits for something to happen.
    pub waits: Option<fn(&Config) -> Duration>,
}

impl Route {
    /// A GET that may change something.
    #[must_use]
    pub const fn changing(self) -> Self {
        Self { changes: true, ..self }
    }

    /// A GET that uses up its token.
    #[must_use]
    pub const fn spending(self) -> Self {
        Self { changes: true, is_spent: true, ..self }
    }

    /// A heartbeat.
    #[must_use]
    pub const fn beating(self) -> Self {
        Self { beats: true, ..self }
    }

    /// An answer with a secret.
    #[must_use]
    pub const fn showing_secret(self) -> Self {
        Self { shows_secret: true, ..self }
    }

    /// A request that waits for something to happen.
    #[must_use]
    pub const fn waiting(self, waits: fn(&Config) -> Duration) -> Self {
        Self { waits: Some(waits), ..self }
    }

    /// Repeats that are answered by the handler.
    #[must_use]
    pub const fn repeating(self) -> Self {
        Self { repeats: true, ..self }
    }
}

/// Roles that may read.
pub const READERS: Allow = Roles(&[Viewer, Operator, Admin, Installer, Auditor]);
/// Roles that may change members.
pub const OPERATORS: Allow = Roles(&[Operator, Admin]);
/// Roles that may approve.
pub const APPROVERS: Allow = Roles(&[Operator, Admin, Installer]);
/// Roles that may change access rights.
pub const ADMINS: Allow = Roles(&[Admin]);
/// Roles that may read history.
pub const AUDITORS: Allow = Roles(&[Viewer, Operator, Admin, Auditor]);

/// Roles that may follow changes; adapters only their own.
pub const FOLLOWERS: Allow = Roles(&[Viewer, Operator, Admin, Auditor, Adapter]);

/// Every role.
pub const EVERYBODY: Allow = Roles(&[Viewer, Operator, Admin, Installer, Adapter, Auditor]);

/// The routes that belong to no kind.
#[rustfmt::skip]
pub(crate) const SHARED: &[Route] = &[
    route("GET",    "/livez",                                      "",         Anyone,    Class::Health),
    route("GET",    "/readyz",                                     "",         Anyone,    Class::Health),
    route("GET",    "/openapi.json",                               "",         Anyone,    Class::Read),
    route("GET",    "/api/v1/lifecycles",                          "",         READERS,   Class::Read),
    route("GET",    "/api/v1/summary",                             "",         READERS,   Class::Read),
    route("GET",    "/api/v1/attention",                           "",         READERS,   Class::Read),
    route("GET",    "/api/v1/history",                             "",         AUDITORS,  Class::Read),
    route("GET",    "/api/v1/events",                              "",         FOLLOWERS, Class::Read).waiting(|_| LONGEST_WAIT),
    route("GET",    "/api/v1/resources",                           "",         READERS,   Class::Read),
    route("GET",    "/api/v1/resources/{kind}/{id}/why",           "",         READERS,   Class::Read),
    route("GET",    "/api/v1/liveness",                            "",         READERS,   Class::Read),
    route("GET",    "/api/v1/incidents",                           "incident", READERS,   Class::Read),
    route("GET",    "/api/v1/incidents/{id}",                      "incident", READERS,   Class::Read),
    route("POST",   "/api/v1/bulk",                                "",         APPROVERS, Class::Write),
    route("GET",    NUMBERS,                                       "",         READERS,   Class::Read),
    route("GET",    "/api/v1/tokens",                              "token",    ADMINS,    Class::Read),
    route("POST",   "/api/v1/tokens",                              "token",    ADMINS,    Class::Write).showing_secret(),
    route("DELETE", "/api/v1/tokens/{id}",                         "token",    ADMINS,    Class::Write),
    route("GET",    "/api/v1/whoami",                              "",         EVERYBODY, Class::Read),
    route("POST",   "/api/v1/login-links",                         "",         READERS,   Class::Write).showing_secret(),
];

/// How long an answer with events may be held back on request.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Routes(Vec<&'static Route>);

/// The shared routes and those of the kinds.
pub fn every(kinds: &[&'static Kind]) -> impl Iterator<Item = &'static Route> {
    SHARED.iter().chain(console::ACCESS).chain(kinds.iter().flat_map(|kind| kind.access))
}

/// The path that Prometheus reads, also while the database does not answer.
pub(crate) const NUMBERS: &str = "/metrics";

impl Routes {
    pub(crate) fn of(kinds: &[&'static Kind]) -> Self {
        Self(every(kinds).collect())
    }

    pub(crate) fn all(&self) -> &[&'static Route] {
        &self.0
    }

    /// How much longer than others a request for this path may take.
    pub(crate) fn wait(&self, path: &str, config: &Config) -> Duration {
        let found = self.0.iter().find_map(|route| route.waits.filter(|_| is_at(route.path, path)));
        found.map_or(Duration::ZERO, |waits| waits(config))
    }

    /// The route that answers a path with its variables filled in; one without variables goes before one with them.
    pub(crate) fn at(&self, method: &str, path: &str) -> Option<&'static Route> {
        let found = self.0.iter().copied().filter(|route| route.method == method && is_at(route.path, path));
        found.min_by_key(|route| route.path.matches('{').count())
    }

    pub(crate) fn find(&self, method: &str, path: &str) -> Option<&'static Route> {
        // A HEAD is answered like its GET, unless the GET uses up a token.
        let (method, is_head) = if method == "HEAD" { ("GET", true) } else { (method, false) };
        let found = self.0.iter().copied().find(|route| route.path == path && route.method == method);
        found.filter(|route| !(is_head && route.is_spent))
    }
}

/// Whether a path is one of a route.
pub(crate) fn is_at(route: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    route.split('/').all(|part| parts.next().is_some_and(|given| part.starts_with('{') || part == given))
        && parts.next().is_none()
}

/// A row of an access table.
#[must_use]
pub const fn route(
    method: &'static str,
    path: &'static str,
    kind: &'static str,
    allow: Allow,
    class: Class,
) -> Route {
    Route {
        method,
        path,
        kind,
        allow,
        class,
        changes: false,
        is_spent: false,
        beats: false,
        shows_secret: false,
        repeats: false,
        waits: None,
    }
}

/// Whether the route is open to every caller at this address.
pub(crate) fn is_open(app: &App, route: &Route, address: IpAddr) -> bool {
    match route.allow {
        Anyone => true,
        Proven(proof, _) => (proof.opens)(app, address),
        Roles(_) | Session => false,
    }
}

pub(crate) fn check(app: &App, route: &Route, caller: &Caller) -> Result<(), Error> {
    if is_open(app, route, caller.address) {
        return Ok(());
    }
    let roles = match (route.allow, &caller.principal) {
        // The kind recognised the member; the handler checks its further rights.
        (Anyone, _) | (Proven(..), Principal::Member(_)) | (Session, Principal::Token(_)) => return Ok(()),
        (Session, Principal::Anonymous | Principal::Member(_)) => return Err(session::NONE),
        (Proven(proof, _), Principal::Anonymous) if (proof.trusts)(app, caller.address) => return Ok(()),
        (Roles(roles) | Proven(_, roles @ [_, ..]), Principal::Token(_)) => roles,
        (Proven(proof, _), Principal::Anonymous | Principal::Token(_)) => return Err(proof.missing.clone()),
        (Roles(_), Principal::Member(_)) => {
            return Err(Error::Unauthenticated("the token is not valid: it is unknown or was revoked"));
        }
        (Roles(_), Principal::Anonymous) => {
            return Err(Error::Unauthenticated("send an API token as Authorization: Bearer …"));
        }
    };
    let Some(identity) = caller.identity() else { return Err(Error::Internal) };
    if !roles.contains(&identity.role) {
        let needed: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
        let (role, needed) = (identity.role, needed.join(", "));
        return Err(Error::Forbidden(format!("the role {role} may not do this; it takes one of: {needed}")));
    }
    if !route.kind.is_empty() && !identity.covers(route.kind) {
        return Err(Error::Forbidden(format!(
            "the token covers {}, not {}",
            identity.kinds.join(", "),
            route.kind
        )));
    }
    Ok(())
}

/// Counts of refused requests, by caller, path and status.
pub(crate) type Counts = BTreeMap<(String, &'static str, u16), u64>;

/// Counts of denials since they were last recorded; history gets one row for all.
#[derive(Debug, Default)]
pub(crate) struct Denials(Mutex<Counts>);

/// How many different denials are counted separately; further ones are counted together.
const MOST_DENIALS: usize = 1000;

impl Denials {
    pub(crate) fn count(&self, caller: &str, path: &'static str, status: u16) {
        self.add((caller.to_owned(), path, status), 1);
    }

    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds counts back that could not be recorded.
    pub(crate) fn put_back(&self, counts: Counts) {
        for (key, count) in counts {
            self.add(key, count);
        }
    }

    fn add(&self, key: (String, &'static str, u16), count: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.contains_key(&key) || counts.len() < MOST_DENIALS;
        let key = if known { key } else { ("others".to_owned(), "", key.2) };
        *counts.entry(key).or_default() += count;
    }
}
