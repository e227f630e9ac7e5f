//! A machine that boots over the network: it follows its boot script, and reports how the installation goes.

use std::{sync::Arc, time::Duration};

use wardroom_api::{
    client::Error,
    node::{NodeCreate, NodeReport, StateTransition},
};

use super::{
    plan::Plan,
    random::Random,
    world::{PAUSE, World, note, until_done},
};

/// The install profile of all machines.
pub(super) const WORKFLOW: &str = "debian-13";

/// How long one of the steps of an installation takes.
const STEP: Duration = Duration::from_millis(1200);

/// How often a machine is switched off and on again, as far as it boots from its disk.
const CALM: Duration = Duration::from_secs(9);

/// How many machines wait for an approval.
const UNKNOWN: usize = 2;

/// How often the planted installation fails: the limit of the server.
const FAILURES: u32 = 3;

/// Lives for as long as the demo.
pub(super) async fn live(world: Arc<World>, number: usize) -> anyhow::Result<()> {
    let (hostname, mut random) = (Plan::node(number), Random::fork(world.plan.seed, number));
    let [.., a, b, c] = number.to_be_bytes();
    let mac = format!("52:54:01:{a:02x}:{b:02x}:{c:02x}");
    let is_planted = number == world.plan.failing;
    if number >= world.plan.nodes - UNKNOWN && !is_planted {
        // The server learns of it when it boots.
        until_done(|| world.machine.boot_script(&mac)).await;
    } else {
        register(&world, number, &hostname, &mac).await?;
        if !is_planted {
            note(&world.nodes, &hostname);
        }
    }
    world.has_joined();
    let mut failures = if is_planted { FAILURES } else { 0 };
    loop {
        let pause = match boot(&world, &hostname, &mac, &mut failures).await {
            // It starts again at once.
            Ok(true) => STEP,
            Ok(false) => CALM.mul_f64(0.7 + 0.6 * random.share()),
            Err(error) => {
                tracing::debug!(%error, hostname, "a machine boots again");
                PAUSE.mul_f64(1.0 + random.share())
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn register(world: &World, number: usize, hostname: &str, mac: &str) -> anyhow::Result<()> {
    let _turn = world.gate.acquire().await?;
    let create = NodeCreate {
        mac_address: mac.to_owned(),
        hostname: Some(hostname.to_owned()),
        workflow_id: Some(WORKFLOW.to_owned()),
        vendor: Some("Simulated".to_owned()),
        serial_number: Some(format!("SIM-N{:05}", number + 1)),
        labels: [("zone".to_owned(), world.plan.zone(number).to_owned())].into(),
        ..NodeCreate::default()
    };
    let node = until_done(|| world.operator.create_node(&create)).await;
    let approve = StateTransition { state: "pending".to_owned(), ..StateTransition::default() };
    until_done(|| world.operator.move_node(&node.id, &approve)).await;
    Ok(())
}

/// Boots once. Returns whether it was told to install.
async fn boot(world: &World, hostname: &str, mac: &str, failures: &mut u32) -> Result<bool, Error> {
    let script = world.machine.boot_script(mac).await?;
    let token = script.split_whitespace().find_map(|word| word.strip_prefix("wardroom.token="));
    let Some(token) = token else { return Ok(false) };
    let report = |status: &str, progress: Option<i64>, error: Option<&str>| {
        let report = NodeReport {
            mac_address: mac.to_owned(),
            hostname: Some(hostname.to_owned()),
            installation_status: Some(status.to_owned()),
            installation_progress: progress,
            installation_error: error.map(str::to_owned),
            install_token: Some(token.to_owned()),
            ..NodeReport::default()
        };
        async move { world.machine.report_node(&report).await }
    };
    report("started", None, None).await?;
    for progress in [20, 60, 90] {
        tokio::time::sleep(STEP).await;
        report("progress", Some(progress), None).await?;
        if *failures > 0 {
            *failures -= 1;
            report("failed", None, Some("mirror.example: 503 while fetching linux-image-amd64")).await?;
            return Ok(true);
        }
    }
    report("complete", None, None).await?;
    Ok(true)
}
