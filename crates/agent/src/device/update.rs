//! Performs the steps of an update, and stores the progress after each.

use std::{cell::RefCell, time::Duration};

use wardroom_api::device::{DeviceSpec, Schedule};
use wardroom_core::device::{hook::Hook, update::State};

use super::{
    clock,
    config::{Config, Driver},
    files::{self, Change},
    hooks::{self, Occasion},
    machine::{OsWork, Progress, Step, Work},
    monitor::Monitors,
    os,
    record::{OsChange, Outcome, Store, Update, Version},
    spec,
    window::Window,
};

/// The pause before a step of a rollback is repeated.
const AGAIN: Duration = Duration::from_secs(10);
/// How often a window and the resources are looked at.
const LOOK: Duration = Duration::from_secs(20);

/// What the caller does after a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The next step.
    Next,
    /// The same step again, later.
    Wait(Duration),
    /// Nothing: no update is in progress.
    Idle,
}

/// How a piece of work ended, if it did not fail.
enum Done {
    Yes,
    Planned(Vec<Change>, Option<OsChange>),
    NotYet(String),
}

/// Brings the device to a version.
pub(crate) struct Updater<'a> {
    pub(crate) config: &'a Config,
    pub(crate) store: &'a Store,
    /// The resources that are critical, for people; nothing if none is.
    pub(crate) critical: RefCell<Option<String>>,
    /// What the update waits for.
    pub(crate) waiting: RefCell<Option<String>>,
}

impl<'a> Updater<'a> {
    pub(crate) const fn new(config: &'a Config, store: &'a Store) -> Self {
        Self { config, store, critical: RefCell::new(None), waiting: RefCell::new(None) }
    }

    /// Begins an update, if the device does not run this version and has not failed to.
    pub(crate) fn begin(&self, to: Version) -> Result<(), String> {
        if !self.store.record().wants(&to.version) {
            return Ok(());
        }
        let began_in = os::boot_id(&self.config.os)?;
        tracing::info!(version = to.version, "an update begins");
        let update = Update {
            to,
            progress: Progress::default(),
            changes: Vec::new(),
            os: None,
            began_in,
            reboot_from: None,
            back_from: None,
        };
        self.store.change(|record| record.update = Some(update))
    }

    /// Runs steps until no update is in progress, or it has to wait.
    pub(crate) async fn resume(&self) {
        while self.step().await == Turn::Next {}
    }

    /// Runs steps until no update is in progress.
    pub(crate) async fn finish(&self) {
        loop {
            match self.step().await {
                Turn::Next => {}
                Turn::Wait(pause) => tokio::time::sleep(pause).await,
                Turn::Idle => return,
            }
        }
    }

    /// Does the next step of the update.
    pub(crate) async fn step(&self) -> Turn {
        let Some(update) = self.store.record().update.clone() else { return Turn::Idle };
        let new_os = update.os.is_some();
        let step = update.progress.next(new_os);
        let result = match step {
            Step::End => return self.end(&update),
            Step::Move(event) => {
                tracing::info!(version = update.to.version, from = %update.progress.state, %event, "the update moves");
                Ok(Done::Yes)
            }
            Step::Hook(called) => self.hook(&update, called.hook).await.map(|()| Done::Yes),
            Step::Work(work) => self.work(&update, work).await,
        };
        let mut after = update.clone();
        match result {
            Ok(Done::NotYet(reason)) => {
                self.wait_for(Some(reason));
                return Turn::Wait(LOOK);
            }
            Ok(Done::Planned(changes, os)) => {
                after.progress = update.progress.succeeded(step, os.is_some());
                (after.changes, after.os) = (changes, os);
            }
            Ok(Done::Yes) => after.progress = update.progress.succeeded(step, new_os),
            Err(cause) => {
                tracing::error!(version = update.to.version, state = %update.progress.state, cause, "a step failed");
                let Some(progress) = update.progress.failed(step, &cause) else {
                    self.wait_for(Some(cause));
                    return Turn::Wait(AGAIN);
                };
                after.progress = progress;
            }
        }
        self.wait_for(None);
        self.commit(&update, after)
    }

