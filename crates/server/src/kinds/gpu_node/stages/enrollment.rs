//! Waits for the agent: only when it enrolled for this run, sends heartbeats and passes its checks, the run
//! succeeds.

use jiff::SignedDuration;
use wardroom_core::{gpu_node::maas::Status, run::plan::Kind};
use wardroom_store::Resource;
use wardroom_upstream::maas::Machine;

use super::{
    StageError, StageResult, Try, Workers, disagrees, done, needs_person, require_ours, unusable_system,
    wait_until,
};
use crate::{
    kinds::gpu_node::{
        document::{self, Document},
        proof,
    },
    platform::app::{Decided, by_system},
};

const LOOK: SignedDuration = SignedDuration::from_secs(2);

/// Whether the token is voided together with the identity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Kept,
    Void,
}

impl Workers {
    /// Waits for the agent; the engine moves the node in the commit that ends the run. Meanwhile the machine
    /// must stay as the run deployed it.
    pub(super) async fn wait_for_agent(&self, attempt: &mut Try<'_>) -> StageResult {
        let until = attempt.now.saturating_add(LOOK).unwrap_or(attempt.now);
        if attempt.kind != Kind::Bootstrap {
            // Optional here: the machine is checked again once the agent has enrolled.
            if let Some(machine) = self.seen(attempt).await? {
                self.still_deployed(attempt, &machine)?;
            }
        }
        let node = self.node(attempt).await?;
        let agent = node.agent.as_ref().filter(|agent| agent.run == attempt.run);
        let Some(agent) = agent else {
            let expired = node.enrollment.as_ref().is_none_or(|token| token.expires_at <= attempt.now);
            if expired {
                return Err(expiry(attempt.kind));
            }
            let reason = match &node.agent {
                None => "the agent has not enrolled yet",
                Some(_) => {
                    "the new agent has not enrolled yet, and the old one still sends heartbeats: start it \
                     with the new token and an empty --state-dir"
                }
            };
            return Ok(wait_until(until, reason));
        };
        let heard = proof::latest(&self.app, attempt.subject).await?.health;
        let heard = heard.filter(|(health, _)| health.epoch == agent.epoch);
        let Some((health, at)) = heard else {
            return Ok(wait_until(until, "the agent has enrolled and has sent no heartbeat yet"));
        };
        if !proof::is_fresh(&self.app, Some(&health), at, attempt.now) {
            return Ok(wait_until(until, "the agent has enrolled, and is silent since its last heartbeat"));
        }
        if !health.is_healthy() {
            let reason = format!("the agent is not healthy: {}", health.complaints());
            return Ok(wait_until(until, &reason));
        }
        if attempt.kind != Kind::Bootstrap {
            self.look_and_lock(attempt).await?;
        }
        done(attempt)
    }

    /// Checks that the system deployed for this run is still there, and that the machine has no other owner.
    fn still_deployed(&self, attempt: &Try<'_>, machine: &Machine) -> Result<(), StageError> {
        let (site, _) = self.site(attempt)?;
        require_ours(&site, machine)?;
        if machine.status == Status::Deployed { Ok(()) } else { Err(disagrees(attempt.stage, machine)) }
    }

    /// Checks the machine once more, and locks it in MAAS if the site is set so: the only protection there
    /// against a release by other users.
    async fn look_and_lock(&self, attempt: &mut Try<'_>) -> Result<(), StageError> {
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        self.still_deployed(attempt, &machine)?;
        if site.settings.lock && !machine.locked {
            session.turn().await.lock(&id, attempt.run).await?;
        }
        Ok(())
    }

    /// Revokes the identity that enrolled for this run, and the token of a bootstrap by hand; other tokens
    /// are undone with their user data.
    pub(super) async fn undo_agent(&self, attempt: &mut Try<'_>) -> StageResult {
        let token = if attempt.kind == Kind::Bootstrap { Token::Void } else { Token::Kept };
        self.revoke(attempt, token).await?;
        done(attempt)
    }

    /// Voids the token and the identity that enrolled with it: that agent's machine no longer belongs to the
    /// node.
    pub(super) async fn undo_token(&self, attempt: &mut Try<'_>) -> StageResult {
        self.revoke(attempt, Token::Void).await?;
        attempt.data.rendered = None;
        attempt.data.round += 1;
        done(attempt)
    }

    /// Revokes the identity that enrolled for this run, and its token if it is no longer needed.
    async fn revoke(&self, attempt: &Try<'_>, token: Token) -> Result<(), StageError> {
        let run = attempt.run;
        let revoke = |node: &Resource| {
            let mut document = Document::of(node)?;
            let agent = document.agent.take_if(|agent| agent.run == run);
            let token = document.enrollment.take_if(|issued| token == Token::Void && issued.run == run);
            if agent.is_none() && token.is_none() {
                return Ok(Decided::Nothing(()));
            }
            // Without the agent's credential the identity cannot be reactivated.
            document.identity_kept &= agent.is_none();
            let content = document.into_content_of(node, document::state(node)?)?;
            let revoked = |is: bool| is.then_some("revoked");
            let metadata = serde_json::json!({
                "identity": revoked(agent.is_some()), "token": revoked(token.is_some()), "run": run,
            });
            Ok(Decided::Commit(Box::new((content, by_system(&self.app, "credential", metadata))), ()))
        };
        self.change(attempt, revoke).await?;
        // From here on no server accepts the credential.
        crate::kinds::gpu_node::identity::Agents::of(&self.app).settle().await;
        Ok(())
    }
}

/// Returns the failure for an expired token. A bootstrap by hand needs another token; a deployed system has
/// its token in the user data and must be deployed again.
fn expiry(kind: Kind) -> StageError {
    const WHAT: &str = "the token expired, or was revoked, before an agent enrolled with it";
    if kind == Kind::Bootstrap {
        needs_person(format!("{WHAT}: retry the stage, which issues another token"))
    } else {
        unusable_system(WHAT)
    }
}
