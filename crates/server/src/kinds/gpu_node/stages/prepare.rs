//! Checks the site and the password of the BMC, before the machine is touched.

use std::time::Duration;

use jiff::SignedDuration;
use wardroom_api::gpu_node::Bmc;
use wardroom_core::run::failure::Class;
use wardroom_upstream::{
    Gate,
    maas::{self, PowerDriver},
    redfish::{self, Password, Redfish, Settings, Trust},
};

use super::{
    StageError, StageResult, Try, Workers, done, failed, needs_person, unanswered, wait_until, wrong_settings,
};
use crate::{
    kinds::gpu_node::{
        document,
        reach::Reach,
        site::{self, Settings as SiteSettings, Snapshot},
    },
    platform::identity::{
        reference::{self, Use},
        secret::{self, Key},
    },
};

/// How long a BMC may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait while another run calls the BMC.
const PAUSE: SignedDuration = SignedDuration::from_millis(500);

/// The power settings of a BMC for MAAS.
pub(super) struct Power {
    address: String,
    user: String,
    password: maas::Secret,
    system: String,
}

impl Power {
    pub(super) fn driver(&self) -> PowerDriver<'_> {
        let Self { address, user, password, system } = self;
        PowerDriver::Redfish { address, user, password, node_id: system }
    }
}

impl Workers {
    /// Copies the settings of the site into the run, and checks that its MAAS accepts the key.
    pub(super) async fn load_site_config(&self, attempt: &mut Try<'_>) -> StageResult {
        let name = attempt.site.ok_or_else(|| needs_person("the run has no site"))?.to_owned();
        let loaded = site::load(&self.app, &name).await?;
        let (settings, digest) =
            loaded.ok_or_else(|| wrong_settings(format!("there is no site {name:?} any more")))?;
        let session = self.clients.session(&name, &settings, &self.limits).map_err(wrong_settings)?;
        let user = session.user().await?;
        attempt.data.budgets.clone_from(&settings.budgets);
        attempt.data.site = Some(Snapshot { name, digest, user, settings });
        done(attempt)
    }

    /// Checks user and password of the BMC with one read. All runs together try a wrong password at most
    /// twice, because a BMC may lock the account.
    pub(super) async fn resolve_power_credentials(&self, attempt: &mut Try<'_>) -> StageResult {
        let node = self.node(attempt).await?;
        // A machine that people switch by hand has no BMC.
        let Some(bmc) = node.bmc else { return done(attempt) };
        let address = document::address(&bmc.address);
        let Some(turn) = attempt.breaker.turn(&address, attempt.run).await? else {
            let until = attempt.now.saturating_add(PAUSE).unwrap_or(attempt.now);
            return Ok(wait_until(until, "another run is calling the BMC"));
        };
        let came = self.ask_bmc(attempt, &bmc, &address).await;
        attempt.breaker.end(&turn).await?;
        came
    }

    /// Calls a BMC; attempts are counted by its normalized address.
    async fn ask_bmc(&self, attempt: &mut Try<'_>, bmc: &Bmc, known_by: &str) -> StageResult {
        let (site, _) = self.site(attempt)?;
        let gate = self.gate(&site.name, bmc).await?;
        let (user, password) = self.login(&bmc.credential)?;
        let fingerprint = fingerprint(&self.app.key, &user, &password);
        if site::is_plain(&bmc.address) && !site.settings.bmc_insecure {
            return Err(needs_person(format!(
                "{}, then give `rerun`, which loads the site again",
                site::plain_refused(&bmc.address, &site.name)
            )));
        }
        let trust = self.trust(&site.settings)?;
        let settings = Settings {
            url: bmc.address.clone(),
            user,
            password: Password(password),
            trust,
            timeout: TIMEOUT,
            gate,
        };
        let client = Redfish::new(settings).map_err(needs_person)?;
        let breaker = attempt.breaker;
        if attempt.confirmed && attempt.data.forgiven_in != Some(attempt.generation) {
            // A person allowed one more attempt, even if the server crashes during it.
            attempt.data.forgiven_in = Some(attempt.generation);
            attempt.save().await?;
            breaker.forgive(known_by, attempt.now).await?;
        }
        // Counted before the attempt, so that a crash in between counts too.
        if !breaker.try_once(known_by, &fingerprint, attempt.now).await? {
            let evidence = format!(
                "this password was tried twice on the BMC at {}, which refused it, or the server stopped \
                 before the answer, so that it may be right: try it by hand; if it is wrong, correct the \
                 secret before the account is locked; then retry the stage",
                bmc.address
            );
            return Err(failed(Class::Credentials, evidence));
        }
        match client.check_credentials().await {
            Ok(()) => {
                breaker.forgive(known_by, attempt.now).await?;
                done(attempt)
            }
            Err(error) => {
                if !matches!(error.class, redfish::Class::Credentials) {
                    breaker.not_judged(known_by, &fingerprint, attempt.now).await?;
                }
                Err(refusal(bmc, &error))
            }
        }
    }

