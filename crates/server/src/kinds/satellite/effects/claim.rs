//! Claims: while a worker performs an effect, no other worker does.
//!
//! A claim is short and renewed, so that effects of a crashed server, such as revocations, are taken over
//! soon. A worker that cannot renew its claim stops before another one can get it. A paused process cannot
//! stop, so before each request to an upstream the worker checks that it still has the claim and that the
//! record has not changed. A request that was already sent may arrive late: a worker that finds that it lost
//! its claim queues the effect again, which corrects that.

use std::time::Duration;

use serde_json::{Value, json};
use wardroom_store::{Change, ClaimedEffect, Resource, attempts, unless_conflict};

use super::{EffectError, Worker};
use crate::platform::{
    app::{App, by_system},
    http::error::Error,
};

pub(super) const CLAIM: Duration = Duration::from_secs(20);

/// How often it is renewed, how long that may take, and how long before its expiry the worker stops.
pub(super) const RENEW: Duration = Duration::from_secs(5);

/// How long a stopping server waits to release its claims.
const LAST: Duration = Duration::from_secs(2);

/// Returns the facts of a record that a plan depends on; other changes do not matter to it.
pub(super) type Basis = fn(&App, &Resource) -> Result<Value, Error>;

/// A permit to carry out a plan, checked again before each request to an upstream.
pub(super) struct Permit<'a> {
    worker: &'a Worker,
    effect: &'a ClaimedEffect,
    basis: Basis,
    planned: Value,
}

impl<'a> Permit<'a> {
    /// Returns the permit for a plan made from this record.
    pub(super) fn of(
        worker: &'a Worker,
        effect: &'a ClaimedEffect,
        record: &Resource,
        basis: Basis,
    ) -> Result<Self, Error> {
        Ok(Self { worker, effect, basis, planned: basis(&worker.app, record)? })
    }

    /// Returns the upstream for one request, if the claim is still held and the record has not changed.
    pub(super) async fn to<'u, T>(&self, upstream: &'u T) -> Result<&'u T, EffectError> {
        let (app, effect) = (&self.worker.app, self.effect);
        self.worker.keep(effect).await?;
        let record = app.store.get(&effect.kind, &effect.resource_id).await.map_err(Error::from)?;
        let now = record.as_ref().map(|record| (self.basis)(app, record)).transpose()?;
        if now.as_ref() == Some(&self.planned) { Ok(upstream) } else { Err(EffectError::Changed) }
    }
}

impl Worker {
    /// Renews the claim on a long effect, unless another server has it now.
    pub(super) async fn keep(&self, effect: &ClaimedEffect) -> Result<(), EffectError> {
        let renewed = self.app.store.renew_effect(effect.id, &self.holder, CLAIM).await;
        match renewed.map_err(Error::from)? {
            true => Ok(()),
            false => Err(EffectError::Waiting("another server took over the effect")),
        }
    }

    /// Renews the claim of an effect again and again, and ends when it is lost.
    pub(super) async fn hold(&self, effect: &ClaimedEffect, every: Duration) {
        let (store, clock) = (&self.app.store, &self.app.clock);
        let mut renewed_at = clock.instant();
        loop {
            let past = clock.instant().saturating_duration_since(renewed_at);
            let Some(left) = (CLAIM - RENEW).checked_sub(past) else { return };
            let renewal = async {
                tokio::time::sleep(every).await;
                let asked = clock.instant();
                let renewed = store.renew_effect(effect.id, &self.holder, CLAIM).await;
                renewed.map(|is_ours| is_ours.then_some(asked))
            };
            match tokio::time::timeout(left.min(every + RENEW), renewal).await {
                Ok(Ok(Some(asked))) => renewed_at = asked,
                Ok(Ok(None)) => return,
                // The next renewal may succeed.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Queues an effect again whose claim was lost. A paused server may have sent an upstream an old state
    /// after another server sent the current one.
    pub(super) async fn ask_again(&self, effect: &ClaimedEffect) -> Result<(), Error> {
        let app = &self.app;
        attempts(async || {
            let Some(record) = app.store.get(&effect.kind, &effect.resource_id).await? else {
                return Ok(Some(()));
            };
            let cause = json!({"asked_for": effect.effect.effect_type, "cause": "claim_lost"});
            let change = Change {
                after: record.content.clone(),
                before: Some(record),
                entry: by_system(app, "effect", cause),
                effects: vec![effect.effect.clone()],
                fence: None,
                holds: Vec::new(),
            };
            Ok(unless_conflict(app.commit(change).await)?.map(drop))
        })
        .await
    }

    /// Releases claims of earlier servers. An embedded database has one server at a time, so every claim is
    /// an old one; with several servers, each releases its own when it stops, and claims of crashed ones
    /// expire.
    pub(crate) async fn begin(&self) {
        if self.app.store.is_shared() {
            return;
        }
        match self.app.store.release_all_effects().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "effects of the previous process are started again"),
            Err(error) => {
                tracing::warn!(%error, "effects of the previous process wait until their claims expire")
            }
        }
    }

    /// Releases the claims of interrupted effects.
    pub(crate) async fn end(&self) {
        match tokio::time::timeout(LAST, self.app.store.release_effects(&self.holder)).await {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => tracing::info!(
                count,
                "effects were interrupted by the stop; the next server starts them again"
            ),
            Ok(Err(_)) | Err(_) => tracing::warn!("interrupted effects wait until their claims expire"),
        }
    }
}

#[cfg(test)]
mod tests {
    use wardroom_store::Effect;

    use super::{super::Upstreams, *};
    use crate::{
        kinds::{
            satellite::asked::GROUP_MEMBERS,
            satellite::group::{Document, GROUPS},
        },
        platform::app::by_system,
    };

    const MOMENT: Duration = Duration::from_millis(1);

    /// A claim is renewed for as long as it is ours, and given up when it is not.
    #[tokio::test]
    async fn a_claim_is_held_until_another_worker_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let effects =
            vec![Effect { effect_type: GROUP_MEMBERS.to_owned(), payload: serde_json::Value::Null }];
        let after = GROUPS.content("g", &Document::default()).unwrap();
        let entry = by_system(&app, "registered", serde_json::Value::Null);
        let (before, fence, holds) = (None, None, Vec::new());
        app.commit(wardroom_store::Change { before, after, entry, effects, fence, holds }).await.unwrap();
        let worker = Worker::new(app.clone(), Upstreams::default());
        let claim = async |holder: &str| {
            app.store.claim_effects(holder, MOMENT, 9, &[GROUP_MEMBERS]).await.unwrap().pop()
        };
        let effect = claim(&worker.holder).await.unwrap();
        let is_renewed = async {
            loop {
                let claimed = app.store.effects_of(GROUPS.kind, "g").await.unwrap()[0].claimed_until;
                if claimed > Some(app.now()) {
                    break;
                }
                tokio::time::sleep(MOMENT).await;
            }
        };
        tokio::select! {
            () = worker.hold(&effect, MOMENT) => panic!("no other worker has it"),
            () = is_renewed => {}
        }
        assert!(claim("another").await.is_none(), "it is held");
        worker.end().await;
        let other = claim("another").await.expect("it is let go of");
        worker.hold(&effect, MOMENT).await;
        app.store.finish_effect(other.id, app.now()).await.unwrap();
        worker.ask_again(&effect).await.unwrap();
        assert!(claim("a third").await.is_some(), "what was told in between may not hold");
    }
}
