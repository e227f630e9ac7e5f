//! Devices by their certificates, from memory: a poll that finds nothing new reads no database.

use std::{
    collections::HashSet,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use wardroom_core::{device::summary, liveness::Interval};
use wardroom_store::Resource;

use super::document::{Document, KIND};
use crate::platform::{
    app::App,
    clock::Moment,
    config::Config,
    http::error::Error,
    identity::{
        cache::{Cache, Cached, Record},
        deny::Forgets as _,
    },
    parts::Parts,
};

const UNKNOWN: Error =
    Error::Unauthenticated("the certificate is not one of a device that is enrolled here: enrol it anew");

/// A device that calls, and the certificate that it showed.
#[derive(Debug, Clone)]
pub(crate) struct DeviceIdentity {
    pub(crate) name: Box<str>,
    pub(crate) serial: Box<str>,
    /// When the certificate ends.
    pub(crate) until: Timestamp,
}

/// A device as far as its requests are judged and answered by it.
#[derive(Debug)]
pub(crate) struct Known {
    record: Record,
    name: Box<str>,
    serials: Box<[u128]>,
    revoked: bool,
    /// Whether it counts as lost, and has to be brought back.
    pub(crate) is_lost: bool,
    /// What the agent has to compare.
    pub(crate) rendered_version: u64,
    pub(crate) reboots: u64,
    /// The longest gap between two requests that is well, as liveness counts.
    pub(crate) given: Option<Interval>,
    pub(crate) zone: Option<Arc<str>>,
}

/// What reading a device needs beside its record.
pub(crate) struct Setup {
    zone_label: String,
    zones: Mutex<HashSet<Arc<str>>>,
    beats: u32,
}

impl Setup {
    fn zone_of(&self, device: &Resource) -> Option<Arc<str>> {
        let name = device.content.labels.get(&self.zone_label)?.as_str();
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = zones.get(name) {
            return Some(Arc::clone(known));
        }
        let name = Arc::<str>::from(name);
        zones.insert(Arc::clone(&name));
        Some(name)
    }
}

/// Liveness allows some beats of silence: so long an interval makes that the silence that the device may keep.
pub(crate) fn interval_for(silence_seconds: u32, beats: u32) -> Option<Interval> {
    Interval::from_seconds(silence_seconds.div_ceil(beats.max(1)))
}

/// All devices.
pub(crate) struct Identities(Arc<Cache<Known>>);

impl Identities {
    /// Those of a server.
    pub(crate) fn of(app: &App) -> &Self {
        app.part()
    }

    pub(crate) fn new(parts: &mut Parts, config: &Config) -> Self {
        let setup = Setup {
            zone_label: config.liveness.zone_label.clone(),
            zones: Mutex::default(),
            beats: config.liveness.policy.beats.get(),
        };
        Self(parts.cache(setup))
    }

    /// Recognises the device behind a certificate.
    pub(crate) async fn identify(
        &self,
        app: &App,
        identity: &DeviceIdentity,
        from: IpAddr,
    ) -> Result<(), Error> {
        let shown = shown(&identity.serial).ok_or(UNKNOWN)?;
        self.0.identify(app, &identity.name, shown, from).await.map(drop)
    }

    /// Judges a device as it is now, and returns it.
    pub(crate) async fn standing(&self, app: &App, identity: &DeviceIdentity) -> Result<Arc<Known>, Error> {
        in_time(app, identity)?;
        let shown = shown(&identity.serial).ok_or(UNKNOWN)?;
        self.0.standing(app, &identity.name, shown).await
    }

    /// Believes nothing of a device from before this version.
    pub(crate) fn changed(&self, name: &str, version: i64, now: Moment) {
        self.0.announce(name, version, now);
    }

    /// Waits until every other server has noticed that access was taken away.
    pub(crate) async fn settle(&self) {
        self.0.settle().await;
    }
}

/// A certificate was verified when the connection was opened; its end is looked at on every request.
pub(crate) fn in_time(app: &App, identity: &DeviceIdentity) -> Result<(), Error> {
    if app.now() < identity.until {
        return Ok(());
    }
    Err(Error::Unauthenticated(
        "the certificate has expired: an operator approves the enrolment request of the device again",
    ))
}

/// A serial number in the form in which it is compared.
fn shown(serial: &str) -> Option<u128> {
    u128::from_str_radix(serial, 16).ok()
}

impl Cached for Known {
    const KIND: &'static str = KIND;
    const MOST: Option<usize> = None;
    const UNKNOWN: Error = UNKNOWN;
    type Setup = Setup;
    /// The serial number of the certificate.
    type Shown = u128;
    type Standing = Arc<Self>;

    fn read(setup: &Setup, resource: &Resource, read_at: Moment) -> Result<Self, Error> {
        let document = Document::of(resource)?;
        Ok(Self {
            record: Record::of(resource, read_at),
            name: resource.content.id.as_str().into(),
            serials: document.certificates.iter().filter_map(|issued| shown(&issued.serial)).collect(),
            revoked: document.revoked,
            is_lost: resource.content.state == summary::Status::Offline.as_str(),
            rendered_version: document.rendered_version,
            reboots: document.reboots,
            given: interval_for(document.silence_seconds, setup.beats),
            zone: setup.zone_of(resource),
        })
    }

    async fn look_up(app: &App, name: &str) -> Result<Option<Resource>, Error> {
        Ok(app.store.get(KIND, name).await?)
    }

    fn record(&self) -> &Record {
        &self.record
    }

    fn known_as(&self, number: u8) -> Option<&str> {
        (number == 0).then_some(&self.name)
    }

    fn has(&self, serial: u128, _: Timestamp) -> bool {
        !self.record.deleted && self.serials.contains(&serial)
    }

    fn judge(self: &Arc<Self>, serial: u128, now: Timestamp) -> Result<Arc<Self>, Error> {
        match (self.has(serial, now), self.revoked) {
            (false, _) => Err(UNKNOWN),
            (true, true) => Err(Error::Revoked),
            (true, false) => Ok(Arc::clone(self)),
        }
    }
}
