//! A circuit breaker per BMC: a wrong password is tried twice, by whichever run, and then a person has to look.
//!
//! Accounts are locked by those who keep trying. Therefore one run at a time asks a BMC: whoever comes next knows what the
//! one before heard. What was refused is kept in the store, for every server
//! and across restarts, until the secret is another one or somebody says that it may be tried again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wardroom_store::{Change, Content, Document, Entry, Error, Lease, Resource, Result, Store};

use crate::commit::DECISIONS;

const KIND: &str = "bmc";
/// How long a BMC is kept for a run that is not heard of: longer than it may take to answer.
const TURN: Duration = Duration::from_secs(60);
/// How often a secret may be refused.
const TRIES: u32 = 2;

/// What is known about wrong passwords.
#[derive(Debug, Clone)]
pub struct Breaker {
    store: Store,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Refused {
    times: u32,
    /// A fingerprint of the secret that was refused, which tells nothing about it.
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

    /// Ends a turn, once what the BMC said is written down.
    pub async fn end(&self, turn: &Lease) -> Result<()> {
        self.store.release_lease(turn).await.map(drop)
    }

    /// Whether a secret, known by its fingerprint, may be tried at a BMC.
    pub async fn may_try(&self, bmc: &str, secret: &str) -> Result<bool> {
        let found = self.store.get(KIND, bmc).await?.filter(|found| !found.content.deleted);
        let refused = found.map(|found| found.content.document.read::<Refused>()).transpose()?;
        Ok(refused.is_none_or(|refused| refused.secret != secret || refused.times < TRIES))
    }

    /// The BMC refused the secret.
    pub async fn refused(&self, bmc: &str, secret: &str, now: Timestamp) -> Result<()> {
        self.change(bmc, now, "refused", |before| {
            let times = if before.secret == secret { before.times.saturating_add(1) } else { 1 };
            Refused { times, secret: secret.to_owned() }
        })
        .await
    }

    /// The BMC took the secret, or a person says that it may be tried again.
    pub async fn forgive(&self, bmc: &str, now: Timestamp) -> Result<()> {
        if self.store.get(KIND, bmc).await?.is_none() {
            return Ok(());
        }
        self.change(bmc, now, "forgiven", |_| Refused::default()).await
    }

    async fn change(
        &self,
        bmc: &str,
        at: Timestamp,
        entry_type: &str,
        next: impl Fn(Refused) -> Refused,
    ) -> Result<()> {
        for _ in 0..DECISIONS {
            let before = self.store.get(KIND, bmc).await?;
            let known = before.as_ref().map(|before| before.content.document.read::<Refused>());
            let known = known.transpose()?.unwrap_or_default();
            let had = known.times;
            let refused = next(known);
            if before.is_some() && had == 0 && refused.times == 0 {
                return Ok(());
            }
            let entry = Entry {
                entry_type: entry_type.to_owned(),
                triggered_by: "workflow".to_owned(),
                user_id: None,
                comment: None,
                metadata: json!({"times": refused.times}),
                request_id: None,
                at,
            };
            let after = content(bmc, before.as_ref(), &refused)?;
            let change = Change { before, after, entry, effects: Vec::new(), fence: None, holds: Vec::new() };
            match self.store.commit(change).await {
                Err(Error::Conflict) => {}
                committed => return committed.map(drop),
            }
        }
        Err(Error::Conflict)
    }
}

fn content(bmc: &str, before: Option<&Resource>, refused: &Refused) -> Result<Content> {
    let state = if refused.times < TRIES { "closed" } else { "open" };
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
    content.document = Document::of(refused)?;
    Ok(content)
}
