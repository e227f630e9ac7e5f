//! A device: it enrols with a key of its own, polls for its spec, follows it, and reports.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
use sha2::{Digest as _, Sha256};
use wardroom_api::{
    client::{Client, Error},
    device::{
        Condition, ConfigStatus, DeviceReport, EnrollmentRequest, EnrollmentRequestSpec, Metadata,
        REBOOTS_REQUESTED, RENDERED_VERSION, RenderedDevice, ResourcesStatus,
    },
};

use super::{
    random::Random,
    rollout::{self, FLEET, REVISION},
    world::{PAUSE, World, note, until_done},
};

/// How many devices hold a poll; others ask from time to time, so that a large fleet does not need as many connections.
const HELD: usize = 300;

/// How long a step of an update takes.
const STEP: Duration = Duration::from_millis(1500);

/// How long a reboot takes.
const REBOOT: Duration = Duration::from_secs(4);

struct Device {
    world: Arc<World>,
    client: Client,
    name: String,
    alias: String,
    zone: &'static str,
    revision: &'static str,
    holds: bool,
    /// The version that it was given last, and the one that it runs.
    given: String,
    version: String,
    reboots: u64,
    boots: u64,
    updating: Condition,
    rebooting: bool,
}

/// Lives for as long as the demo.
pub(super) async fn live(world: Arc<World>, number: usize, token: Arc<str>) -> anyhow::Result<()> {
    let (alias, zone) = (world.plan.device(number), world.plan.zone(number));
    let (name, identity) = {
        let _turn = world.gate.acquire().await?;
        enrol(&world, number, &token).await?
    };
    let client = Client::with_certificate(&world.device_options(None), identity.as_bytes())?;
    world.has_joined();
    if world.plan.fleet(number).is_none() {
        // The others get their spec from their fleet.
        note(&world.devices, &name);
    }
    let mut random = Random::fork(world.plan.seed, number);
    // Not all at once, every time.
    tokio::time::sleep(world.plan.interval().mul_f64(random.share())).await;
    let (holds, updating) = (number < HELD, condition("Updating", "False", "Updated", ""));
    let mut device = Device {
        revision: world.plan.revision(number),
        world,
        client,
        name,
        alias,
        zone,
        holds,
        given: String::new(),
        version: String::new(),
        reboots: 0,
        boots: 1,
        updating,
        rebooting: false,
    };
    loop {
        device.world.linked(device.zone).await;
        match device.until_something_new().await {
            Ok(Some(wanted)) if wanted.spec.decommissioning.is_some() => return device.decommission().await,
            Ok(Some(wanted)) => device.follow(&wanted).await,
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, device.name, "a device waits before it asks again");
                tokio::time::sleep(PAUSE.mul_f64(1.0 + 4.0 * random.share())).await;
            }
        }
    }
}

impl Device {
    /// Reports from time to time until something else is wanted, or the zone is cut off.
    async fn until_something_new(&self) -> Result<Option<RenderedDevice>, Error> {
        let known = Some(self.given.as_str()).filter(|version| !version.is_empty());
        let poll = self.client.rendered_device(&self.name, known, Some(self.reboots));
        let mut poll = std::pin::pin!(poll);
        loop {
            self.report().await?;
            let pause = self.world.plan.interval();
            tokio::select! {
                () = self.world.cut(self.zone) => return Ok(None),
                () = tokio::time::sleep(pause), if self.holds || known.is_some() => {
                    if !self.holds {
                        return self.client.rendered_device(&self.name, None, None).await;
                    }
                }
                answer = &mut poll, if self.holds || known.is_none() => return answer,
            }
        }
    }

    /// Brings itself to what is wanted, a step at a time.
    async fn follow(&mut self, wanted: &RenderedDevice) {
        let note = |name: &str| wanted.metadata.annotations.get(name).cloned();
        let reboots = note(REBOOTS_REQUESTED).and_then(|number| number.parse().ok()).unwrap_or(0);
        let version = note(RENDERED_VERSION).unwrap_or_default();
        if version != self.given {
            self.update(version, rollout::breaks(&wanted.spec, self.revision)).await;
        }
        if reboots > self.reboots {
            self.rebooting = true;
            self.say().await;
            tokio::time::sleep(REBOOT).await;
            self.rebooting = false;
            self.reboots = reboots;
            self.boots += 1;
        }
    }

