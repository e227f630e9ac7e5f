//! Fleets of devices. One gets a new template from time to time; the other one a template that its newer devices cannot run.

use std::{sync::Arc, time::Duration};

use wardroom_api::{
    client::Error,
    device::{
        Batch, ConfigSource, DeviceSpec, Fleet, FleetSpec, InlineFile, LabelSelector, Limit, Metadata,
        RolloutPolicy, Template, TemplateMetadata,
    },
};

use super::{
    plan::FLEETS,
    random::Random,
    world::{World, until_done},
};

/// The label with the fleet of a device, and that with the revision of its board.
pub(super) const FLEET: &str = "fleet";
pub(super) const REVISION: &str = "revision";

/// The setting that breaks devices of the newer revision.
const BROKEN: &str = "printer=/dev/lp1";
const WORKING: &str = "printer=/dev/usb/lp0";

/// How often a rollout is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long a fleet rests between two rollouts.
const REST: Duration = Duration::from_secs(25);

/// Whether a device of this revision cannot run a spec.
pub(super) fn breaks(spec: &DeviceSpec, revision: &str) -> bool {
    let mut files = spec.config.iter().flat_map(|source| &source.inline);
    revision == "b" && files.any(|file| file.content.contains(BROKEN))
}

/// Creates the fleets. They own their devices as these enrol.
pub(super) async fn create(world: &World) {
    for name in FLEETS {
        let selector = LabelSelector {
            match_labels: [(FLEET.to_owned(), (*name).to_owned())].into(),
            ..LabelSelector::default()
        };
        let fleet = Fleet {
            metadata: Metadata { name: (*name).to_owned(), ..Metadata::default() },
            spec: FleetSpec { selector, template: template(1, WORKING), ..FleetSpec::default() },
            ..Fleet::default()
        };
        until_done(|| world.operator.create_fleet(&fleet)).await;
    }
}

/// Rolls out one release after the other, as the operator of a fleet does.
pub(super) async fn go_on(world: Arc<World>, name: &'static str) -> anyhow::Result<()> {
    world.all_there().await;
    let mut random = Random::of(world.plan.seed ^ 0xF1EE7);
    for release in 2.. {
        at_rest(&world, name).await;
        let is_planted = name == world.plan.broken;
        if let Err(error) = roll_out(&world, name, release, is_planted).await {
            tracing::debug!(%error, name, "the operator of a fleet leaves it at that");
        } else if is_planted {
            break;
        }
        at_rest(&world, name).await;
        tokio::time::sleep(REST.mul_f64(0.6 + 0.8 * random.share())).await;
    }
    // A person decides how the planted one goes on.
    std::future::pending().await
}

/// Waits until every device of a fleet has what it should have.
async fn at_rest(world: &World, name: &str) {
    loop {
        let status = until_done(|| world.operator.fleet(name)).await.status;
        if status.is_some_and(|status| status.devices > 0 && status.rollout.state == "Inactive") {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Gives a fleet its next release: first to its older devices, then to the others in two steps.
async fn roll_out(world: &World, name: &str, release: u32, is_planted: bool) -> Result<(), Error> {
    let mut fleet = world.operator.fleet(name).await?;
    fleet.spec.template = template(release, if is_planted { BROKEN } else { WORKING });
    let older = LabelSelector {
        match_labels: [(REVISION.to_owned(), "a".to_owned())].into(),
        ..LabelSelector::default()
    };
    let first = Batch { selector: Some(older), ..Batch::default() };
    let half = Batch { limit: Some(Limit::Percent("50%".to_owned())), ..Batch::default() };
    let policy = RolloutPolicy { batches: vec![first, half], ..RolloutPolicy::default() };
    fleet.spec.rollout_policy = Some(policy);
    fleet.status = None;
    world.operator.replace_fleet(name, &fleet).await.map(drop)
}

fn template(release: u32, setting: &str) -> Template {
    let file = InlineFile {
        path: "/etc/terminal.conf".to_owned(),
        content: format!("release={release}\n{setting}\n"),
        ..InlineFile::default()
    };
    let config = vec![ConfigSource { name: "terminal".to_owned(), inline: vec![file] }];
    Template { metadata: TemplateMetadata::default(), spec: DeviceSpec { config, ..DeviceSpec::default() } }
}
