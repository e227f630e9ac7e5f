//! What goes wrong on purpose, beside what single members do wrong.

use std::{sync::Arc, time::Duration};

use super::world::{World, until_done};

/// How long everything is well.
const CALM: Duration = Duration::from_secs(5);

/// How long a zone is cut off, and how long it is reachable then.
const DARK: Duration = Duration::from_secs(120);
const BRIGHT: Duration = Duration::from_secs(480);

/// Revokes the token of an adapter. Its operator has to give it another one.
pub(super) async fn silence_an_adapter(world: Arc<World>) -> anyhow::Result<()> {
    world.all_there().await;
    tokio::time::sleep(CALM).await;
    if let Some(token) = world.mute_token.get() {
        until_done(|| world.admin.revoke_token(token)).await;
    }
    std::future::pending().await
}

/// Cuts off a zone, and lets it return, again and again.
pub(super) async fn cut_off_a_zone(world: Arc<World>) -> anyhow::Result<()> {
    world.all_there().await;
    tokio::time::sleep(CALM).await;
    loop {
        world.dark.send_replace(true);
        tokio::time::sleep(DARK).await;
        world.dark.send_replace(false);
        tokio::time::sleep(BRIGHT).await;
    }
}
