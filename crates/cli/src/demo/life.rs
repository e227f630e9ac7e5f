//! What operators do all day: specs change, machines are installed anew, reset and rebooted. Members that are wrong on
//! purpose are left to the user.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use wardroom_api::{
    client::{Error, Query},
    cluster::{ClusterPatch, Exact},
    device::{ConfigSource, DeviceAction, InlineFile},
    gpu_node::DecommissionCreate,
    node::StateTransition,
};

use super::{
    plan::Plan,
    random::Random,
    world::{World, listed},
};

/// How often something happens.
const EVERY: Duration = Duration::from_secs(6);

/// Goes on for as long as the demo.
pub(super) async fn go_on(world: Arc<World>) -> anyhow::Result<()> {
    world.all_there().await;
    let mut random = Random::of(world.plan.seed ^ 0xDA17);
    for number in 0_u64.. {
        tokio::time::sleep(EVERY.mul_f64(0.5 + random.share())).await;
        let done = match number % 6 {
            0 | 3 => update_a_device(&world, &mut random, number).await,
            1 => change_a_cluster(&world, &mut random, number).await,
            2 => install_a_node(&world, &mut random).await,
            4 => reset_a_gpu_node(&world, &mut random).await,
            _ => reboot_a_device(&world, &mut random).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "the operator of the demo leaves it at that");
        }
    }
    Ok(())
}

async fn update_a_device(world: &World, random: &mut Random, number: u64) -> Result<(), Error> {
    let names = listed(&world.devices);
    let Some(name) = random.pick(&names) else { return Ok(()) };
    let mut device = world.operator.device(name).await?;
    let file = InlineFile {
        path: "/etc/motd".to_owned(),
        content: format!("welcome to build {number}\n"),
        ..InlineFile::default()
    };
    device.spec.config = vec![ConfigSource { name: "motd".to_owned(), inline: vec![file] }];
    device.status = None;
    world.operator.replace_device(name, &device).await.map(drop)
}

async fn reboot_a_device(world: &World, random: &mut Random) -> Result<(), Error> {
    let names = listed(&world.devices);
    let Some(name) = random.pick(&names) else { return Ok(()) };
    let why = DeviceAction { comment: Some("kernel update".to_owned()) };
    world.operator.reboot_device(name, &why).await.map(drop)
}

async fn change_a_cluster(world: &World, random: &mut Random, number: u64) -> Result<(), Error> {
    let name = Plan::cluster(random.below(world.plan.clusters));
    let spec = json!({"release": "1.36.1", "nodes": 3 + number % 7});
    let patch = ClusterPatch { spec: Exact::of(&spec).ok(), labels: None };
    world.operator.patch_cluster(&name, &patch).await.map(drop)
}

/// Installs an active node once more.
async fn install_a_node(world: &World, random: &mut Random) -> Result<(), Error> {
    let names = listed(&world.nodes);
    let Some(name) = random.pick(&names) else { return Ok(()) };
    let query = Query { field_selector: Some(format!("hostname={name}")), ..Query::default() };
    let found = world.operator.nodes(&query).await?;
    let Some(node) = found.data.first().filter(|node| node.state == "active") else { return Ok(()) };
    for state in ["reprovision", "pending"] {
        let comment = Some("security update".to_owned());
        let wanted = StateTransition { state: state.to_owned(), comment, force: false };
        world.operator.move_node(&node.id, &wanted).await?;
    }
    Ok(())
}

/// Drains an active GPU node and cleans it; its health brings it back.
async fn reset_a_gpu_node(world: &World, random: &mut Random) -> Result<(), Error> {
    let names = listed(&world.gpu_nodes);
    let Some(name) = random.pick(&names) else { return Ok(()) };
    let query = Query { field_selector: Some(format!("hostname={name}")), ..Query::default() };
    let found = world.operator.gpu_nodes(&query).await?;
    let Some(node) = found.data.first().filter(|node| node.state == "active") else { return Ok(()) };
    let is_cut_off = node.labels.get("zone").is_some_and(|zone| zone == world.plan.dark_zone);
    if is_cut_off {
        // Its agent may not be there to drain it.
        return Ok(());
    }
    let mode = if random.below(3) == 0 { "reimage" } else { "soft_reset" };
    let comment = Some("the tenant left".to_owned());
    let wanted = DecommissionCreate { mode: mode.to_owned(), comment, ..DecommissionCreate::default() };
    world.operator.decommission_gpu_node(&node.id, &wanted).await.map(drop)
}
