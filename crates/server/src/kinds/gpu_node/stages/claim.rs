//! Marks a machine in MAAS as ours by tag, resource pool and zone; and restores its earlier ones.

use wardroom_upstream::maas::{Class, Error as MaasError, Machine, Update};

use super::{StageError, Try};
use crate::kinds::gpu_node::{data::Claimed, site::Snapshot, upstream::Session};

/// Tags the machine and moves it to the site's pool and zone. Idempotent; the earlier values are stored the
/// first time, unless the run created the machine.
pub(super) async fn claim(
    attempt: &mut Try<'_>,
    session: &Session,
    site: &Snapshot,
    machine: &Machine,
) -> Result<(), StageError> {
    let tag = site.settings.tag.as_str();
    let is_tagged = machine.has_tag(tag);
    let (pool, zone) = (site.settings.pool.as_deref(), site.settings.zone.as_deref());
    let (has_pool, has_zone) = (pool_of(machine), zone_of(machine));
    let moves = |wanted: Option<&str>, has: Option<&str>| wanted.is_some_and(|wanted| has != Some(wanted));
    let (moves_pool, moves_zone) = (moves(pool, has_pool), moves(zone, has_zone));
    if is_tagged && !moves_pool && !moves_zone {
        return Ok(());
    }
    let is_found = attempt.data.machine.as_ref().is_some_and(|machine| !machine.created);
    if is_found && attempt.data.claimed.is_none() {
        let before = |moves: bool, has: Option<&str>| has.filter(|_| moves).map(str::to_owned);
        attempt.data.claimed = Some(Claimed {
            tagged: !is_tagged,
            pool: before(moves_pool, has_pool),
            zone: before(moves_zone, has_zone),
        });
        attempt.save().await?;
    }
    if !is_tagged {
        let comment = "managed by Wardroom; only machines with this tag are ever deleted";
        session.tag(tag, comment, &machine.system_id).await?;
    }
    if moves_pool || moves_zone {
        session.turn().await.update(&machine.system_id, &Update { pool, zone, ..Update::default() }).await?;
    }
    Ok(())
}

/// Restores a machine that the run found. Settings that others changed since stay.
pub(super) async fn give_back(
    attempt: &mut Try<'_>,
    session: &Session,
    site: &Snapshot,
    id: &str,
) -> Result<(), StageError> {
    let Some(claimed) = attempt.data.claimed.clone() else { return Ok(()) };
    let seen = match session.turn().await.machine(id).await {
        Ok(seen) => seen,
        Err(MaasError { class: Class::Gone, .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let ours = |before: &Option<String>, has: Option<&str>, wanted: &Option<String>| {
        before.clone().filter(|_| has == wanted.as_deref())
    };
    let pool = ours(&claimed.pool, pool_of(&seen), &site.settings.pool);
    let zone = ours(&claimed.zone, zone_of(&seen), &site.settings.zone);
    if pool.is_some() || zone.is_some() {
        let update = Update { pool: pool.as_deref(), zone: zone.as_deref(), ..Update::default() };
        session.turn().await.update(id, &update).await?;
    }
    let tag = &site.settings.tag;
    if claimed.tagged && seen.has_tag(tag) {
        session.turn().await.tag(tag, &[], &[id]).await?;
    }
    attempt.data.claimed = None;
    Ok(())
}

fn pool_of(machine: &Machine) -> Option<&str> {
    machine.pool.as_ref().map(|pool| pool.name.as_str())
}

fn zone_of(machine: &Machine) -> Option<&str> {
    machine.zone.as_ref().map(|zone| zone.name.as_str())
}
