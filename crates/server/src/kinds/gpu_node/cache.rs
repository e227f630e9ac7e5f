//! A cache of the machines with work under way: one poller reads them in batches for all waiting stages.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use wardroom_upstream::maas::Machine;

use super::{document, proof::Seen, site::Settings};

/// How long a machine is polled after the last stage asked for it.
const INTEREST: SignedDuration = SignedDuration::from_mins(5);

/// A machine, its node and its site.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Which {
    pub(crate) site: String,
    pub(crate) system_id: String,
}

/// An observation of a machine; none if MAAS does not have it.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    pub(crate) machine: Option<Arc<Machine>>,
    /// When the request was sent.
    pub(crate) at: Timestamp,
}

#[derive(Debug)]
struct Entry {
    node: String,
    wanted: Timestamp,
    /// Earlier observations do not count for the stage, by the clock of the server that began it.
    since: Timestamp,
    /// When this server was first asked.
    asked: Timestamp,
    seen: Option<Sighting>,
}

#[derive(Debug)]
struct Site {
    settings: Settings,
    polled: Option<Timestamp>,
    /// MAAS asked for no calls before this time.
    put_off: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    machines: HashMap<Which, Entry>,
    sites: HashMap<String, Site>,
}

/// The machines of one MAAS that stages wait for, each with its node.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Identifies the MAAS.
    pub(crate) maas: String,
    /// One of the sites that have it.
    pub(crate) site: String,
    pub(crate) settings: Settings,
    pub(crate) machines: Vec<(Which, String)>,
}

impl Site {
    /// Returns the MAAS of a site. Sites with the same MAAS and account are polled together.
    fn maas(&self) -> String {
        let Settings { url, key, ca, .. } = &self.settings;
        format!("{} {key} {}", document::address(url), ca.as_deref().unwrap_or_default())
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let pause = SignedDuration::from_millis(i64::try_from(self.settings.poll_millis).unwrap_or(10_000));
        self.polled.is_none_or(|polled| now.duration_since(polled) >= pause)
    }
}

