//! The fleet at its start: what members need, and the members themselves.

use std::{fs, sync::Arc};

use serde_json::json;
use tokio::task::JoinSet;
use wardroom_api::{
    cluster::{ClusterCreate, Exact},
    device::EnrollmentTokenCreate,
    site::{BootDisk, Budget, SiteSettings, SiteSpec},
    token::TokenCreate,
    workflow::WorkflowSpec,
};

use super::{
    adapter, device,
    folder::write_secret,
    gpu_node, life, node,
    plan::{ADAPTERS, FLEETS, Plan},
    planted, rollout, satellite,
    settings::DEPLOY_PATIENCE,
    world::{World, until_done},
};

/// Gives each adapter a token, as its operator would.
pub(super) async fn tokens(world: &World) -> anyhow::Result<()> {
    for name in ADAPTERS {
        let create = TokenCreate {
            name: format!("{name}-adapter"),
            role: "adapter".to_owned(),
            adapter: Some((*name).to_owned()),
            ..TokenCreate::default()
        };
        let token = world.admin.create_token(&create).await?;
        write_secret(&adapter::token_file(world, name), &token.secret)?;
        if *name == world.plan.mute {
            let _ = world.mute_token.set(token.token.id);
        }
    }
    let enrol = EnrollmentTokenCreate {
        name: "demo".to_owned(),
        uses: Some(u32::try_from(world.plan.devices)?),
        auto_approve: true,
        ..EnrollmentTokenCreate::default()
    };
    let token = world.admin.create_enrollment_token(&enrol).await?.token;
    world.enrolment.set(token.into()).map_err(|_| anyhow::anyhow!("the demo began twice"))
}

/// Starts every member, and what happens to them.
pub(super) async fn populate(
    world: &Arc<World>,
    members: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    site(world).await?;
    let workflow = WorkflowSpec {
        name: node::WORKFLOW.to_owned(),
        kernel: "http://mirror.example/debian/vmlinuz".to_owned(),
        initrd: vec!["http://mirror.example/debian/initrd.gz".to_owned()],
        arguments: "auto=true priority=critical".to_owned(),
        image: None,
        promote: true,
    };
    world.operator.create_workflow(&workflow).await?;
    rollout::create(world).await;
    let plan = world.plan.clone();
    for number in 0..plan.gpu_nodes {
        members.spawn(gpu_node::live(Arc::clone(world), number));
    }
    for number in 0..plan.satellites {
        members.spawn(satellite::live(Arc::clone(world), number));
    }
    for number in 0..plan.nodes {
        members.spawn(node::live(Arc::clone(world), number));
    }
    let clusters = Arc::clone(world);
    members.spawn(async move {
        for number in 0..clusters.plan.clusters {
            cluster(&clusters, number).await?;
        }
        std::future::pending().await
    });
    let token = world.enrolment.get().cloned().unwrap_or_default();
    for number in 0..plan.devices {
        members.spawn(device::live(Arc::clone(world), number, Arc::clone(&token)));
    }
    for name in ADAPTERS {
        members.spawn(adapter::live(Arc::clone(world), name));
    }
    members.spawn(planted::silence_an_adapter(Arc::clone(world)));
    members.spawn(planted::cut_off_a_zone(Arc::clone(world)));
    for name in FLEETS {
        members.spawn(rollout::go_on(Arc::clone(world), name));
    }
    members.spawn(life::go_on(Arc::clone(world)));
    Ok(())
}

/// The site with the fake MAAS, and the secrets that it refers to.
async fn site(world: &World) -> anyhow::Result<()> {
    let secrets = world.folder.join("secrets");
    fs::create_dir_all(secrets.join("bmc"))?;
    write_secret(&secrets.join("maas"), &world.upstreams.maas_key)?;
    write_secret(&secrets.join(gpu_node::CREDENTIAL), &world.upstreams.bmc_credential)?;
    let patience =
        Budget { retries: Some(0), patience_minutes: None, patience_seconds: Some(DEPLOY_PATIENCE) };
    let settings = SiteSettings {
        url: world.upstreams.maas.url(),
        key: "file:maas".to_owned(),
        bmc_insecure: true,
        bmc_networks: vec!["127.0.0.0/8".to_owned()],
        bmc_credentials: vec!["file:bmc/*".to_owned()],
        provisioning_subnet: "provisioning".to_owned(),
        boot_disk: BootDisk { model: Some("BOSS".to_owned()), serial: None },
        user_data: "{{token}}".to_owned(),
        hardware_sync: false,
        requests_per_second: 200.0,
        deploys_per_minute: 600.0,
        poll_millis: 1000,
        sweep_millis: 10_000,
        budgets: [("wait_for_deployed".to_owned(), patience)].into(),
        ..SiteSettings::default()
    };
    world.admin.create_site(&SiteSpec { name: gpu_node::SITE.to_owned(), settings }).await?;
    Ok(())
}

async fn cluster(world: &World, number: usize) -> anyhow::Result<()> {
    let create = ClusterCreate {
        name: Plan::cluster(number),
        labels: [("zone".to_owned(), world.plan.zone(number).to_owned())].into(),
        spec: Exact::of(&json!({"release": "1.36.1", "nodes": 3 + number % 5}))?,
        ..ClusterCreate::default()
    };
    until_done(|| world.operator.create_cluster(&create)).await;
    world.has_joined();
    Ok(())
}
