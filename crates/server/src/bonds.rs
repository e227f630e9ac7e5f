//! Changes that depend on more than the resource they change: what they were decided on is held until they commit,
//! and what goes is used by nobody.

use wardroom_store::{Change, Content, Effect, Entry, Error as StoreError, Held, Resource, Use};

use crate::{
    app::{About, App, Decided},
    error::Error,
    idempotency,
};

/// How often a change is decided again when others change the resource at the same moment. A resource that
/// so many move at once gives each of them a turn before that.
const DECISIONS: usize = 200;

/// What became of an attempt to create something.
pub(crate) enum Made {
    New(Box<Resource>),
    /// The name or a key of it belongs to this one.
    Taken(String),
}

/// What a change commits, once it is decided.
pub(crate) struct Step {
    pub(crate) content: Content,
    pub(crate) entry: Entry,
    pub(crate) effects: Vec<Effect>,
}

/// Those that may refer to a resource.
pub(crate) type Users = &'static [User];

/// A kind that may refer to another one, and the field by which it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    kind: &'static str,
    field: &'static str,
    /// A state in which one does not count any more; empty for none.
    unless: &'static str,
}

impl User {
    pub(crate) const fn by(kind: &'static str, field: &'static str) -> Self {
        Self { kind, field, unless: "" }
    }

    pub(crate) const fn unless(self, state: &'static str) -> Self {
        Self { unless: state, ..self }
    }
}

impl App {
    /// Reads, decides and commits; decides again when somebody else was faster.
    ///
    /// The decision must be a function of the resource: it is made once for every version that is met.
    pub(crate) async fn change<T>(
        &self,
        kind: &'static str,
        id: &str,
        decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
    ) -> Result<(Resource, T), Error> {
        self.change_holding(kind, id, nothing_held, decide).await
    }

    /// Like [`App::change`], and decided again also when one of the held resources has changed. They are read anew
    /// for every decision.
    pub(crate) async fn change_holding<T, F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        kind: &'static str,
        id: &str,
        holds: impl Fn() -> F,
        decide: impl Fn(&Resource) -> Result<Decided<T>, Error>,
    ) -> Result<(Resource, T), Error> {
        self.change_bound(kind, id, &[], holds, |before| {
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

    /// The one way to change something, of which all others are made. While one of these users refers to the
    /// resource it is not changed; who begins to holds it, so the two never pass each other by.
    pub(crate) async fn change_bound<T, F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        kind: &'static str,
        id: &str,
        users: Users,
        holds: impl Fn() -> F,
        decide: impl Fn(&Resource) -> Result<(Option<Step>, T), Error>,
    ) -> Result<(Resource, T), Error> {
        for _ in 0..DECISIONS {
            let holds = holds().await?;
            let found = self.store.get(kind, id).await?.filter(|found| !found.content.deleted);
            let before = found.ok_or_else(|| Error::not_found(kind, id))?;
            let (step, answer) = decide(&before)?;
            let Some(Step { content, entry, effects }) = step else { return Ok((before, answer)) };
            let used = |User { kind, field, unless }: &User| Use {
                kind: (*kind).to_owned(),
                field: (*field).to_owned(),
                value: id.to_owned(),
                unless: (*unless).to_owned(),
            };
            let unused = users.iter().map(used).collect();
            let change = Change { before: Some(before), after: content, entry, effects, fence: None, holds };
            match self.commit_unused(change, unused).await {
                Ok(resource) => return Ok((resource, answer)),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Unavailable("the resource is changed by too many at once: repeat"))
    }

    /// Creates a resource that refers to others, which are held. The row of one that was deleted under this id is
    /// taken up again, with its history.
    pub(crate) async fn make<F: Future<Output = Result<Vec<Held>, Error>>>(
        &self,
        step: Step,
        holds: impl Fn() -> F,
    ) -> Result<Made, Error> {
        let Step { content, entry, effects } = step;
        for _ in 0..DECISIONS {
            let holds = holds().await?;
            let before = self.store.get(&content.kind, &content.id).await?;
            if before.as_ref().is_some_and(|before| !before.content.deleted) {
                return Ok(Made::Taken(content.id));
            }
            let (after, entry, effects) = (content.clone(), entry.clone(), effects.clone());
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
        let (about, asked) = (About::of(&change), self.moment());
        let commit = self.store.commit_unused(change, unused, mark);
        async move {
            let committed = commit.await;
            if committed.as_ref().is_err_and(StoreError::leaves_doubt) {
                self.doubt(&about);
            }
            Ok(self.noted(committed?, asked))
        }
    }
}

/// For a change that depends on the resource alone.
pub(crate) async fn nothing_held() -> Result<Vec<Held>, Error> {
    Ok(Vec::new())
}
