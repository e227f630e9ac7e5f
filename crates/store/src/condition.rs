//! A condition on what one task commits: nothing at all for a dry run, or only while a member is at the version that its
//! caller saw.
//!
//! What must stay true: a task under a dry run writes nothing, whatever it tries. So a dry run runs the code of the real
//! change up to its first write, and every refusal before it is the real one.

use std::sync::{Arc, Mutex, PoisonError};

use crate::change::{Change, Held};
use crate::error::{Error, Result};

tokio::task_local! {
    static CONDITION: Arc<Condition>;
}

/// The condition of a task.
#[derive(Debug)]
pub struct Condition {
    member: Held,
    is_dry_run: bool,
    outcome: Mutex<Outcome>,
}

/// What became of the task so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it wanted to write, or wrote.
    pub writes: bool,
    /// The state that its first commit gives the member, if that commit changes it.
    pub becomes: Option<String>,
    /// Whether that commit deletes the member.
    pub deletes: bool,
    /// Whether the member had another version.
    pub moved: bool,
}

impl Condition {
    /// Lets a task write nothing.
    #[must_use]
    pub fn dry_run(member: Held) -> Arc<Self> {
        Self::new(member, true)
    }

    /// Lets a task commit while the member is at this version.
    #[must_use]
    pub fn unchanged(member: Held) -> Arc<Self> {
        Self::new(member, false)
    }

    fn new(member: Held, is_dry_run: bool) -> Arc<Self> {
        Arc::new(Self { member, is_dry_run, outcome: Mutex::default() })
    }

    /// Runs a task under the condition.
    pub async fn around<T>(self: Arc<Self>, task: impl Future<Output = T>) -> T {
        CONDITION.scope(self, task).await
    }

    /// What became of the task so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, note: impl FnOnce(&mut Outcome)) {
        note(&mut self.outcome.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn of_task() -> Option<Arc<Self>> {
        CONDITION.try_with(Arc::clone).ok()
    }

    fn is_of(&self, change: &Change) -> bool {
        (&self.member.kind, &self.member.id) == (&change.after.kind, &change.after.id)
    }
}

/// Checks changes before they are committed together. A commit that leaves the member alone holds it instead. Once one
/// commit of the task was made, the member has changed by the task itself.
pub(crate) fn check(changes: &mut [Change]) -> Result<()> {
    let Some(condition) = Condition::of_task() else { return Ok(()) };
    let own = changes.iter().find(|change| condition.is_of(change));
    if condition.is_dry_run {
        condition.note(|outcome| {
            outcome.writes = true;
            outcome.becomes = own.map(|change| change.after.state.clone());
            outcome.deletes = own.is_some_and(|change| change.after.deleted);
        });
        return Err(Error::DryRun);
    }
    if condition.outcome().writes {
        return Ok(());
    }
    match own {
        Some(own) if own.before.as_ref().is_none_or(|before| before.version != condition.member.version) => {
            condition.note(|outcome| outcome.moved = true);
            Err(Error::Moved)
        }
        Some(_) => Ok(()),
        None => {
            if let Some(first) = changes.first_mut()
                && !first.holds.contains(&condition.member)
            {
                first.holds.push(condition.member.clone());
            }
            Ok(())
        }
    }
}

/// Notes that changes were committed.
pub(crate) fn committed<T>(outcome: &Result<T>) {
    if outcome.is_ok()
        && let Some(condition) = Condition::of_task()
    {
        condition.note(|outcome| outcome.writes = true);
    }
}

/// Checks a write that is no commit of a change.
pub(crate) fn check_write() -> Result<()> {
    let Some(condition) = Condition::of_task().filter(|condition| condition.is_dry_run) else {
        return Ok(());
    };
    condition.note(|outcome| outcome.writes = true);
    Err(Error::DryRun)
}
