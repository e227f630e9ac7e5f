//! API tokens: resources of a kind of their own, so that issuing and revoking them is in history like
//! anything else.
//!
//! What must stay true: only the hash of a secret gets here, and it is the key by which a token is found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::error::{Error, Result};
use crate::history::Entry;
use crate::query::List;
use crate::resource::{Content, Resource};
use crate::store::Store;
use crate::value::to_micros;

/// The kind under which tokens appear in history.
pub const TOKEN_KIND: &str = "token";

const ACTIVE: &str = "active";
const REVOKED: &str = "revoked";

/// A token without its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// The hash of its secret, as the caller hashes secrets.
    pub hash: String,
    /// What it may do.
    pub roles: BTreeSet<String>,
    /// The only kinds it may do that to; nothing for all.
    pub kinds: Option<BTreeSet<String>>,
    /// When it stops to work.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// Who made it.
    pub created_by: String,
}

/// A hash of a secret is not the secret, but does not belong in a log either.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Token");
        out.field("id", &self.id).field("name", &self.name).field("roles", &self.roles);
        out.field("revoked_at", &self.revoked_at).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct Document {
    roles: BTreeSet<String>,
    kinds: Option<BTreeSet<String>>,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    created_by: String,
}

impl Token {
    fn content(self) -> Result<Content> {
        let Self { id, name, hash, roles, kinds, expires_at, revoked_at, created_by } = self;
        let state = if revoked_at.is_some() { REVOKED } else { ACTIVE };
        let document = Document { roles, kinds, expires_at, revoked_at, created_by };
        let document = serde_json::to_value(document).map_err(|error| Error::Bug(error.to_string()))?;
        Ok(Content {
            kind: TOKEN_KIND.to_owned(),
            id,
            name,
            state: state.to_owned(),
            document,
            labels: BTreeMap::new(),
            fields: BTreeMap::new(),
            keys: BTreeSet::from([hash]),
            deleted: false,
        })
    }

    fn from_resource(resource: Resource) -> Result<Self> {
        let Content { id, name, document, keys, .. } = resource.content;
        let hash = keys.into_iter().next().ok_or_else(|| Error::Bug(format!("token {id} has no hash")))?;
        let document: Document =
            serde_json::from_value(document).map_err(|error| Error::Bug(error.to_string()))?;
        let Document { roles, kinds, expires_at, revoked_at, created_by } = document;
        Ok(Self { id, name, hash, roles, kinds, expires_at, revoked_at, created_by })
    }
}

impl Store {
    /// Keeps a new token.
    pub async fn create_token(&self, token: Token, entry: Entry) -> Result<Token> {
        let change = Change { before: None, after: token.content()?, entry, effects: vec![], fence: None };
        Token::from_resource(self.commit(change).await?.resource)
    }

    /// Finds a token by the hash of its secret, whether or not it still works.
    pub async fn token_by_hash(&self, hash: &str) -> Result<Option<Token>> {
        self.get_by_key(TOKEN_KIND, hash).await?.map(Token::from_resource).transpose()
    }

    /// Revokes a token; revoking it again changes nothing. Nothing comes back when there is no such token.
    pub async fn revoke_token(&self, id: &str, entry: Entry) -> Result<Option<Token>> {
        loop {
            let Some(before) = self.get(TOKEN_KIND, id).await? else { return Ok(None) };
            let mut token = Token::from_resource(before.clone())?;
            if token.revoked_at.is_some() {
                return Ok(Some(token));
            }
            token.revoked_at = Some(to_micros(entry.at));
            let after = token.content()?;
            let change =
                Change { before: Some(before), after, entry: entry.clone(), effects: vec![], fence: None };
            match self.commit(change).await {
                Err(Error::Conflict) => {}
                committed => return Token::from_resource(committed?.resource).map(Some),
            }
        }
    }

    /// One page of tokens after an id, and the id after which the next page starts.
    pub async fn tokens(&self, after: Option<&str>, limit: usize) -> Result<(Vec<Token>, Option<String>)> {
        let after = after.map(str::to_owned);
        let page = self.list(&List { kind: TOKEN_KIND.to_owned(), after, limit, ..List::default() }).await?;
        let tokens = page.items.into_iter().map(Token::from_resource).collect::<Result<_>>()?;
        Ok((tokens, page.next))
    }
}
