//! Reads, decides and commits; decides again when another change of the resource committed first.
//!
//! What must stay true: a decision is a function of what was read. It is made again for each version that is
//! read, and commits only if everything it read is unchanged.

use wardroom_store::{
    Change, Content, Effect, Entry, Error as StoreError, Held, Resource, Use, attempts, unless_conflict,
};

use super::preconditions::{Users, in_use, nothing_held};
use crate::platform::{
    app::{App, Decided},
    http::{error::Error, idempotency},
};

pub(crate) enum Made {
    New(Box<Resource>),
    /// Another resource, named here, has the name or a key.
    Taken(String),
}

/// What a change commits, once it is decided.
pub(crate) struct Step {
    pub(crate) content: Content,
    pub(crate) entry: Entry,
    pub(crate) effects: Vec<Effect>,
}

/// Effects that follow from a resource as it is before its change.
type Effects<'a> = &'a (dyn Fn(&Resource) -> Result<Vec<Effect>, Error> + Sync);

/// A change that is about to be decided.
pub(crate) struct Changing<'a, H> {
    app: &'a App,
    kind: &'static str,
    id: &'a str,
    holds: H,
    users: Users,
    effects: Option<Effects<'a>>,
}

type Nothing = fn() -> std::future::Ready<Result<Vec<Held>, Error>>;

impl App {
    pub(crate) fn changing<'a>(&'a self, kind: &'static str, id: &'a str) -> Changing<'a, Nothing> {
        Changing { app: self, kind, id, holds: nothing_held, users: &[], effects: None }
    }

    /// Changes a resource by a decision that depends on it alone.
    pub(crate) async fn change<T>(
        &self,
        kind: &'static str,
        id: &str,
        decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
    ) -> Result<(Resource, T), Error> {
        self.changing(kind, id).decide(decide).await
    }

    /// Creates a resource that refers to others, which are held. Reuses the row of a deleted resource of this
    /// id, with its history.
    pub(crate) async fn make<F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        step: Step,
        holds: impl Fn() -> F,
    ) -> Result<Made, Error> {
        let Step { content, entry, effects } = step;
        attempts(async || {
            let holds = holds().await?;
            let before = self.store.get(&content.kind, &content.id).await?;
            if before.as_ref().is_some_and(|before| !before.content.deleted) {
                return Ok(Some(Made::Taken(content.id.clone())));
            }
            let (after, entry, effects) = (content.clone(), entry.clone(), effects.clone());
            match self.commit(Change { before, after, entry, effects, fence: None, holds }).await {
                Err(StoreError::KeyTaken { holder, .. }) => Ok(Some(Made::Taken(holder))),
                committed => Ok(unless_conflict(committed)?.map(|made| Made::New(Box::new(made)))),
            }
        })
        .await
    }

    /// Commits a change as part of the current request.
    pub(crate) fn commit(
        &self,
        change: Change,
    ) -> impl Future<Output = Result<Resource, StoreError>> + Send + use<'_> {
        self.commit_unused(change, Vec::new())
    }

    fn commit_unused(
        &self,
        change: Change,
        unused: Vec<Use>,
    ) -> impl Future<Output = Result<Resource, StoreError>> + Send + use<'_> {
        let mark = idempotency::mark(self);
        let commit = self.store.commit_unused(change, unused, mark);
        async move { Ok(self.noted(commit.await?)) }
    }
}

impl<'a, H> Changing<'a, H> {
    /// Holds other resources until the commit. They are read anew for every decision.
    pub(crate) fn holding<F, G>(self, holds: G) -> Changing<'a, G>
    where
        F: Future<Output = Result<Vec<Held>, Error>>,
        G: Fn() -> F,
    {
        let Self { app, kind, id, users, effects, .. } = self;
        Changing { app, kind, id, holds, users, effects }
    }

    /// Refuses the change while one of these kinds refers to the resource. A concurrent change that adds a
    /// reference holds the resource, so that one of the two fails.
    pub(crate) fn unused_by(self, users: Users) -> Self {
        Self { users, ..self }
    }

    pub(crate) fn with_effects(self, effects: Effects<'a>) -> Self {
        Self { effects: Some(effects), ..self }
    }

    /// Decides on content and history entry.
    pub(crate) async fn decide<T, F>(
        self,
        decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
    ) -> Result<(Resource, T), Error>
    where
        F: Future<Output = Result<Vec<Held>, Error>>,
        H: Fn() -> F,
    {
        self.decide_step(|before| {
            Ok(match decide(before)? {
                Decided::Nothing(answer) => (None, answer),
                Decided::Commit(change, answer) => {
                    let (content, entry) = *change;
                    (Some(Step { content, entry, effects: Vec::new() }), answer)
                }
            })
        })
        .await
    }

    /// Decides on content, history entry and effects; on nothing when there is nothing to commit.
    pub(crate) async fn decide_step<T, F>(
        self,
        decide: impl Fn(&Resource) -> Result<(Option<Step>, T), Error>,
    ) -> Result<(Resource, T), Error>
    where
        F: Future<Output = Result<Vec<Held>, Error>>,
        H: Fn() -> F,
    {
        let this = &self;
        attempts(|| this.attempt(&decide)).await
    }

    async fn attempt<T, F>(
        &self,
        decide: &impl Fn(&Resource) -> Result<(Option<Step>, T), Error>,
    ) -> Result<Option<(Resource, T)>, Error>
    where
        F: Future<Output = Result<Vec<Held>, Error>>,
        H: Fn() -> F,
    {
        let app = self.app;
        let asked = app.moment();
        let holds = (self.holds)().await?;
        let found = app.store.get(self.kind, self.id).await?.filter(|found| !found.content.deleted);
        let before = found.ok_or_else(|| Error::not_found(self.kind, self.id))?;
        let (step, answer) = decide(&before)?;
        let Some(Step { content, entry, mut effects }) = step else {
            // A cache may have missed the commit that made this version, if its outcome was unknown.
            app.parts.found(&before, asked);
            return Ok(Some((before, answer)));
        };
        if let Some(more) = self.effects {
            effects.extend(more(&before)?);
        }
        let unused = self.users.iter().map(|user| user.of(self.id)).collect();
        let change = Change { before: Some(before), after: content, entry, effects, fence: None, holds };
        let committed = match app.commit_unused(change, unused).await {
            Err(StoreError::Used { kind, id }) => return Err(in_use(self.users, &kind, &id)),
            committed => unless_conflict(committed)?,
        };
        Ok(committed.map(|resource| (resource, answer)))
    }
}
