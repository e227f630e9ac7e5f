//! The agent: it enrolled for this run, it is heard, and its checks pass. Only this is success.

use jiff::SignedDuration;
use wardroom_core::run::plan::Kind;
use wardroom_store::Resource;

use super::{Came, Try, Workers, by_hand, done, wait_until};
use crate::{
    app::{Decided, by_system},
    gpu_node::{
        document::{self, Document, KIND},
        proof,
    },
};

/// How often to look.
const LOOK: SignedDuration = SignedDuration::from_secs(2);

impl Workers {
    /// Waits for the agent; the engine moves the node in the commit that ends the run.
    pub(super) async fn wait_for_agent(&self, attempt: &mut Try<'_>) -> Came {
        let until = attempt.now.saturating_add(LOOK).unwrap_or(attempt.now);
        let node = self.node(attempt).await?;
        let agent = node.agent.as_ref().filter(|agent| agent.run == attempt.run);
        let Some(agent) = agent else {
            let expired = node.enrollment.as_ref().is_none_or(|token| token.expires_at <= attempt.now);
            if expired {
                return Err(by_hand("the token expired, or was revoked, before an agent enrolled with it"));
            }
            return Ok(wait_until(until, "the agent has not enrolled yet"));
        };
        let heard = proof::latest(&self.app, attempt.node).await?.health;
        let heard = heard.filter(|(health, _)| health.epoch == agent.epoch);
        let Some((health, _)) = heard else {
            return Ok(wait_until(until, "the agent has enrolled and not been heard yet"));
        };
        if !health.is_healthy() {
            let reason = format!("the agent is not healthy: {}", health.complaints());
            return Ok(wait_until(until, &reason));
        }
        self.lock(attempt).await?;
        done(attempt)
    }

    /// Locks the machine in MAAS, if the site wants that: the only guard there against a release by somebody else.
    async fn lock(&self, attempt: &mut Try<'_>) -> Result<(), super::Halt> {
        let wanted = attempt.data.site.as_ref().is_some_and(|site| site.settings.lock);
        if !wanted || attempt.kind == Kind::Bootstrap {
            return Ok(());
        }
        let (_, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        if !self.observe(&session, &id).await?.locked {
            session.turn().await.lock(&id, attempt.run).await?;
        }
        Ok(())
    }

    /// Revokes the identity that enrolled for this run, and the token of a bootstrap by hand.
    pub(super) async fn undo_agent(&self, attempt: &mut Try<'_>) -> Came {
        let (run, kind) = (attempt.run, attempt.kind);
        let revoke = |node: &Resource| {
            let mut document = Document::of(node)?;
            let agent = document.agent.take_if(|agent| agent.run == run);
            let token = document.enrollment.take_if(|token| kind == Kind::Bootstrap && token.run == run);
            if agent.is_none() && token.is_none() {
                return Ok(Decided::Nothing(()));
            }
            // A host whose agent is not listened to any more has no identity that could be used again.
            document.identity_kept &= agent.is_none();
            let content = document.into_content_of(node, document::state(node)?)?;
            let metadata = serde_json::json!({"identity": "revoked", "run": run});
            Ok(Decided::Commit(Box::new((content, by_system(&self.app, "credential", metadata))), ()))
        };
        self.app.change(KIND, attempt.node, revoke).await?;
        done(attempt)
    }
}
