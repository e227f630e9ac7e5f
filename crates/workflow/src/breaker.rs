//! Stops the tries of a wrong BMC password: after two failures, by any runs, a person has to look.
//!
//! BMCs lock accounts after repeated failures. Therefore one run at a time asks a BMC, and the next run knows
//! the answer that the run before got. A try is counted in the store before it is made, for every server and
//! across restarts. The count ends when the BMC accepts the secret, when it answered without judging it, when
//! the secret changes, or when a person allows another try.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wardroom_core::breaker::{self as circuit, Gate, Policy};
use wardroom_store::{
    Change, Content, Document, Entry, Lease, Resource, Result, Store, attempts, unless_conflict,
};

const KIND: &str = "bmc";
/// How long a BMC is reserved for a run: longer than a call may take.
const TURN: Duration = Duration::from_secs(60);
/// A secret may fail twice; then a person has to look.
const POLICY: Policy = Policy { failures: 2, rest: None };

/// Counts of refused passwords.
#[derive(Debug, Clone)]
pub struct Breaker {
    store: Store,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tried {
    times: u32,
    /// A fingerprint of the secret, which tells nothing about it.
    secret: String,
}

impl Breaker {
    /// A breaker over a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The turn of a run to ask a BMC; nothing while another one has it.
    pub async fn turn(&self, bmc: &str, run: &str) -> Result<Option<Lease>> {
        self.store.acquire_lease(&format!("{KIND}/{bmc}"), run, TURN).await
    }

    /// Ends a turn, once the answer of the BMC is recorded.
    pub async fn end(&self, turn: &Lease) -> Result<()> {
        self.store.release_lease(turn).await.map(drop)
    }

    /// Counts a try of a secret, known by its fingerprint, at a BMC; false when it may not be tried any more.
    pub async fn try_once(&self, bmc: &str, secret: &str, now: Timestamp) -> Result<bool> {
        self.change(bmc, now, "tried", |before| {
            let mut counted = circuit::Breaker::with(if before.secret == secret { before.times } else { 0 });
            let may = counted.gate(POLICY, now) == Gate::Closed;
            counted.fail(POLICY, now);
            may.then(|| Tried { times: counted.failures(), secret: secret.to_owned() })
        })
        .await
    }

    /// The BMC did not judge the secret, so the attempt does not count.
    pub async fn not_judged(&self, bmc: &str, secret: &str, now: Timestamp) -> Result<()> {
        let less = |before: Tried| {
            let ours = before.secret == secret && before.times > 0;
            let mut counted = circuit::Breaker::with(before.times);
            counted.take_back();
            ours.then(|| Tried { times: counted.failures(), ..before })
        };
        self.change(bmc, now, "not_judged", less).await.map(drop)
    }

    /// The BMC accepted the secret, or a person allowed another attempt.
    pub async fn forgive(&self, bmc: &str, now: Timestamp) -> Result<()> {
        let none = |before: Tried| (before.times > 0).then(Tried::default);
        self.change(bmc, now, "forgiven", none).await.map(drop)
    }

    /// Writes the next count, if `next` returns one; true if it was written.
    async fn change(
        &self,
        bmc: &str,
        at: Timestamp,
        entry_type: &str,
        next: impl Fn(Tried) -> Option<Tried>,
    ) -> Result<bool> {
        attempts(async || {
            let before = self.store.get(KIND, bmc).await?;
            let known = before.as_ref().map(|before| before.content.document.read::<Tried>());
            let Some(tried) = next(known.transpose()?.unwrap_or_default()) else { return Ok(Some(false)) };
            let entry = Entry {
                entry_type: entry_type.to_owned(),
                triggered_by: "workflow".to_owned(),
                user_id: None,
                comment: None,
                metadata: json!({"times": tried.times}),
                request_id: None,
                at,
            };
            let after = content(bmc, before.as_ref(), &tried, at)?;
            let change = Change { before, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() };
            Ok(unless_conflict(self.store.commit(change).await)?.map(|_| true))
        })
        .await
    }
}

fn content(bmc: &str, before: Option<&Resource>, tried: &Tried, at: Timestamp) -> Result<Content> {
    let closed = circuit::Breaker::with(tried.times).gate(POLICY, at) == Gate::Closed;
    let state = if closed { "closed" } else { "open" };
    let mut content = before.map_or_else(
        || Content {
            kind: KIND.to_owned(),
            id: bmc.to_owned(),
            name: bmc.to_owned(),
            state: String::new(),
            document: Document::default(),
            labels: BTreeMap::new(),
            fields: BTreeMap::new(),
            keys: BTreeSet::new(),
            deleted: false,
            due_at: None,
        },
        |before| before.content.clone(),
    );
    state.clone_into(&mut content.state);
    content.document = Document::of(tried)?;
    Ok(content)
}
