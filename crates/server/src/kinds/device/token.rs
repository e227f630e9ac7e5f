//! Enrolment tokens: with one, some devices may ask to be enrolled for a while.
//!
//! What must stay true: a token is shown once and stored as a hash; each of its uses is one device, counted in the
//! commit that makes the request of that device.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wardroom_api::{
    Envelope, Page,
    device::{EnrollmentToken, EnrollmentTokenCreate, NewEnrollmentToken},
};
use wardroom_core::action::Call;
use wardroom_store::{Content, Document, Resource};

use crate::platform::{
    app::App,
    change::{
        changing::Made,
        named::{Asked, Named, READY},
        preconditions::nothing_held,
    },
    http::{
        body::Body,
        error::Error,
        etag,
        list::{ListQuery, Pages},
        path::Path,
        problems::Problems,
        text,
    },
    identity::{
        auth::Caller,
        secret::{self, Key},
    },
};

/// The kind under which enrolment tokens are stored.
pub(crate) const KIND: &str = "enrollmenttoken";

pub(super) const TOKENS: Named = Named {
    kind: KIND,
    word: "enrolment token",
    create: Call::new(KIND, "create", "POST", "/api/v1/enrollmenttokens").needing(&["name"]),
    edit: Call::new(KIND, "create", "POST", "/api/v1/enrollmenttokens").needing(&["name"]),
    users: &[],
};

/// What secrets of enrolment tokens begin with, so that leaked ones are recognised.
const PREFIX: &str = "wre_";

/// Longer than any secret.
const LONGEST: usize = 100;

const USES: u32 = 1;
const MOST_USES: u32 = 1_000_000;
const MINUTES: u32 = 24 * 60;
const MOST_MINUTES: u32 = 366 * 24 * 60;

const UNKNOWN: Error =
    Error::Unauthenticated("the enrolment token is not valid: it is unknown or was deleted");

/// What is stored of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenDocument {
    pub(crate) uses: u32,
    pub(crate) used: u32,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) auto_approve: bool,
    pub(crate) expires_at: Timestamp,
}

impl TokenDocument {
    pub(crate) fn of(token: &Resource) -> Result<Self, Error> {
        token.content.document.read().map_err(|error| {
            tracing::error!(id = token.content.id, %error, "a stored enrolment token cannot be read");
            Error::Internal
        })
    }

    /// The token after one more device has used it.
    pub(crate) fn used_once(mut self, token: &Resource, now: Timestamp) -> Result<Content, Error> {
        if self.expires_at <= now {
            return Err(Error::Unauthenticated(
                "the enrolment token has expired: ask an operator for a new one",
            ));
        }
        if self.used >= self.uses {
            return Err(Error::Conflict {
                code: "enrollment_token_spent",
                detail: format!(
                    "the enrolment token {:?} was used by {} devices, which is all it is for: ask an operator for another",
                    token.content.name, self.used
                ),
                allowed: Vec::new(),
            });
        }
        self.used += 1;
        Ok(Content { document: Document::of(&self)?, ..token.content.clone() })
    }
}

/// A caller with an enrolment token.
#[derive(Debug, Clone)]
pub(crate) struct TokenHolder {
    /// The name of the token.
    pub(crate) id: String,
    /// The name that history gets.
    pub(crate) called: String,
}

/// Recognises the token behind a secret, also one that has expired: its devices may still ask what became of their
/// requests.
pub(super) async fn recognise(app: &App, secret: &str, from: IpAddr) -> Result<TokenHolder, Error> {
    let known = secret.starts_with(PREFIX) && secret.len() <= LONGEST;
    let found = match known {
        true => app.store.get_by_key(KIND, &hash(&app.key, secret)).await?,
        false => None,
    };
    let Some(found) = found.filter(|found| !found.content.deleted) else {
        // Only failures count: a guessing neighbour cannot keep others from enrolling.
        app.limiter.check_guess(from, secret)?;
        return Err(UNKNOWN);
    };
    let called = format!("enrolment token {}", found.content.name);
    Ok(TokenHolder { id: found.content.id, called })
}

/// The stored hash. Write access to the database without the server's key cannot make one.
fn hash(key: &Key, secret: &str) -> String {
    format!("mac/{}", secret::encode(&key.sign("enrolment token", &[secret])))
}

