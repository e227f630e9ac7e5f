//! What was last seen of machines with work under way: one poller reads them in batches, all waiting stages look here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use wardroom_upstream::maas::Machine;

use super::{proof::Seen, site::Settings};

/// How long a machine is looked at after the last stage asked for it.
const INTEREST: SignedDuration = SignedDuration::from_mins(5);

/// Which machine of which node, at which site.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Which {
    pub(crate) site: String,
    pub(crate) system_id: String,
}

/// What was seen of a machine; nothing when MAAS does not have it.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    pub(crate) machine: Option<Arc<Machine>>,
    /// When the request that saw it was sent.
    pub(crate) at: Timestamp,
}

#[derive(Debug)]
struct Entry {
    node: String,
    wanted: Timestamp,
    seen: Option<Sighting>,
}

#[derive(Debug)]
struct Site {
    settings: Settings,
    polled: Option<Timestamp>,
    /// MAAS asked not to be asked before.
    put_off: Option<Timestamp>,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    machines: HashMap<Which, Entry>,
    sites: HashMap<String, Site>,
}

/// What to poll: a site, and the machines that somebody waits for, each with its node.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) site: String,
    pub(crate) settings: Settings,
    pub(crate) machines: Vec<(String, String)>,
}

impl Cache {
    /// What was seen of a machine since a time; whoever asks waits for it, so it is looked at from now on.
    pub(crate) fn look(
        &self,
        which: &Which,
        node: &str,
        settings: &Settings,
        since: Timestamp,
        now: Timestamp,
    ) -> Option<Sighting> {
        let mut inner = self.lock();
        let site = inner.sites.entry(which.site.clone());
        let site = site.or_insert_with(|| Site { settings: settings.clone(), polled: None, put_off: None });
        site.settings.clone_from(settings);
        let entry = inner.machines.entry(which.clone());
        let entry = entry.or_insert_with(|| Entry { node: node.to_owned(), wanted: now, seen: None });
        entry.wanted = now;
        // A machine that came back belongs to another node.
        node.clone_into(&mut entry.node);
        entry.seen.clone().filter(|seen| seen.at >= since)
    }

    /// The sites whose machines are to be looked at now.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<Batch> {
        let mut inner = self.lock();
        let Inner { machines, sites } = &mut *inner;
        machines.retain(|_, entry| now.duration_since(entry.wanted) < INTEREST);
        let mut due = Vec::new();
        for (name, site) in sites.iter_mut() {
            let pause =
                SignedDuration::from_millis(i64::try_from(site.settings.poll_millis).unwrap_or(10_000));
            let waits = site.polled.is_some_and(|polled| now.duration_since(polled) < pause)
                || site.put_off.is_some_and(|until| now < until);
            let wanted: Vec<_> = machines
                .iter()
                .filter(|(which, _)| which.site == *name)
                .map(|(which, entry)| (which.system_id.clone(), entry.node.clone()))
                .collect();
            if !waits && !wanted.is_empty() {
                site.polled = Some(now);
                due.push(Batch { site: name.clone(), settings: site.settings.clone(), machines: wanted });
            }
        }
        due
    }

    /// A site is not looked at for a while, because its MAAS asks for that.
    pub(crate) fn put_off(&self, site: &str, until: Timestamp) {
        if let Some(site) = self.lock().sites.get_mut(site) {
            site.put_off = Some(until);
        }
    }

    /// Keeps what a poll saw.
    pub(crate) fn keep(&self, site: &str, at: Timestamp, seen: Vec<(String, Option<Machine>)>) {
        let mut inner = self.lock();
        for (system_id, machine) in seen {
            let which = Which { site: site.to_owned(), system_id };
            if let Some(entry) = inner.machines.get_mut(&which) {
                entry.seen = Some(Sighting { machine: machine.map(Arc::new), at });
            }
        }
    }

    /// How long a stage waits before it looks again.
    pub(crate) fn pause(settings: &Settings) -> Duration {
        Duration::from_millis((settings.poll_millis / 2).clamp(50, 10_000))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sighting as it is kept with the node.
pub(crate) fn seen(site: &str, system_id: &str, machine: Option<&Machine>) -> Seen {
    Seen {
        present: machine.is_some(),
        system_id: system_id.to_owned(),
        site: site.to_owned(),
        status: machine.map(|machine| machine.status),
        status_name: machine.map(|machine| machine.status_name.clone()),
        power: machine.map(|machine| machine.power_state),
    }
}
