//! The handling of a request: rate limit, ordered fault, key, operation.

use http_body_util::Full;
use hyper::{Method, Response, body::Bytes};
use serde_json::{Value, json};

use super::{
    Shared, auth,
    body::Fields,
    clock::{self, Now},
    control, fault, limit, lock, metadata,
    route::{self, Op, Routed},
    view,
    world::{Recorded, World},
};
use crate::wire::{Reply, Request, answer, with};

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// An answer of the fake.
#[derive(Debug)]
pub(super) struct Answer(pub(super) Box<Response<Full<Bytes>>>);

impl Answer {
    pub(super) fn json(value: &Value) -> Self {
        Self(Box::new(answer(200, JSON, value.to_string())))
    }

    /// JSON that is text already.
    pub(super) fn written(json: String) -> Self {
        Self(Box::new(answer(200, JSON, json)))
    }

    /// 400 with the errors of each field.
    pub(super) fn refused(fields: &Value) -> Self {
        Self(Box::new(answer(400, JSON, fields.to_string())))
    }

    /// The same from an inner layer of MAAS, without a character set in its content type.
    pub(super) fn refused_bare(fields: &Value) -> Self {
        Self(Box::new(answer(400, "application/json", fields.to_string())))
    }

    pub(super) fn text(status: u16, text: impl Into<Bytes>) -> Self {
        Self(Box::new(answer(status, TEXT, text)))
    }

    pub(super) fn plain(status: u16, text: impl Into<Bytes>) -> Self {
        Self(Box::new(answer(status, "text/plain", text)))
    }

    pub(super) fn bytes(bytes: Vec<u8>) -> Self {
        Self(Box::new(answer(200, "application/octet-stream", bytes)))
    }

    /// A refusal of the table.
    pub(super) fn refusal((status, text): (u16, String)) -> Self {
        if text.starts_with('{') {
            Self(Box::new(answer(status, JSON, text)))
        } else {
            Self::text(status, text)
        }
    }

    pub(super) fn not_found(kind: &str) -> Self {
        Self::plain(404, format!("No {kind} matches the given query."))
    }
}

pub(super) async fn handle(world: Shared, request: Request) -> Reply {
    if let Some(answer) = control::answer(&world, &request) {
        return Reply::Answer(*answer.0);
    }
    let turn = {
        let mut world = lock(&world);
        let (rate, over) = (world.config.requests_per_second, world.config.over_limit);
        rate.map(|rate| world.limit.turn(rate, over, request.received))
    };
    match turn {
        Some(limit::Turn::Refused(status)) => {
            return Reply::Answer(with(answer(status, TEXT, "Too many requests"), "retry-after", "1"));
        }
        Some(limit::Turn::Wait(time)) => tokio::time::sleep(time).await,
        None => {}
    }
    let routed = route::route(&request);
    let machines = routed.as_ref().map(|routed| subjects(routed, &request)).unwrap_or_default();
    let (fault, secret) = {
        let mut world = lock(&world);
        let op = routed.as_ref().map(|routed| routed.op);
        let secret = world.config.key.rsplit(':').next().unwrap_or_default().to_owned();
        (op.and_then(|op| fault::take(&mut world.faults, op, &machines)), secret)
    };
    if let Some((fault::When::Before, kind)) = fault
        && let Some(reply) = fault::happen(kind, &secret, &request.body, None).await
    {
        return reply;
    }
    let right = Reply::Answer(*respond(&mut lock(&world), routed, &request).0);
    match fault {
        Some((fault::When::After, kind)) => {
            fault::happen(kind, &secret, &request.body, Some(right)).await.unwrap_or(Reply::HangUp)
        }
        _ => right,
    }
}

/// The machines that a request is about.
fn subjects(routed: &Routed, request: &Request) -> Vec<String> {
    let of = |fields: Fields, name: &str| fields.all(name).map(str::to_owned).collect();
    if routed.op == Op::List {
        of(Fields::query(request), "id")
    } else if routed.op == Op::Allocate {
        of(Fields::of(request), "system_id")
    } else {
        routed.names.first().filter(|_| routed.op != Op::Tag).cloned().into_iter().collect()
    }
}

