//! Resources with names chosen by people: one way to list, read, create, change and delete them.
//!
//! The name is the id. What must stay true: every reference leads to an existing resource. A change that
//! refers to one commits on the condition that it is still the version that was read ([`Named::held`]); a
//! deletion commits on the condition that there is no reference. A deletion that also removes the references
//! first moves the resource to [`REMOVING`], which makes new references fail.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;
use wardroom_api::{Envelope, FieldError, Page as Shown};
use wardroom_core::action::Call;
use wardroom_store::{Content, Document, Effect, Entry, Held, List, Page, Resource};

use crate::platform::{
    app::{App, by_person},
    change::{
        changing::{Made, Step},
        preconditions::{Users, nothing_held},
    },
    http::{
        error::Error,
        etag,
        list::{self, Pages},
    },
    identity::auth::Caller,
};

/// In use, or free to be used.
pub(crate) const READY: &str = "ready";

/// About to be deleted: nothing new may refer to it.
pub(crate) const REMOVING: &str = "removing";

/// One kind of named resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) kind: &'static str,
    /// What people call it.
    pub(crate) word: &'static str,
    pub(crate) create: Call,
    pub(crate) edit: Call,
    /// The kinds that may refer to it; a resource in use cannot be deleted.
    pub(crate) users: Users,
}

/// The caller of a change, and its conditions.
pub(crate) struct Asked<'a> {
    pub(crate) app: &'a App,
    pub(crate) caller: &'a Caller,
    pub(crate) headers: &'a HeaderMap,
}

impl Asked<'_> {
    /// Builds a step that history records for this caller.
    pub(crate) fn step(&self, entry_type: &str, content: Content, effects: Vec<Effect>) -> Step {
        Step { content, entry: by_person(self.app, self.caller, entry_type, None), effects }
    }

    /// Returns the step for a request that changes nothing: repeats the effects, if there are any.
    pub(crate) fn again(&self, before: &Resource, effects: Vec<Effect>) -> Option<Step> {
        (!effects.is_empty()).then(|| self.step("effect", before.content.clone(), effects))
    }

    /// Builds the step to a content; none if nothing would change.
    pub(crate) fn to(&self, content: Content, before: &Resource) -> Option<Step> {
        (content != before.content).then(|| self.step("changed", content, Vec::new()))
    }
}

impl Named {
    /// One page, in the order of names.
    pub(crate) async fn page(&self, app: &App, pages: &Pages) -> Result<Page, Error> {
        list::page(app, pages.of(self.kind)?).await
    }

    /// One page as the API shows it.
    pub(crate) async fn list<T>(
        &self,
        app: &App,
        pages: &Pages,
        view: impl Fn(&Resource) -> Result<T, Error>,
    ) -> Result<Json<Shown<T>>, Error> {
        shown(self.page(app, pages).await?, view)
    }

    /// One page of those in a state, as the API shows it.
    pub(crate) async fn list_in<T>(
        &self,
        app: &App,
        pages: &Pages,
        state: &str,
        view: impl Fn(&Resource) -> Result<T, Error>,
    ) -> Result<Json<Shown<T>>, Error> {
        let list = List { state: Some(state.to_owned()), ..pages.of(self.kind)? };
        shown(list::page(app, list).await?, view)
    }

    /// The living resource of a name.
    pub(crate) async fn find(&self, app: &App, name: &str) -> Result<Option<Resource>, Error> {
        Ok(app.store.get(self.kind, name).await?.filter(|found| !found.content.deleted))
    }

    /// The living resource of a name, or a refusal.
    pub(crate) async fn get(&self, app: &App, name: &str) -> Result<Resource, Error> {
        self.find(app, name).await?.ok_or_else(|| Error::not_found(self.kind, name))
    }

    /// Returns the precondition of a commit that refers to the resource.
    pub(crate) async fn held(&self, app: &App, field: &str, name: &str) -> Result<Held, Error> {
        let found = self.find(app, name).await?.filter(|found| found.content.state == READY);
        let name: String = name.chars().take(100).collect();
        found.map(|found| Held::at(&found)).ok_or_else(|| {
            let message = format!("there is no {} {name:?}: create it first", self.word);
            Error::missing(field, message, self.create.of(&name))
        })
    }

    /// What is stored of a resource that is ready.
    pub(crate) fn content(&self, name: &str, document: &impl Serialize) -> Result<Content, Error> {
        let (state, document) = (READY.to_owned(), Document::of(document)?);
        Ok(Content { state, document, ..crate::platform::work::jobs::server_record(self.kind, name) })
    }

