//! Monitors of CPU, memory and disk: what the device has used for how long.

use std::{fs, path::PathBuf, time::Duration};

use wardroom_api::device::{ResourceMonitor, ResourcesStatus};
use wardroom_core::device::resource::Health;

use super::hooks::duration;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Cpu,
    Memory,
    Disk,
}

/// More than a percentage for longer than a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    health: Health,
    percentage: u8,
    lasting: Duration,
    description: Option<String>,
    /// Since when it has held, without a sample below.
    since: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Monitor {
    resource: Resource,
    path: PathBuf,
    every: Duration,
    rules: Vec<Rule>,
    health: Health,
    used: u8,
}

/// All monitors of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Monitors {
    monitors: Vec<Monitor>,
    /// Busy and total time of the processors at the last sample.
    cpu: Option<(u64, u64)>,
    /// Whether the processors were measured: that takes two samples.
    is_measured: bool,
}

/// How often a resource is looked at when the spec says nothing.
const EVERY: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_secs(1);

/// The rules of a resource that the spec does not name: percentages and minutes of `Critical` and `Degraded`.
const DEFAULTS: [(Resource, Usual, Usual); 3] = [
    (Resource::Cpu, (90, 30), (80, 60)),
    (Resource::Memory, (90, 30), (80, 60)),
    (Resource::Disk, (90, 10), (80, 30)),
];

/// A percentage, and minutes.
type Usual = (u8, u64);

impl Monitors {
    /// Returns monitors with the usual rules.
    pub(crate) fn usual() -> Self {
        let rule = |health, (percentage, minutes): Usual| Rule {
            health,
            percentage,
            lasting: Duration::from_secs(60 * minutes),
            description: None,
            since: None,
        };
        let monitor = |(resource, critical, degraded)| {
            Monitor::new(resource, vec![rule(Health::Critical, critical), rule(Health::Degraded, degraded)])
        };
        Self { monitors: DEFAULTS.map(monitor).into(), cpu: None, is_measured: false }
    }

    /// Returns the monitors of a spec, with the usual rules for resources that it does not name.
    pub(crate) fn read(spec: &[ResourceMonitor]) -> Result<Self, String> {
        let mut usual = Self::usual();
        for (number, given) in spec.iter().enumerate() {
            let named = |error: String| format!("resources[{number}].{error}");
            let monitor = Monitor::read(given).map_err(named)?;
            usual.monitors.retain(|known| known.resource != monitor.resource);
            usual.monitors.push(monitor);
        }
        Ok(usual)
    }

    /// Returns the pause until the next sample.
    pub(crate) fn every(&self) -> Duration {
        let every = self.monitors.iter().map(|monitor| monitor.every).min().unwrap_or(EVERY);
        if self.is_measured { every } else { SHORTEST }
    }

