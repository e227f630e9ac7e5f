//! The events of adapters: which resources an adapter looks at, as CloudEvents, when they change or come due again.
//!
//! ```text
//! change ─▶ tail of the feed ─▶ the kind says what it means to adapters ─┐
//!                                                                        ├─▶ every waiting adapter that is required
//! due_at ─▶ re-check, one reader on each server ─▶ ring in memory ───────┘
//! ```
//!
//! What must stay true: an event is made once, however many adapters wait; a change that adapters have to act on
//! is in the feed, so that a cursor resumes it anywhere; a re-check is a hint, and another one follows.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    response::{IntoResponse as _, Response, Sse, sse},
};
use futures_util::{Stream, StreamExt as _, future::BoxFuture, stream};
use jiff::Timestamp;
use wardroom_api::{
    history::Row,
    reconcile::{Reconcile, ReconcileEvent, ReconcileEvents, SPEC_VERSION},
};
use wardroom_core::table::Role;
use wardroom_store::{Cursor, Resource};

use crate::platform::{
    app::App,
    feed::events::{KEEP_ALIVE, follower::Follower, may_see, tail},
    http::{error::Error, text, warning},
    identity::auth::Caller,
};

pub(crate) mod recheck;
pub(crate) mod ring;
#[cfg(test)]
mod tests;

/// The source of all events.
const SOURCE: &str = "wardroom";

/// How adapters are told of a sort of resource.
#[derive(Debug)]
pub(crate) struct Reconciling {
    /// The type of the events.
    pub(crate) event_type: &'static str,
    /// Whether an adapter is required for these resources.
    pub(crate) requires: fn(&App, &str) -> bool,
    /// What adapters have to look at after a change; nothing for a change that is no work for them, such as a
    /// report of one of them.
    pub(crate) changed: fn(&Row) -> Option<Reconcile>,
    /// Says of each of these resources, whose time has come, what is due, in their order.
    pub(crate) due: Due,
}

/// Asks a kind what of its resources is due.
pub(crate) type Due = for<'a> fn(&'a App, &'a [Resource]) -> BoxFuture<'a, Result<Vec<Again>, Error>>;

/// What is due of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Again {
    /// What adapters look at now; nothing if they observed it lately.
    pub(crate) look_at: Option<Reconcile>,
    /// When it is due next.
    pub(crate) next: Timestamp,
}

/// An event as every adapter gets it.
#[derive(Debug)]
pub(crate) struct Told {
    kind: &'static str,
    event: ReconcileEvent,
    text: String,
}

impl Told {
    fn of(
        kind: &'static str,
        id: String,
        type_: &str,
        time: Timestamp,
        data: Reconcile,
    ) -> Result<Arc<Self>, Error> {
        let event = ReconcileEvent {
            specversion: SPEC_VERSION.to_owned(),
            id,
            source: SOURCE.to_owned(),
            type_: type_.to_owned(),
            subject: data.id.clone(),
            time,
            datacontenttype: "application/json".to_owned(),
            data,
        };
        let text = serde_json::to_string(&event).map_err(|error| {
            tracing::error!(%error, "an event for adapters cannot be written");
            Error::Internal
        })?;
        Ok(Arc::new(Self { kind, event, text }))
    }

    /// What a change means to adapters.
    pub(in crate::platform::feed) fn by_change(app: &App, row: &Row) -> Option<Arc<Self>> {
        let stored = app.stored(&row.kind)?;
        let told = stored.told?;
        let data = (told.changed)(row)?;
        Self::of(stored.kind, row.cursor.clone(), told.event_type, row.created_at, data).ok()
    }
}

/// The adapter that a caller follows the events of: the one that its token is bound to, or any.
pub(in crate::platform::feed) fn followed(
    caller: &Caller,
    named: Option<&str>,
) -> Result<Option<String>, Error> {
    let identity = caller.identity().ok_or(Error::Internal)?;
    let Some(named) = named else {
        return match identity.role {
            Role::Adapter => Err(Error::Forbidden(
                "the role adapter follows the events of one adapter: add ?adapter=NAME".to_owned(),
            )),
            Role::Viewer | Role::Operator | Role::Admin | Role::Installer | Role::Auditor => Ok(None),
        };
    };
    text::check("adapter", named, 1..=100)?;
    identity.acts_as(named)?;
    Ok(Some(named.to_owned()))
}

/// Where to begin, and how to be answered.
pub(in crate::platform::feed) struct Wanted {
    pub(in crate::platform::feed) adapter: String,
    pub(in crate::platform::feed) after: Cursor,
    /// How long to wait for a page of so many at most; nothing for a stream.
    pub(in crate::platform::feed) page: Option<(Duration, usize)>,
}

