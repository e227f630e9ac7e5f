//! Deploys the system: user data with a token, the deployment, and the wait for it.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a stage names the statuses it knows what to do with; any other needs a person"
)]

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::SignedDuration;
use sha2::{Digest as _, Sha256};
use wardroom_core::gpu_node::maas::Status;
use wardroom_store::Resource;
use wardroom_upstream::maas::{Class, Deploy, Erase, Error as MaasError, Machine, Release, Secret};
use wardroom_workflow::{Outcome, Slots};

use super::{
    StageError, StageResult, Try, Workers, agent::End, disagrees, done, is_past_preparation, name,
    needs_person, require_ours, wait_for, wrong_settings,
};
use crate::{
    kinds::gpu_node::{
        document::{self, Document},
        enroll::{self, Issue},
        secret,
        site::Snapshot,
        upstream::Session,
    },
    platform::app::{Decided, by_system},
};

impl Workers {
    /// Renders the user data and issues the token in it. The same round always renders the same.
    pub(super) async fn render(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        if is_past_preparation(attempt, &machine) && attempt.data.rendered.is_some() {
            return done(attempt);
        }
        self.issue(attempt, &site).await?;
        done(attempt)
    }

    /// Issues the token of this round, and stores the digest of its user data.
    pub(super) async fn issue(&self, attempt: &mut Try<'_>, site: &Snapshot) -> Result<String, StageError> {
        let (run, round) = (attempt.run.to_owned(), attempt.data.round);
        let token = secret::token(&self.app.key, attempt.subject, &run, round);
        let hash = secret::hash(&token);
        let issue = |node: &Resource| {
            let mut document = Document::of(node)?;
            let used = document.agent.as_ref().and_then(|agent| agent.exchange.as_ref());
            let known = document.enrollment.as_ref().is_some_and(|enrollment| enrollment.hash == hash);
            if known || used.is_some_and(|(used, _)| *used == hash) {
                return Ok(Decided::Nothing(()));
            }
            let expires_at = enroll::expiry(&self.app);
            let issue = Issue { run: run.clone(), round, expires_at };
            enroll::issue(&self.app.key, &mut document, &node.content.id, issue);
            let content = document.into_content_of(node, document::state(node)?)?;
            let metadata = serde_json::json!({"token": "issued", "round": round, "run": run});
            Ok(Decided::Commit(Box::new((content, by_system(&self.app, "credential", metadata))), ()))
        };
        self.change(attempt, issue).await?;
        let node = self.node(attempt).await?;
        let server = site.settings.server_url.as_deref().or(self.app.config.public_url.as_deref());
        let values = [Some(token.as_str()), server, Some(attempt.subject), Some(node.hostname.as_str())];
        let rendered = fill(&site.settings.user_data, values).map_err(wrong_settings)?;
        attempt.data.rendered =
            Some(crate::platform::identity::secret::encode(&Sha256::digest(rendered.as_bytes())[..12]));
        Ok(rendered)
    }

    /// Has MAAS deploy the system, or continues a deployment that this run started.
    pub(super) async fn deploy(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        require_ours(&site, &machine)?;
        let ours = attempt.data.deployed.is_some() && attempt.data.deployed == attempt.data.rendered;
        match machine.status {
            Status::Deploying | Status::Deployed | Status::FailedDeployment if ours => done(attempt),
            Status::Ready | Status::Allocated => {
                self.start_deploy(attempt, &site, &session, &machine).await?;
                done(attempt)
            }
            _ => Err(disagrees(attempt.stage, &machine)),
        }
    }

