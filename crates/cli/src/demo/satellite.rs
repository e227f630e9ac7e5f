//! A satellite: it registers with its token or its certificate, beats, and exchanges its credential when it is told to.

use std::{sync::Arc, time::Duration};

use wardroom_api::{
    client::Error,
    satellite::{Beat, JoinTokenCreate, RegistryAuth, Revoke, SatelliteCreate},
};
use wardroom_core::liveness::Interval;

use super::{
    plan::Plan,
    random::Random,
    world::{PAUSE, World, until_done},
};

/// One of so many has its identity from SPIRE.
const BY_CERTIFICATE: usize = 4;

/// After how many beats the planted one is revoked.
const BEATS: u32 = 2;

/// Lives for as long as the demo.
pub(super) async fn live(world: Arc<World>, number: usize) -> anyhow::Result<()> {
    let (name, zone) = (Plan::satellite(number), world.plan.zone(number));
    let mut random = Random::fork(world.plan.seed, number);
    let has_certificate = number.is_multiple_of(BY_CERTIFICATE) && number != world.plan.revoked;
    let mut auth = if has_certificate {
        by_certificate(&world, number).await?
    } else {
        by_token(&world, number, &format!("{name}-{}", random.next())).await?
    };
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

/// Registers with a token.
async fn by_token(world: &World, number: usize, exchange: &str) -> anyhow::Result<RegistryAuth> {
    let create = SatelliteCreate {
        name: Plan::satellite(number),
        labels: [("zone".to_owned(), world.plan.zone(number).to_owned())].into(),
        heartbeat_interval: interval(world)?,
        ..SatelliteCreate::default()
    };
    let token = {
        let _turn = world.gate.acquire().await?;
        until_done(|| world.operator.create_satellite(&create)).await.token
    };
    world.has_joined();
    // Harbor may not have its robot yet.
    Ok(until_done(|| world.stranger.register_satellite(&token, exchange)).await.auth)
}

/// Joins the trust domain, and registers with the certificate that it has from there.
async fn by_certificate(world: &World, number: usize) -> anyhow::Result<RegistryAuth> {
    let create = JoinTokenCreate {
        satellite_name: Plan::satellite(number),
        selectors: vec!["unix:uid:1000".to_owned()],
        labels: [("zone".to_owned(), world.plan.zone(number).to_owned())].into(),
        heartbeat_interval: interval(world)?,
        ..JoinTokenCreate::default()
    };
    let made = {
        let _turn = world.gate.acquire().await?;
        until_done(|| world.operator.create_join_token(&create)).await
    };
    world.has_joined();
    let token = made.join_token.unwrap_or_default();
    // SPIRE may not know the token yet.
    while !world.upstreams.domain.joins(&token) {
        tokio::time::sleep(PAUSE).await;
    }
    let client = world.satellite(&made.spiffe_id)?;
    Ok(until_done(|| client.register_satellite_by_certificate()).await.auth)
}

fn interval(world: &World) -> anyhow::Result<Option<String>> {
    let interval = Interval::from_seconds(u32::try_from(world.plan.interval().as_secs())?);
    Ok(interval.map(|interval| interval.to_string()))
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
