//! API tokens: made once, shown once, revoked at once.

use std::collections::{BTreeMap, BTreeSet};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;
use wardroom_api::{
    Envelope, Page,
    token::{NewToken, Token, TokenCreate},
};
use wardroom_core::{
    action::{Call, Fixed},
    table::Role,
};
use wardroom_store::{Content, Document, Entry, Held, List, Resource};

use crate::platform::{
    app::{App, Decided, by_person},
    change::changing::{Made, Step},
    http::{
        body::Body,
        error::Error,
        etag,
        list::{self, ListQuery},
        path::Path,
        problems::Problems,
        text,
    },
    identity::{
        auth::{Caller, Identity, TOKEN, TokenDocument},
        secret::{self, Key},
        token_name,
    },
};

/// Makes an admin token.
const CREATE_ADMIN: Call = Call::new("token", "create", "POST", "/api/v1/tokens")
    .body(&[("role", Fixed::Text("admin"))])
    .needing(&["name"])
    .by(Role::Admin);

/// The field with a token's user group.
const GROUP: &str = "group_id";

/// The prefix of the key that makes a name unique for ever.
pub(crate) const NAME: &str = "name/";

pub(crate) const DEFAULT_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 90);

/// The states of a token; `expired` is derived, not stored.
pub(crate) const STATES: &[&str] = &["active", "expired", "revoked"];

/// Which tokens, and which page of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenQuery {
    /// Only in this state; a page may have fewer than there is room for, and still not be the last.
    state: Option<String>,
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

/// Lists tokens, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", params(TokenQuery), responses((status = 200, body = Page<Token>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(query): ListQuery<TokenQuery>,
) -> Result<Json<Page<Token>>, Error> {
    let wanted = query.state.as_deref();
    if let Some(unknown) = wanted.filter(|state| !STATES.contains(state)) {
        return Err(Error::invalid("state", format!("{unknown:?} is not one of: {}", STATES.join(", "))));
    }
    let stored = wanted.map(|state| if state == "expired" { "active" } else { state }.to_owned());
    let limit = list::number("limit", query.limit.as_deref(), 100, 1..=1000)?;
    let list = List { kind: TOKEN.to_owned(), state: stored, after: query.cursor, limit, ..List::default() };
    let page = list::page(&app, list).await?;
    let mut data =
        page.items.iter().map(|token| view(token, app.now())).collect::<Result<Vec<Token>, _>>()?;
    data.retain(|token| wanted.is_none_or(|state| token.state == state));
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Creates a token; its secret is only in this answer.
#[utoipa::path(
    post, path = "/api/v1/tokens", request_body = TokenCreate,
    responses((status = 201, body = Envelope<NewToken>), Problems)
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(create): Body<TokenCreate>,
) -> Result<Response, Error> {
    token_name::check(&create.name)?;
    let role: Role = create
        .role
        .parse()
        .map_err(|error: wardroom_core::UnknownName| Error::invalid("role", error.to_string()))?;
    let known = scopes(&app);
    if let Some(kind) = create.kinds.iter().find(|kind| !known.contains(&kind.as_str())) {
        return Err(Error::invalid("kinds", format!("{kind:?} is not one of: {}", known.join(", "))));
    }
    check_adapter(create.adapter.as_deref(), role)?;
    let gives_more = |me: &Identity| {
        !me.kinds.is_empty() && (create.kinds.is_empty() || !create.kinds.iter().all(|kind| me.covers(kind)))
    };
    if caller.identity().is_some_and(gives_more) {
        return Err(Error::Forbidden("a token cannot grant more kinds than it has itself".to_owned()));
    }
    let group = create.group_id.clone();
    let holds = || user_group(&app, group.as_deref());
    holds().await?;
    let now = app.now();
    let expires_at = create.expires_at.unwrap_or(now + DEFAULT_LIFETIME);
    if expires_at <= now {
        return Err(Error::invalid("expires_at", "must be in the future"));
    }
    let TokenCreate { kinds, group_id, adapter, .. } = create;
    let document = TokenDocument { role, kinds, group_id, adapter, expires_at };
    let secret = secret::new_token();
    let content = content(&app.key, &create.name, &document, &secret)?;
    let entry = Entry { metadata: named(&create.name), ..by_person(&app, &caller, "registered", None) };
    let resource = match app.make(Step { content, entry, effects: Vec::new() }, holds).await? {
        Made::New(resource) => *resource,
        Made::Taken(_) => {
            let detail = format!(
                "the name {:?}, or one that looks like it, was used before; history identifies callers by name: use another",
                create.name
            );
            return Err(Error::Conflict { code: "name_taken", detail, allowed: Vec::new() });
        }
    };
    let token = view(&resource, now)?;
    let made = Envelope::said(NewToken { token, secret }, "The secret is shown only now.");
    let mut response = (StatusCode::CREATED, Json(made)).into_response();
    etag::set(&mut response, &tag(&resource)?);
    Ok(response)
}