    /// Returns where the password of a BMC may be sent, by the current settings of its site; refuses a
    /// credential or an address that the site does not allow.
    pub(super) async fn gate(&self, site: &str, bmc: &Bmc) -> Result<Gate, StageError> {
        let (settings, _) = site::load(&self.app, site)
            .await?
            .ok_or_else(|| wrong_settings(format!("there is no site {site:?} any more")))?;
        let reach = Reach::of(site, &settings, &self.app.config);
        reach.credential(&bmc.credential).map_err(needs_person)?;
        let gate = reach.gate();
        gate.check(&bmc.address).map_err(|refused| needs_person(refused.0))?;
        Ok(gate)
    }

    /// Builds the power settings for MAAS. A name is replaced by its present address, if the site allows
    /// that: otherwise MAAS would resolve the name each time it uses the password.
    pub(super) async fn power(&self, site: &str, bmc: &Bmc) -> Result<Power, StageError> {
        let gate = self.gate(site, bmc).await?;
        let address = gate.pin(&bmc.address).await.map_err(|refused| unanswered(refused.0))?;
        let (user, password) = self.login(&bmc.credential)?;
        let system = bmc.system.clone().unwrap_or_default();
        Ok(Power { address, user, password: maas::Secret(password), system })
    }

    /// Reads user and password from a reference to `user:password`.
    pub(super) fn login(&self, at: &str) -> Result<(String, String), StageError> {
        let found = reference::resolve(at, Use::Bmc, &self.app.config.secrets).map_err(needs_person)?;
        let pair = found.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()));
        pair.ok_or_else(|| needs_person(format!("the secret at {at} must be USER:PASSWORD")))
    }

    /// Returns the certificates that the BMCs of a site are trusted by.
    fn trust(&self, settings: &SiteSettings) -> Result<Trust, StageError> {
        if settings.bmc_insecure {
            return Ok(Trust::Insecure);
        }
        let Some(ca) = &settings.bmc_ca else { return Ok(Trust::System) };
        let ca = reference::resolve(ca, Use::Site, &self.app.config.secrets).map_err(needs_person)?;
        Ok(Trust::Authorities(ca.into_bytes()))
    }
}

/// A fingerprint of a password. It is stored, so it is keyed against guesses.
fn fingerprint(key: &Key, user: &str, password: &str) -> String {
    secret::encode(&key.sign("bmc", &[user, password]))
}

fn refusal(bmc: &Bmc, error: &redfish::Error) -> StageError {
    let evidence = match error.class {
        redfish::Class::Credentials => {
            format!("{error} (the BMC at {}, the secret at {})", bmc.address, bmc.credential)
        }
        redfish::Class::Unreachable(_)
        | redfish::Class::Elsewhere(_)
        | redfish::Class::Untrusted(_)
        | redfish::Class::Busy { .. }
        | redfish::Class::Ambiguous(_)
        | redfish::Class::Unreadable(_)
        | redfish::Class::Forbidden(_)
        | redfish::Class::Gone
        | redfish::Class::Refused { .. } => {
            format!(
                "{error} (the BMC at {}; `wardroom gpu-node set --bmc` corrects the address)",
                bmc.address
            )
        }
    };
    match &error.class {
        redfish::Class::Credentials => failed(Class::Credentials, evidence),
        redfish::Class::Busy { after } => {
            StageError::Failed { class: Class::Unanswered, evidence, after: *after }
        }
        redfish::Class::Unreachable(_) | redfish::Class::Ambiguous(_) | redfish::Class::Unreadable(_) => {
            unanswered(evidence)
        }
        redfish::Class::Elsewhere(_)
        | redfish::Class::Untrusted(_)
        | redfish::Class::Forbidden(_)
        | redfish::Class::Gone
        | redfish::Class::Refused { .. } => needs_person(evidence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_fingerprint_needs_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| Key::create(&dir.path().join(name)).unwrap());
        let shown = fingerprint(&one, "root", "calvin");
        assert_eq!(shown, fingerprint(&one, "root", "calvin"));
        assert_ne!(shown, fingerprint(&one, "root", "hobbes"));
        assert_ne!(shown, fingerprint(&other, "root", "calvin"));
    }
}