/// Creates an enrolment token; its secret is in this answer and nowhere else.
#[utoipa::path(
    post, path = "/api/v1/enrollmenttokens", operation_id = "create_enrollment_token",
    request_body = EnrollmentTokenCreate, responses((status = 201, body = NewEnrollmentToken), Problems)
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(create): Body<EnrollmentTokenCreate>,
) -> Result<Response, Error> {
    let EnrollmentTokenCreate { name, uses, minutes, labels, auto_approve } = create;
    let (uses, minutes) = (uses.unwrap_or(USES), minutes.unwrap_or(MINUTES));
    let ranged = |field: &str, value: u32, most: u32| match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(Error::invalid(field, format!("must be from 1 to {most}"))),
    };
    Error::all([
        text::check_name("name", &name),
        ranged("uses", uses, MOST_USES),
        ranged("minutes", minutes, MOST_MINUTES),
        text::check_labels(&labels),
    ])?;
    let expires_at = app.now().saturating_add(SignedDuration::from_mins(minutes.into()));
    let expires_at = expires_at.unwrap_or(Timestamp::MAX);
    let secret = format!("{PREFIX}{}", secret::random_text());
    let document = TokenDocument { uses, used: 0, labels, auto_approve, expires_at };
    let content = Content {
        kind: KIND.to_owned(),
        id: name.clone(),
        name: name.clone(),
        state: READY.to_owned(),
        document: Document::of(&document)?,
        labels: BTreeMap::new(),
        fields: BTreeMap::new(),
        keys: BTreeSet::from([hash(&app.key, &secret)]),
        deleted: false,
        due_at: None,
    };
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let made = match app.make(asked.step("registered", content, Vec::new()), nothing_held).await? {
        Made::New(made) => *made,
        Made::Taken(_) => {
            let detail =
                format!("there is an enrolment token {name:?}: delete it first, or choose another name");
            return Err(Error::Conflict { code: "name_taken", detail, allowed: Vec::new() });
        }
    };
    let message = Some("The secret is shown only now.".to_owned());
    let answer = NewEnrollmentToken { success: true, token: secret, data: view(&made)?, message };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Lists enrolment tokens, without their secrets.
#[utoipa::path(
    get, path = "/api/v1/enrollmenttokens", operation_id = "list_enrollment_tokens", params(Pages),
    responses((status = 200, body = Page<EnrollmentToken>), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<EnrollmentToken>>, Error> {
    TOKENS.list(&app, &pages, view).await
}

/// Reads an enrolment token, without its secret.
#[utoipa::path(
    get, path = "/api/v1/enrollmenttokens/{name}", operation_id = "get_enrollment_token",
    params(("name" = String, Path)), responses((status = 200, body = Envelope<EnrollmentToken>), Problems)
)]
pub(crate) async fn get(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Error> {
    let token = TOKENS.get(&app, &name).await?;
    let mut response = Json(Envelope::new(view(&token)?)).into_response();
    etag::set(&mut response, &tag(&token)?);
    Ok(response)
}

/// Deletes an enrolment token: no device enrols with it from then on. Devices that have enrolled stay.
#[utoipa::path(
    delete, path = "/api/v1/enrollmenttokens/{name}", operation_id = "delete_enrollment_token",
    params(("name" = String, Path)), responses((status = 200, body = Envelope<EnrollmentToken>), Problems)
)]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Envelope<EnrollmentToken>>, Error> {
    let changing = app.changing(KIND, &name);
    let (token, ()) = changing
        .decide(|token| {
            etag::check(&headers, || tag(token))?;
            let content = Content { deleted: true, ..token.content.clone() };
            let entry = crate::platform::app::by_person(&app, &caller, "deleted", None);
            Ok(crate::platform::app::Decided::Commit(Box::new((content, entry)), ()))
        })
        .await?;
    Ok(Json(Envelope::said(view(&token)?, "No device enrols with this token any more.")))
}

fn tag(token: &Resource) -> Result<String, Error> {
    etag::of(&(&token.content.id, token.created_at))
}

fn view(token: &Resource) -> Result<EnrollmentToken, Error> {
    let TokenDocument { uses, used, labels, auto_approve, expires_at } = TokenDocument::of(token)?;
    let (name, created_at) = (token.content.name.clone(), token.created_at);
    Ok(EnrollmentToken { name, uses, used, labels, auto_approve, expires_at, created_at })
}