    /// Stores the progress. An update whose progress cannot be stored fails; a rollback waits until it can.
    fn commit(&self, update: &Update, after: Update) -> Turn {
        let Err(error) = self.store.change(|record| record.update = Some(after.clone())) else {
            return Turn::Next;
        };
        tracing::error!(error, "progress cannot be stored");
        self.store.release();
        let failed = update.progress.abandoned(&error).map(|progress| Update { progress, ..update.clone() });
        match self.store.change(|record| record.update = Some(failed.unwrap_or(after))) {
            Ok(()) => Turn::Next,
            Err(error) => {
                self.wait_for(Some(error));
                Turn::Wait(AGAIN)
            }
        }
    }

    fn end(&self, update: &Update) -> Turn {
        let progress = &update.progress;
        let message = progress.cause.clone().unwrap_or_else(|| progress.notes.join("; "));
        let outcome = Outcome { version: update.to.version.clone(), state: progress.state, message };
        tracing::info!(version = outcome.version, state = %outcome.state, message = outcome.message, "the update has ended");
        let stored = self.store.change(|record| {
            if outcome.state == State::Updated {
                record.current = Some(update.to.clone());
            }
            record.outcome = Some(outcome);
            record.update = None;
        });
        if let Err(error) = stored {
            self.store.release();
            self.wait_for(Some(error));
            return Turn::Wait(AGAIN);
        }
        self.store.release();
        Turn::Next
    }

    async fn hook(&self, update: &Update, hook: Hook) -> Result<(), String> {
        let rebooted = os::boot_id(&self.config.os)? != update.began_in;
        let occasion = Occasion { hook, version: &update.to.version, changes: &update.changes, rebooted };
        hooks::run(&self.config.hooks, &occasion, &self.store.running()).await
    }

    async fn work(&self, update: &Update, work: Work) -> Result<Done, String> {
        let policy = update.to.spec.update_policy.as_ref();
        let done = match work {
            Work::AwaitResources => return Ok(self.resources()),
            Work::AwaitDownloadWindow => {
                return window(
                    policy.and_then(|policy| policy.download_schedule.as_ref()),
                    "downloadSchedule",
                );
            }
            Work::AwaitUpdateWindow => {
                return window(policy.and_then(|policy| policy.update_schedule.as_ref()), "updateSchedule");
            }
            Work::Plan => return self.plan(update).await,
            Work::StageFiles => files::stage(&update.changes, &self.files(&update.to.spec)?),
            Work::PutFiles => files::put(&update.changes, &self.files(&update.to.spec)?),
            Work::RestoreFiles | Work::RestoreFilesAgain => {
                files::restore(&update.changes, update.progress.put)
            }
            Work::Clean => files::clean(&update.changes),
            Work::Os(work) => self.os_work(update, work).await,
        };
        done.map(|()| Done::Yes)
    }

    async fn os_work(&self, update: &Update, work: OsWork) -> Result<(), String> {
        let Some(change) = &update.os else { return Ok(()) };
        let is_touched = update.progress.staged_os;
        match work {
            OsWork::Stage => os::stage(&self.config.os, &change.to, &self.store.running()).await,
            OsWork::Reboot => self.reboot(update).await,
            OsWork::CheckBoot => self.check_boot(&change.to).await,
            OsWork::Restore if is_touched => self.restore_os(change).await,
            OsWork::RebootBack if is_touched => self.reboot_back(update, change).await,
            OsWork::Restore | OsWork::RebootBack => Ok(()),
        }
    }

    fn resources(&self) -> Done {
        let critical = self.critical.borrow().clone();
        critical.map_or(Done::Yes, |critical| {
            Done::NotYet(format!("waits until no resource is critical: {critical}"))
        })
    }

    fn files(&self, spec: &DeviceSpec) -> Result<Vec<spec::File>, String> {
        spec::files(spec, self.store.dir())
    }

