//! A GPU node: a machine in the fake MAAS that, once deployed, runs an agent. The agent enrols, beats, and does its tasks.

use std::{sync::Arc, time::Duration};

use wardroom_api::{
    client::{Client, Error},
    gpu_node::{
        Bmc, GpuNodeCreate,
        agent::{Check, Enroll, Heartbeat, Holding, Task, TaskResult},
    },
};
use wardroom_core::liveness::Interval;
use wardroom_fakes::maas::{Change, Outcome};

use super::{
    plan::Plan,
    random::Random,
    world::{PAUSE, World, note, until_done},
};

/// The site that manages all machines.
pub(super) const SITE: &str = "lab";

/// The credential of all BMCs, below the folder of secrets.
pub(super) const CREDENTIAL: &str = "bmc/racks";

/// How often the machine looks whether it was deployed.
const LOOK: Duration = Duration::from_millis(900);

/// How long a task takes.
const TASK: Duration = Duration::from_secs(3);

/// How long later ones are registered after each other: there is always an onboarding to watch.
const APART: Duration = Duration::from_secs(20);

/// Lives for as long as the demo: a machine may be deployed many times.
pub(super) async fn live(world: Arc<World>, number: usize) -> anyhow::Result<()> {
    let hostname = Plan::gpu_node(number);
    let late = number.saturating_sub(world.plan.gpu_nodes - world.plan.gpu_nodes / 6);
    let is_planted = number == world.plan.hanging;
    // Known to the fleet from the start; the last ones are delivered one by one.
    world.has_joined();
    if late > 0 && !is_planted {
        tokio::time::sleep(APART * u32::try_from(late)?).await;
    }
    let _node = register(&world, number, &hostname).await?;
    if is_planted {
        hang(&world, &hostname).await;
    } else {
        note(&world.gpu_nodes, &hostname);
    }
    let mut random = Random::fork(world.plan.seed, number);
    let mut enrolled_with = Vec::new();
    loop {
        match world.upstreams.maas.deployed(&hostname) {
            // Each deployment has a token of its own.
            Some(token) if token != enrolled_with => {
                if let Err(error) = agent(&world, number, &hostname, &token, &mut random).await {
                    tracing::debug!(%error, hostname, "an agent ended");
                }
                enrolled_with = token;
            }
            Some(_) | None => tokio::time::sleep(LOOK).await,
        }
    }
}

