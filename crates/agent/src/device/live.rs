//! The life of an enrolled agent: it polls for its spec, brings the device to it, and reports what changes.
//!
//! Four loops run beside each other, so that a hook that takes long silences neither polls nor reports. Only the loop of
//! updates changes the device.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    convert::Infallible,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{sync::Notify, time::Instant};
use wardroom_api::{
    client::{Client, Error},
    device::{
        DeviceReport, REBOOTS_REQUESTED, RENDERED_VERSION, RenderedDevice, ResourceMonitor, ResourcesStatus,
    },
};
use wardroom_core::device::lifecycle::Reason;

use super::{
    Options, clock,
    identity::{self, Identity},
    monitor::Monitors,
    os::{self, Booted},
    random,
    record::{Record, Store, Version},
    report::{self, Facts},
    retry::{Retry, is_final, is_unreadable},
    update::Updater,
};

/// The least time from one poll to the next.
const BETWEEN_POLLS: Duration = Duration::from_secs(1);
/// The pause after an update that could not begin.
const AGAIN: Duration = Duration::from_secs(10);

/// What the server wants.
#[derive(Debug, Clone, Default, PartialEq)]
struct Wanted {
    version: Option<Version>,
    reboots: u64,
    decommissioned: bool,
}

/// Why the agent ends.
enum End {
    /// The device was taken out of service.
    Decommissioned,
    /// The server refuses the certificate.
    Refused(Error),
}

pub(crate) struct Agent<'a> {
    options: &'a Options,
    identity: &'a Identity,
    updater: &'a Updater<'a>,
    store: &'a Store,
    client: RefCell<Client>,
    valid: Cell<(jiff::Timestamp, jiff::Timestamp)>,
    wanted: RefCell<Wanted>,
    /// Notified when something else is wanted.
    asked: Notify,
    resources: RefCell<ResourcesStatus>,
    booted: Booted,
    system: BTreeMap<String, String>,
}

impl<'a> Agent<'a> {
    pub(crate) async fn new(
        options: &'a Options,
        identity: &'a Identity,
        updater: &'a Updater<'a>,
    ) -> anyhow::Result<Self> {
        let (client, from, until) = identity.client(options)?;
        let os = &updater.config.os;
        let booted = os::booted(os, &updater.store.running()).await.unwrap_or_else(|error| {
            tracing::error!(error, "the booted image is not known");
            Booted::default()
        });
        let system = report::system(&os::boot_id(os).map_err(anyhow::Error::msg)?);
        Ok(Self {
            options,
            identity,
            updater,
            store: updater.store,
            client: RefCell::new(client),
            valid: Cell::new((from, until)),
            wanted: RefCell::default(),
            asked: Notify::new(),
            resources: RefCell::default(),
            booted,
            system,
        })
    }

    /// Lives until the device is taken out of service or refused. An update in progress is finished first.
    pub(crate) async fn live(&self) -> anyhow::Result<()> {
        self.store.listen();
        let ended = tokio::select! {
            ended = self.poll() => ended,
            ended = self.update() => ended,
            never = self.report() => match never {},
            never = self.watch() => match never {},
            never = self.renew() => match never {},
        };
        match ended {
            End::Decommissioned => self.decommission().await,
            End::Refused(error) => Err(error).context(
                "the server refuses the certificate of this device: an operator approves its enrolment request again, or deletes \
                 the device and its request and removes --state-dir",
            ),
        }
    }

