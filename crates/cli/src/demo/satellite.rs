//! A satellite: it registers with its token, beats, and exchanges its credential when it is told to.

use std::{sync::Arc, time::Duration};

use wardroom_api::{
    client::Error,
    satellite::{Beat, RegistryAuth, Revoke, SatelliteCreate},
};
use wardroom_core::liveness::Interval;

use super::{
    plan::Plan,
    random::Random,
    world::{PAUSE, World, until_done},
};

/// After how many beats the planted one is revoked.
const BEATS: u32 = 2;

/// Lives for as long as the demo.
pub(super) async fn live(world: Arc<World>, number: usize) -> anyhow::Result<()> {
    let (name, zone) = (Plan::satellite(number), world.plan.zone(number));
    let mut random = Random::fork(world.plan.seed, number);
    let interval = Interval::from_seconds(u32::try_from(world.plan.interval().as_secs())?);
    let create = SatelliteCreate {
        name: name.clone(),
        labels: [("zone".to_owned(), zone.to_owned())].into(),
        heartbeat_interval: interval.map(|interval| interval.to_string()),
        ..SatelliteCreate::default()
    };
    let token = {
        let _turn = world.gate.acquire().await?;
        until_done(|| world.operator.create_satellite(&create)).await.token
    };
    world.has_joined();
    let exchange = format!("{name}-{}", random.next());
    // Harbor may not have its robot yet.
    let mut auth = until_done(|| world.stranger.register_satellite(&token, &exchange)).await.auth;
    let mut beats = 0;
    loop {
        world.linked(zone).await;
        let pause = match beat(&world, number, &mut auth, &mut random).await {
            Ok(pause) => pause,
            // It keeps asking, as its program does not know better.
            Err(Error::Problem(problem)) if problem.status == 403 => world.plan.interval(),
            Err(error) => {
                tracing::debug!(%error, name, "a satellite waits before it beats again");
                PAUSE
            }
        };
        beats += 1;
        if number == world.plan.revoked && beats == BEATS {
            let why = Revoke { comment: Some("the branch reported a break-in".to_owned()) };
            until_done(|| world.operator.revoke_satellite(&name, &why)).await;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Beats once, and does what the answer asks for. Returns the time of the next beat.
async fn beat(
    world: &World,
    number: usize,
    auth: &mut RegistryAuth,
    random: &mut Random,
) -> Result<Duration, Error> {
    let beat = Beat {
        activity: Some("idle".to_owned()),
        memory_used_bytes: Some(180_000_000 + random.next() % 40_000_000),
        storage_used_bytes: Some(12_000_000_000 + number as u64 * 1_000_000),
        cpu_percent: Some(2.0 + 6.0 * random.share()),
        image_count: Some(12),
        ..Beat::default()
    };
    let reply = world.stranger.beat_satellite(auth, &beat).await?;
    if reply.events.iter().any(|event| event == "refresh_credentials") {
        *auth = world.stranger.refresh_satellite(auth).await?.auth;
    }
    let next = Interval::parse("next_interval", &reply.next_interval).ok();
    let next = next.and_then(|next| Duration::try_from(next.duration()).ok());
    Ok(next.unwrap_or_else(|| world.plan.interval()))
}