/// Revokes a token; it is refused from the next request on.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Token>), Problems))]
pub(crate) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    // Another admin is held, so that two deletions at once cannot remove the last one.
    let holds = || other_admin(&app, &id);
    let (resource, ()) = app
        .changing(TOKEN, &id)
        .holding(holds)
        .decide(|token| {
            etag::check(&headers, || tag(token))?;
            if token.content.state == "revoked" {
                return Ok(Decided::Nothing(()));
            }
            let mut content = Content { state: "revoked".to_owned(), ..token.content.clone() };
            // A revoked token does not keep its group from being deleted.
            content.fields.remove(GROUP);
            let entry = by_person(&app, &caller, "transition", None);
            let entry = Entry { metadata: named(&content.name), ..entry };
            Ok(Decided::Commit(Box::new((content, entry)), ()))
        })
        .await?;
    app.tokens.settle().await;
    let mut response = Json(Envelope::new(view(&resource, app.now())?)).into_response();
    etag::set(&mut response, &tag(&resource)?);
    Ok(response)
}

/// Returns the name of a token for history: readers of history need not see the list of tokens.
pub(crate) fn named(name: &str) -> serde_json::Value {
    serde_json::json!({"name": name})
}

fn tag(token: &Resource) -> Result<String, Error> {
    let content = &token.content;
    etag::of(&(&content.id, &content.state, content.document.as_str()))
}

/// The kinds that a token can be scoped to.
fn scopes(app: &App) -> Vec<&'static str> {
    let stored = app.kinds.iter().flat_map(|kind| kind.stores).map(|stored| stored.kind);
    stored.chain([TOKEN, "incident"]).collect()
}

/// Checks the adapter that a token is bound to.
fn check_adapter(adapter: Option<&str>, role: Role) -> Result<(), Error> {
    let Some(adapter) = adapter else { return Ok(()) };
    if role != Role::Adapter {
        let message =
            format!("only tokens of role adapter have one, not of {role}: leave it out, or change the role");
        return Err(Error::invalid("adapter", message));
    }
    text::check("adapter", adapter, 1..=100)?;
    if adapter.len() > 100 {
        return Err(Error::invalid(
            "adapter",
            format!("has {} bytes, at most 100 are allowed", adapter.len()),
        ));
    }
    if adapter.trim() != adapter {
        return Err(Error::invalid("adapter", "begins or ends with a space: leave it out"));
    }
    Ok(())
}

/// Returns the user group of a new token as a precondition.
async fn user_group(app: &App, id: Option<&str>) -> Result<Vec<Held>, Error> {
    let Some(id) = id else { return Ok(Vec::new()) };
    let mut joined = app.kinds.iter().flat_map(|kind| kind.stores).filter_map(|stored| stored.joined);
    let join =
        joined.next().ok_or_else(|| Error::invalid("group_id", "there are no groups of users here"))?;
    Ok(vec![join(app, id).await?])
}