    pub(super) async fn start_deploy(
        &self,
        attempt: &mut Try<'_>,
        site: &Snapshot,
        session: &Session,
        machine: &Machine,
    ) -> Result<(), StageError> {
        let owner = machine.owner.as_deref().filter(|owner| !owner.is_empty());
        if let Some(owner) = owner.filter(|owner| machine.status == Status::Allocated && *owner != site.user)
        {
            return Err(needs_person(format!("{} is allocated to {owner}", machine.system_id)));
        }
        self.begin_deploy(attempt, session).await?;
        let rendered = self.issue(attempt, site).await?;
        let is_first = attempt.data.deployed.is_none();
        attempt.data.deployed.clone_from(&attempt.data.rendered);
        attempt.save().await?;
        let what = Deploy {
            distro_series: &site.settings.series,
            user_data: &Secret(BASE64_STANDARD.encode(&rendered)),
            enable_hw_sync: site.settings.hardware_sync,
            agent_name: "wardroom",
            comment: attempt.run,
        };
        match session.turn().await.deploy(&machine.system_id, &what).await {
            Ok(_) => Ok(()),
            // Refused: a system deployed there later is not the run's, unless an earlier request was left
            // unanswered.
            Err(error) if is_first && error.did_nothing() => {
                attempt.data.deployed = None;
                attempt.save().await?;
                self.end_deploy(attempt, session).await?;
                Err(error.into())
            }
            Err(error) => {
                // The request may have been accepted; the present state decides whether to repeat it.
                let seen = self.observe(attempt, session, &machine.system_id).await?;
                if matches!(seen.status, Status::Deploying | Status::Deployed) {
                    return Ok(());
                }
                self.end_deploy(attempt, session).await?;
                Err(error.into())
            }
        }
    }

    /// Takes a slot among the deployments of the site, or waits for one.
    async fn begin_deploy(&self, attempt: &Try<'_>, session: &Session) -> Result<(), StageError> {
        match session.begin_deploy(&self.slots(), attempt.run).await? {
            Ok(()) => Ok(()),
            Err(wait) => {
                let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::from_secs(5));
                let until = attempt.now.saturating_add(wait).unwrap_or(attempt.now);
                let reason = "the site has as many deployments under way as it allows".to_owned();
                Err(StageError::Outcome(Box::new(Outcome::Queue { reason, until })))
            }
        }
    }

    /// Frees the slot of a deployment that is over.
    async fn end_deploy(&self, attempt: &Try<'_>, session: &Session) -> Result<(), StageError> {
        Ok(self.slots().leave(&session.deployments(), attempt.run).await?)
    }

    fn slots(&self) -> Slots {
        Slots::new(self.app.store.clone())
    }

    /// Waits until MAAS reports the machine as deployed, which only proves that the data source answered.
    pub(super) async fn wait_for_deployed(&self, attempt: &mut Try<'_>) -> StageResult {
        const WHAT: &str = "MAAS deploys the machine";
        let (site, session) = self.site(attempt)?;
        let seen = self.seen(attempt).await;
        match &seen {
            Ok(None) => {}
            Ok(Some(machine))
                if machine.status == Status::Deploying && require_ours(&site, machine).is_ok() =>
            {
                session.keep_deploying(&self.slots(), attempt.run).await?;
            }
            // Also when the machine is missing or has another owner: nothing is deployed for this run then.
            Ok(Some(_)) | Err(_) => self.end_deploy(attempt, &session).await?,
        }
        let Some(machine) = seen? else { return Ok(wait_for(attempt, &site, WHAT)) };
        require_ours(&site, &machine)?;
        match machine.status {
            Status::Deployed => {
                attempt.data.synced_at_deploy = machine.last_sync;
                attempt.data.recovering = None;
                done(attempt)
            }
            Status::Deploying => Ok(wait_for(attempt, &site, WHAT)),
            Status::FailedDeployment => Ok(Outcome::Broken {
                data: attempt.data.clone(),
                evidence: format!("the deployment failed: {}", said(&machine)),
            }),
            Status::Broken => Err(needs_person("MAAS calls the machine broken")),
            _ => Err(disagrees(attempt.stage, &machine)),
        }
    }

    /// Aborts the deployment, then releases the machine, and waits until it is free.
    pub(super) async fn undo_deploy(&self, attempt: &mut Try<'_>) -> StageResult {
        let Some((site, session)) = self.site_to_undo(attempt)? else { return done(attempt) };
        let Some(machine) = attempt.data.machine.clone() else { return done(attempt) };
        if attempt.data.deployed.is_none() {
            return done(attempt);
        }
        let id = machine.system_id;
        let seen = match session.turn().await.machine(&id).await {
            Ok(seen) => seen,
            Err(MaasError { class: Class::Gone, .. }) => {
                self.end_deploy(attempt, &session).await?;
                return done(attempt);
            }
            Err(error) => return Err(error.into()),
        };
        let is_free = matches!(seen.status, Status::Ready | Status::New);
        if !is_free {
            require_ours(&site, &seen)?;
        }
        if seen.locked && !is_free {
            session.turn().await.unlock(&id, attempt.run).await?;
        }
        match seen.status {
            Status::Deploying => {
                session.turn().await.abort(&id, attempt.run).await?;
                Ok(wait_for(attempt, &site, "MAAS aborts the deployment"))
            }
            Status::Reserved
            | Status::Allocated
            | Status::Deployed
            | Status::FailedDeployment
            | Status::Broken
            | Status::FailedReleasing
            | Status::FailedDiskErasing => {
                self.end_identity(attempt, End::Released).await?;
                let how = Release { erase: Erase::No, comment: attempt.run };
                session.turn().await.release(&id, &how).await?;
                Ok(wait_for(attempt, &site, "MAAS releases the machine"))
            }
            Status::Releasing | Status::DiskErasing => {
                Ok(wait_for(attempt, &site, "MAAS releases the machine"))
            }
            Status::Ready | Status::New => {
                self.end_identity(attempt, End::Released).await?;
                self.end_deploy(attempt, &session).await?;
                attempt.data.deployed = None;
                attempt.data.recovering = None;
                done(attempt)
            }
            _ => Err(needs_person(format!("{id} is {}, and cannot be released", name(&seen)))),
        }
    }
}

