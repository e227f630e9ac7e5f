//! How API tokens look in the console. Their secrets are shown once, when they are created.

use serde_json::Value;
use wardroom_api::token::Token;
use wardroom_console::face::{self, Cell, Face, Fact, Member, Selects};
use wardroom_core::{action::Call, table::Role};

use super::{auth::TOKEN, token::STATES};

/// Ends a token, and with it its sessions.
const REVOKE: Call = Call::new(TOKEN, "revoke", "DELETE", "/api/v1/tokens/{id}").by(Role::Admin);

/// API tokens.
pub(crate) static FACE: Face = Face {
    kind: TOKEN,
    segment: "tokens",
    many: "Tokens",
    one: "token",
    icon: "person",
    path: "/api/v1/tokens",
    pages: face::BY_AGE,
    states: || STATES.to_vec(),
    selects: Selects::State,
    calls: &[REVOKE],
    heads: ["Role", "Kinds", "Ends"],
    member,
    facts,
    about: (
        "There are no tokens",
        "A token lets a person or a program use the API, the command line and the console.",
    ),
    start: &[("Create one. Its secret is shown once.", "wardroom token create NAME --role operator")],
    ..Face::PLAIN
};

fn kinds(token: &Token) -> String {
    if token.kinds.is_empty() { "all".to_owned() } else { token.kinds.join(", ") }
}

fn member(value: &Value) -> Member {
    let Some(token) = face::typed::<Token>(value) else { return Member::default() };
    Member {
        key: token.id.clone(),
        cells: [Cell::Text(token.role.clone()), Cell::Text(kinds(&token)), Cell::Time(token.expires_at)],
        id: token.id,
        name: token.name,
        state: token.state,
        ..Member::default()
    }
}

fn facts(value: &Value, _: Option<&Value>) -> Vec<Fact> {
    let Some(token) = face::typed::<Token>(value) else { return Vec::new() };
    vec![
        ("Role", Cell::Text(token.role.clone())),
        ("Kinds", Cell::Text(kinds(&token))),
        ("Adapter", Cell::text(token.adapter)),
        ("User group", Cell::text(token.group_id)),
        ("Ends", Cell::Time(token.expires_at)),
        ("Created", Cell::Time(token.created_at)),
    ]
}