/// Answers with the events of an adapter, as a stream or as one page.
pub(in crate::platform::feed) async fn answer(
    app: &App,
    caller: &Caller,
    wanted: Wanted,
) -> Result<Response, Error> {
    let Wanted { adapter, after, page } = wanted;
    let place = sse::Event::default().id(after.to_string());
    let mut following = Following::join(app, caller, &adapter, after).await?;
    let needless = following.kinds.is_empty();
    let mut response = match page {
        Some((wait, limit)) => Json(following.page(wait, limit).await?).into_response(),
        None => {
            let events = stream::once(async { Ok(place) }).chain(following.stream());
            Sse::new(events).keep_alive(sse::KeepAlive::new().interval(KEEP_ALIVE)).into_response()
        }
    };
    if needless {
        warning::add(
            &mut response,
            &[format!("the adapter {adapter} is required for nothing: it is told of nothing")],
        );
    }
    Ok(response)
}

/// An adapter that waits for events.
struct Following {
    app: App,
    follower: Follower,
    /// The kinds that it is required for, and that its token covers.
    kinds: Vec<&'static str>,
    rechecks: ring::Reader,
}

impl Following {
    async fn join(app: &App, caller: &Caller, adapter: &str, after: Cursor) -> Result<Self, Error> {
        let follower = Follower::join(app, &caller.principal, after).await?;
        let stored = app.kinds.iter().flat_map(|kind| kind.stores);
        let needs = |told: &Reconciling| (told.requires)(app, adapter);
        let kinds = stored.filter(|stored| stored.told.is_some_and(needs) && may_see(caller, stored.kind));
        let kinds: Vec<_> = kinds.map(|stored| stored.kind).collect();
        let token = caller.identity().map(|identity| identity.id.as_str()).unwrap_or_default();
        let rechecks = app.tail.rechecks.join(app, (token, adapter), &kinds);
        Ok(Self { app: app.clone(), follower, kinds, rechecks })
    }

    /// What is next: changes first, then what is due again. True: there may be more.
    async fn look(&mut self, most: usize) -> Result<(Vec<(Arc<Told>, String)>, bool), Error> {
        let found = self.follower.look(most).await?;
        let mut events = Vec::new();
        for change in &found {
            if let Some(told) = change.told(&self.app).filter(|told| self.kinds.contains(&told.kind)) {
                events.push((Arc::clone(told), change.cursor.to_string()));
            }
        }
        let place = self.follower.place().to_string();
        let again = self.rechecks.read(&self.app.tail.rechecks, most.saturating_sub(events.len()));
        let again = again.into_iter().filter(|told| self.kinds.contains(&told.kind));
        events.extend(again.map(|told| (told, place.clone())));
        Ok((events, !found.is_empty()))
    }

    /// One page, waiting for the first event.
    async fn page(&mut self, wait: Duration, limit: usize) -> Result<ReconcileEvents, Error> {
        let deadline = tokio::time::Instant::now() + wait;
        let mut stopping = self.app.stopping.subscribe();
        loop {
            let (events, more) = self.look(limit).await?;
            let is_over = !events.is_empty() || deadline <= tokio::time::Instant::now();
            let goes_on = !is_over
                && (more
                    || tokio::select! {
                        news = tokio::time::timeout_at(deadline, self.follower.news()) => news.unwrap_or(false),
                        _ = stopping.wait_for(|stopping| *stopping) => false,
                    });
            if !goes_on {
                let data = events.into_iter().map(|(told, _)| told.event.clone()).collect();
                let next = self.follower.place().to_string();
                return Ok(ReconcileEvents { success: true, data, next });
            }
        }
    }

    /// The events that there are, then waiting for more.
    fn stream(self) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
        let stopping = self.app.stopping.subscribe();
        let events = stream::unfold((self, stopping), |(mut this, mut stopping)| async move {
            loop {
                let (events, more) = match this.look(tail::PAGE).await {
                    Ok(found) => found,
                    // A token that was revoked or has expired sees nothing more, also on a stream that is open.
                    Err(Error::Unauthenticated(_)) => return None,
                    // The adapter resumes with the id of the last event it has.
                    Err(error) => {
                        tracing::warn!(%error, "a stream of events for an adapter was cut");
                        return None;
                    }
                };
                if !events.is_empty() {
                    let shown =
                        |(told, id): (Arc<Told>, String)| sse::Event::default().id(id).data(&told.text);
                    let events: Vec<_> = events.into_iter().map(shown).collect();
                    return Some((stream::iter(events), (this, stopping)));
                }
                let goes_on = more
                    || tokio::select! {
                        goes_on = this.follower.news() => goes_on,
                        _ = stopping.wait_for(|stopping| *stopping) => false,
                    };
                if !goes_on {
                    return None;
                }
            }
        });
        events.flatten().map(Ok)
    }
}