/// The last status message of a machine.
fn said(machine: &Machine) -> String {
    machine.status_message.clone().filter(|said| !said.is_empty()).unwrap_or_else(|| name(machine))
}

/// The placeholders of user data.
const NAMES: [&str; 4] = ["token", "server", "node", "hostname"];

pub(crate) fn check_user_data(template: &str) -> Result<(), String> {
    fill(template, [Some(""); NAMES.len()]).map(drop)
}

/// Replaces `{{name}}`; an unknown name is an error of the template.
fn fill(template: &str, values: [Option<&str>; NAMES.len()]) -> Result<String, String> {
    let (mut filled, mut rest) = (String::with_capacity(template.len()), template);
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").ok_or("the user data has {{ without a matching }}")?;
        let found = NAMES.iter().zip(values).find(|(known, _)| **known == name.trim());
        let (_, value) = found.ok_or_else(|| {
            format!(
                "the user data asks for {{{{{}}}}}, which is not known; known are: {}",
                name.trim(),
                NAMES.join(", ")
            )
        })?;
        // Only the server's URL may be unknown.
        let value = value.ok_or(
            "the user data asks for {{server}}, and the server listens on an address that nodes cannot reach: set \
             server_url of the site",
        )?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn a_template_is_filled_or_refused() {
        let values = ["t", "s", "n", "h"].map(Some);
        assert_eq!(fill("a {{token}} {{ node }}{{token}} b", values).unwrap(), "a t nt b");
        assert_eq!(fill("plain { } text", values).unwrap(), "plain { } text");
        assert!(fill("{{secret}}", values).unwrap_err().contains("token, server, node, hostname"));
        assert!(fill("{{token", values).is_err());
        let nowhere = [Some("t"), None, Some("n"), Some("h")];
        assert_eq!(fill("{{token}} {{node}}", nowhere).unwrap(), "t n", "the template does not need it");
        assert!(fill("{{server}}", nowhere).unwrap_err().contains("server_url"));
    }
}
