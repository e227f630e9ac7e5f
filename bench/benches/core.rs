//! The pure core: one step of a table, one derivation of a device, one fold of a cluster, each beside a
//! baseline that touches the same bytes and decides nothing.

use divan::{Bencher, black_box, black_box_drop};
use jiff::{SignedDuration, Timestamp};
use wardroom_core::{
    Named,
    cluster::{self, AdapterCondition, AdapterStatus, Desired},
    device::{
        self,
        applications::Application,
        condition::{self, Condition, Conditions},
        resource::{Health, Resources},
    },
    node, table,
};

fn main() {
    divan::main();
}

/// The target is a microsecond.
#[divan::bench_group]
mod table_step {
    use super::*;

    #[divan::bench]
    fn wardroom_find(bencher: Bencher<'_, '_>) {
        // The last row is the dearest to find.
        let last = node::TABLE.0[node::TABLE.0.len() - 1];
        bencher.bench(|| node::TABLE.find(black_box(last.from), black_box(last.on)));
    }

    #[divan::bench]
    fn baseline_scan(bencher: Bencher<'_, '_>) {
        let touch = |row: &table::Row<node::State, node::Event>| row.from as u64 + row.on as u64;
        bencher.bench(|| black_box(node::TABLE.0).iter().map(touch).sum::<u64>());
    }
}

/// The target is a microsecond for one status.
#[divan::bench_group]
mod device_status {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const APPLICATIONS: [(&str, &str); 4] =
        [("web", "Running"), ("db", "Running"), ("job", "Completed"), ("cache", "Running")];

    fn with_facts<R>(act: impl FnOnce(&device::Facts<'_>) -> R) -> R {
        let applications = APPLICATIONS.map(|(name, state)| Application { name, state: state.into() });
        let updating = Condition { status: condition::Status::False, reason: "Updated", message: "done" };
        let healthy = Some(Health::Healthy);
        act(&device::Facts {
            last_seen: Some(NOW - SignedDuration::from_secs(30)),
            report: Some(device::Report {
                resources: Resources { cpu: healthy, memory: healthy, disk: healthy },
                conditions: Conditions { updating: Some(updating), ..Default::default() },
                rendered_version: Some("41"),
                applications: &applications,
            }),
            rendered_version: Some("41"),
            template_version: Some("v7"),
            owner: Some("Fleet/kiosks"),
            fleet: Some(device::Fleet { template_version: Some("v7") }),
            enrolled: true,
            ..Default::default()
        })
    }

    #[divan::bench]
    fn wardroom_summary(bencher: Bencher<'_, '_>) {
        with_facts(|facts| bencher.bench(|| device::summary::derive(black_box(facts), black_box(NOW))));
    }

    #[divan::bench]
    fn wardroom_updated(bencher: Bencher<'_, '_>) {
        with_facts(|facts| bencher.bench(|| device::updated::derive(black_box(facts), black_box(NOW))));
    }

    #[divan::bench]
    fn wardroom_applications(bencher: Bencher<'_, '_>) {
        with_facts(|facts| bencher.bench(|| device::applications::derive(black_box(facts), black_box(NOW))));
    }

    #[divan::bench]
    fn wardroom_all_four(bencher: Bencher<'_, '_>) {
        with_facts(|facts| bencher.bench(|| device::derive(black_box(facts), black_box(NOW))));
    }

    #[divan::bench]
    fn baseline_bytes(bencher: Bencher<'_, '_>) {
        with_facts(|facts| bencher.bench(|| touch(black_box(facts))));
    }

    /// Adds up every byte that the derivations read.
    fn touch(facts: &device::Facts<'_>) -> u64 {
        let report = facts.report.unwrap_or_default();
        let updating = report.conditions.updating;
        let texts = [
            report.rendered_version,
            facts.rendered_version,
            facts.template_version,
            facts.owner,
            facts.fleet.and_then(|fleet| fleet.template_version),
            updating.map(|updating| updating.reason),
            updating.map(|updating| updating.message),
        ];
        let texts: u64 = texts.iter().flatten().map(|text| sum(text)).sum();
        let applications: u64 = report.applications.iter().map(|application| sum(application.name)).sum();
        let seen = facts.last_seen.map_or(0, |seen| seen.as_second().unsigned_abs());
        texts
            + applications
            + seen
            + [report.resources.cpu, report.resources.memory, report.resources.disk].iter().flatten().count()
                as u64
    }
}

/// The target is five microseconds.
#[divan::bench_group]
mod cluster_fold_of_8_adapters {
    use super::*;

    fn adapters() -> (Vec<String>, Vec<AdapterStatus>) {
        let names: Vec<_> = (0..8).map(|number| format!("adapter-{number}")).collect();
        let statuses = names.iter().map(|name| status(name)).collect();
        (names, statuses)
    }

    fn status(name: &str) -> AdapterStatus {
        let condition = |type_: &str| AdapterCondition {
            type_: type_.to_owned(),
            status: cluster::Status::True,
            reason: Some("JobSucceeded".to_owned()),
            message: Some("The validation job completed after 115 seconds.".to_owned()),
            last_transition_time: Timestamp::UNIX_EPOCH,
        };
        AdapterStatus {
            adapter: name.to_owned(),
            observed_generation: 3,
            created_time: Timestamp::UNIX_EPOCH,
            last_report_time: Timestamp::UNIX_EPOCH,
            conditions: cluster::MANDATORY.map(condition).to_vec(),
        }
    }

    fn desired(required_adapters: &[String]) -> Desired<'_> {
        Desired {
            generation: 3,
            updated_time: Timestamp::UNIX_EPOCH,
            required_adapters,
            deleted: false,
            active_children: false,
        }
    }

    #[divan::bench]
    fn wardroom_fold(bencher: Bencher<'_, '_>) {
        let (names, statuses) = adapters();
        let desired = desired(&names);
        let previous = cluster::fold(&desired, &statuses, &[]);
        bencher.bench(|| cluster::fold(black_box(&desired), black_box(&statuses), black_box(&previous)));
    }

    /// Reads every text of the reports and copies what the fold gives.
    #[divan::bench]
    fn baseline_copy(bencher: Bencher<'_, '_>) {
        let (names, statuses) = adapters();
        let folded = cluster::fold(&desired(&names), &statuses, &[]);
        bencher.bench(|| {
            let texts = black_box(&statuses).iter().flat_map(|status| &status.conditions);
            let read: u64 =
                texts.map(|condition| sum(&condition.type_) + condition.status.as_str().len() as u64).sum();
            black_box_drop(black_box(&folded).clone());
            read
        });
    }
}

fn sum(text: &str) -> u64 {
    text.bytes().map(u64::from).sum()
}

/// Parsing a wire name is on the path of every request.
#[divan::bench_group]
mod wire_name {
    use super::*;

    #[divan::bench]
    fn wardroom_parse() -> Option<node::State> {
        black_box("deprovisioning").parse().ok()
    }

    #[divan::bench]
    fn baseline_compare() -> bool {
        node::State::ALL.iter().any(|state| state.as_str() == black_box("deprovisioning"))
    }
}
