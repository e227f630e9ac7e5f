//! Classifies a failed deployment and decides whether to retry it.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a stage names the statuses it knows what to do with; any other needs a person"
)]

use wardroom_core::{gpu_node::maas::Status, run::failure::Class};
use wardroom_upstream::maas::{Erase, Level, Release};

use super::{
    StageResult, Try, Workers, agent::End, disagrees, done, has_consent, machine::start, name, needs_person,
    require_ours, wait_for,
};
use crate::kinds::gpu_node::data::{Cause, DeployFailure};

/// The causes that words of MAAS stand for; the first matching row wins. Normal events use the same words, so
/// only lines about failures are considered.
#[rustfmt::skip]
const RULES: &[(&str, Cause)] = &[
    ("datasource",                 Cause::Datasource),
    ("data source",                Cause::Datasource),
    ("searching for network data", Cause::Datasource),
    ("timed out",                  Cause::Datasource),
    ("installation fail",          Cause::Installation),
    ("installation has failed",    Cause::Installation),
    ("curtin",                     Cause::Installation),
    ("power",                      Cause::Power),
    ("bmc",                        Cause::Power),
];

/// Words that mark a line about a failure.
const WRONG: &[&str] =
    &["fail", "timed out", "error", "datasource", "data source", "searching for network data"];

/// How many events are read as evidence.
const EVENTS: u32 = 50;
/// How many lines are kept.
const MOST_EVIDENCE: usize = 20;
/// How often an installation may fail.
const INSTALLS: u32 = 1;

impl Workers {
    /// Stores MAAS's evidence of the failure, and decides by it or by a person's consent.
    pub(super) async fn classify(&self, attempt: &mut Try<'_>) -> StageResult {
        let (_, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        // A person who continues the run after this failure has checked it. Their consent is stored before
        // MAAS is asked, which may not answer.
        let looked = has_consent(attempt, |told| told.class == Class::Manual).await?;
        let events = session.turn().await.events(&id, Level::Debug, EVENTS, None).await?;
        let results = session.turn().await.results(&id).await?;
        let failed = results
            .iter()
            .flat_map(|set| &set.results)
            .filter(|result| result.exit_status.is_some_and(|status| status != 0));
        let mut evidence: Vec<_> =
            failed.map(|result| format!("{} {}", result.name, result.status_name)).collect();
        evidence.extend(events.iter().map(|event| format!("{}: {}", event.kind, event.description)));
        // Failures come first.
        evidence.sort_by_key(|line| !tells_of_trouble(line));
        evidence.truncate(MOST_EVIDENCE);
        let told = evidence.join("; ");
        let cause = cause(&evidence);
        if cause.is_none() && !looked {
            return Err(needs_person(format!(
                "MAAS does not explain why the deployment failed; retrying the stage deploys once more: \
                 {told}"
            )));
        }
        if cause == Some(Cause::Installation) && !looked {
            attempt.data.failed_installs += 1;
            if attempt.data.failed_installs > INSTALLS {
                attempt.data.failed_installs = 0;
                attempt.save().await?;
                return Err(needs_person(format!("the installation failed again: {told}")));
            }
        }
        let cause = cause.unwrap_or(Cause::Unexplained);
        attempt.data.deploy_failure = Some(DeployFailure { cause, evidence });
        attempt.data.recovering = Some(attempt.data.round);
        done(attempt)
    }

    /// Releases the machine, makes it ready, and deploys it again with a new token. The engine counts the
    /// rounds.
    pub(super) async fn recover(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let began = *attempt.data.recovering.get_or_insert(attempt.data.round);
        let machine = self.observe(attempt, &session, &id).await?;
        require_ours(&site, &machine)?;
        match machine.status {
            Status::FailedDeployment | Status::Allocated if attempt.data.round == began => {
                attempt.save().await?;
                self.end_identity(attempt, End::Released).await?;
                let how = Release { erase: Erase::No, comment: attempt.run };
                session.turn().await.release(&id, &how).await?;
                Ok(wait_for(attempt, &site, "MAAS releases the machine"))
            }
            Status::Releasing | Status::DiskErasing => {
                Ok(wait_for(attempt, &site, "MAAS releases the machine"))
            }
            // A release ends in New if the last commissioning failed.
            Status::New => {
                start(&session, &site, &id, true).await?;
                Ok(wait_for(attempt, &site, "MAAS commissions the machine"))
            }
            Status::Commissioning | Status::Testing => {
                Ok(wait_for(attempt, &site, "MAAS commissions the machine"))
            }
            Status::Ready => {
                if attempt.data.round == began {
                    // An agent that enrolled before the release took effect is void too.
                    self.end_identity(attempt, End::Released).await?;
                    attempt.data.round += 1;
                    // Until it is deployed again, the machine has no system of the run.
                    attempt.data.deployed = None;
                }
                self.link_pxe(attempt, &machine).await?;
                attempt.save().await?;
                self.start_deploy(attempt, &site, &session, &machine).await?;
                attempt.data.recovering = None;
                done(attempt)
            }
            // An earlier request took effect without an answer.
            Status::Deploying | Status::Deployed | Status::FailedDeployment
                if attempt.data.round > began && attempt.data.deployed.is_some() =>
            {
                attempt.data.recovering = None;
                done(attempt)
            }
            Status::FailedCommissioning
            | Status::FailedReleasing
            | Status::FailedDiskErasing
            | Status::Broken => {
                Err(needs_person(format!("{id} is {} and cannot be deployed again", name(&machine))))
            }
            _ => Err(disagrees(attempt.stage, &machine)),
        }
    }
}

fn tells_of_trouble(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    WRONG.iter().any(|word| line.contains(word))
}

fn cause(evidence: &[String]) -> Option<Cause> {
    let told = evidence.iter().filter(|line| tells_of_trouble(line)).map(|line| line.to_ascii_lowercase());
    let told: Vec<_> = told.collect();
    let rule = RULES.iter().find(|(words, _)| told.iter().any(|line| line.contains(words)));
    rule.map(|(_, cause)| *cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_maas_have_a_meaning_or_need_a_person() {
        let of = |line: &str| cause(&[line.to_owned()]);
        assert_eq!(of("Loading ephemeral: Searching for network DataSource"), Some(Cause::Datasource));
        assert_eq!(of("Node operation 'Deploying' timed out after 30 minutes."), Some(Cause::Datasource));
        assert_eq!(of("Installation failed (refer to the log)"), Some(Cause::Installation));
        assert_eq!(of("Failed to power on node - BMC unreachable"), Some(Cause::Power));
        assert_eq!(of("Something else"), None);
        assert_eq!(of("Powering on: Node powered on"), None, "an everyday event");
        assert_eq!(of("Marking node failed: the moon was full"), None);
    }
}