    /// Validates the whole spec before the device is changed.
    async fn plan(&self, update: &Update) -> Result<Done, String> {
        let spec = &update.to.spec;
        spec::is_possible(spec)?;
        let before = match &self.store.record().current {
            Some(current) => self.files(&current.spec)?,
            None => Vec::new(),
        };
        let changes = files::plan(&before, &self.files(spec)?)?;
        Monitors::read(&spec.resources)?;
        for schedule in
            spec.update_policy.iter().flat_map(|policy| [&policy.download_schedule, &policy.update_schedule])
        {
            schedule.as_ref().map(Window::read).transpose()?;
        }
        let os = match spec.os.as_ref().map(|os| os.image.as_str()).filter(|image| !image.is_empty()) {
            None => None,
            Some(_) if self.config.os.driver == Driver::None => {
                return Err(
                    "os.image: this agent has no driver for the operating system; set os.driver in its \
                            configuration"
                        .to_owned(),
                );
            }
            Some(image) => {
                let booted = os::booted(&self.config.os, &self.store.running()).await?.image;
                (booted != image).then(|| OsChange { from: booted, to: image.to_owned() })
            }
        };
        self.store.reserve()?;
        Ok(Done::Planned(changes, os))
    }

    /// Reboots once: a device that has booted since the reboot was ordered goes on.
    async fn reboot(&self, update: &Update) -> Result<(), String> {
        let now = os::boot_id(&self.config.os)?;
        match &update.reboot_from {
            Some(from) if *from != now => return Ok(()),
            Some(_) => {}
            None => self.note_reboot(update, now)?,
        }
        self.store.told().await;
        Err(os::reboot(&self.config.os, &self.store.running()).await)
    }

    fn note_reboot(&self, update: &Update, now: String) -> Result<(), String> {
        let noted = Update { reboot_from: Some(now), ..update.clone() };
        self.store.change(|record| record.update = Some(noted))
    }

    async fn check_boot(&self, wanted: &str) -> Result<(), String> {
        let (os, mark) = (&self.config.os, &self.store.running());
        let booted = os::booted(os, mark).await?.image;
        if booted != wanted {
            return Err(format!("the device booted {booted}, not {wanted}"));
        }
        os::health(os, mark).await
    }

    /// Makes the old image the one to boot, whether or not the new one runs already.
    async fn restore_os(&self, change: &OsChange) -> Result<(), String> {
        let (os, mark) = (&self.config.os, &self.store.running());
        if os::booted(os, mark).await?.image == change.to {
            os::rollback(os, mark).await
        } else {
            os::stage(os, &change.from, mark).await
        }
    }

    async fn reboot_back(&self, update: &Update, change: &OsChange) -> Result<(), String> {
        let (os, mark) = (&self.config.os, &self.store.running());
        if os::booted(os, mark).await?.image != change.to {
            return Ok(());
        }
        let now = os::boot_id(os)?;
        let has_rebooted = update.back_from.as_ref().is_some_and(|from| *from != now);
        if has_rebooted {
            os::rollback(os, mark).await?;
        }
        let noted = Update { back_from: Some(now), ..update.clone() };
        self.store.change(|record| record.update = Some(noted))?;
        self.store.told().await;
        Err(os::reboot(os, mark).await)
    }

    fn wait_for(&self, reason: Option<String>) {
        if *self.waiting.borrow() != reason {
            if let Some(reason) = &reason {
                tracing::warn!(reason, "the update does not go on yet");
            }
            *self.waiting.borrow_mut() = reason;
            self.store.touch();
        }
    }
}

fn window(schedule: Option<&Schedule>, name: &str) -> Result<Done, String> {
    let Some(schedule) = schedule else { return Ok(Done::Yes) };
    let window = Window::read(schedule).map_err(|error| format!("updatePolicy.{name}.{error}"))?;
    if window.is_open(clock::now()) {
        return Ok(Done::Yes);
    }
    Ok(Done::NotYet(format!("waits for its window: {} for {}", schedule.at, schedule.start_grace_duration)))
}
