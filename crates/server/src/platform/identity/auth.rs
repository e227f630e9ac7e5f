//! The caller of a request, and the API tokens of people and programs.

use std::{any::Any, net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_core::table::Role;
use wardroom_store::Resource;

use crate::platform::{
    app::App,
    clock::Moment,
    http::error::Error,
    identity::{
        cache::{Cached, Record},
        member::Member,
        secret, token,
    },
};

pub(crate) const TOKEN: &str = "token";

/// A caller and its request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) address: IpAddr,
    pub(crate) request_id: Arc<str>,
}

#[derive(Clone)]
pub(crate) enum Principal {
    Anonymous,
    /// A person or program with an API token.
    Token(Arc<Identity>),
    /// A member, or a machine that becomes one, which proved itself in the way of its kind.
    Member(Arc<dyn Member>),
}

/// The credentials of a member may be secret.
impl std::fmt::Debug for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Token(identity) => f.debug_tuple("Token").field(&identity.name).finish(),
            Self::Member(member) => f.debug_tuple("Member").field(&member.name()).finish(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) kinds: Vec<String>,
    pub(crate) group_id: Option<String>,
    /// The one adapter that it reports as; nothing for any.
    pub(crate) adapter: Option<String>,
    pub(crate) expires_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TokenDocument {
    pub(crate) role: Role,
    pub(crate) kinds: Vec<String>,
    pub(crate) group_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) adapter: Option<String>,
    pub(crate) expires_at: Timestamp,
}

impl Caller {
    /// The name that history gets.
    pub(crate) fn name(&self) -> &str {
        match &self.principal {
            Principal::Token(identity) => &identity.name,
            Principal::Member(member) => member.name(),
            Principal::Anonymous => "anonymous",
        }
    }

    /// The token of a person or program.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match &self.principal {
            Principal::Token(identity) => Some(identity),
            Principal::Member(_) | Principal::Anonymous => None,
        }
    }

    /// The member that calls, if it is of this type.
    pub(crate) fn member<T: Member>(&self) -> Option<&T> {
        match &self.principal {
            Principal::Member(member) => (&**member as &dyn Any).downcast_ref(),
            Principal::Token(_) | Principal::Anonymous => None,
        }
    }
}

impl Identity {
    pub(crate) fn covers(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|covered| covered == kind)
    }

    /// Refuses to act as an adapter when the token is bound to another one.
    pub(crate) fn acts_as(&self, adapter: &str) -> Result<(), Error> {
        match &self.adapter {
            Some(bound) if bound != adapter => Err(Error::Forbidden(format!(
                "the token belongs to the adapter {bound:?}, not to {adapter:?}: use a token of {adapter:?}"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// The identity that a stored token gives, unless it was revoked.
    pub(crate) fn of(resource: &Resource) -> Option<Self> {
        let content = &resource.content;
        if content.deleted || content.state != "active" {
            return None;
        }
        let document: TokenDocument = content.document.read().ok()?;
        let TokenDocument { role, kinds, group_id, adapter, expires_at } = document;
        let (id, name) = (content.id.clone(), content.name.clone());
        Some(Self { id, name, role, kinds, group_id, adapter, expires_at })
    }
}

/// More tokens than this are not kept in memory at once.
const MOST_KEPT: usize = 10_000;

const UNKNOWN: Error = Error::Unauthenticated("the token is not valid: it is unknown or was revoked");

pub(crate) struct KnownToken {
    record: Record,
    /// The keys of its record except names; its hash is one of them.
    hashes: Box<[String]>,
    /// None once it was revoked.
    identity: Option<Arc<Identity>>,
}

impl Cached for KnownToken {
    const KIND: &'static str = TOKEN;
    const MOST: Option<usize> = Some(MOST_KEPT);
    const UNKNOWN: Error = UNKNOWN;
    type Setup = ();
    /// A token is identified by its hash alone.
    type Shown = ();
    type Standing = Arc<Identity>;

    fn read((): &(), resource: &Resource, read_at: Moment) -> Result<Self, Error> {
        let keys = resource.content.keys.iter().filter(|key| !key.starts_with(token::NAME));
        let identity = Identity::of(resource).map(Arc::new);
        Ok(Self { record: Record::of(resource, read_at), hashes: keys.cloned().collect(), identity })
    }

    async fn look_up(app: &App, name: &str) -> Result<Option<Resource>, Error> {
        let found = app.store.get_by_key(TOKEN, name).await?;
        let is_held = |found: &Resource| {
            found.content.keys.iter().any(|key| secret::same(key.as_bytes(), name.as_bytes()))
        };
        Ok(found.filter(is_held))
    }

    fn record(&self) -> &Record {
        &self.record
    }

    fn known_as(&self, number: u8) -> Option<&str> {
        self.hashes.get(usize::from(number)).map(String::as_str)
    }

    fn has(&self, (): (), _: Timestamp) -> bool {
        self.identity.is_some()
    }

    fn judge(self: &Arc<Self>, (): (), _: Timestamp) -> Result<Arc<Identity>, Error> {
        self.identity.clone().ok_or(UNKNOWN)
    }
}

/// Recognises the caller that shows a bearer token.
pub(crate) async fn by_token(app: &App, token: &str, from: IpAddr) -> Result<Arc<Identity>, Error> {
    let identity = app.tokens.identify(app, &app.key.hash_token(token), (), from).await?;
    // An expired token was valid once, so it does not count as a guess.
    if identity.expires_at <= app.now() {
        return Err(Error::Unauthenticated("the token has expired: ask an administrator for a new one"));
    }
    Ok(identity)
}

/// How long the database may take to confirm a token for metrics.
const AT_ONCE: Duration = Duration::from_millis(500);

/// How long a token may read metrics while the database does not answer.
const OUTAGE: Duration = Duration::from_secs(3600);

/// Recognises the caller that reads metrics. While the database does not answer, a token that this server
/// accepted within [`OUTAGE`] is enough.
pub(crate) async fn by_token_in_outage(app: &App, token: &str, from: IpAddr) -> Result<Arc<Identity>, Error> {
    let unavailable = match tokio::time::timeout(AT_ONCE, by_token(app, token, from)).await {
        Ok(Err(error @ Error::Unavailable(_))) => error,
        Ok(found) => return found,
        Err(_) => Error::Unavailable("the database does not answer: retry"),
    };
    let known = app.tokens.kept(&app.key.hash_token(token), OUTAGE, app.moment());
    let identity = known.and_then(|known| known.identity.clone());
    identity.filter(|identity| app.now() < identity.expires_at).ok_or(unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(adapter: Option<&str>) -> Identity {
        let (id, name, role) = (String::new(), String::new(), Role::Adapter);
        let (kinds, group_id, adapter) = (Vec::new(), None, adapter.map(str::to_owned));
        Identity { id, name, role, kinds, group_id, adapter, expires_at: Timestamp::MAX }
    }

    #[test]
    fn a_token_of_an_adapter_acts_as_that_adapter_only() {
        identity(Some("dns")).acts_as("dns").unwrap();
        identity(None).acts_as("validation").unwrap();
        for other in ["validation", "DNS", "dns ", ""] {
            let Err(Error::Forbidden(refused)) = identity(Some("dns")).acts_as(other) else {
                panic!("a token of dns acted as {other:?}");
            };
            assert!(refused.contains("\"dns\"") && refused.contains(&format!("{other:?}")), "{refused}");
        }
    }
}