    /// Looks at all resources. `now` is the time since any fixed moment.
    pub(crate) fn sample(&mut self, now: Duration) {
        let cpu = cpu_times();
        let busy = match (self.cpu, cpu) {
            (Some(before), Some(after)) => {
                percent(after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))
            }
            (_, _) => None,
        };
        self.cpu = cpu;
        self.is_measured |= busy.is_some();
        let memory = memory_used();
        for monitor in &mut self.monitors {
            let used = match monitor.resource {
                Resource::Cpu => busy,
                Resource::Memory => memory,
                Resource::Disk => disk_used(&monitor.path),
            };
            monitor.judge(used, now);
        }
    }

    /// Returns the health of every resource.
    pub(crate) fn status(&self) -> ResourcesStatus {
        let health = |wanted| {
            let found = self.monitors.iter().find(|monitor| monitor.resource == wanted);
            found.map(|monitor| monitor.health.to_string())
        };
        ResourcesStatus {
            cpu: health(Resource::Cpu),
            memory: health(Resource::Memory),
            disk: health(Resource::Disk),
        }
    }

    /// Returns the resources that are critical, for people.
    pub(crate) fn critical(&self) -> Option<String> {
        let critical = self.monitors.iter().filter(|monitor| monitor.health == Health::Critical);
        let told: Vec<_> = critical.map(Monitor::told).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

impl Monitor {
    fn new(resource: Resource, rules: Vec<Rule>) -> Self {
        Self { resource, path: "/".into(), every: EVERY, rules, health: Health::Unknown, used: 0 }
    }

    fn read(given: &ResourceMonitor) -> Result<Self, String> {
        let resource = match given.monitor_type.as_str() {
            "CPU" => Resource::Cpu,
            "Memory" => Resource::Memory,
            "Disk" => Resource::Disk,
            other => {
                return Err(format!("monitorType: {other:?} is not known, expected CPU, Memory or Disk"));
            }
        };
        let mut rules: Vec<Rule> = Vec::new();
        for (number, rule) in given.alert_rules.iter().enumerate() {
            let named = |error: String| format!("alertRules[{number}].{error}");
            let health = match Health::from_report(&rule.severity) {
                Ok(health @ (Health::Degraded | Health::Error | Health::Critical)) => health,
                Ok(Health::Healthy | Health::Unknown) | Err(_) => {
                    return Err(named("severity: expected Degraded, Error or Critical".to_owned()));
                }
            };
            if rules.iter().any(|known| known.health == health) {
                return Err(named("severity: appears more than once".to_owned()));
            }
            if !(1..=100).contains(&rule.percentage) {
                return Err(named("percentage: expected 1 to 100".to_owned()));
            }
            let lasting = duration(&rule.duration).map_err(|error| named(format!("duration: {error}")))?;
            let (percentage, description) = (rule.percentage, rule.description.clone());
            rules.push(Rule { health, percentage, lasting, description, since: None });
        }
        let mut monitor = Self::new(resource, rules);
        if let Some(every) = &given.sampling_interval {
            monitor.every =
                duration(every).map_err(|error| format!("samplingInterval: {error}"))?.max(SHORTEST);
        }
        if let Some(path) = &given.path {
            monitor.path = path.into();
        }
        Ok(monitor)
    }

    /// The worst rule that holds wins. A sample below a rule begins its time anew.
    fn judge(&mut self, used: Option<u8>, now: Duration) {
        let Some(used) = used else {
            self.health = Health::Unknown;
            return;
        };
        self.used = used;
        for rule in &mut self.rules {
            rule.since = (used > rule.percentage).then(|| rule.since.unwrap_or(now));
        }
        let holds = |rule: &&Rule| rule.since.is_some_and(|since| now.saturating_sub(since) >= rule.lasting);
        let worst = [Health::Critical, Health::Error, Health::Degraded].into_iter();
        let held: Vec<_> = self.rules.iter().filter(holds).map(|rule| rule.health).collect();
        self.health = worst.into_iter().find(|health| held.contains(health)).unwrap_or(Health::Healthy);
    }

    fn told(&self) -> String {
        let name = match self.resource {
            Resource::Cpu => "CPU",
            Resource::Memory => "memory",
            Resource::Disk => "disk",
        };
        let rule = self.rules.iter().find(|rule| rule.health == self.health);
        let description = rule.and_then(|rule| rule.description.as_deref());
        let said = description.map(|text| format!(", {text}")).unwrap_or_default();
        format!("{name} is {} ({} % used{said})", self.health, self.used)
    }
}

fn percent(part: u64, whole: u64) -> Option<u8> {
    u8::try_from(part.checked_mul(100)?.checked_div(whole)?).ok()
}

/// Returns the busy and the total time of all processors.
fn cpu_times() -> Option<(u64, u64)> {
    parse_cpu(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse_cpu(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // Time of guests is part of that of users.
    let times: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let (idle, total) = (times.get(3)? + times.get(4)?, times.iter().sum::<u64>());
    Some((total - idle, total))
}

fn memory_used() -> Option<u8> {
    parse_memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse_memory(text: &str) -> Option<u8> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (total, available) = (field("MemTotal:")?, field("MemAvailable:")?);
    percent(total.saturating_sub(available), total)
}

/// The share that is used, computed as `df` does: blocks reserved for root do not count.
fn disk_used(path: &std::path::Path) -> Option<u8> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    percent(used, used + disk.f_bavail)
}

#[cfg(test)]
mod tests {
    use wardroom_api::device::AlertRule;

    use super::*;

    fn rule(severity: &str, percentage: u8, duration: &str) -> AlertRule {
        let (severity, duration) = (severity.to_owned(), duration.to_owned());
        AlertRule { severity, percentage, duration, description: None }
    }

    fn memory(rules: Vec<AlertRule>) -> ResourceMonitor {
        ResourceMonitor {
            monitor_type: "Memory".to_owned(),
            alert_rules: rules,
            ..ResourceMonitor::default()
        }
    }

    #[test]
    fn a_rule_holds_after_its_time_and_a_sample_below_begins_it_anew() {
        let given = memory(vec![rule("Critical", 90, "10s"), rule("Warning", 80, "0s")]);
        let mut monitor = Monitor::read(&given).unwrap();
        for (second, used, expected) in [
            (0, Some(80), Health::Healthy),
            (1, Some(95), Health::Degraded),
            (10, Some(95), Health::Degraded),
            (11, Some(95), Health::Critical),
            (12, Some(85), Health::Degraded),
            (13, Some(95), Health::Degraded),
            (22, Some(95), Health::Degraded),
            (23, None, Health::Unknown),
            (24, Some(95), Health::Critical),
            (25, Some(10), Health::Healthy),
        ] {
            monitor.judge(used, Duration::from_secs(second));
            assert_eq!(monitor.health, expected, "second {second}");
        }
    }

    #[test]
    fn the_spec_replaces_the_usual_rules_of_its_resources_only() {
        let monitors = Monitors::read(&[memory(Vec::new())]).unwrap();
        let rules =
            |wanted| monitors.monitors.iter().find(|monitor| monitor.resource == wanted).unwrap().rules.len();
        assert_eq!([rules(Resource::Cpu), rules(Resource::Memory), rules(Resource::Disk)], [2, 0, 2]);
        for (wrong, field) in [
            (memory(vec![rule("Bad", 90, "1s")]), "severity"),
            (memory(vec![rule("Error", 0, "1s")]), "percentage"),
            (memory(vec![rule("Error", 90, "soon")]), "duration"),
            (memory(vec![rule("Error", 90, "1s"), rule("Error", 80, "1s")]), "more than once"),
            (ResourceMonitor { monitor_type: "Fan".to_owned(), ..ResourceMonitor::default() }, "monitorType"),
        ] {
            let error = Monitors::read(&[wrong]).unwrap_err();
            assert!(error.starts_with("resources[0].") && error.contains(field), "{error}");
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let mut monitors = Monitors::read(&[]).unwrap();
        monitors.sample(Duration::ZERO);
        assert_eq!(monitors.status().cpu.as_deref(), Some("Unknown"), "one sample says nothing");
        std::thread::sleep(Duration::from_millis(100));
        monitors.sample(Duration::from_secs(1));
        let status = monitors.status();
        for health in [status.cpu, status.memory, status.disk] {
            assert_eq!(health.as_deref(), Some("Healthy"), "no rule lasts so short");
        }
        assert_eq!(parse_cpu("cpu  10 0 20 60 10 0 0 0 5 5\ncpu0 1\n"), Some((30, 100)));
        assert_eq!(parse_memory("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"), Some(75));
    }
}
