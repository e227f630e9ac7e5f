//! Sessions of the console: made from an API token, and never more than it.
//!
//! What must stay true: a session ends with its token. A session names its token by the hash under which the token is
//! known, and every request of the session is judged by that token as if the token itself had been sent.
//!
//! Only hashes are stored. The cookie carries a seal of the server's key, so that guesses cost the database nothing.
//!
//! A login link is a session that is offered: the person who opens the link turns it into an open one, once, within ten
//! minutes.

use std::{net::IpAddr, sync::Arc};

use axum::http::{HeaderMap, HeaderValue, header};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wardroom_store::{Content, Document, Entry, List, Resource};

use crate::platform::{
    app::{App, Decided, by_person, by_system},
    config::Config,
    http::error::Error,
    identity::{
        auth::{Caller, Identity, Principal},
        secret,
        token::named,
    },
};

/// The kind in the store and in history.
pub(crate) const KIND: &str = "session";

/// The longest time that a session lasts.
const LONGEST: SignedDuration = SignedDuration::from_hours(12);

/// How long a login link works.
const OFFERED_FOR: SignedDuration = SignedDuration::from_mins(10);

/// The beginning of the secret of a login link.
pub(crate) const LINK: &str = "wrl_";

const OFFERED: &str = "offered";
const OPEN: &str = "open";
const ENDED: &str = "ended";

pub(crate) const NONE: Error = Error::Unauthenticated("there is no session, or it has ended: log in");

/// What is stored of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionDocument {
    /// The key of its token.
    token: String,
    expires_at: Timestamp,
}

/// The session of a request.
#[derive(Clone)]
pub(crate) struct Session {
    id: String,
    /// The token that its forms carry.
    pub(crate) csrf: String,
}

impl Session {
    /// The id of its record.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// The name of the cookie. Over HTTPS browsers hold it to this host; a listener on loopback may be plain HTTP.
pub(crate) fn cookie(config: &Config) -> &'static str {
    if is_secure(config) { "__Host-wardroom-session" } else { "wardroom-session" }
}

fn is_secure(config: &Config) -> bool {
    let behind_tls = config.public_url_is_set
        && config.public_url.as_deref().is_some_and(|url| url.starts_with("https://"));
    config.tls.is_some() || behind_tls
}

/// Opens a session for a token; returns its cookie.
pub(crate) async fn open(
    app: &App,
    token: &str,
    caller: &Caller,
    identity: &Identity,
) -> Result<HeaderValue, Error> {
    let expires_at = end_of(app, identity, LONGEST);
    let secret = secret::random_text();
    let document = SessionDocument { token: app.key.hash_token(token), expires_at };
    let content = content(identity, OPEN, &document, key(app, &secret))?;
    app.create(content, entry(app, caller, identity, "registered")).await?;
    given(app, &secret, expires_at)
}

/// Offers a session to the person who shows the secret that this returns, and says until when.
pub(crate) async fn offer(
    app: &App,
    token: &str,
    caller: &Caller,
    identity: &Identity,
) -> Result<(String, Timestamp), Error> {
    let expires_at = end_of(app, identity, OFFERED_FOR);
    let secret = secret::random_text();
    let document = SessionDocument { token: app.key.hash_token(token), expires_at };
    let content = content(identity, OFFERED, &document, link_key(app, &secret))?;
    app.create(content, entry(app, caller, identity, "registered")).await?;
    Ok((format!("{LINK}{secret}.{}", link_seal(app, &secret)), expires_at))
}

/// Opens the session that a login link offers; returns its cookie. The same link opens no second one.
pub(crate) async fn redeem(app: &App, link: &str, caller: &Caller) -> Result<HeaderValue, Error> {
    let shown = link.strip_prefix(LINK).and_then(|rest| rest.split_once('.'));
    let (offered, seal) = shown.ok_or(NONE)?;
    if !secret::same(seal.as_bytes(), link_seal(app, offered).as_bytes()) {
        return Err(NONE);
    }
    let found = app.store.get_by_key(KIND, &link_key(app, offered)).await?.ok_or(NONE)?;
    let SessionDocument { token, .. } = found.content.document.read()?;
    let identity = app.tokens.identify(app, &token, (), caller.address).await.map_err(ended)?;
    let expires_at = end_of(app, &identity, LONGEST);
    let opened = Document::of(&SessionDocument { token, expires_at })?;
    let secret = secret::random_text();
    let decide = |found: &Resource| {
        let document: SessionDocument = found.content.document.read()?;
        let is_offered = found.content.state == OFFERED && !found.content.deleted;
        if !is_offered || document.expires_at <= app.now() || identity.expires_at <= app.now() {
            return Err(NONE);
        }
        let content = Content {
            state: OPEN.to_owned(),
            document: opened.clone(),
            keys: [key(app, &secret)].into(),
            ..found.content.clone()
        };
        Ok(Decided::Commit(Box::new((content, entry(app, caller, &identity, "transition"))), ()))
    };
    match app.change(KIND, &found.content.id, decide).await {
        Ok(_) => given(app, &secret, expires_at),
        Err(Error::NotFound { .. }) => Err(NONE),
        Err(error) => Err(error),
    }
}

