//! The loop of read, decide and commit: its limit, and its error.

use crate::{Error, Result};

/// How often a change is decided again when others commit first; enough for that many concurrent changes of
/// one resource.
pub const ATTEMPTS: usize = 200;

/// Calls `attempt` until it commits or fails.
///
/// An attempt reads, decides and commits, and returns nothing when another writer committed first (see
/// [`unless_conflict`]). It must depend on what it reads alone.
///
/// # Errors
/// The error of an attempt, or [`Error::Conflict`] after [`ATTEMPTS`].
pub async fn attempts<T, E: From<Error>, F: Future<Output = Result<Option<T>, E>>>(
    attempt: impl Fn() -> F,
) -> Result<T, E> {
    for _ in 0..ATTEMPTS {
        if let Some(done) = attempt().await? {
            return Ok(done);
        }
    }
    Err(Error::Conflict.into())
}

/// Returns none for a conflict, so that the change is decided again.
///
/// # Errors
/// Any other failure of the commit.
pub fn unless_conflict<T>(committed: Result<T>) -> Result<Option<T>> {
    match committed {
        Ok(committed) => Ok(Some(committed)),
        Err(Error::Conflict) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn conflicts_are_repeated_up_to_a_limit_and_failures_are_not() {
        let check = async |conflicts: usize, expected: Option<usize>| {
            let made = Cell::new(0);
            let result = attempts(|| async {
                made.set(made.get() + 1);
                let result = if made.get() <= conflicts { Err(Error::Conflict) } else { Ok(made.get()) };
                unless_conflict(result)
            });
            match (result.await, expected) {
                (Ok(done), Some(expected)) => assert_eq!(done, expected),
                (Err(Error::Conflict), None) => assert_eq!(made.get(), ATTEMPTS),
                (result, _) => panic!("{result:?} after {conflicts} conflicts"),
            }
        };
        check(0, Some(1)).await;
        check(5, Some(6)).await;
        check(ATTEMPTS, None).await;
        let made = Cell::new(0);
        let failed: Result<()> = attempts(|| async {
            made.set(made.get() + 1);
            unless_conflict(Err(Error::ReadOnly))
        })
        .await;
        assert!(matches!(failed, Err(Error::ReadOnly)) && made.get() == 1);
    }
}