    /// Polls for what the server wants. Returns when the certificate is refused and no update is in progress.
    async fn poll(&self) -> End {
        let mut retry = Retry::default();
        let mut known: Option<String> = None;
        loop {
            let began = Instant::now();
            let reboots = self.wanted.borrow().reboots.max(self.store.record().reboots);
            let client = self.client.borrow().clone();
            match client.rendered_device(&self.identity.name, known.as_deref(), Some(reboots)).await {
                Ok(found) => {
                    retry = Retry::default();
                    if let Some(found) = found {
                        known = self.heard(found).or(known);
                    }
                    tokio::time::sleep_until(began + BETWEEN_POLLS).await;
                }
                // The server cannot say why it refuses a certificate that has ended.
                Err(error) if is_final(&error) || self.is_expired() => {
                    match self.identity.reissued(self.options).await {
                        Ok(true) if self.reopen() => {}
                        Ok(_) => return self.refused(error).await,
                        Err(denied) => {
                            tracing::error!("{denied:#}");
                            return self.refused(error).await;
                        }
                    }
                }
                Err(error) => {
                    let pause = retry.pause();
                    tracing::warn!(%error, pause = pause.as_secs_f64(), "the server did not answer; retrying");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    fn is_expired(&self) -> bool {
        self.valid.get().1 < clock::now()
    }

    /// Waits for the end of an update that has begun to change the device: it needs no server.
    async fn refused(&self, error: Error) -> End {
        tracing::error!(%error, "the server refuses this device");
        while self.store.record().changes_device() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        End::Refused(error)
    }

    /// Takes the answer of a poll. Returns its version.
    fn heard(&self, found: RenderedDevice) -> Option<String> {
        let annotation = |name: &str| found.metadata.annotations.get(name).cloned();
        let version = annotation(RENDERED_VERSION)?;
        let reboots = annotation(REBOOTS_REQUESTED).and_then(|text| text.parse().ok()).unwrap_or_default();
        let decommissioned = found.spec.decommissioning.is_some();
        // Nothing was ever rendered for version 0.
        let wanted = Version { version: version.clone(), spec: found.spec };
        let wanted = Wanted { version: (version != "0").then_some(wanted), reboots, decommissioned };
        *self.wanted.borrow_mut() = wanted;
        self.asked.notify_one();
        Some(version)
    }

    /// Brings the device to what is wanted, one thing after another.
    async fn update(&self) -> End {
        loop {
            self.updater.finish().await;
            let rebooted = self.updater.finish_reboot().await;
            let wanted = self.wanted.borrow().clone();
            let begun = match rebooted {
                Err(error) => Err(error),
                Ok(()) if wanted.decommissioned => return End::Decommissioned,
                Ok(()) => self.begin(wanted),
            };
            match begun {
                Ok(true) => {}
                Ok(false) => self.asked.notified().await,
                Err(error) => {
                    tracing::error!(error, "the agent cannot begin; retrying");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Begins what is wanted and not done. Returns false if there is nothing.
    fn begin(&self, wanted: Wanted) -> Result<bool, String> {
        let (wants, reboots) = {
            let record = self.store.record();
            (wanted.version.filter(|to| record.wants(&to.version)), record.reboots)
        };
        match wants {
            Some(to) => self.updater.begin(to).map(|()| true),
            None if wanted.reboots > reboots => self.updater.begin_reboot(wanted.reboots).map(|()| true),
            None => Ok(false),
        }
    }

    fn status(&self, decommissioning: Option<Reason>) -> DeviceReport {
        let facts = Facts {
            system: self.system.clone(),
            resources: self.resources.borrow().clone(),
            booted: self.booted.clone(),
            waiting: self.updater.waiting.borrow().clone(),
            decommissioning,
        };
        report::report(&self.store.record(), &facts)
    }

    /// Reports each change. A poll is the beat, so nothing is repeated.
    async fn report(&self) -> Infallible {
        let (mut sent, mut retry) = (None, Retry::default());
        loop {
            let generation = self.store.generation();
            let status = self.status(None);
            if sent.as_ref() != Some(&status) {
                let client = self.client.borrow().clone();
                if let Err(error) = client.report_device(&self.identity.name, status.clone()).await {
                    tracing::warn!(%error, "the server did not take the report; retrying");
                    // A newer report replaces this one.
                    tokio::select! {
                        () = tokio::time::sleep(retry.pause()) => {}
                        () = self.store.changed.notified() => tokio::time::sleep(BETWEEN_POLLS).await,
                    }
                    continue;
                }
                (sent, retry) = (Some(status), Retry::default());
            }
            self.store.delivered(generation);
            if self.store.generation() == generation {
                self.store.changed.notified().await;
            }
        }
    }

    /// Watches the resources that the spec in force names.
    async fn watch(&self) -> Infallible {
        let began = Instant::now();
        let (mut named, mut monitors) = (Vec::new(), Monitors::usual());
        loop {
            let spec = resources_of(&self.store.record());
            if named != spec {
                // An update validates its monitors, so this is a spec of another version of the agent.
                monitors = Monitors::read(&spec).unwrap_or_else(|error| {
                    tracing::error!(error, "the monitors of the spec cannot be used");
                    Monitors::usual()
                });
                named = spec;
            }
            monitors.sample(began.elapsed());
            let (status, critical) = (monitors.status(), monitors.critical());
            *self.updater.critical.borrow_mut() = critical;
            if *self.resources.borrow() != status {
                tracing::info!(?status, "the health of the resources changed");
                *self.resources.borrow_mut() = status;
                self.store.touch();
            }
            tokio::time::sleep(monitors.every()).await;
        }
    }

    /// Renews the certificate after two thirds of its time.
    async fn renew(&self) -> Infallible {
        loop {
            let (from, until) = self.valid.get();
            tokio::time::sleep(identity::renewal(from, until, random())).await;
            let mut retry = Retry::default();
            while let Err(error) = self.renew_once().await {
                tracing::warn!("the certificate was not renewed: {error:#}; retrying");
                tokio::time::sleep(retry.pause()).await;
            }
        }
    }

    async fn renew_once(&self) -> anyhow::Result<()> {
        let client = self.client.borrow().clone();
        let renewed = client.renew_device_certificate(&self.identity.name, self.identity.csr()?).await?;
        self.identity.keep(&renewed.certificate)?;
        tracing::info!(until = %renewed.expires_at, "the certificate was renewed");
        anyhow::ensure!(self.reopen(), "the new certificate cannot be used");
        Ok(())
    }

    /// Uses the certificate that is stored now.
    fn reopen(&self) -> bool {
        match self.identity.client(self.options) {
            Ok((client, from, until)) => {
                *self.client.borrow_mut() = client;
                self.valid.set((from, until));
                // Reports may wait because the certificate before was refused.
                self.store.touch();
                true
            }
            Err(error) => {
                tracing::error!("{error:#}");
                false
            }
        }
    }

    /// Takes the device out of service: says so, wipes what the agent stored, and never comes back.
    async fn decommission(&self) -> anyhow::Result<()> {
        tracing::warn!("this device is being decommissioned");
        self.tell(Reason::Started).await;
        self.tell(Reason::Completed).await;
        identity::wipe(self.store.dir(), &self.identity.name)?;
        tracing::warn!("this device was decommissioned: its key and the data of the agent are gone");
        Ok(())
    }

    /// Reports a step of the decommissioning until the server knows it, or knows the device no more.
    async fn tell(&self, reason: Reason) {
        let mut retry = Retry::default();
        loop {
            let client = self.client.borrow().clone();
            match client.report_device(&self.identity.name, self.status(Some(reason))).await {
                Ok(()) => return,
                Err(error) if is_final(&error) || is_unreadable(&error) => {
                    tracing::warn!(%error, %reason, "the server does not take the report of the decommissioning");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, %reason, "the server did not answer; retrying");
                    tokio::time::sleep(retry.pause()).await;
                }
            }
        }
    }
}

fn resources_of(record: &Record) -> Vec<ResourceMonitor> {
    record.current.as_ref().map(|current| current.spec.resources.clone()).unwrap_or_default()
}
