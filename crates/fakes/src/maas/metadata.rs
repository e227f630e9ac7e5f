//! The metadata service, where machines report and fetch their data.

use super::{
    body::{Fields, decoded, pairs},
    clock::Now,
    handle::Answer,
    world::World,
};
use crate::wire::Request;

/// Answers a machine; none if the request is not for this service.
pub(super) fn answer(world: &mut World, request: &Request, now: Now) -> Option<Answer> {
    let path = request.path.strip_prefix("/MAAS/metadata/2012-03-01/by-mac/")?;
    let (mac, rest) = path.split_once('/').unwrap_or((path, ""));
    let mac = decoded(mac);
    let found = world.machines.iter().find(|(_, machine)| machine.has_mac(&mac));
    let Some(id) = found.map(|(id, _)| id.clone()) else { return Some(Answer::not_found("Node")) };
    world.settle(&id, now);
    if rest.trim_end_matches('/') == "user-data" {
        let data = world.machines.get(&id).map(|machine| machine.user_data.clone()).unwrap_or_default();
        let deploying = wardroom_core::gpu_node::maas::Status::Deploying;
        if world.machines.get(&id).is_some_and(|machine| machine.status == deploying) {
            world.deployed(&id, now);
        }
        return Some(Answer::bytes(data));
    }
    if !pairs(&request.query).contains(&("op".to_owned(), "signal".to_owned())) {
        return Some(Answer::plain(404, "Not Found"));
    }
    world.signal(&id, Fields::of(request).text("status"), now);
    Some(Answer::plain(200, "OK"))
}