    /// Brings itself to a version, or back to the one that it runs where that one breaks it.
    async fn update(&mut self, version: String, breaks: bool) {
        let steps = match (self.given.is_empty(), breaks) {
            (true, false) => &[][..],
            (_, false) => &["Preparing", "ReadyToUpdate", "ApplyingUpdate"][..],
            (_, true) => {
                &["Preparing", "ReadyToUpdate", "ApplyingUpdate", "ActivatingConfig", "RollingBack"][..]
            }
        };
        for step in steps {
            self.updating = condition("Updating", "True", step, &format!("version {version}"));
            self.say().await;
            tokio::time::sleep(STEP).await;
        }
        self.given.clone_from(&version);
        if breaks {
            let said = format!(
                "hook afterUpdating ended with 1: no /dev/lp1 on a board of revision {}",
                self.revision
            );
            self.updating = condition("Updating", "False", "Error", &said);
        } else {
            self.updating = condition("Updating", "False", "Updated", &format!("version {version}"));
            self.version = version;
        }
    }

    /// Takes itself out of service, as its operator asked.
    async fn decommission(mut self) -> anyhow::Result<()> {
        self.updating = condition("DeviceDecommissioning", "True", "Completed", "");
        self.say().await;
        // It has no certificate any more: the rest is silence.
        std::future::pending().await
    }

    async fn say(&self) {
        if let Err(error) = self.report().await {
            tracing::debug!(%error, self.name, "a report of a device was not taken");
        }
    }

    async fn report(&self) -> Result<(), Error> {
        let mut conditions = vec![self.updating.clone()];
        if self.rebooting {
            conditions.push(condition("Rebooting", "True", "Requested", "an operator asked for it"));
        }
        let well = Some("Healthy".to_owned());
        let report = DeviceReport {
            conditions,
            system_info: self.facts(),
            applications: Vec::new(),
            resources: ResourcesStatus { cpu: well.clone(), memory: well.clone(), disk: well },
            config: ConfigStatus { rendered_version: self.version.clone() },
            ..DeviceReport::default()
        };
        self.client.report_device(&self.name, report).await
    }

    fn facts(&self) -> BTreeMap<String, String> {
        [
            ("architecture", "arm64".to_owned()),
            ("operatingSystem", "a simulated device".to_owned()),
            ("hostname", self.alias.clone()),
            ("agentVersion", env!("CARGO_PKG_VERSION").to_owned()),
            ("bootID", format!("{}-{}", self.alias, self.boots)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Makes a key and gets a certificate for it. Gives the name of the device, and key and certificate as PEM.
async fn enrol(world: &World, number: usize, token: &str) -> anyhow::Result<(String, String)> {
    let plan = &world.plan;
    let key = KeyPair::generate()?;
    let name = base32hex(&Sha256::digest(key.subject_public_key_info()));
    let csr = CertificateParams::default().serialize_request(&key)?.pem()?;
    let labels = [
        ("alias", plan.device(number)),
        ("zone", plan.zone(number).to_owned()),
        (REVISION, plan.revision(number).to_owned()),
    ];
    let labels = labels.into_iter().chain(plan.fleet(number).map(|fleet| (FLEET, fleet.to_owned())));
    let labels = labels.map(|(name, value)| (name.to_owned(), value)).collect();
    let request = EnrollmentRequest {
        metadata: Metadata { name: name.clone(), ..Metadata::default() },
        spec: EnrollmentRequestSpec { csr, labels, device_status: None },
        ..EnrollmentRequest::default()
    };
    let client = Client::new(&world.device_options(Some(token.to_owned())))?;
    loop {
        let answer = until_done(|| client.request_enrollment(&request)).await;
        if let Some(certificate) = answer.status.and_then(|status| status.certificate) {
            return Ok((name, format!("{}{certificate}", key.serialize_pem())));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The name of a device: 52 characters for the 32 bytes of the digest of its key.
pub(crate) fn base32hex(bytes: &[u8]) -> String {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let digit = |bits: &[u8]| {
        let value = (0..5).fold(0, |sum, at| sum << 1 | u32::from(bits.get(at).copied().unwrap_or(0)));
        char::from_digit(value, 32).unwrap_or('0')
    };
    bits.chunks(5).map(digit).collect()
}

fn condition(of: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        r#type: of.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: None,
    }
}
