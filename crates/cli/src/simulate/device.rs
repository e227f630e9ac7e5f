//! The life of one simulated device.

use std::{net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use wardroom_api::device::RENDERED_VERSION;

use super::{
    World,
    link::{Answer, Request},
};
use crate::demo::{device::base32hex, random::Random};

struct Device {
    world: Arc<World>,
    identity: TlsConnector,
    name: String,
    from: Option<IpAddr>,
    number: usize,
    random: Random,
    /// The version that it runs, and the one that it gave up.
    runs: String,
    gave_up: String,
}

/// Enrols and lives until the simulation ends.
pub(super) async fn live(world: Arc<World>, number: usize) -> anyhow::Result<()> {
    let options = Arc::clone(&world.options);
    let mut random = Random::fork(options.seed, number);
    let from = options.from.get(number % options.from.len().max(1)).copied();
    let (name, identity) = enrol(&world, number, from).await?;
    world.tally.has_enrolled();
    let mut device = Device {
        world,
        identity,
        name,
        from,
        number,
        random: random.clone(),
        runs: String::new(),
        gave_up: String::new(),
    };
    let mut next = Instant::now() + options.interval.mul_f64(random.share());
    loop {
        tokio::time::sleep_until(next).await;
        // Up to a tenth earlier, so that devices do not come in step.
        next += options.interval.mul_f64(1.0 - 0.1 * device.random.share());
        let began = Instant::now();
        let polled = device.poll().await;
        device.world.tally.polled(began.elapsed(), polled.as_ref().err());
        // A poll that took longer than the interval was missed.
        if next < Instant::now() {
            device.world.tally.missed();
            next = Instant::now();
        }
    }
}

impl Device {
    async fn poll(&mut self) -> anyhow::Result<()> {
        let path = format!("devices/{}/rendered", self.name);
        let answer = self.send("GET", &path, None).await?;
        let wanted: Value = serde_json::from_slice(&answer.body)?;
        let version = wanted["metadata"]["annotations"][RENDERED_VERSION].as_str().unwrap_or_default();
        if version != self.runs && version != self.gave_up {
            self.update(version.to_owned()).await?;
        }
        Ok(())
    }

    /// Applies a version, or gives it up.
    async fn update(&mut self, version: String) -> anyhow::Result<()> {
        if !self.runs.is_empty() {
            self.report("True", "ApplyingUpdate", &format!("version {version}: applying")).await?;
        }
        // The same seed gives the same failures, however often a device polled before.
        let seed = self.world.options.seed ^ version.parse::<u64>().unwrap_or_default().rotate_left(32);
        let dice = Random::fork(seed, self.number).below(100);
        let fails = !self.runs.is_empty() && dice < usize::from(self.world.options.failures);
        if fails {
            self.gave_up.clone_from(&version);
            self.report("False", "Error", &format!("version {version}: simulated failure")).await?;
        } else {
            self.runs.clone_from(&version);
            self.report("False", "Updated", &format!("version {version}")).await?;
        }
        self.world.tally.updated(fails);
        Ok(())
    }

    async fn report(&self, status: &str, reason: &str, message: &str) -> anyhow::Result<()> {
        let condition = json!({"type": "Updating", "status": status, "reason": reason, "message": message});
        let body = json!({"status": {
            "conditions": [condition],
            "systemInfo": {"operatingSystem": "a simulated device", "agentVersion": env!("CARGO_PKG_VERSION")},
            "resources": {"cpu": "Healthy", "memory": "Healthy", "disk": "Healthy"},
            "config": {"renderedVersion": self.runs},
        }});
        let path = format!("devices/{}/status", self.name);
        self.send("PUT", &path, Some(&body.to_string())).await.map(drop)
    }

    async fn send(&self, method: &str, path: &str, body: Option<&str>) -> anyhow::Result<Answer> {
        let request = Request { method, path, bearer: None, body };
        expect(self.world.place.send(&self.identity, self.from, request).await?)
    }
}

fn expect(answer: Answer) -> anyhow::Result<Answer> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    bail!("{}: {}", answer.status, problem["detail"].as_str().unwrap_or("no reason given"))
}

/// How long a device waits before it asks again to be enrolled.
const PAUSE: Duration = Duration::from_secs(1);

/// How often it asks.
const TRIES: usize = 30;

/// Makes a key and gets a certificate for it.
async fn enrol(world: &World, number: usize, from: Option<IpAddr>) -> anyhow::Result<(String, TlsConnector)> {
    let _turn = world.gate.acquire().await?;
    let key = KeyPair::generate()?;
    let name = base32hex(&Sha256::digest(key.subject_public_key_info()));
    let csr = CertificateParams::default().serialize_request(&key)?.pem()?;
    let labels = json!({"simulated": "true", "number": number.to_string()});
    let body = json!({"metadata": {"name": name}, "spec": {"csr": csr, "labels": labels}}).to_string();
    let stranger = world.place.identity(None)?;
    let bearer = Some(world.options.token.as_str());
    let request = Request { method: "POST", path: "enrollmentrequests", bearer, body: Some(&body) };
    let mut tries = 0;
    let answer = loop {
        tries += 1;
        match world.place.send(&stranger, from, request).await {
            // The server is busy, or not there yet.
            Err(_) if tries < TRIES => tokio::time::sleep(PAUSE).await,
            Ok(Answer { status: 429 | 503, .. }) if tries < TRIES => tokio::time::sleep(PAUSE).await,
            answer => break expect(answer?).context("a device could not be enrolled")?,
        }
    };
    let made: Value = serde_json::from_slice(&answer.body)?;
    let pem = made["status"]["certificate"].as_str();
    let pem = pem.context("a device waits for a person: create the token with --auto-approve")?;
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok((name, world.place.identity(Some((chain, key)))?))
}