async fn register(world: &World, number: usize, hostname: &str) -> anyhow::Result<String> {
    let _turn = world.gate.acquire().await?;
    let [.., a, b, c] = number.to_be_bytes();
    let create = GpuNodeCreate {
        hostname: hostname.to_owned(),
        site: Some(SITE.to_owned()),
        macs: vec![format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")],
        bmc: Some(Bmc {
            address: world.upstreams.bmc.url(),
            credential: format!("file:{CREDENTIAL}"),
            system: Some((number + 1).to_string()),
        }),
        model: Some("DGX H100".to_owned()),
        serial_number: Some(format!("SIM{:05}", number + 1)),
        labels: [("zone".to_owned(), world.plan.zone(number).to_owned())].into(),
    };
    Ok(until_done(|| world.operator.create_gpu_node(&create)).await.node.id)
}

/// The next deployment of the machine hangs, until a person has its stage tried again.
async fn hang(world: &Arc<World>, hostname: &str) {
    let maas = &world.upstreams.maas;
    let id = loop {
        if let Some(id) = maas.named(hostname) {
            break id;
        }
        tokio::time::sleep(LOOK / 3).await;
    };
    let outcomes = [("deploying".to_owned(), vec![Outcome::Stall])].into();
    maas.change(&id, &Change { outcomes, ..Change::default() });
    let run = until_failed(world, hostname).await;
    // From now on only this deployment hangs: any other way out deploys the machine anew.
    maas.forget_outcomes(&id);
    // The installer gets on once the stage is tried again.
    loop {
        let found = until_done(|| world.operator.run(&run)).await.run;
        if found.state == "running" && found.stage == "wait_for_deployed" {
            maas.finish(&id, &Outcome::Pass);
            return;
        }
        if found.state != "failed_manual_intervention" && found.state != "failed_retryable" {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the onboarding of a node stands still, and gives its run. A person may have gone on since the last look:
/// the failed attempt stays on record.
async fn until_failed(world: &World, hostname: &str) -> String {
    let query = wardroom_api::client::Query {
        field_selector: Some(format!("hostname={hostname}")),
        ..Default::default()
    };
    loop {
        let nodes = until_done(|| world.operator.gpu_nodes(&query)).await;
        if let Some(run) = nodes.data.first().and_then(|node| node.run.clone()) {
            let found = until_done(|| world.operator.run(&run)).await;
            let has_failed = found
                .attempts
                .iter()
                .any(|tried| tried.stage == "wait_for_deployed" && tried.outcome == "failed");
            if has_failed || found.run.state.starts_with("failed_") {
                return run;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// An agent, from its enrolment until its system is gone.
async fn agent(
    world: &World,
    number: usize,
    hostname: &str,
    token: &[u8],
    random: &mut Random,
) -> Result<(), Error> {
    let zone = world.plan.zone(number);
    let enroll = Enroll {
        token: String::from_utf8_lossy(token).trim().to_owned(),
        exchange: Some(format!("{hostname}-{}", random.next())),
        hostname: Some(hostname.to_owned()),
        ..Enroll::default()
    };
    let enrolled = world.stranger.enroll_gpu_node(&enroll).await?;
    let mut agent = Agent {
        client: world.client(Some(enrolled.credential))?,
        node: enrolled.node,
        holder: hostname.to_owned(),
        work: None,
        interval: None,
    };
    loop {
        world.linked(zone).await;
        if world.upstreams.maas.deployed(hostname).is_none() {
            // The machine was released: its system, and the agent in it, are gone.
            return Ok(());
        }
        let pause = match agent.round().await {
            Ok(pause) => pause,
            Err(Error::Problem(problem)) if matches!(problem.status, 401 | 403 | 404) => return Ok(()),
            Err(error) => {
                tracing::debug!(%error, hostname, "an agent waits before it beats again");
                PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

struct Agent {
    client: Client,
    node: String,
    holder: String,
    /// The task in its hands, and when it will be done.
    work: Option<(Task, tokio::time::Instant)>,
    interval: Option<String>,
}

impl Agent {
    /// Beats once, and gets on with its task. Returns the time of the next beat.
    async fn round(&mut self) -> Result<Duration, Error> {
        if let Some((task, _)) = self.work.take_if(|(_, end)| *end <= tokio::time::Instant::now()) {
            let output = format!("{}: done by a simulated agent", task.kind);
            let result = TaskResult {
                epoch: task.epoch,
                outcome: "succeeded".to_owned(),
                output,
                ..TaskResult::default()
            };
            // A task that was withdrawn meanwhile has no result.
            if let Err(error) = self.client.report_gpu_node_task(&self.node, &task.id, &result).await {
                tracing::debug!(%error, "a result was not taken");
            }
        }
        let holding = self.work.iter().map(|(task, _)| Holding { task: task.id.clone(), epoch: task.epoch });
        let check = |name: &str| Check { name: name.to_owned(), ok: true, message: None };
        let heartbeat = Heartbeat {
            checks: vec![check("gpu"), check("fabric"), check("disk")],
            interval: self.interval.clone(),
            tasks: holding.collect(),
        };
        let beat = self.client.gpu_node_heartbeat(&self.node, &heartbeat).await?;
        self.interval = Some(beat.next.clone());
        if let Some((task, _)) = &self.work
            && beat.lost.contains(&task.id)
        {
            self.work = None;
        }
        if self.work.is_none() && beat.has_tasks {
            let claimed = self.client.claim_gpu_node_task(&self.node, &self.holder).await?;
            self.work = claimed.task.map(|task| (task, tokio::time::Instant::now() + TASK));
        }
        let next = Interval::parse("next", &beat.next).ok();
        let next = next.and_then(|next| Duration::try_from(next.duration()).ok()).unwrap_or(TASK);
        Ok(if self.work.is_some() { TASK.min(next) } else { next })
    }
}
