//! Changes that depend on more than the resource they change: what they were decided on is held until they commit,
//! and what goes is used by nobody.

use wardroom_store::{Change, Content, Entry, Error as StoreError, Held, Resource, Use};

use crate::{
    app::{App, Decided},
    error::Error,
    idempotency,
};

/// How often something is decided again, as for any other change.
const DECISIONS: usize = 200;

/// What became of an attempt to create something.
pub(crate) enum Made {
    New(Box<Resource>),
    /// The name or a key of it belongs to this one.
    Taken(String),
}

impl App {
    /// Like [`App::change`], and decided again also when one of the held resources has changed. They are read anew
    /// for every decision.
    pub(crate) async fn change_holding<T, F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        kind: &'static str,
        id: &str,
        holds: impl Fn() -> F,
        decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
    ) -> Result<(Resource, T), Error> {
        for _ in 0..DECISIONS {
            let holds = holds().await?;
            if let Some(changed) = self.change_once(kind, id, holds, Vec::new(), &decide).await? {
                return Ok(changed);
            }
        }
        Err(Error::Unavailable("the resource is changed by too many at once: repeat"))
    }

    /// Like [`App::change`], as long as nobody uses the resource. Who begins to use it holds it, so the two never
    /// pass each other by.
    pub(crate) async fn change_unused<T>(
        &self,
        kind: &'static str,
        id: &str,
        uses: &[(&str, &str)],
        decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
    ) -> Result<(Resource, T), Error> {
        for _ in 0..DECISIONS {
            let uses = uses.iter().map(|(kind, field)| Use {
                kind: (*kind).to_owned(),
                field: (*field).to_owned(),
                value: id.to_owned(),
            });
            if let Some(changed) = self.change_once(kind, id, Vec::new(), uses.collect(), &decide).await? {
                return Ok(changed);
            }
        }
        Err(Error::Unavailable("the resource is changed by too many at once: repeat"))
    }

    /// Nothing comes back when somebody else was faster.
    async fn change_once<T>(
        &self,
        kind: &'static str,
        id: &str,
        holds: Vec<Held>,
        unused: Vec<Use>,
        decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
    ) -> Result<Option<(Resource, T)>, Error> {
        let found = self.store.get(kind, id).await?.filter(|found| !found.content.deleted);
        let before = found.ok_or_else(|| Error::not_found(kind, id))?;
        let (after, entry, answer) = match decide(&before)? {
            Decided::Nothing(answer) => return Ok(Some((before, answer))),
            Decided::Commit(change, answer) => (change.0, change.1, answer),
        };
        let effects = Vec::new();
        let change = Change { before: Some(before), after, entry, effects, fence: None, holds };
        match self.commit_unused(change, unused).await {
            Ok(resource) => Ok(Some((resource, answer))),
            Err(StoreError::Conflict) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a resource that refers to others, which are held. The row of one that was deleted under this id is
    /// taken up again, with its history.
    pub(crate) async fn make<F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        content: Content,
        entry: Entry,
        holds: impl Fn() -> F,
    ) -> Result<Made, Error> {
        for _ in 0..DECISIONS {
            let holds = holds().await?;
            let before = self.store.get(&content.kind, &content.id).await?;
            if before.as_ref().is_some_and(|before| !before.content.deleted) {
                return Ok(Made::Taken(content.id));
            }
            let (after, entry, effects) = (content.clone(), entry.clone(), Vec::new());
            match self.commit(Change { before, after, entry, effects, fence: None, holds }).await {
                Ok(resource) => return Ok(Made::New(Box::new(resource))),
                Err(StoreError::Conflict) => {}
                Err(StoreError::KeyTaken { holder, .. }) => return Ok(Made::Taken(holder)),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Unavailable("the resource is changed by too many at once: repeat"))
    }

    /// Commits a change as part of the request that is being run.
    pub(crate) async fn commit(&self, change: Change) -> Result<Resource, StoreError> {
        self.commit_unused(change, Vec::new()).await
    }

    async fn commit_unused(&self, change: Change, unused: Vec<Use>) -> Result<Resource, StoreError> {
        let mark = idempotency::mark(self);
        let (kind, id, asked) = (change.after.kind.clone(), change.after.id.clone(), self.moment());
        let committed = self.store.commit_unused(change, unused, mark).await;
        if let Err(StoreError::Unavailable(_)) = &committed {
            self.doubt(&kind, &id);
        }
        Ok(self.noted(committed?, asked))
    }
}