impl Cache {
    /// Returns an observation of a machine since a time; the machine is polled from now on.
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
        let entry = entry.or_insert_with(|| Entry {
            node: node.to_owned(),
            wanted: now,
            since,
            asked: now,
            seen: None,
        });
        entry.wanted = now;
        if entry.since != since {
            (entry.since, entry.asked) = (since, now);
        }
        // The machine may belong to another node now.
        node.clone_into(&mut entry.node);
        // Another server's clock may be behind, so earlier observations here would seem newer than its stage.
        entry.seen.clone().filter(|seen| seen.at >= since.max(entry.asked))
    }

    /// Returns the machines to poll now. When a site is due, all sites with the same MAAS are: one request
    /// lists machines of many sites, and a slow MAAS has no time for separate ones.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<Batch> {
        let mut inner = self.lock();
        let Inner { machines, sites } = &mut *inner;
        machines.retain(|_, entry| now.duration_since(entry.wanted) < INTEREST);
        let mut wanted: BTreeMap<String, Vec<(Which, String)>> = BTreeMap::new();
        for (which, entry) in machines.iter() {
            let Some(site) = sites.get(&which.site) else { continue };
            wanted.entry(site.maas()).or_default().push((which.clone(), entry.node.clone()));
        }
        let mut due = Vec::new();
        for (maas, machines) in wanted {
            let of = |which: &Which| sites.get(&which.site);
            let put_off =
                machines.iter().filter_map(|(which, _)| of(which)?.put_off).any(|until| now < until);
            let first = machines.iter().filter_map(|(which, _)| Some((which, of(which)?)));
            let Some((which, site)) = first.clone().find(|(_, site)| !put_off && site.is_due(now)) else {
                continue;
            };
            let (site, settings) = (which.site.clone(), site.settings.clone());
            for (which, _) in &machines {
                if let Some(site) = sites.get_mut(&which.site) {
                    site.polled = Some(now);
                }
            }
            due.push(Batch { maas, site, settings, machines });
        }
        due
    }

    /// Pauses polling of a MAAS that asked for it.
    pub(crate) fn put_off(&self, maas: &str, until: Timestamp) {
        for site in self.lock().sites.values_mut().filter(|site| site.maas() == maas) {
            site.put_off = Some(until);
        }
    }

    /// Stores the results of a poll.
    pub(crate) fn keep(&self, at: Timestamp, seen: Vec<(Which, Option<Machine>)>) {
        let mut inner = self.lock();
        for (which, machine) in seen {
            if let Some(entry) = inner.machines.get_mut(&which) {
                entry.seen = Some(Sighting { machine: machine.map(Arc::new), at });
            }
        }
    }

    /// How long a stage waits before its next look.
    pub(crate) fn pause(settings: &Settings) -> Duration {
        Duration::from_millis((settings.poll_millis / 2).clamp(50, 10_000))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts an observation for the node's record.
pub(crate) fn seen(site: &str, system_id: &str, machine: Option<&Machine>) -> Seen {
    Seen {
        present: machine.is_some(),
        system_id: system_id.to_owned(),
        site: site.to_owned(),
        status: machine.map(|machine| machine.status),
        status_name: machine.map(|machine| machine.status_name.clone()),
        power: machine.map(|machine| machine.power_state),
        doubt: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn which(site: &str) -> Which {
        Which { site: site.to_owned(), system_id: format!("machine of {site}") }
    }

    /// Twelve sites have one MAAS, however they write it, and another one has its own: two questions and not thirteen, also
    /// when the sites come to want to know at different times.
    #[test]
    fn sites_on_one_maas_are_looked_at_together() {
        let (cache, start) = (Cache::default(), Timestamp::UNIX_EPOCH);
        let second = SignedDuration::from_secs(1);
        let settings = |url: &str| Settings { url: url.to_owned(), ..Settings::default() };
        let one = [settings("http://maas.example/MAAS"), settings("HTTP://MAAS.example:80/MAAS/")];
        for (site, settings) in (0..12).zip(one.iter().cycle()) {
            let which = which(&format!("site {site}"));
            assert!(cache.look(&which, "node", settings, start, start + second * site).is_none());
        }
        cache.look(&which("another"), "node", &settings("http://other.example/MAAS"), start, start);
        let sizes = |now| cache.due(now).iter().map(|batch| batch.machines.len()).collect::<Vec<_>>();
        assert_eq!(sizes(start + second * 12), [12, 1]);
        assert_eq!(sizes(start + second * 13), [0; 0], "it is not time yet");
        let later = which("site 12");
        cache.look(&later, "node", &one[0], start, start + second * 14);
        assert_eq!(sizes(start + second * 14), [13], "one that was never observed");
        let maas = cache.due(start + second * 60).remove(0).maas;
        cache.put_off(&maas, start + second * 200);
        assert_eq!(sizes(start + second * 100), [1], "the other one did not ask for that");
        cache.look(&later, "node", &one[0], start + second * 60, start + second * 60);
        cache.keep(start + second * 60, vec![(later.clone(), None)]);
        assert!(cache.look(&later, "node", &one[0], start + second * 60, start + second * 101).is_some());
    }

    /// The server that began the stage is five seconds behind: what was seen here before that seems to be newer.
    #[test]
    fn an_observation_from_before_the_question_is_not_used() {
        let (cache, start, second) = (Cache::default(), Timestamp::UNIX_EPOCH, SignedDuration::from_secs(1));
        let (which, settings) = (which("site"), Settings::default());
        let look = |since, now| {
            let seen = cache.look(&which, "node", &settings, start + second * since, start + second * now);
            seen.is_some()
        };
        assert!(!look(0, 1));
        cache.keep(start + second * 9, vec![(which.clone(), None)]);
        assert!(look(0, 9));
        assert!(!look(5, 10), "it began at 10 by our clock");
        assert!(!look(5, 12), "also when it is asked again");
        cache.keep(start + second * 13, vec![(which.clone(), None)]);
        assert!(look(5, 14));
    }
}