    /// Creates a resource, or reuses the row of a deleted one; returns nothing if the name is taken.
    pub(crate) async fn make<F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        app: &App,
        step: Step,
        holds: impl Fn() -> F,
    ) -> Result<Option<Resource>, Error> {
        Ok(match app.make(step, holds).await? {
            Made::New(resource) => Some(*resource),
            Made::Taken(_) => None,
        })
    }

    /// Creates a resource, or refuses because the name is taken.
    pub(crate) async fn create<F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        app: &App,
        step: Step,
        holds: impl Fn() -> F,
    ) -> Result<Resource, Error> {
        let name = step.content.id.clone();
        self.make(app, step, holds).await?.ok_or_else(|| Error::Conflict {
            code: "name_taken",
            detail: format!("the {} {name:?} exists already: change it instead", self.word),
            allowed: vec![self.edit.of(&name)],
        })
    }

    /// Refuses a spec that would give a resource another name.
    pub(crate) fn keeps_its_name(&self, id: &str, name: &str) -> Result<(), Error> {
        if name == id {
            return Ok(());
        }
        Err(Error::invalid("name", format!("must be {id:?}: the name of a {} cannot change", self.word)))
    }

    /// Changes a resource as the caller asks, if `If-Match` still holds.
    pub(crate) async fn change<F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        asked: &Asked<'_>,
        name: &str,
        holds: impl Fn() -> F,
        decide: impl Fn(&Resource) -> Result<Option<Step>, Error>,
    ) -> Result<Resource, Error> {
        self.bound(asked, name, &[], holds, decide).await
    }

    /// Deletes a resource that nothing refers to.
    pub(crate) async fn delete(
        &self,
        asked: &Asked<'_>,
        name: &str,
        effects: Vec<Effect>,
    ) -> Result<Resource, Error> {
        self.bound(asked, name, self.users, nothing_held, |before| {
            Ok(Some(asked.step("deleted", deleted(before), effects.clone())))
        })
        .await
    }

    /// Closes a resource to new references, before its own references are removed.
    pub(crate) async fn begin_removal(
        &self,
        asked: &Asked<'_>,
        name: &str,
        effects: Vec<Effect>,
    ) -> Result<Resource, Error> {
        self.change(asked, name, nothing_held, |before| {
            let content = Content { state: REMOVING.to_owned(), ..before.content.clone() };
            let closes = content.state != before.content.state;
            Ok(closes.then(|| asked.step(wardroom_store::TRANSITION, content, effects.clone())))
        })
        .await
    }

    /// Deletes a resource that is closed to new references and had none when it was read. A newer resource of
    /// the same name, which may have references, is not deleted.
    pub(crate) async fn end_removal(
        &self,
        app: &App,
        read: &Resource,
        entry: Entry,
        effects: Vec<Effect>,
    ) -> Result<Option<Resource>, Error> {
        let ended = app.changing(self.kind, &read.content.id).decide_step(|before| {
            let closed = before.content.state == REMOVING && before.version == read.version;
            let end = || Step { content: deleted(before), entry: entry.clone(), effects: effects.clone() };
            Ok((closed.then(end), closed))
        });
        match ended.await {
            Ok((resource, closed)) => Ok(closed.then_some(resource)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn bound<F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        asked: &Asked<'_>,
        name: &str,
        users: Users,
        holds: impl Fn() -> F,
        decide: impl Fn(&Resource) -> Result<Option<Step>, Error>,
    ) -> Result<Resource, Error> {
        let changing = asked.app.changing(self.kind, name).unused_by(users).holding(holds);
        let changed = changing.decide_step(|before| {
            etag::check(asked.headers, || tag(before))?;
            Ok((decide(before)?, ()))
        });
        Ok(changed.await?.0)
    }
}

fn shown<T>(page: Page, view: impl Fn(&Resource) -> Result<T, Error>) -> Result<Json<Shown<T>>, Error> {
    let data = page.items.iter().map(view).collect::<Result<_, _>>()?;
    Ok(Json(Shown { success: true, data, next: page.next }))
}

fn deleted(before: &Resource) -> Content {
    Content { deleted: true, ..before.content.clone() }
}

fn tag(resource: &Resource) -> Result<String, Error> {
    etag::of(&(&resource.content.id, resource.content.document.as_str()))
}

/// A resource as it is shown, with its tag.
pub(crate) fn answer(
    status: StatusCode,
    resource: &Resource,
    shown: impl Serialize,
) -> Result<Response, Error> {
    let mut response = (status, Json(Envelope::new(shown))).into_response();
    etag::set(&mut response, &tag(resource)?);
    Ok(response)
}

/// Checks a name that is part of a repository's path, by the rules of registries.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Error> {
    let alphanumeric = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if name.len() > 128 || !name.split(['.', '_', '-']).all(alphanumeric) {
        return Err(Error::invalid(
            field,
            "must be 1 to 128 lower case letters and digits, with single '.', '_' or '-' between them",
        ));
    }
    Ok(())
}

/// Refuses with every field that is wrong, not only the first.
pub(crate) fn refuse(errors: Vec<FieldError>) -> Result<(), Error> {
    if errors.is_empty() { Ok(()) } else { Err(Error::Invalid(errors)) }
}
