//! What the fleet consists of, and what is wrong with it: a pure function of the seed and the number of members.

use std::time::Duration;

use super::random::Random;

/// The fewest members: every kind is there, and a zone is large enough to be watched as one.
pub(crate) const FEWEST: usize = 50;

/// The most members.
pub(crate) const MOST: usize = 20_000;

const ZONES: &[&str] = &["hamburg", "lyon", "oslo", "porto", "turin", "vienna"];

/// The fleets of devices.
pub(super) const FLEETS: &[&str] = &["pos-terminals", "self-checkouts"];

/// The adapters that every cluster waits for.
pub(super) const ADAPTERS: &[&str] = &["dns", "monitoring", "placement"];

/// A zone has this many devices at least: fewer than ten members are never held.
const DEVICES_OF_A_ZONE: usize = 15;

/// What there is, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) devices: usize,
    pub(super) gpu_nodes: usize,
    pub(super) nodes: usize,
    pub(super) clusters: usize,
    pub(super) satellites: usize,
    pub(super) zones: &'static [&'static str],
    /// The zone that falls silent and returns.
    pub(super) dark_zone: &'static str,
    /// The GPU node whose deployment hangs.
    pub(super) hanging: usize,
    /// The node whose installation fails.
    pub(super) failing: usize,
    /// The satellite that is revoked and keeps asking.
    pub(super) revoked: usize,
    /// The adapter whose token is revoked.
    pub(super) mute: &'static str,
    /// The fleet whose new template breaks devices.
    pub(super) broken: &'static str,
}

impl Plan {
    pub(super) fn of(seed: u64, members: usize) -> Self {
        let mut random = Random::of(seed);
        let gpu_nodes = (members * 12 / 100).max(6);
        let nodes = (members * 15 / 100).max(6);
        let clusters = (members * 3 / 100).max(2);
        let satellites = (members / 10).max(5);
        let devices = members.saturating_sub(gpu_nodes + nodes + clusters + satellites);
        let zones = &ZONES[..(devices / DEVICES_OF_A_ZONE).clamp(2, ZONES.len())];
        let dark = random.below(zones.len());
        // Members that are wrong in another way stay reachable.
        let mut reachable = |count: usize| {
            let first = random.below(count);
            (first..first + count)
                .map(|at| at % count)
                .find(|at| at % zones.len() != dark)
                .unwrap_or_default()
        };
        let (hanging, failing) = (reachable(gpu_nodes), reachable(nodes));
        let revoked = reachable(satellites);
        let mute = ADAPTERS[random.below(ADAPTERS.len())];
        let broken = FLEETS[random.below(FLEETS.len())];
        Self {
            seed,
            devices,
            gpu_nodes,
            nodes,
            clusters,
            satellites,
            zones,
            dark_zone: zones[dark],
            hanging,
            failing,
            revoked,
            mute,
            broken,
        }
    }

    pub(super) const fn members(&self) -> usize {
        self.devices + self.gpu_nodes + self.nodes + self.clusters + self.satellites
    }

    pub(super) fn zone(&self, number: usize) -> &'static str {
        self.zones[number % self.zones.len()]
    }

    pub(super) fn device(&self, number: usize) -> String {
        format!("pos-{}-{:03}", self.zone(number), number + 1)
    }

    /// The fleet of a device. Some have none, and none is where rollouts would wait for a zone to return.
    pub(super) fn fleet(&self, number: usize) -> Option<&'static str> {
        let is_reachable = self.zone(number) != self.dark_zone;
        FLEETS.get(number / self.zones.len() % (FLEETS.len() + 1)).copied().filter(|_| is_reachable)
    }

    /// The revision of the board of a device.
    pub(super) fn revision(&self, number: usize) -> &'static str {
        if (number / self.zones.len() / (FLEETS.len() + 1)).is_multiple_of(3) { "a" } else { "b" }
    }

    pub(super) fn gpu_node(number: usize) -> String {
        format!("gpu-{:02}", number + 1)
    }

    pub(super) fn node(number: usize) -> String {
        format!("rack{}-u{:02}", number / 20 + 1, number % 20 + 1)
    }

    pub(super) fn cluster(number: usize) -> String {
        format!("prod-eu-{}", number + 1)
    }

    pub(super) fn satellite(number: usize) -> String {
        format!("edge-{:02}", number + 1)
    }

    /// How often members are heard. A large fleet takes its time, so that one machine carries it.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs((self.members() as u64 / 150).clamp(4, 120))
    }

    /// How often an adapter reports on a cluster.
    pub(super) fn report_interval(&self) -> Duration {
        Duration::from_secs((self.clusters as u64 / 5).clamp(3, 120))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fleet_has_as_many_members_as_asked_for() {
        for members in [FEWEST, 200, 999, MOST] {
            let plan = Plan::of(1, members);
            assert_eq!(plan.members(), members);
            let dark = (0..plan.devices).filter(|at| plan.zone(*at) == plan.dark_zone).count();
            assert!(dark >= 10 && dark * 2 <= plan.devices + 1, "{dark} of {}", plan.devices);
        }
        let Plan { devices, gpu_nodes, nodes, clusters, satellites, .. } = Plan::of(1, 200);
        assert_eq!((devices, gpu_nodes, nodes, clusters, satellites), (120, 24, 30, 6, 20));
    }

    #[test]
    fn a_fleet_has_devices_of_both_revisions_for_every_step_of_a_rollout() {
        for (seed, members) in (0..50).flat_map(|seed| [(seed, FEWEST), (seed, 200)]) {
            let plan = Plan::of(seed, members);
            for fleet in FLEETS {
                let count = |revision| {
                    let of = |at: &usize| plan.fleet(*at) == Some(*fleet) && plan.revision(*at) == revision;
                    (0..plan.devices).filter(of).count()
                };
                assert!(count("a") >= 1 && count("b") >= 2, "seed {seed}: {plan:?}");
            }
        }
    }

    #[test]
    fn another_seed_plants_elsewhere() {
        assert_eq!(Plan::of(7, 200), Plan::of(7, 200));
        let wrong = |seed| {
            let Plan { dark_zone, hanging, failing, revoked, mute, broken, .. } = Plan::of(seed, 200);
            (dark_zone, hanging, failing, revoked, mute, broken)
        };
        let all: std::collections::BTreeSet<_> = (1..=20).map(wrong).collect();
        assert!(all.len() > 15, "{all:?}");
    }

    #[test]
    fn members_that_are_wrong_are_not_in_the_dark_zone() {
        for seed in 0..200 {
            let plan = Plan::of(seed, FEWEST);
            for number in [plan.hanging, plan.failing, plan.revoked] {
                assert_ne!(plan.zone(number), plan.dark_zone, "seed {seed}");
            }
        }
    }
}
