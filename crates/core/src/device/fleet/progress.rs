//! Progress: how far a rollout is, for people; kept so that showing a fleet does not count its devices.

use super::{Counts, Decision, Failure, Held, State};

/// How far the rollout of one version of the template is.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// The version of the template.
    pub template_version: u64,
    /// The batch, from 0.
    pub batch: usize,
    /// How many batches there are, with the last one.
    pub batches: usize,
    /// How many devices stand where.
    pub counts: Counts,
    /// How many devices of the batch failed.
    pub failed: usize,
    /// The first few of them.
    pub failures: Vec<Failure>,
    /// Where the disruption budget holds devices back.
    pub held: Vec<Held>,
    /// How many devices wait until they are heard.
    pub unheard: usize,
    /// How many devices other fleets select too, and the names of these fleets.
    pub overlap: Option<Overlap>,
}

/// Devices that several fleets select.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Overlap {
    /// How many.
    pub devices: usize,
    /// The first few of them.
    pub named: Vec<String>,
    /// The other fleets.
    pub fleets: Vec<String>,
}

impl Progress {
    /// The progress that a decision describes.
    #[must_use]
    pub fn of(decision: &Decision, template_version: u64, batches: usize, overlap: Option<Overlap>) -> Self {
        Self {
            template_version,
            batch: decision.batch,
            batches,
            counts: decision.counts,
            failed: decision.failed,
            failures: decision.failures.clone(),
            held: decision.held.clone(),
            unheard: decision.unheard,
            overlap,
        }
    }

    /// How far it is and what it waits for, in a line.
    #[must_use]
    pub fn info(&self, state: State) -> String {
        let Counts { devices, updated, updating, failed, waiting } = self.counts;
        let version = self.template_version;
        if devices == 0 {
            return "No device is in the fleet.".to_owned();
        }
        let batch = format!("Batch {} of {}", self.batch + 1, self.batches.max(self.batch + 1));
        let parts = [(updating, "updating"), (failed, "failed"), (waiting, "waiting")];
        let parts =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
        let parts = parts.collect::<Vec<_>>().join(", ");
        let parts = if parts.is_empty() { parts } else { format!("; {parts}") };
        let all = format!("{updated} of {devices} devices run template version {version}{parts}.");
        match state {
            State::Inactive => all,
            State::Active | State::Waiting | State::Paused | State::Suspended => format!("{batch}: {all}"),
        }
    }

    /// What keeps the rollout from going on, each cause by itself.
    #[must_use]
    pub fn obstacles(&self) -> Vec<String> {
        let mut causes = Vec::new();
        causes.extend(
            self.failures.iter().map(|Failure { name, reason }| format!("device {name} failed: {reason}")),
        );
        causes.extend(self.held.iter().map(held));
        if self.unheard > 0 {
            let count = devices(self.unheard);
            causes.push(format!(
                "{count} offline: under a disruption budget a device gets the template once it is heard"
            ));
        }
        causes
    }

    /// Whether the budget allows no device of some group to be updated, ever.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        self.held.iter().any(|held| held.is_impossible)
    }
}

fn devices(count: usize) -> String {
    if count == 1 { "1 device is".to_owned() } else { format!("{count} devices are") }
}

fn held(held: &Held) -> String {
    let Held { group, waiting, available, updating, total, is_impossible } = held;
    let group = if group.is_empty() { "the fleet" } else { group };
    let counts = format!("{available} of {total} devices in service, {updating} updating");
    if *is_impossible {
        return format!(
            "the disruption budget never allows an update in {group} ({counts}): change minAvailable or maxUnavailable"
        );
    }
    format!("the disruption budget holds {waiting} back in {group} ({counts})")
}

impl Overlap {
    /// What it is, for people.
    #[must_use]
    pub fn message(&self) -> String {
        let fleets = self.fleets.join(", ");
        let named = self.named.join(", ");
        let more = self.devices.saturating_sub(self.named.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("Also selected by {fleets}: {named}{more}. Each stays with the fleet that owned it first.")
    }
}