/// The end of a session that lasts so long, or as long as its token.
fn end_of(app: &App, identity: &Identity, longest: SignedDuration) -> Timestamp {
    identity.expires_at.min(app.now().saturating_add(longest).unwrap_or(Timestamp::MAX))
}

fn content(
    identity: &Identity,
    state: &str,
    document: &SessionDocument,
    key: String,
) -> Result<Content, Error> {
    Ok(Content {
        kind: KIND.to_owned(),
        id: Uuid::now_v7().to_string(),
        name: identity.name.clone(),
        state: state.to_owned(),
        document: Document::of(document)?,
        labels: Default::default(),
        fields: Default::default(),
        keys: [key].into(),
        deleted: false,
        due_at: None,
    })
}

fn entry(app: &App, caller: &Caller, identity: &Identity, entry_type: &str) -> Entry {
    let metadata = named(&identity.name);
    Entry { user_id: Some(identity.name.clone()), metadata, ..by_person(app, caller, entry_type, None) }
}

/// The cookie of an open session.
fn given(app: &App, secret: &str, expires_at: Timestamp) -> Result<HeaderValue, Error> {
    let seconds = expires_at.duration_since(app.now()).as_secs().max(0);
    written(&app.config, &format!("{secret}.{}", seal(app, secret)), seconds)
}

