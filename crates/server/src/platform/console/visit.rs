//! One visit of a page: the caller of its session, the API as that caller, and the frame around the page.

use std::collections::BTreeMap;

use axum::{
    Extension,
    body::Body,
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::Response,
};
use wardroom_api::{Problem, client::Summary};
use wardroom_console::{
    Markup,
    face::{Face, Group},
    form,
    overview::Places,
    problem,
    shell::{self, Frame, Section, Theme},
};
use wardroom_core::tone::{self, Tone};

use super::{Console, answer, inside::Api, session::Session};
use crate::platform::{
    http::{body, error::Error},
    identity::{
        auth::{Caller, Identity},
        secret,
    },
};

/// A visit.
pub(crate) struct Visit {
    pub(super) console: Console,
    pub(super) caller: Caller,
    pub(super) session: Session,
    theme: Theme,
    path: String,
    query: Vec<(String, String)>,
    /// The place in the feed before anything was read: where a live page begins.
    place: Option<String>,
}

impl FromRequestParts<Console> for Visit {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Error> {
        let of = parts.extensions.get::<Session>().cloned().ok_or(Error::Internal)?;
        let Extension(caller) =
            Extension::<Caller>::from_request_parts(parts, console).await.map_err(|_| Error::Internal)?;
        let place = console.app.store.feed_tail().await.ok();
        Ok(Self {
            place: place.map(|place| place.to_string()),
            console: console.clone(),
            caller,
            session: of,
            theme: answer::theme(&parts.headers),
            path: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            query: form::read(parts.uri.query().unwrap_or_default()),
        })
    }
}

impl Visit {
    /// The API as this caller.
    pub(super) fn api(&self) -> Api<'_> {
        Api { app: &self.console.app, router: &self.console.api, caller: &self.caller }
    }

    /// A parameter of the query; empty where it is absent.
    pub(super) fn asked(&self, name: &str) -> &str {
        self.query.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// All values of a parameter that may be given several times.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.query.iter().filter(|(known, _)| known == name).map(|(_, value)| &**value).collect()
    }

    pub(super) fn identity(&self) -> Result<&Identity, Error> {
        self.caller.identity().ok_or(Error::Internal)
    }

    /// The counts of members; nothing where the caller may not read them.
    pub(super) async fn summary(&self) -> Option<Summary> {
        self.api().one("/api/v1/summary", &[]).await.ok()
    }

    /// A page of the console.
    pub(super) async fn page(
        &self,
        here: &'static str,
        title: &str,
        content: &Markup,
    ) -> Result<Response, Error> {
        let summary = self.summary().await;
        self.page_with(summary.as_ref(), StatusCode::OK, here, title, content)
    }

    /// The same with counts that were read, and another status.
    pub(super) fn page_with(
        &self,
        summary: Option<&Summary>,
        status: StatusCode,
        here: &'static str,
        title: &str,
        content: &Markup,
    ) -> Result<Response, Error> {
        let identity = self.identity()?;
        let frame = Frame {
            sections: self.sections(identity, summary),
            here,
            path: self.path.clone(),
            who: identity.name.clone(),
            role: identity.role.to_string(),
            csrf: self.session.csrf.clone(),
            place: self.place.clone(),
            theme: self.theme,
        };
        Ok(answer::page(status, &shell::page(&frame, title, content)))
    }

    /// A refusal inside the frame, in the place of a page.
    pub(super) async fn refused(&self, here: &'static str, refused: &Problem) -> Result<Response, Error> {
        let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let summary = self.summary().await;
        self.page_with(summary.as_ref(), status, here, &refused.title, &problem::page(refused))
    }

    /// Where the kinds have their pages.
    pub(super) fn places(&self) -> Places {
        Places(self.console.faces().map(|face| (face.kind, face.segment, face.one)).collect())
    }

    fn sections(&self, identity: &Identity, summary: Option<&Summary>) -> Vec<(&'static str, Vec<Section>)> {
        let plain = |segment, title, icon| Section { segment, title, icon, count: None, bad: 0 };
        let of = |group: Group| -> Vec<Section> {
            let faces = self.console.faces().filter(|face| face.group == group && identity.covers(face.kind));
            faces
                .map(|face| {
                    let states = summary.and_then(|summary| summary.kinds.get(face.kind));
                    let bad = states
                        .into_iter()
                        .flatten()
                        .filter(|(state, _)| tone::of(face.kind, state) == Tone::Bad);
                    Section {
                        segment: face.segment,
                        title: face.many,
                        icon: face.icon,
                        count: summary.and_then(|summary| counted(face, summary)),
                        bad: bad.map(|(_, count)| count).sum(),
                    }
                })
                .collect()
        };
        let mut record = vec![plain("history", "History", "book")];
        record.extend(of(Group::Record));
        record.push(plain("lifecycles", "Lifecycles", "share"));
        record.push(plain("liveness", "Liveness", "radio"));
        let groups = [
            ("", vec![plain("", "Overview", "home")]),
            ("Members", of(Group::Members)),
            ("Work", of(Group::Work)),
            ("Record", record),
            ("Settings", of(Group::Settings)),
        ];
        groups.into_iter().filter(|(_, sections)| !sections.is_empty()).collect()
    }
}

/// How many there are of a kind; nothing for a kind that is not counted, or not worth a number.
fn counted(face: &Face, summary: &Summary) -> Option<i64> {
    let counted = summary.kinds.get(face.kind).map(|states| states.values().sum());
    match face.group {
        Group::Members => Some(counted.unwrap_or(0)),
        Group::Work | Group::Record | Group::Settings => counted,
    }
}

/// The fields of a form that this session's own page sent.
pub(super) struct Posted(pub(super) BTreeMap<String, String>);

/// The largest form: it may name as many members as a request does.
const MOST: usize = 128 << 10;

impl FromRequest<Console> for Posted {
    type Rejection = Error;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Error> {
        let session = request.extensions().get::<Session>().cloned().ok_or(Error::Internal)?;
        let fields = read(request, console).await?;
        let given = fields.get("csrf").map_or("", String::as_str);
        if secret::same(given.as_bytes(), session.csrf.as_bytes()) {
            return Ok(Self(fields));
        }
        Err(Error::Forbidden(
            "the form is not one of this session: open its page again and send it from there".to_owned(),
        ))
    }
}

/// Reads a form that a page of this server sent.
pub(super) async fn read(request: Request, console: &Console) -> Result<BTreeMap<String, String>, Error> {
    own_page(console, request.headers())?;
    let is_form =
        |value: &axum::http::HeaderValue| value.as_bytes().starts_with(b"application/x-www-form-urlencoded");
    if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_form) {
        return Err(Error::invalid(
            "Content-Type",
            "must be application/x-www-form-urlencoded, as forms send it",
        ));
    }
    let (_, content) = request.into_parts();
    let bytes = body::collect(Body::new(content), MOST).await?;
    Ok(form::read(&String::from_utf8_lossy(&bytes)).into_iter().collect())
}

/// Refuses forms that another site's page sent. Browsers leave `Sec-Fetch-Site` out where the server is reached over plain
/// HTTP from another machine, and name the page's origin.
fn own_page(_: &Console, headers: &HeaderMap) -> Result<(), Error> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_own = match (text("sec-fetch-site"), text("origin"), text("host")) {
        (Some(site), ..) => site == "same-origin",
        (None, Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, name)| name == host),
        (None, ..) => false,
    };
    if is_own {
        return Ok(());
    }
    Err(Error::Forbidden(
        "the form was not sent by a page of this server: open the console and send it from there".to_owned(),
    ))
}
