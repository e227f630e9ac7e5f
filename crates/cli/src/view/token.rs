//! API tokens in columns; a secret is never among them.

use wardroom_api::{
    Page,
    client::{Client, Query},
    token::Token,
};

use super::{Resource, Selectable, View};
use crate::{
    exit::{self, Code, not_found},
    kind::Kind,
    table::{
        Column,
        Level::{Full, Narrow, Wide},
        column, or_none,
    },
    text::{age, time},
};

impl View for Token {
    #[rustfmt::skip]
    const COLUMNS: &'static [Column<Self>] = &[
        column("ID",      Narrow, |token, _| token.id.clone()),
        column("NAME",    Narrow, |token, _| token.name.clone()),
        column("ROLE",    Narrow, |token, _| token.role.clone()),
        column("STATE",   Narrow, |token, _| token.state.clone()),
        column("EXPIRES", Narrow, |token, _| time(token.expires_at)),
        column("AGE",     Narrow, |token, now| age(token.created_at, now)),
        column("KINDS",   Wide,   |token, _| if token.kinds.is_empty() { "<all>".to_owned() } else { token.kinds.join(",") }),
        column("GROUP",   Wide,   |token, _| or_none(token.group_id.as_deref())),
        column("CREATED", Full,   |token, _| time(token.created_at)),
    ];

    fn name(&self) -> String {
        format!("token/{}", self.id)
    }
}

impl Resource for Token {
    const KIND: Kind = Kind::Token;
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

    /// The API lists tokens and does not show one; there are few. A name is never used twice.
    async fn find(client: &Client, id: &str) -> anyhow::Result<Self> {
        let mut query = Query { limit: Some(1000), ..Query::default() };
        loop {
            let page = client.tokens(&query).await?;
            if let Some(token) = page.data.into_iter().find(|token| token.id == id || token.name == id) {
                return Ok(token);
            }
            if page.next.is_none() {
                return Err(not_found(Kind::Token, format!("there is no token {id:?}")));
            }
            query.cursor = page.next;
        }
    }

    async fn id_of(client: &Client, called: &str) -> anyhow::Result<String> {
        match Self::find(client, called).await {
            Ok(token) => Ok(token.id),
            // Not every role that reads history may list tokens.
            Err(error) if exit::code(&error) == Code::Denied => Ok(called.to_owned()),
            Err(error) => Err(error),
        }
    }
}
