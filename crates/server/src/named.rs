//! Resources that people name: one way to list, read, make, change and delete them.
//!
//! The name is the id. What must stay true: nothing refers to a resource that is gone. Whoever refers to one
//! commits on the condition that it is still the version that was read ([`Named::held`]); and a deletion
//! first moves it to [`REMOVING`], from where on no such commit succeeds, then looks who refers to it.

use axum::http::HeaderMap;
use wardroom_api::FieldError;
use wardroom_store::{
    Change, Content, Document, Effect, Entry, Error as StoreError, Held, List, Page, Resource,
};

use crate::{
    app::{App, by_person},
    auth::Caller,
    error::Error,
    etag,
    list::Pages,
};

/// In use, or free to be used.
pub(crate) const READY: &str = "ready";

/// About to be deleted: nothing new may refer to it.
pub(crate) const REMOVING: &str = "removing";

/// Versions that are met before a caller is told to come back.
const DECISIONS: usize = 50;

/// One kind of named resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    /// The kind in the store.
    pub(crate) kind: &'static str,
    /// What people call it.
    pub(crate) word: &'static str,
}

/// What a change is made of, once it is decided.
pub(crate) struct Step {
    pub(crate) content: Content,
    pub(crate) entry: Entry,
    pub(crate) effects: Vec<Effect>,
}

impl Named {
    /// One page, in the order of names.
    pub(crate) async fn page(&self, app: &App, pages: &Pages) -> Result<Page, Error> {
        let (after, limit) = (pages.after()?, pages.limit()?);
        Ok(app.store.list(&List { kind: self.kind.to_owned(), after, limit, ..List::default() }).await?)
    }

    /// The living resource of a name.
    pub(crate) async fn find(&self, app: &App, name: &str) -> Result<Option<Resource>, Error> {
        Ok(app.store.get(self.kind, name).await?.filter(|found| !found.content.deleted))
    }

    /// The living resource of a name, or a refusal.
    pub(crate) async fn get(&self, app: &App, name: &str) -> Result<Resource, Error> {
        self.find(app, name).await?.ok_or_else(|| Error::not_found(self.kind, name))
    }

    /// What a commit that refers to the resource is conditional on.
    pub(crate) async fn held(&self, app: &App, field: &str, name: &str) -> Result<Held, Error> {
        let found = self.find(app, name).await?.filter(|found| found.content.state == READY);
        let held = |found: Resource| Held {
            kind: self.kind.to_owned(),
            id: found.content.id,
            version: found.version,
        };
        let name: String = name.chars().take(100).collect();
        found.map(held).ok_or_else(|| {
            Error::invalid(field, format!("there is no {} {name:?}: make it first", self.word))
        })
    }

    /// What is stored of a resource that is ready.
    pub(crate) fn content(&self, name: &str, document: Document) -> Content {
        let state = READY.to_owned();
        Content { name: name.to_owned(), state, document, ..crate::jobs::server_record(self.kind, name) }
    }

    /// Makes a resource, or takes up the row of one that was deleted; nothing comes back when there is one.
    pub(crate) async fn create(&self, app: &App, step: Step) -> Result<Option<Resource>, Error> {
        let before = app.store.get(self.kind, &step.content.id).await?;
        if before.as_ref().is_some_and(|before| !before.content.deleted) {
            return Ok(None);
        }
        match commit(app, before, step).await {
            Ok(resource) => Ok(Some(resource)),
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads, decides and commits; decides again when somebody else was faster. Nothing decided is nothing
    /// committed.
    pub(crate) async fn change(
        &self,
        app: &App,
        name: &str,
        headers: &HeaderMap,
        decide: impl Fn(&Resource) -> Result<Option<Step>, Error>,
    ) -> Result<Resource, Error> {
        for _ in 0..DECISIONS {
            let before = self.get(app, name).await?;
            etag::check(headers, || tag(&before))?;
            let Some(step) = decide(&before)? else { return Ok(before) };
            match commit(app, Some(before), step).await {
                Ok(resource) => return Ok(resource),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Unavailable("the resource is changed by too many at once: repeat"))
    }

    /// Closes a resource to new references.
    pub(crate) async fn begin_removal(
        &self,
        app: &App,
        caller: &Caller,
        name: &str,
        headers: &HeaderMap,
    ) -> Result<Resource, Error> {
        self.change(app, name, headers, |before| {
            if before.content.state == REMOVING {
                return Ok(None);
            }
            Ok(Some(moved(app, caller, before, REMOVING)))
        })
        .await
    }

    /// Opens a resource to new references again, because it is still in use.
    pub(crate) async fn end_removal(&self, app: &App, caller: &Caller, name: &str) -> Result<(), Error> {
        let no_condition = HeaderMap::new();
        let back = self.change(app, name, &no_condition, |before| {
            if before.content.state == READY {
                return Ok(None);
            }
            Ok(Some(moved(app, caller, before, READY)))
        });
        back.await.map(drop)
    }

    /// Deletes what was closed to new references, unless it was opened in between.
    pub(crate) async fn delete(
        &self,
        app: &App,
        caller: &Caller,
        closed: Resource,
        effects: Vec<Effect>,
    ) -> Result<Resource, Error> {
        let content = Content { deleted: true, ..closed.content.clone() };
        let step = Step { content, entry: by_person(app, caller, "deleted", None), effects };
        match commit(app, Some(closed), step).await {
            Err(StoreError::Conflict) => {
                Err(Error::Unavailable("somebody else changed it at the same time: repeat"))
            }
            done => Ok(done?),
        }
    }
}

fn moved(app: &App, caller: &Caller, before: &Resource, state: &str) -> Step {
    let content = Content { state: state.to_owned(), ..before.content.clone() };
    Step { content, entry: by_person(app, caller, wardroom_store::TRANSITION, None), effects: Vec::new() }
}

async fn commit(app: &App, before: Option<Resource>, step: Step) -> Result<Resource, StoreError> {
    let Step { content, entry, effects } = step;
    app.commit(Change { before, after: content, entry, effects, fence: None, holds: Vec::new() }).await
}

/// The tag of what people decide about a named resource.
pub(crate) fn tag(resource: &Resource) -> Result<String, Error> {
    etag::of(&(&resource.content.id, resource.content.document.as_str()))
}

/// A name that is also a part of a repository's path, so it is as strict as registries are.
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