/// Returns another admin token to hold; refuses to delete the last one. Empty if the token is no admin's.
async fn other_admin(app: &App, id: &str) -> Result<Vec<Held>, Error> {
    let is_admin = |token: &Resource| {
        Identity::of(token).is_some_and(|identity| {
            identity.role == Role::Admin && identity.kinds.is_empty() && app.now() < identity.expires_at
        })
    };
    let mut list =
        List { kind: TOKEN.to_owned(), state: Some("active".to_owned()), limit: 500, ..List::default() };
    let this = app.store.get(TOKEN, id).await?;
    if !this.is_some_and(|token| token.content.state == "active" && is_admin(&token)) {
        return Ok(Vec::new());
    }
    loop {
        let page = app.store.list(&list).await?;
        if let Some(other) = page.items.iter().find(|token| token.content.id != id && is_admin(token)) {
            return Ok(vec![Held::at(other)]);
        }
        let last = || Error::Conflict {
            code: "last_admin",
            detail: "this is the last admin token that covers everything: create another one first"
                .to_owned(),
            allowed: vec![CREATE_ADMIN.of("")],
        };
        list.after = Some(page.next.ok_or_else(last)?);
    }
}

/// Builds the stored token: its hash is a key, its secret is not stored.
pub(crate) fn content(
    key: &Key,
    name: &str,
    document: &TokenDocument,
    secret: &str,
) -> Result<Content, Error> {
    Ok(Content {
        kind: TOKEN.to_owned(),
        id: Uuid::now_v7().to_string(),
        name: name.to_owned(),
        state: "active".to_owned(),
        document: Document::of(document)?,
        labels: BTreeMap::new(),
        fields: document.group_id.iter().map(|id| (GROUP.to_owned(), id.clone())).collect(),
        // A name, or one that looks like it, is never used twice, even after a revocation: history identifies
        // callers by name.
        keys: BTreeSet::from([key.hash_token(secret), format!("{NAME}{}", token_name::look(name))]),
        deleted: false,
        due_at: None,
    })
}

/// Shows a token; `expired` is derived from its time.
/// Tokens that are looked at: there are few.
const LOOKED_AT: usize = 1000;

/// The tokens that are bound to an adapter, oldest first.
pub(crate) async fn of_adapter(app: &App, adapter: &str) -> Result<Vec<Token>, Error> {
    let list = List { kind: TOKEN.to_owned(), limit: LOOKED_AT, ..List::default() };
    let found = app.store.list(&list).await?.items;
    let mut tokens = found.iter().map(|token| view(token, app.now())).collect::<Result<Vec<_>, _>>()?;
    tokens.retain(|token| token.adapter.as_deref() == Some(adapter));
    Ok(tokens)
}

fn view(resource: &Resource, now: Timestamp) -> Result<Token, Error> {
    let content = &resource.content;
    let document: TokenDocument = content.document.read()?;
    let is_expired = content.state == "active" && document.expires_at <= now;
    Ok(Token {
        id: content.id.clone(),
        name: content.name.clone(),
        role: document.role.to_string(),
        kinds: document.kinds,
        group_id: document.group_id,
        adapter: document.adapter,
        state: if is_expired { "expired".to_owned() } else { content.state.clone() },
        expires_at: document.expires_at,
        created_at: resource.created_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::{app::by_system, identity::auth};

    /// A caller with write access to the database but without the server's key cannot make a token.
    #[tokio::test]
    async fn a_hash_made_without_the_key_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let lets_in = async |secret: &str| {
            auth::by_token(&app, secret, std::net::Ipv4Addr::LOCALHOST.into()).await.is_ok()
        };
        let (role, expires_at) = (Role::Admin, Timestamp::MAX);
        let (group_id, adapter) = (None, None);
        let document = TokenDocument { role, kinds: Vec::new(), group_id, adapter, expires_at };
        let mut content = content(&app.key, "ours", &document, "wrt_ours").unwrap();
        content.keys.insert(secret::hash_token("wrt_planted"));
        let entry = by_system(&app, "registered", named(&content.name));
        app.create(content, entry).await.unwrap();
        assert!(lets_in("wrt_ours").await);
        assert!(!lets_in("wrt_planted").await);

        let other = Key::create(&dir.path().join("other")).unwrap();
        assert_ne!(other.hash_token("wrt_ours"), app.key.hash_token("wrt_ours"));
    }
}