/// Ends a session; returns the cookie that takes its place.
pub(crate) async fn end(app: &App, caller: &Caller, session: &Session) -> Result<HeaderValue, Error> {
    let decide = |found: &Resource| {
        if found.content.state == ENDED {
            return Ok(Decided::Nothing(()));
        }
        let content = Content { state: ENDED.to_owned(), deleted: true, ..found.content.clone() };
        let entry = Entry { metadata: named(&content.name), ..by_person(app, caller, "transition", None) };
        Ok(Decided::Commit(Box::new((content, entry)), ()))
    };
    match app.change(KIND, &session.id, decide).await {
        Ok(_) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    written(&app.config, "", 0)
}

/// How many sessions one sweep looks at, the oldest first.
const SWEPT: usize = 500;

/// Ends sessions whose time is over though no person logged out, and login links that no person opened. Their rows of
/// history stay, as those of all that ended.
pub(crate) async fn end_expired(app: &App) -> Result<(), Error> {
    for state in [OPEN, OFFERED] {
        end_expired_in(app, state).await?;
    }
    Ok(())
}

async fn end_expired_in(app: &App, state: &str) -> Result<(), Error> {
    let list = List { kind: KIND.to_owned(), state: Some(state.to_owned()), limit: SWEPT, ..List::default() };
    for found in app.store.list(&list).await?.items {
        let document: SessionDocument = found.content.document.read()?;
        if document.expires_at > app.now() {
            continue;
        }
        let decide = |found: &Resource| {
            if found.content.state == ENDED {
                return Ok(Decided::Nothing(()));
            }
            let content = Content { state: ENDED.to_owned(), deleted: true, ..found.content.clone() };
            let entry = by_system(app, "transition", named(&content.name));
            Ok(Decided::Commit(Box::new((content, entry)), ()))
        };
        match app.change(KIND, &found.content.id, decide).await {
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Recognises the caller by its cookie.
pub(crate) async fn of(app: &App, headers: &HeaderMap, from: IpAddr) -> Result<(Principal, Session), Error> {
    let value = read(headers, cookie(&app.config)).ok_or(NONE)?;
    let (secret, given) = value.split_once('.').ok_or(NONE)?;
    if !secret::same(given.as_bytes(), seal(app, secret).as_bytes()) {
        return Err(NONE);
    }
    let found = app.store.get_by_key(KIND, &key(app, secret)).await?;
    let found = found.filter(|found| !found.content.deleted && found.content.state == OPEN).ok_or(NONE)?;
    let document: SessionDocument = found.content.document.read()?;
    if document.expires_at <= app.now() {
        return Err(NONE);
    }
    let identity = app.tokens.identify(app, &document.token, (), from).await.map_err(ended)?;
    if identity.expires_at <= app.now() {
        return Err(NONE);
    }
    let csrf = secret::encode(&app.key.sign("console form", &[secret])[..24]);
    Ok((Principal::Token(Arc::clone(&identity)), Session { id: found.content.id, csrf }))
}

/// A token that is refused has taken its session with it.
fn ended(error: Error) -> Error {
    if matches!(error, Error::Unauthenticated(_)) { NONE } else { error }
}

/// The key under which a session is stored.
fn key(app: &App, secret: &str) -> String {
    format!("mac/{}", secret::encode(&app.key.sign("console session", &[secret])))
}

fn seal(app: &App, secret: &str) -> String {
    secret::encode(&app.key.sign("console cookie", &[secret])[..16])
}

/// The key under which the offer of a login link is stored.
fn link_key(app: &App, secret: &str) -> String {
    format!("mac/{}", secret::encode(&app.key.sign("console login link", &[secret])))
}

fn link_seal(app: &App, secret: &str) -> String {
    secret::encode(&app.key.sign("console login link seal", &[secret])[..16])
}

fn written(config: &Config, value: &str, seconds: i64) -> Result<HeaderValue, Error> {
    let secure = if is_secure(config) { "; Secure" } else { "" };
    let text =
        format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", cookie(config));
    HeaderValue::from_str(&text).map_err(|_| Error::Internal)
}

/// The value of a cookie.
pub(crate) fn read<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::identity::auth::TokenDocument;

    /// A link whose time is over opens nothing; the same one before does.
    #[tokio::test]
    async fn a_login_link_ends_after_its_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let document = TokenDocument {
            role: wardroom_core::table::Role::Viewer,
            kinds: Vec::new(),
            group_id: None,
            adapter: None,
            expires_at: Timestamp::MAX,
        };
        let token = crate::platform::identity::token::content(&app.key, "ada", &document, "wrt_ada").unwrap();
        let made = crate::platform::app::by_system(&app, "registered", named("ada"));
        let stored = app.create(token, made).await.unwrap();
        let identity = Identity::of(&stored).unwrap();
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let caller = Caller { principal: Principal::Anonymous, address, request_id: "r".into() };
        for (ends_in, opens) in [(SignedDuration::from_secs(-1), false), (OFFERED_FOR, true)] {
            let (link, _) = offer(&app, "wrt_ada", &caller, &identity).await.unwrap();
            let offered = link.strip_prefix(LINK).unwrap().split_once('.').unwrap().0;
            let found = app.store.get_by_key(KIND, &link_key(&app, offered)).await.unwrap().unwrap();
            let mut document: SessionDocument = found.content.document.read().unwrap();
            document.expires_at = app.now() + ends_in;
            let ended = |found: &Resource| {
                let document = Document::of(&document)?;
                let content = Content { document, ..found.content.clone() };
                let entry = crate::platform::app::by_system(&app, "transition", named("ada"));
                Ok(Decided::Commit(Box::new((content, entry)), ()))
            };
            app.change(KIND, &found.content.id, ended).await.unwrap();
            assert_eq!(redeem(&app, &link, &caller).await.is_ok(), opens);
        }
    }

    #[tokio::test]
    async fn a_session_ends_when_its_time_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        for (id, state, minutes) in
            [("over", OPEN, -1), ("open", OPEN, 1), ("unopened", OFFERED, -1), ("offered", OFFERED, 1)]
        {
            let expires_at = app.now() + SignedDuration::from_mins(minutes);
            let document = SessionDocument { token: "hash".to_owned(), expires_at };
            let content = Content {
                kind: KIND.to_owned(),
                id: id.to_owned(),
                name: "ada".to_owned(),
                state: state.to_owned(),
                document: Document::of(&document).unwrap(),
                labels: Default::default(),
                fields: Default::default(),
                keys: [format!("mac/{id}")].into(),
                deleted: false,
                due_at: None,
            };
            app.create(content, by_system(&app, "registered", named("ada"))).await.unwrap();
        }
        for _ in 0..2 {
            end_expired(&app).await.unwrap();
        }
        for (id, state, ends) in [
            ("over", ENDED, true),
            ("open", OPEN, false),
            ("unopened", ENDED, true),
            ("offered", OFFERED, false),
        ] {
            let found = app.store.get(KIND, id).await.unwrap().unwrap();
            let expected = (state, ends, if ends { 2 } else { 1 });
            assert_eq!((&*found.content.state, found.content.deleted, found.version), expected, "{id}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; wardroom-session=x.y; b=2"));
        headers.append(header::COOKIE, HeaderValue::from_static("c=3"));
        assert_eq!(read(&headers, "wardroom-session"), Some("x.y"));
        assert_eq!(read(&headers, "c"), Some("3"));
        assert_eq!(read(&headers, "session"), None);
    }
}
