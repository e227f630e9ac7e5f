//! Live updates: a stream that names the changed members of an open page. The page resumes it by cursor.
//!
//! A message names members and carries nothing of them: the page fetches itself again, with the rights of its session. So a
//! stream can show no more than a page.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use axum::{
    http::HeaderMap,
    response::{IntoResponse as _, Response, Sse, sse},
};
use futures_util::{Stream, stream};
use jiff::Timestamp;
use serde::Serialize;
use tokio::{sync::watch, time::Instant};
use wardroom_api::history::Row;
use wardroom_console::{face::Group, form};
use wardroom_store::Cursor;

use super::{session, visit::Visit};
use crate::platform::{
    app::App,
    feed::events::{self, follower::Follower},
    http::error::Error,
    identity::auth::Caller,
};

/// At most two messages a second.
const PACE: Duration = Duration::from_millis(500);
/// A page that hears nothing for longer calls itself reconnecting.
const BEAT: Duration = Duration::from_secs(2);
/// A stream ends then, and its page comes back: so that the end of a session ends its streams.
const LONGEST: Duration = Duration::from_secs(600);
/// Changes that are read at once.
const PAGE: usize = 500;
/// Names in one message; with more, the page is told that there are many.
const MOST: usize = 100;

/// What a page is told.
#[derive(Debug, Serialize)]
struct Message {
    /// The members that changed.
    ids: BTreeSet<String>,
    /// There are more than it names.
    many: bool,
    /// When the newest of these changes was made.
    at: Option<Timestamp>,
    /// The time of the server.
    now: Timestamp,
}

/// What a page shows.
#[derive(Debug, PartialEq, Eq)]
enum View {
    /// Members of one kind.
    Kind(&'static str),
    /// One member, and the work on members, some of which may be its own.
    Member(&'static str, String, Vec<&'static str>),
    /// All there is.
    All,
}

impl View {
    async fn of(visit: &Visit, path: &str) -> Self {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let mut parts = path.trim_start_matches("/console").trim_matches('/').split('/');
        let face = parts.next().and_then(|segment| visit.console.face(segment));
        match (face, parts.next()) {
            (Some(face), Some(key)) => {
                let work = visit.console.faces().filter(|face| face.group == Group::Work);
                let work = work.map(|face| face.kind).collect();
                let (_, key) = form::read(&format!("key={}", key.replace('+', "%2B"))).swap_remove(0);
                let id = super::detail::id_of(visit, face, &key).await;
                Self::Member(face.kind, id, work)
            }
            (Some(face), None) => Self::Kind(face.kind),
            (None, _) => Self::All,
        }
    }

    fn shows(&self, row: &Row) -> bool {
        match self {
            Self::Kind(kind) => row.kind == *kind,
            Self::Member(kind, id, work) => {
                (row.kind == *kind && row.resource_id == *id) || work.contains(&&*row.kind)
            }
            Self::All => true,
        }
    }
}

/// One open stream.
struct Open {
    app: App,
    caller: Caller,
    session: String,
    view: View,
    follower: Follower,
    stopping: watch::Receiver<bool>,
    /// When the last message was sent; nothing before the first.
    sent: Option<Instant>,
    /// The page has to look at everything.
    lost: bool,
    ends: Instant,
}

/// Follows the feed for a page.
pub(super) async fn live(visit: Visit, headers: HeaderMap) -> Result<Response, Error> {
    let app = visit.console.app.clone();
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let asked = last.unwrap_or_else(|| visit.asked("after"));
    let asked = Some(asked).filter(|cursor| !cursor.is_empty());
    let known = asked.and_then(|cursor| app.store.feed_at(cursor).ok());
    // A place of another database, or of a console before a restore: what was missed is not known.
    let lost = asked.is_some() && known.is_none();
    let after: Cursor = match known {
        Some(cursor) => cursor,
        None => app.store.feed_tail().await?,
    };
    let open = Open {
        view: View::of(&visit, visit.asked("view")).await,
        follower: Follower::join(&app, &visit.caller.principal, after).await?,
        stopping: app.stopping.subscribe(),
        session: visit.session.id().to_owned(),
        caller: visit.caller.clone(),
        sent: None,
        lost,
        ends: Instant::now() + LONGEST,
        app,
    };
    Ok(Sse::new(messages(open)).into_response())
}

fn messages(open: Open) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    stream::unfold(open, |mut open| async move {
        let event = open.next().await?;
        Some((Ok(event), open))
    })
}

impl Open {
    /// The next message; nothing when the stream ends.
    async fn next(&mut self) -> Option<sse::Event> {
        let mut message = Message { ids: BTreeSet::new(), many: self.lost, at: None, now: self.app.now() };
        let beat = match self.sent {
            Some(sent) => sent + BEAT,
            // The first message says at once that the page is live.
            None => Instant::now(),
        };
        let due = self.sent.map_or_else(Instant::now, |sent| sent + PACE);
        loop {
            // The page comes back with its cursor after any error, and is refused then if it has to be.
            let found = self.follower.look(PAGE).await.ok()?;
            for row in found.iter().map(|change| &change.row) {
                if row.kind == session::KIND && row.resource_id == self.session {
                    return None;
                }
                if self.view.shows(row) && events::may_see(&self.caller, &row.kind) {
                    message.take(row);
                }
            }
            let now = Instant::now();
            if now >= self.ends {
                return None;
            }
            let until = if message.at.is_some() { due } else { beat };
            if now >= until {
                break;
            }
            if !found.is_empty() {
                continue;
            }
            let goes_on = tokio::select! {
                () = tokio::time::sleep_until(until) => true,
                goes_on = self.follower.news() => goes_on,
                _ = self.stopping.wait_for(|stopping| *stopping) => false,
            };
            if !goes_on {
                return None;
            }
        }
        self.sent = Some(Instant::now());
        self.lost = false;
        message.now = self.app.now();
        let data = serde_json::to_string(&message).ok()?;
        Some(sse::Event::default().id(self.follower.place().to_string()).data(data))
    }
}

impl Message {
    fn take(&mut self, row: &Row) {
        self.at = self.at.max(Some(row.created_at));
        if self.ids.len() < MOST {
            self.ids.insert(row.resource_id.clone());
        } else {
            self.many |= !self.ids.contains(&row.resource_id);
        }
    }
}