fn respond(world: &mut World, routed: Option<Routed>, request: &Request) -> Answer {
    let now = clock::now();
    if let Some(answer) = metadata::answer(world, request, now) {
        return answer;
    }
    let fields = Fields::of(request);
    record(world, request, &fields);
    let op = routed.as_ref().map(|routed| routed.op);
    if op != Some(Op::Version) {
        let operation = route::operation(request);
        let World { config, nonces, .. } = world;
        if let Err(refused) = auth::check(request, operation.as_deref(), &config.key, nonces, now) {
            return Answer(refused);
        }
    }
    if fields.get("op").is_some() {
        return Answer::text(400, format!("Unrecognised signature: method={} op=None", request.method));
    }
    let Some(routed) = routed else {
        let op = route::operation(request).unwrap_or_else(|| "None".to_owned());
        return Answer::text(400, format!("Unrecognised signature: method={} op={op}", request.method));
    };
    *world.requests.entry(routed.op.name()).or_default() += 1;
    dispatch(world, &routed, request, &fields, now)
}

fn dispatch(world: &mut World, routed: &Routed, request: &Request, fields: &Fields, now: Now) -> Answer {
    let name = |at: usize| routed.names.get(at).map(String::as_str).unwrap_or_default();
    let (id, part) = (name(0), name(1));
    match routed.op {
        Op::Version => Answer::json(&json!({
            "version": "3.5.0",
            "subversion": "",
            "capabilities": [
                "networks-management", "static-ipaddresses", "ipv6-deployment-ubuntu", "devices-management",
                "storage-deployment-ubuntu", "network-deployment-ubuntu", "bridging-interface-ubuntu",
                "bridging-automatic-ubuntu", "authenticate-api",
            ],
        })),
        Op::Whoami => {
            let user = &world.config.user;
            Answer::json(&json!({
                "username": user, "email": "a@b.c", "is_local": true, "is_superuser": true,
                "resource_uri": format!("/MAAS/api/2.0/users/{user}/"),
            }))
        }
        Op::Pools => Answer::json(&json!([{
            "id": 0, "name": "default", "description": "Default pool",
            "resource_uri": "/MAAS/api/2.0/resourcepool/0/",
        }])),
        Op::Zones => Answer::json(&json!([view::zone("default")])),
        Op::Subnets => Answer::json(&world.subnets.iter().map(view::subnet).collect()),
        Op::Events => world.event_page(&Fields::query(request), &request.query),
        Op::Results => world.results(id),
        Op::List => world.list(&Fields::query(request), now),
        Op::IsRegistered => world.is_registered(&Fields::query(request)),
        Op::Create => world.create(fields, now),
        Op::CreateTag => world.create_tag(fields),
        Op::Tag => world.tag(id, fields),
        Op::Allocate => world.operate(Op::Allocate, fields.text("system_id"), fields, now),
        Op::Read => {
            world.settle(id, now);
            world.show(id)
        }
        Op::Update => world.update(id, fields, now),
        Op::PowerParameters => world.power_parameters(id),
        Op::SetOwnerData => world.set_owner_data(id, fields, now),
        Op::Disks => world.disks(id),
        Op::AddDisk => world.add_disk(id, fields),
        Op::SetBootDisk => world.set_boot_disk(id, part),
        Op::Interfaces => world.interfaces(id),
        Op::Interface | Op::UpdateInterface | Op::LinkSubnet | Op::UnlinkSubnet | Op::Disconnect => {
            world.interface(routed.op, id, part, fields, now)
        }
        Op::Delete
        | Op::Commission
        | Op::Abort
        | Op::Deploy
        | Op::Release
        | Op::Lock
        | Op::Unlock
        | Op::MarkBroken
        | Op::MarkFixed
        | Op::RescueMode
        | Op::ExitRescueMode
        | Op::Test
        | Op::OverrideTesting
        | Op::PowerOn
        | Op::PowerOff
        | Op::QueryPower
        | Op::SetLayout
        | Op::RestoreStorage => world.operate(routed.op, id, fields, now),
    }
}

fn record(world: &mut World, request: &Request, fields: &Fields) {
    if !world.config.record {
        return;
    }
    let names = |fields: &Fields| fields.0.iter().map(|(name, _)| name.clone()).collect();
    world.recorded.push(Recorded {
        method: request.method.to_string(),
        path: request.path.trim_start_matches("/MAAS/api/2.0").to_owned(),
        query: names(&Fields::query(request)),
        fields: if request.method == Method::GET { Vec::new() } else { names(fields) },
        content_type: request.header("content-type").to_owned(),
    });
}
