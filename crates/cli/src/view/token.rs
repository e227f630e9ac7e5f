//! API tokens in columns; a secret is never among them.

use wardroom_api::{
    Page,
    action::Action,
    client::{Client, Query},
    found::Found,
    token::Token,
};

use super::{Resource, Selectable, View};
use crate::{
    command::get::list,
    exit::{self, Code, missing},
    kind::Kind,
    locate::Among,
    suggest::Words,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        Tones, column, or_none,
    },
    text::{age, time},
};

impl View for Token {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("NAME",    Narrow, |token, _| token.name.clone()),
        column("ROLE",    Narrow, |token, _| token.role.clone()),
        column("STATE",   Narrow, |token, _| token.state.clone()),
        column("EXPIRES", Narrow, |token, _| time(token.expires_at)),
        column("AGE",     Narrow, |token, now| age(token.created_at, now)),
        column("ID",      Wide,   |token, _| token.id.clone()),
        column("KINDS",   Wide,   |token, _| if token.kinds.is_empty() { "<all>".to_owned() } else { token.kinds.join(",") }),
        column("GROUP",   Wide,   |token, _| or_none(token.group_id.as_deref())),
        column("ADAPTER", Wide,   |token, _| or_none(token.adapter.as_deref())),
        column("CREATED", Full,   |token, _| time(token.created_at)),
    ];

    const TONES: Tones = Tones::Of("token");

    fn name(&self) -> String {
        format!("token/{}", self.name)
    }
}

impl Resource for Token {
    const KIND: Kind = Kind::Token;
    const KEPT: Option<&'static str> = Some("tokens are revoked: `wardroom token revoke NAME`");
    const SELECTABLE: Selectable = Selectable::ByState;

    fn id(&self) -> &str {
        &self.id
    }

    fn state(&self) -> Option<&str> {
        Some(&self.state)
    }

    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>> {
        Ok(client.tokens(query).await?)
    }

    /// The API lists tokens and does not show one; there are few.
    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        let known: Vec<Self> = list(client, &Query::default(), usize::MAX).await?;
        known.into_iter().find(|token| token.id == id).ok_or_else(|| missing(Kind::Token, id))
    }

    /// A name is never used twice.
    async fn named(client: &Client, typed: &str, _among: Among) -> anyhow::Result<Vec<Found>> {
        let known: Vec<Self> = match list(client, &Query::default(), usize::MAX).await {
            // Not every role that reads history may list tokens.
            Err(error) if exit::code(&error) == Code::Denied => return Ok(vec![unlisted(typed)]),
            known => known?,
        };
        let named: Vec<_> = known.iter().filter(|token| token.name == typed).map(found).collect();
        if !named.is_empty() || typed.len() < SHORTEST {
            return Ok(named);
        }
        Ok(known.iter().filter(|token| token.id.starts_with(typed)).map(found).collect())
    }

    /// A suggestion may already have a name for the new token.
    fn command(action: &Action, id: &str) -> Option<Words> {
        let name = if action.needs.iter().any(|field| field == "name") { "NAME" } else { id };
        (action.action == "create").then(|| Words::open(&["token", "create", name]))
    }

    fn title(&self) -> &str {
        &self.name
    }
}

/// The shortest start of an id that names a token, as for every kind.
const SHORTEST: usize = 4;

fn found(token: &Token) -> Found {
    let Token { id, name, state, .. } = token.clone();
    Found { kind: Kind::Token.as_str().to_owned(), id, name, state, deleted: false }
}

fn unlisted(typed: &str) -> Found {
    let (kind, called) = (Kind::Token.as_str().to_owned(), typed.to_owned());
    Found { kind, id: called.clone(), name: called, state: String::new(), deleted: false }
}
